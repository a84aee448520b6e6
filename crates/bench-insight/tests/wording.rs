//! What a statement names: the right source, the server's own words, numbers with units.
#![expect(
    clippy::panic,
    reason = "helpers of tests fail by panicking, as tests do"
)]

use crate::load;
use std::collections::BTreeMap;

use bench_insight::{CellFacts, TrustFacts, findings, trust};
use bench_schema::{
    Cause, Code, Fact, Figure, Finding, HardwareSummary, Known, ReadingSource, ResourceSummary,
    RunRecord, SeriesKey, Trust, TrustReason, TrustVerdict, Unit,
};

fn one(all: &[Finding], code: impl Into<Code>) -> &Finding {
    let code = code.into();
    all.iter()
        .find(|f| f.code == code)
        .unwrap_or_else(|| panic!("no `{}`", code.as_str()))
}

fn series(source: ReadingSource, name: &str, unit: Unit, level: f64) -> ResourceSummary {
    ResourceSummary {
        series: SeriesKey {
            source,
            instance: "0".to_owned(),
            name: name.to_owned(),
        },
        unit,
        n: 10,
        mean: level,
        min: level,
        peak: level,
        increase: None,
    }
}

/// A run of one cell whose host has GPUs of its own, and whose server's are known from elsewhere.
fn with_resources(resources: Vec<ResourceSummary>) -> RunRecord {
    let mut run = load::run("gpt2-cpu");
    run.cells.truncate(1);
    run.cells[0].hardware = Some(HardwareSummary {
        resources,
        ..HardwareSummary::default()
    });
    run
}

#[test]
fn an_exporter_that_was_named_is_believed_before_this_hosts_gpus() {
    // The same rule as bench-hardware's: what was asked for by address is meant.
    let used = |source, level| series(source, "utilisation_share", Unit::Ratio, level);
    for named in [ReadingSource::Dcgm, ReadingSource::Prometheus] {
        let run = with_resources(vec![used(ReadingSource::Gpu, 0.99), used(named, 0.2)]);
        let all = findings(&run, &[]);
        let usage = one(&all, Fact::GpuUse).figure(&Known::GpuUse.into());
        assert_eq!(usage, Some(0.2), "{named:?}");
    }
}

#[test]
fn memory_in_use_is_never_divided_by_another_hosts_memory() {
    let bytes = |source, name, level| series(source, name, Unit::Bytes, level);
    let run = with_resources(vec![
        bytes(ReadingSource::Dcgm, "memory_used_bytes", 70e9),
        bytes(ReadingSource::Gpu, "memory_used_bytes", 1e9),
        bytes(ReadingSource::Gpu, "memory_total_bytes", 24e9),
    ]);
    // 70 of 24 GB would be a card that is three times full
    let all = findings(&run, &[]);
    let memory = all
        .iter()
        .find_map(|f| f.figure(&Known::GpuMemoryPeak.into()));
    assert!(memory.is_none_or(|share| share <= 1.0));
}

#[test]
fn what_limits_the_client_is_named_with_its_unit() {
    let mut run = load::run("gpt2-cpu");
    let cell = run.cells[0].id.clone();
    let reason = |code: &str, measured| TrustReason {
        also_in: Vec::new(),
        code: code.to_owned(),
        verdict: TrustVerdict::Doubtful,
        message: "…".to_owned(),
        next: None,
        cell: Some(cell.clone()),
        measured: Some(measured),
        threshold: None,
    };
    run.trust = Trust::from_reasons(vec![
        reason("slots_idle", 0.25),
        reason("lateness", 4.2e8),
        reason("in_flight_cap", 17.0),
        reason("few_samples", 3.0),
    ]);
    let all = findings(&run, &[]);
    let told: Vec<(Figure, f64, Unit)> = one(&all, Cause::ClientLimited)
        .evidence
        .iter()
        .map(|e| (e.figure.clone(), e.value, e.unit))
        .collect();
    // A cap that the user set is not the client's fault, nor are few samples.
    assert_eq!(
        told,
        [
            (Known::ClientOther.into(), 0.25, Unit::Ratio),
            (Known::ClientLateness.into(), 4.2e8, Unit::Ns),
        ]
    );
}

#[test]
fn a_warm_cache_is_turned_off_in_the_servers_own_words() {
    let run = load::run("gpt2-cpu");
    let facts: BTreeMap<String, CellFacts> = [(
        run.cells[0].id.clone(),
        CellFacts {
            cached_share: Some(0.5),
            ..CellFacts::default()
        },
    )]
    .into();
    let message = |kind| {
        let asked = TrustFacts {
            server_kind: kind,
            ..TrustFacts::of(&run.clock, &facts)
        };
        let reasons = trust(&asked, &run.cells).reasons;
        reasons
            .into_iter()
            .find(|r| r.code == "warm_cache")
            .unwrap()
            .sentence()
    };
    assert!(message(Some("llama.cpp")).contains("cache_prompt"));
    assert!(!message(Some("llama.cpp")).contains("enable-prefix-caching"));
    assert!(message(Some("sglang")).contains("--disable-radix-cache"));
    assert!(message(Some("vllm")).contains("--no-enable-prefix-caching"));
}

