//! Speed of the arithmetic: one event recorded, a million values summarised, a large cell accumulated.

use std::hint::black_box;

use bench_metrics::{CellAccumulator, CellContext, Recorder, Sample, summarise};
use bench_schema::{
    Channel, Event, EventLog, Exchange, Load, Nanos, Outcome, RequestRecord, Stamp, TokenSource,
    Unit,
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// A value that wanders over two decades, without a generator in the timed loop.
fn scattered(i: u64) -> u64 {
    1_000_000 + i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 99_000_000
}

fn record(c: &mut Criterion) {
    let recorder = Recorder::default();
    let mut i = 0;
    c.bench_function("record one event", |b| {
        b.iter(|| {
            i += 1;
            recorder.record_value(black_box(scattered(i)));
        });
    });
    c.bench_function("snapshot and p99", |b| {
        b.iter(|| black_box(recorder.snapshot().quantile(0.99)));
    });
}

fn summaries(c: &mut Criterion) {
    let values: Vec<f64> = (0..1_000_000).map(|i| scattered(i) as f64).collect();
    let mut group = c.benchmark_group("a million values");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(1_000_000));
    group.bench_function("sort", |b| {
        b.iter(|| black_box(Sample::of(&values).map(|s| s.quantile(0.99))));
    });
    group.bench_function("summarise with intervals", |b| {
        b.iter(|| black_box(summarise(&values, Unit::Ns)));
    });
    group.finish();
}

/// An answer of `tokens` events, 10 ms apart with jitter.
fn answer(id: u64, tokens: u32) -> RequestRecord {
    let sent = Stamp::new(i64::try_from(id).unwrap_or(0) * 5_000_000);
    let mut events = EventLog::default();
    let mut at = sent + Nanos::from_millis(50);
    for i in 0..tokens {
        at = at
            + Nanos::new(
                9_000_000 + i64::try_from(scattered(id * 31 + u64::from(i)) / 50).unwrap_or(0),
            );
        events.push(Event {
            at,
            lag: Some(Nanos::new(30_000)),
            bound: Nanos::ZERO,
            tokens: None,
            channel: Channel::Answer,
        });
    }
    let mut wire = Exchange::nothing(Outcome::Completed);
    wire.sent = Some(sent);
    wire.closed = Some(at);
    wire.events = events;
    RequestRecord {
        due: sent,
        dispatched: Some(sent),
        asked_output_tokens: Some(u64::from(tokens)),
        output_tokens: Some(u64::from(tokens)),
        token_source: TokenSource::Usage,
        ..RequestRecord::bare(id, "bench", wire)
    }
}

fn cells(c: &mut Criterion) {
    let context = || CellContext::new(Load::closed(1_000));
    let one = answer(0, 500);
    let mut group = c.benchmark_group("a cell");
    group.sample_size(10);
    for requests in [1_000_u64, 20_000] {
        // One log serves all requests, moved in time by its start only where that matters; 20 000 × 500 tokens go well beyond
        // what is kept exactly.
        let records: Vec<RequestRecord> = (0..64).map(|id| answer(id, 500)).collect();
        group.throughput(Throughput::Elements(requests * 500));
        group.bench_function(format!("{requests} requests of 500 tokens"), |b| {
            b.iter(|| {
                let mut cell = CellAccumulator::new(context());
                records
                    .iter()
                    .cycle()
                    .take(usize::try_from(requests).unwrap_or(0))
                    .for_each(|r| cell.push(r));
                black_box(cell.finish())
            });
        });
    }
    group.throughput(Throughput::Elements(500));
    group.bench_function("push one request of 500 tokens", |b| {
        let mut cell = CellAccumulator::new(CellContext {
            exact_gaps: 0,
            ..context()
        });
        b.iter(|| cell.push(black_box(&one)));
    });
    group.finish();
}

criterion_group!(benches, record, summaries, cells);
criterion_main!(benches);
