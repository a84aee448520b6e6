//! What one megabyte of a chat stream costs to decode: the splitter and typed JSON against `eventsource-stream` and against
//! a tree of values, with one event a read (paced) and sixteen (a client that fell behind).
//!
//! Measured in CPU time of the thread, so that other programs disturb it less.

#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "../tests/common/reference.rs"]
mod reference;

use std::hint::black_box;
use std::time::Duration;

use bench_client::protocol::protocol_by_name;
use bench_client::sse::{SseDecoder, SseSplitter};
use bench_client::{AnswerDecoder, AnswerLimits, ReadMark, StreamEnd};
use bench_schema::Stamp;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use reference::ReferenceDecoder;
use rustix::time::{ClockId, clock_gettime};

/// CPU time of this thread.
struct CpuTime;

impl CpuTime {
    fn now() -> Duration {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(
            now.tv_sec.try_into().unwrap(),
            now.tv_nsec.try_into().unwrap(),
        )
    }
}

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        Self::now()
    }

    fn end(&self, start: Duration) -> Duration {
        Self::now().saturating_sub(start)
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

/// A megabyte of the chunks that vLLM sends, as reads of `events` each.
fn reads(events: usize) -> Vec<Vec<u8>> {
    let chunk = |n: usize| {
        format!(
            "data: {{\"id\":\"chatcmpl-98f8c31be1783a82\",\"object\":\"chat.completion.chunk\",\"created\":1795171180,\
             \"model\":\"tiny-qwen2\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" token{n}\"}},\"logprobs\":null,\
             \"finish_reason\":null,\"token_ids\":null}}]}}\n\n"
        )
    };
    let mut chunks: Vec<String> = Vec::new();
    let mut bytes = 0;
    while bytes < 1 << 20 {
        chunks.push(chunk(chunks.len()));
        bytes += chunks.last().unwrap().len();
    }
    chunks
        .chunks(events)
        .map(|some| some.concat().into_bytes())
        .collect()
}

fn mark(read: usize) -> ReadMark {
    let at = i64::try_from(read).unwrap() * 1_000_000;
    ReadMark {
        arrival: Stamp::new(at),
        stamped: true,
        returned: Stamp::new(at + 1000),
        previous_return: Stamp::new(at - 900_000),
        arrived_from: Stamp::new(at),
        last_token_from: Stamp::new(at - 900_000),
        merged: false,
        continues: false,
    }
}

fn decoded(reads: &[Vec<u8>]) -> usize {
    let protocol = protocol_by_name("openai-chat").unwrap();
    let mut decoder = AnswerDecoder::new(protocol, true, AnswerLimits::default());
    for (index, read) in reads.iter().enumerate() {
        decoder.push(read, mark(index));
    }
    decoder.finish(StreamEnd::Eof).events.len()
}

fn split(decoder: &mut dyn SseDecoder, reads: &[Vec<u8>], as_values: bool) -> usize {
    let mut events = 0;
    for read in reads {
        let fed = decoder.feed(read, &mut |event| {
            if as_values {
                let value: serde_json::Value = serde_json::from_slice(event.data).unwrap();
                black_box(value.pointer("/choices/0/delta/content").is_some());
            }
            events += 1;
        });
        fed.unwrap();
    }
    events
}

fn bench(criterion: &mut Criterion<CpuTime>) {
    for per_read in [1, 16] {
        let reads = reads(per_read);
        let bytes: usize = reads.iter().map(Vec::len).sum();
        let mut group = criterion.benchmark_group(format!("{per_read} events a read"));
        group.throughput(Throughput::Bytes(bytes as u64));
        group.sample_size(20);
        group.bench_function("split: own", |b| {
            b.iter(|| split(&mut SseSplitter::new(1 << 24), black_box(&reads), false));
        });
        group.bench_function("split: eventsource-stream", |b| {
            b.iter(|| split(&mut ReferenceDecoder::new(), black_box(&reads), false));
        });
        group.bench_function("decode: own, typed (what the client does)", |b| {
            b.iter(|| decoded(black_box(&reads)));
        });
        group.bench_function("decode: own, serde Value", |b| {
            b.iter(|| split(&mut SseSplitter::new(1 << 24), black_box(&reads), true));
        });
        group.bench_function("decode: eventsource-stream, serde Value", |b| {
            b.iter(|| split(&mut ReferenceDecoder::new(), black_box(&reads), true));
        });
        group.finish();
    }
}

/// One event of a megabyte in reads of a KiB.
fn large(criterion: &mut Criterion<CpuTime>) {
    let mut event = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"".to_vec();
    event.resize(1 << 20, b'x');
    event.extend_from_slice(b"\"},\"finish_reason\":null}]}\n\n");
    let reads: Vec<Vec<u8>> = event.chunks(1024).map(<[u8]>::to_vec).collect();
    let mut group = criterion.benchmark_group("1 MiB event in 1 KiB reads");
    group.throughput(Throughput::Bytes(event.len() as u64));
    group.sample_size(10);
    group.bench_function("split: own", |b| {
        b.iter(|| split(&mut SseSplitter::new(1 << 24), black_box(&reads), false));
    });
    group.bench_function("split: eventsource-stream", |b| {
        b.iter(|| split(&mut ReferenceDecoder::new(), black_box(&reads), false));
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(CpuTime);
    targets = bench, large
}
criterion_main!(benches);
