//! What the run says about itself: client, failures, tokens, and whether its numbers agree with each other.

use bench_schema::{CellRecord, Finding, FindingKind, Metric, TrustVerdict};

use super::Scene;
use crate::draft::Draft;
use crate::signals::derived;
use crate::text;
use crate::view;

pub(super) fn all(scene: &Scene<'_>) -> Vec<Finding> {
    let cells = &scene.run.cells;
    [
        client_limited(scene),
        failures(cells),
        chunks(cells),
        little(cells),
        server_disagrees(cells),
        between_repeats(cells),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Trust reasons that mean the client, not the server, was measured: what their number is, its unit, and how many of that unit
/// one of it makes (a share is stored as such, and shown as a percentage).
const OF_CLIENT: &[(&str, &str, &str, f64)] = &[
    ("slots_idle", "time that slots stood idle", "%", 100.0),
    ("client_cpu", "busiest worker's use of its core", "%", 100.0),
    (
        "run_queue",
        "time runnable but waiting for a core",
        "%",
        100.0,
    ),
    ("lateness", "lateness p99", "ms", 1e-6),
    (
        "offered_rate",
        "offered below the requested rate",
        "%",
        100.0,
    ),
    (
        "in_flight_cap",
        "requests refused by the in-flight cap",
        "requests",
        1.0,
    ),
    (
        "bounded_stamps",
        "how far a figure moves within its stamps' bounds",
        "%",
        100.0,
    ),
];

fn of_client(code: &str) -> Option<&'static (&'static str, &'static str, &'static str, f64)> {
    OF_CLIENT.iter().find(|(known, ..)| *known == code)
}

fn client_limited(scene: &Scene<'_>) -> Option<Finding> {
    let reasons: Vec<_> = scene
        .run
        .trust
        .reasons
        .iter()
        .filter(|r| r.verdict > TrustVerdict::Trusted && of_client(&r.code).is_some())
        .collect();
    let worst = reasons.iter().map(|r| r.verdict).max()?;
    let codes: Vec<String> = reasons.iter().map(|r| r.code.replace('_', " ")).collect();
    let claim = format!("the client limits the measurement: {}", text::list(&codes));
    let severity = if worst == TrustVerdict::Untrusted {
        0.9
    } else {
        0.6
    };
    let draft = Draft::new("client_limited", FindingKind::Measurement, severity, claim);
    reasons
        .iter()
        .filter_map(|r| Some((r, of_client(&r.code)?, r.measured?)))
        .fold(draft, |draft, (r, (_, name, unit, scale), measured)| {
            let shown = measured * scale;
            match &r.cell {
                Some(cell) => draft.because_in(cell, *name, shown, unit),
                None => draft.because(*name, shown, unit),
            }
        })
        .perhaps("what looks like the server may be the client: read the latencies as upper bounds")
        .decided_by("the same load from two clients at half the rate each")
        .attempt([
            "more workers",
            "a machine or cores of its own for the client",
        ])
        .about(reasons.iter().filter_map(|r| r.cell.clone()))
        .done()
}

fn failures(cells: &[CellRecord]) -> Option<Finding> {
    let lost = |cell: &CellRecord| {
        let c = &cell.counts;
        c.failed + c.timed_out + c.truncated
    };
    let total: u64 = cells.iter().map(lost).sum();
    let sent: u64 = cells
        .iter()
        .map(|cell| cell.counts.planned - cell.counts.unsent.min(cell.counts.planned))
        .sum();
    let Some(worst) = cells
        .iter()
        .filter(|cell| lost(cell) > 0)
        .max_by_key(|cell| lost(cell))
    else {
        return all_answered(cells);
    };
    let share = total as f64 / sent.max(1) as f64;
    let c = &worst.counts;
    let kinds: Vec<String> = c
        .failures
        .iter()
        .map(|(stage, kind, n)| format!("{n} {kind} at {stage}"))
        .chain(
            c.timeouts
                .iter()
                .map(|(stage, n)| format!("{n} timed out at {stage}")),
        )
        .chain((c.truncated > 0).then(|| format!("{} truncated", c.truncated)))
        .take(4)
        .collect();
    let what = if kinds.is_empty() {
        String::new()
    } else {
        format!(" ({} in {})", text::list(&kinds), worst.label)
    };
    let claim = format!(
        "{} of {} requests got no whole answer: {}{what}",
        text::grouped(total as f64),
        text::grouped(sent as f64),
        text::percent(share),
    );
    Draft::new("failures", FindingKind::Measurement, (0.4 + 2.0 * share).min(1.0), claim)
        .because("requests without a whole answer", total as f64, "requests")
        .because("their share", share * 100.0, "%")
        .perhaps("latencies are of the requests that succeeded; where the slow ones fail, they look better than the service is: see the `with failures` view")
        .decided_by("the server's log at the times of the failures")
        .about(cells.iter().filter(|cell| lost(cell) > 0).map(|cell| cell.id.clone()))
        .done()
}

fn all_answered(cells: &[CellRecord]) -> Option<Finding> {
    let completed: u64 = cells.iter().map(|cell| cell.counts.completed).sum();
    if completed == 0 {
        return None;
    }
    let claim = format!(
        "every request that was sent got a whole answer: {} of them",
        text::grouped(completed as f64)
    );
    Draft::new("all_answered", FindingKind::Measurement, 0.02, claim)
        .because("whole answers", completed as f64, "requests")
        .decided_by("more requests: none failed of n leaves a failure rate below about 3 / n")
        .done()
}

fn chunks(cells: &[CellRecord]) -> Option<Finding> {
    let (cell, mean) = cells
        .iter()
        .filter_map(|cell| {
            Some((
                cell,
                view::mean_tokens(&cell.metrics, Metric::TokensPerChunk)?,
            ))
        })
        .max_by(|a, b| (a.1 - 1.0).abs().total_cmp(&(b.1 - 1.0).abs()))
        .filter(|(_, mean)| (mean - 1.0).abs() > 0.05)?;
    let claim = format!(
        "a chunk is not a token here: {} tokens per content event",
        text::number(mean)
    );
    Draft::new("tokens_per_chunk", FindingKind::Measurement, 0.2, claim)
        .because_in(&cell.id, "tokens per chunk", mean, "")
        .perhaps("the server merges tokens when it cannot write each one, or decodes several at once (speculation)")
        .decided_by("continuous usage in the stream, or the same at a lower load: merging goes away, speculation stays")
        .about([cell.id.clone()])
        .done()
}

fn little(cells: &[CellRecord]) -> Option<Finding> {
    let (cell, ratio) = cells
        .iter()
        // Few requests make a window whose edges are most of it.
        .filter(|cell| cell.counts.completed >= 50)
        .filter_map(|cell| Some((cell, view::positive(cell.analysis.littles_law_ratio?)?)))
        .max_by(|a, b| a.1.ln().abs().total_cmp(&b.1.ln().abs()))
        .filter(|(_, ratio)| ratio.ln().abs() > 0.15)?;
    let claim = format!(
        "the counts do not obey Little's law: arrival rate × mean E2E is {} of the requests seen in flight",
        text::times_exact(ratio)
    );
    Draft::new("littles_law", FindingKind::Measurement, 0.35, claim)
        .because_in(&cell.id, "Little's law over observed", ratio, "×")
        .perhaps("the window is not steady, or requests that failed held their slots")
        .decided_by("a longer window, and the timeline of requests in flight")
        .about([cell.id.clone()])
        .done()
}

/// The server's own mean TTFT against the client's, where the server tells.
fn server_disagrees(cells: &[CellRecord]) -> Option<Finding> {
    let (cell, own, seen) = cells
        .iter()
        .filter_map(|cell| {
            let own = derived(cell, "server_ttft_mean").and_then(view::positive)?;
            // of the same requests, where the record has it: the server's histogram knows only those of the windows
            let over = derived(cell, "server_ttft_over_client").and_then(view::positive);
            let seen = over.map(|over| own / over);
            let seen = seen.or_else(|| view::mean(cell, Metric::Ttft))?;
            Some((cell, own, seen))
        })
        .max_by(|a, b| (a.2 - a.1).abs().total_cmp(&(b.2 - b.1).abs()))
        // A network takes its time; what it cannot take is a fifth and 20 ms.
        .filter(|(_, own, seen)| (seen - own).abs() > 0.2 * own && (seen - own).abs() > 2e7)?;
    let claim = format!(
        "client and server disagree about TTFT: {} seen, {} by the server's own count",
        text::time(seen),
        text::time(own)
    );
    Draft::new("server_disagrees", FindingKind::Measurement, 0.3, claim)
        .because_time(&cell.id, "TTFT seen by the client", seen)
        .because_time(&cell.id, "TTFT by the server", own)
        .perhaps("time in front of the engine: network, proxy, tokenising, HTTP queue; or the server counts other requests too")
        .decided_by("the same client on the server's host")
        .about([cell.id.clone()])
        .done()
}

fn between_repeats(cells: &[CellRecord]) -> Option<Finding> {
    let (cell, between) = cells
        .iter()
        .filter_map(|cell| Some((cell, view::positive(cell.analysis.between_repeats_cov?)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, between)| *between > 0.05)?;
    let claim = format!(
        "repeats of the same cell differ by {} (CoV of their means in {})",
        text::percent(between),
        cell.label
    );
    Draft::new("repeats_differ", FindingKind::Measurement, (2.0 * between).clamp(0.2, 0.7), claim)
        .because_share(&cell.id, "CoV between repeats", between)
        .perhaps("something changes between repeats: caches, clocks, neighbours; an interval from one repeat alone is too narrow")
        .decided_by("more repeats, in random order")
        .about([cell.id.clone()])
        .done()
}
