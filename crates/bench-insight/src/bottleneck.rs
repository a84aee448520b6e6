//! The bottleneck table of a cell: each kind with its severity and evidence, whether it is raised or not.

use bench_schema::{CellRecord, Metric};

use crate::signals::Signal;
use crate::text;
use crate::view;

/// What can limit a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BottleneckKind {
    /// Processing prompts.
    Prefill,
    /// Generating tokens.
    Decode,
    /// Waiting to be taken up.
    Queueing,
    /// A GPU that idles.
    LowGpuUse,
    /// Room for weights and KV cache.
    Memory,
    /// Latency that nobody can plan with.
    Variance,
}

impl BottleneckKind {
    /// The stable name, as in findings.
    pub fn code(self) -> &'static str {
        match self {
            Self::Prefill => "prefill_bound",
            Self::Decode => "decode_bound",
            Self::Queueing => "queueing",
            Self::LowGpuUse => "low_gpu_use",
            Self::Memory => "memory_pressure",
            Self::Variance => "high_variance",
        }
    }
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Bottleneck {
    /// Which.
    pub kind: BottleneckKind,
    /// The cell.
    pub cell: String,
    /// 0 to 1: the share of time or capacity that it takes; the formula of each kind is in `docs/insight.md`.
    pub severity: f64,
    /// What was measured, a share.
    pub measured: f64,
    /// Where it becomes a bottleneck, a share.
    pub threshold: f64,
    /// Whether `measured` is beyond `threshold` (below it, for GPU use).
    pub raised: bool,
    /// What was seen, with numbers.
    pub evidence: String,
}

/// Every kind that the cell has data for, the most severe first, those that are raised before those that are not.
///
/// Prefill and decode are shares of E2E (raised above 30 % and 80 %), queueing a share of E2E or of the requests in the server
/// (50 %, or anything waiting), GPU use a mean (below 60 %; severity 1 − use), memory the peak of the KV cache, or of GPU memory
/// where the cache is not known (90 %, or any preemption), variance the coefficient of variation (0.5).
pub fn bottlenecks(cell: &CellRecord) -> Vec<Bottleneck> {
    let mut rows: Vec<Bottleneck> = [
        phase(cell, BottleneckKind::Prefill),
        phase(cell, BottleneckKind::Decode),
        queueing(cell),
        low_gpu(cell),
        memory(cell),
        variance(cell),
    ]
    .into_iter()
    .flatten()
    .filter(|row| row.severity.is_finite() && row.measured.is_finite())
    .collect();
    rows.sort_by(|a, b| {
        b.raised
            .cmp(&a.raised)
            .then(b.severity.total_cmp(&a.severity))
    });
    rows
}

fn row(
    cell: &CellRecord,
    kind: BottleneckKind,
    measured: f64,
    threshold: f64,
    evidence: String,
) -> Bottleneck {
    Bottleneck {
        kind,
        cell: cell.id.clone(),
        severity: measured.clamp(0.0, 1.0),
        measured,
        threshold,
        raised: measured > threshold,
        evidence,
    }
}

fn phase(cell: &CellRecord, kind: BottleneckKind) -> Option<Bottleneck> {
    let shares = cell.phases.as_ref()?;
    let (share, threshold, word) = match kind {
        BottleneckKind::Prefill => (shares.prefill, 0.30, "prefill"),
        _ => (shares.decode, 0.80, "decode"),
    };
    let evidence = format!("{word} is {} of E2E", text::percent(share));
    Some(row(cell, kind, share, threshold, evidence)).filter(|_| share > 0.0)
}

