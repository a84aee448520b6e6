//! Benchmark results: a concurrency sweep on one L4.

use bench_schema::{Cause, Fact, Known};

use super::{causes, fact, figures, found, near};

#[test]
fn sweep_is_compute_bound_and_not_memory_bound() {
    let (_, all) = found("concurrency-sweep");
    let gpu = fact(&all, Fact::GpuUse);
    assert!(
        figures(gpu, Known::GpuUsePeak)
            .iter()
            .any(|peak| *peak >= 0.99)
    );
    assert!(
        figures(gpu, Known::KvCachePeak)
            .iter()
            .all(|peak| *peak <= 0.0111)
    );
    // Nothing waited, and the cache is empty: neither is named.
    let named = causes(&all);
    assert!(
        !named.contains(&Cause::MemoryPressure) && !named.contains(&Cause::Queueing),
        "{named:?}"
    );
}

#[test]
fn sweep_degrades_in_ttft_first_and_its_itl_stays_flat_until_concurrency_16() {
    let (_, all) = found("concurrency-sweep");
    let effects = fact(&all, Fact::LoadEffects);
    let ttft = figures(effects, Known::Ttft);
    near(ttft[5] / ttft[0], 5.0, 0.05);
    let itl = figures(effects, Known::Itl);
    near(itl[4] / itl[0], 6.0 / 5.1, 0.01);
    near(itl[5], 7.1e6, 1e3);
}

#[test]
fn sweep_throughput_scales_22_times() {
    let (_, all) = found("concurrency-sweep");
    let factors = figures(fact(&all, Fact::Scaling), Known::ScalingFactor);
    near(*factors.last().unwrap(), 22.5, 0.1);
}