#[test]
fn both_sides_of_a_row_are_taken_over_the_same_requests() {
    let mut run = load::run("gpt2-cpu");
    run.cells.truncate(1);
    run.cells[0].plan.hash = Some("one".to_owned());
    let second = |s: f64| bench_schema::Stamp::EPOCH + bench_schema::Nanos::from_secs_f64(s);
    let windows = &mut run.cells[0].windows;
    let mut steady = windows.whole.clone().unwrap();
    steady.window = bench_schema::Window {
        from: second(10.0),
        to: second(20.0),
    };
    windows.steady = Some(steady);
    // a slow ramp before the steady part, a fast drain after it
    let request = |i: u32| {
        let at = f64::from(i) * 0.25;
        let e2e = match at {
            t if t < 10.0 => 9e9,
            t if t > 20.0 => 1e8,
            _ => 1e9 + f64::from(i % 5) * 1e6,
        };
        bench_insight::RequestSample {
            start: second(at),
            end: second(at + e2e / 1e9),
            ttft: Some(e2e / 10.0),
            id: u64::from(i),
            ..bench_insight::RequestSample::default()
        }
    };
    let samples = [bench_insight::CellSamples {
        cell: run.cells[0].id.clone(),
        requests: (0..160).map(request).collect(),
        ..bench_insight::CellSamples::default()
    }];
    let both = bench_insight::ComparedSamples {
        base: &[&samples],
        new: &[&samples],
    };
    let options = bench_metrics::CompareOptions::default();
    let cell = run.cells[0].id.clone();
    // The other side has no steady part, or another one: nothing of it decides which requests are looked at.
    let mut other = run.clone();
    other.cells[0].windows.steady = None;
    let found = bench_insight::compare(&[&run], &[&other], both, &options).unwrap();
    let row = found.row(&cell, "e2e.p50").unwrap();
    assert_eq!(
        (row.test.as_str(), row.population.as_str(), row.n),
        ("paired requests", "pairs", (160, 160))
    );
    assert!(row.relative.unwrap().abs() < 1e-12);
    let rate = found.row(&cell, "requests_per_s").unwrap();
    assert_eq!(rate.population, "all requests");
    assert!((rate.base - rate.new).abs() < 1e-12);
    // Other requests are not paired.
    other.cells[0].plan.hash = Some("another".to_owned());
    let found = bench_insight::compare(&[&run], &[&other], both, &options).unwrap();
    let row = found.row(&cell, "e2e.p50").unwrap();
    assert_eq!(row.test, "permutation of blocks of time");
    assert!(
        found
            .incomparable
            .iter()
            .any(|why| why.contains("requests or load differ"))
    );
}

/// Blocks are compared as such from four whole ones on; one of which a run is missing or incomplete is left out.
#[test]
fn runs_in_turns_are_compared_by_whole_blocks() {
    let stored = include_str!("../../../fixtures/results/v1.2/run.json");
    let run = RunRecord::from_json(stored).unwrap();
    let of = |block: usize, factor: f64| {
        let mut run = run.clone();
        run.tags.insert("block".to_owned(), block.to_string());
        for cell in &mut run.cells {
            for rates in [&mut cell.windows.whole, &mut cell.windows.steady]
                .into_iter()
                .flatten()
            {
                let faster = factor * (1.0 + 0.1 * block as f64);
                rates.requests_per_s = rates.requests_per_s.map(|rate| rate * faster);
            }
        }
        run
    };
    let tested = |blocks: usize| {
        let mut base: Vec<RunRecord> = (0..2 * blocks).map(|i| of(i / 2, 1.0)).collect();
        let mut new: Vec<RunRecord> = (0..2 * blocks).map(|i| of(i / 2, 1.25)).collect();
        // a block of which one run was killed
        base.extend([of(blocks + 1, 1.0), of(blocks + 1, 1.0)]);
        new.extend([of(blocks + 1, 1.0), of(blocks + 1, 0.1)]);
        new[2 * blocks + 1].complete = false;
        // a last block of which one run was made
        new.push(of(blocks, 9.0));
        let [base, new]: [Vec<&RunRecord>; 2] = [base.iter().collect(), new.iter().collect()];
        let options = bench_metrics::CompareOptions::default();
        let samples = bench_insight::ComparedSamples::default();
        let found = bench_insight::compare(&base, &new, samples, &options).unwrap();
        let row = found
            .row(&run.cells[0].id, "requests_per_s")
            .unwrap()
            .clone();
        (row.test, row.relative.unwrap(), found.runs)
    };
    let (how, change, runs) = tested(4);
    assert_eq!((how.as_str(), runs), ("runs in turns", (8, 8)));
    assert!((change - 0.25).abs() < 1e-9, "{change}");
    let (how, _, runs) = tested(3);
    assert_ne!(how, "runs in turns");
    assert_eq!(runs, (8, 9));
}