fn queueing(cell: &CellRecord) -> Option<Bottleneck> {
    let by_phase = cell
        .phases
        .as_ref()
        .filter(|shares| shares.queue_source != "none" && shares.queue > 0.0)
        .map(|shares| {
            let evidence = format!("{} of E2E is waiting", text::percent(shares.queue));
            row(cell, BottleneckKind::Queueing, shares.queue, 0.5, evidence)
        });
    let by_server = Signal::Waiting.of(cell).map(|waiting| {
        let running = Signal::Running.of(cell).map_or(0.0, |level| level.mean);
        let inside = waiting.mean + running;
        let share = if inside > 0.0 {
            waiting.mean / inside
        } else {
            0.0
        };
        let evidence = format!(
            "{} waiting and {} running on average, at most {} waiting",
            text::number(waiting.mean),
            text::number(running),
            text::number(waiting.peak),
        );
        // One request that waits for a moment is a hand-over; a whole one on average is a queue.
        Bottleneck {
            raised: waiting.mean >= 1.0,
            ..row(cell, BottleneckKind::Queueing, share, 0.5, evidence)
        }
    });
    match (by_phase, by_server) {
        (Some(a), Some(b)) if b.raised && b.severity > a.severity => Some(b),
        (Some(a), _) => Some(a),
        (None, b) => b,
    }
}

fn low_gpu(cell: &CellRecord) -> Option<Bottleneck> {
    let usage = Signal::GpuUse.of(cell)?;
    let evidence = format!("GPU use is {} on average", text::percent(usage.mean));
    Some(Bottleneck {
        severity: (1.0 - usage.mean).clamp(0.0, 1.0),
        raised: usage.mean < 0.6,
        ..row(cell, BottleneckKind::LowGpuUse, usage.mean, 0.6, evidence)
    })
}

fn memory(cell: &CellRecord) -> Option<Bottleneck> {
    let preempted = Signal::Preemptions
        .of(cell)
        .and_then(|level| level.increase)
        .unwrap_or(0.0);
    let (peak, what) = match Signal::KvCache.of(cell) {
        Some(cache) => (cache.peak, "KV cache"),
        // Servers reserve GPU memory at the start: it says something only where the cache itself is not known.
        None => (Signal::GpuMemory.of(cell)?.peak, "GPU memory"),
    };
    let lost = if preempted > 0.0 {
        format!(", {} preemptions", text::grouped(preempted))
    } else {
        String::new()
    };
    let evidence = format!("{what} is at most {} full{lost}", text::percent(peak));
    let plain = row(cell, BottleneckKind::Memory, peak, 0.9, evidence);
    Some(Bottleneck {
        raised: plain.raised || preempted > 0.0,
        severity: if preempted > 0.0 {
            plain.severity.max(0.7)
        } else {
            plain.severity
        },
        ..plain
    })
}

fn variance(cell: &CellRecord) -> Option<Bottleneck> {
    // Five values make a coefficient of variation that is itself uncertain by a third.
    let cov = |metric| {
        let d = cell.headline(metric).filter(|d| d.n >= 5)?;
        d.cov.filter(|c| c.is_finite()).map(|c| (c, metric))
    };
    let (measured, metric) = [cov(Metric::E2e), cov(Metric::Tpot)]
        .into_iter()
        .flatten()
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    let explained = metric == Metric::E2e && lengths_explain(cell);
    let why = if explained {
        let lengths = view_cov(cell, Metric::OutputTokens);
        format!(", as the answers' lengths do ({})", text::percent(lengths))
    } else {
        String::new()
    };
    let evidence = format!(
        "{} varies by {} (CoV){why}",
        metric.title(),
        text::percent(measured)
    );
    let plain = row(cell, BottleneckKind::Variance, measured, 0.5, evidence);
    Some(Bottleneck {
        severity: if explained {
            plain.severity / 4.0
        } else {
            plain.severity
        },
        ..plain
    })
}

/// Whether answers differ in length about as much as E2E does: that is the workload's variance before it is the server's.
pub(crate) fn lengths_explain(cell: &CellRecord) -> bool {
    let e2e = cell.headline(Metric::E2e).and_then(|d| d.cov);
    e2e.is_some_and(|cov| view_cov(cell, Metric::OutputTokens) >= 0.8 * cov)
}

/// CoV of a metric, 0 where it is not known.
fn view_cov(cell: &CellRecord, metric: Metric) -> f64 {
    cell.metrics
        .get(&metric)
        .and_then(|d| d.cov)
        .and_then(view::positive)
        .unwrap_or(0.0)
}
