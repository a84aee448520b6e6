//! The client's own lag over time: how late this program was in reading what had arrived.

use bench_schema::RunRecord;

use crate::figure::{Figure, Plot, log_axis, time_axis};
use crate::number::duration;
use crate::tables;
use crate::trace::{LagBin, Trace};

pub(super) fn figure(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    if trace.lag.len() < 2 {
        return None;
    }
    let series = |pick: fn(&LagBin) -> f64| -> Vec<(f64, f64)> {
        trace
            .lag
            .iter()
            .map(|bin| (bin.at, pick(bin).max(1.0)))
            .collect()
    };
    let plot = Plot::new(time_axis(run.duration.as_secs_f64()), log_axis("lag (µs)"))
        .line("p50", "@0", &series(|bin| bin.p50_us))
        .with("showSymbol", false.into())
        .line("p99", "@1", &series(|bin| bin.p99_us))
        .with("showSymbol", false.into())
        .line("max", "@bad", &series(|bin| bin.max_us))
        .with("showSymbol", false.into());
    let worst = trace.lag.iter().map(|bin| bin.max_us).fold(0.0, f64::max);
    let title = format!(
        "The client read 99 % of the tokens within {} of their arrival, the last after {}",
        duration(trace.lag_p99_us? * 1e3),
        duration(worst * 1e3)
    );
    Some(Figure::new("lag", title, plot).note("Read-return less arrival at the kernel, in 120 parts of the run; values are within 9 %.").table(tables::client(run)))
}
