//! Requests that got no whole answer: refused by a limit, failed, or sent to a server that was not there.

use std::collections::BTreeMap;

use bench_schema::{
    Cause, CellRecord, Evidence, Experiment, FailureKind, Finding, Known, Metric, Nanos, Stage,
    Unit,
};

use super::first_token;
use super::look::Look;
use crate::draft::Draft;
use crate::facts::Outage;
use crate::outages::outage;
use crate::samples::{Lost, LostSample};

/// Share of the planned requests that must be lost.
const LEAST: f64 = 0.01;
/// Lost requests below which it may be chance.
const FEWEST: u64 = 2;
/// Refused connections of an outage from which on nobody was there.
const REFUSED: u64 = 3;

/// Everything that the outcomes of a cell name.
pub(super) fn all(look: &Look<'_>) -> Vec<Finding> {
    if look.lost.is_empty() {
        return of_counts(look.cell).into_iter().collect();
    }
    let sent = sent(look);
    let refused = sent.iter().filter(|lost| limited(lost));
    let refused = in_all(look, refused.copied());
    let answered = look.seen.iter().map(|seen| seen.request);
    let answered = answered.chain(look.stopped.iter().copied());
    let gone = outage(answered, look.lost.iter().copied(), look.epoch);
    // one of several URLs that is away is no server that is gone: its requests fail
    let gone = gone.filter(|outage| outage.refused >= REFUSED && !outage.of_one_endpoint);
    let away = gone.as_ref().and_then(|outage| server_gone(look, outage));
    // of one that is too short to be told its requests failed like others
    let gone = gone.filter(|_| away.is_some());
    let of_gone = |lost: &LostSample| gone.as_ref().is_some_and(|gone| is_of(look, gone, lost));
    let failed = sent.iter().filter(|lost| !limited(lost) && !of_gone(lost));
    let failed: Vec<&LostSample> = failed.copied().collect();
    [away, rate_limited(look, refused), failing(look, &failed)]
        .into_iter()
        .flatten()
        .collect()
}

fn sent<'a>(look: &Look<'a>) -> Vec<&'a LostSample> {
    let lost = look.lost.iter().copied();
    lost.filter(|lost| lost.how != Lost::Unsent).collect()
}

fn limited(lost: &LostSample) -> bool {
    lost.status == Some(429)
}

/// What several cells lost of which none lost enough to tell.
pub(super) fn over_cells(looks: &[Look<'_>], found: &[Finding]) -> Option<Finding> {
    const TOLD: [Cause; 3] = [Cause::Failing, Cause::RateLimited, Cause::ServerGone];
    let is_told = |f: &Finding| f.cause().is_some_and(|cause| TOLD.contains(&cause));
    if looks.len() < 2 || found.iter().any(is_told) {
        return None;
    }
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for look in looks {
        let failed = sent(look).into_iter().filter(|lost| !limited(lost));
        for (kind, n) in by_kind(look, failed) {
            *kinds.entry(kind).or_default() += n;
        }
    }
    let lost = kinds.values().sum();
    let planned: u64 = looks.iter().map(|look| look.cell.counts.planned).sum();
    let share = share_of(planned, lost)?;
    let mut finding = failing_of(looks.first()?.cell, share, lost, kinds)?;
    finding.cells = looks.iter().map(|look| look.cell.id.clone()).collect();
    Some(finding)
}

/// Requests that open a connection of their own, because the server closed the one before: what that takes is in no latency, and its users wait
/// for it. Nobody says so of a client that was asked for it, nor of as many connections as requests were in flight at once. What the server does for
/// each before it answers lies in TTFT: it is told where that is long and nothing else was found.
pub(super) fn new_connections(look: &Look<'_>, nothing_else: bool) -> Option<Finding> {
    /// Part of the requests, where next to none had to be sent again, and multiple of those in flight at once.
    const PART: f64 = 0.5;
    const TIMES: f64 = 2.0;
    let (run, cell) = (look.run, look.cell);
    let asked = run.config.get("connections").and_then(|kind| kind.as_str());
    let (opened, all) = (
        cell.metrics.get(&Metric::Connect)?,
        cell.metrics.get(&Metric::E2e)?,
    );
    let at_once = cell.windows.whole.as_ref()?.peak_in_flight as f64;
    // An answer that breaks off takes its connection along.
    let broken = broken_off(cell) as f64;
    let (n, of) = ((opened.n as f64 - broken).max(0.0), all.n as f64);
    let replaced = (cell.counts.replaced_connections as f64 - broken).max(0.0)
        / cell.counts.completed.max(1) as f64;
    let few = n < PART * of && replaced <= super::LEAST;
    if asked == Some("per-request") || few || n < TIMES * at_once {
        return None;
    }
    let connecting = opened.mean * n;
    let late = (look.mean(|r| r.ttft))
        .zip(look.mean(|r| Some(r.e2e())))
        .map(|(ttft, e2e)| ttft / e2e)
        .filter(|_| nothing_else && first_token::is_long(look).is_some());
    // What it costs to find a connection closed, or to have the server open one, is not known: at least something.
    let least = if replaced > super::LEAST || late.is_some() {
        super::LEAST
    } else {
        0.0
    };
    let cost = connecting / (connecting + all.mean * of);
    Draft::in_cell(Cause::NewConnections, cost.max(least), cell)
        .because(Known::NewShare, n / of)
        .because(Known::ConnectTime, opened.mean)
        .because(Known::TtftShare, late)
        .because(
            Known::ReplacedShare,
            Some(replaced).filter(|share| *share > 0.0),
        )
        .refuted_by(Experiment::KeptConnections)
        .done()
}

/// Requests that were lost otherwise than by an answer that said so.
fn broken_off(cell: &CellRecord) -> u64 {
    let counts = &cell.counts;
    let failures = counts.failures.iter();
    let of_status = failures.filter(|(_, kind, _)| *kind == FailureKind::Status);
    counts
        .lost()
        .saturating_sub(of_status.map(|(.., n)| n).sum())
}

/// How many requests the cell lost as these were, by kind: of long runs every second, fourth, … is kept, and of several repeats one is looked at. All that
/// were lost in one way are as many as were counted.
fn by_kind<'a>(
    look: &Look<'_>,
    lost: impl Iterator<Item = &'a LostSample>,
) -> BTreeMap<String, u64> {
    let mut kinds: BTreeMap<String, (Lost, u64)> = BTreeMap::new();
    for lost in lost {
        kinds.entry(words(lost)).or_insert((lost.how, 0)).1 += 1;
    }
    let counts = &look.cell.counts;
    let scaled = |(kind, (how, n)): (String, (Lost, u64))| {
        let counted = how.counted(counts);
        let same = |lost: &&&LostSample| counted.is_none() || lost.how == how;
        let kept = look.lost.iter().filter(same).count() as u64;
        let all = counted.unwrap_or(counts.lost()).max(kept);
        let n = u128::from(n) * u128::from(all) / u128::from(kept.max(1));
        (kind, u64::try_from(n).unwrap_or(u64::MAX))
    };
    kinds.into_iter().map(scaled).collect()
}

fn in_all<'a>(look: &Look<'_>, lost: impl Iterator<Item = &'a LostSample>) -> u64 {
    by_kind(look, lost).into_values().sum()
}

fn share(cell: &CellRecord, lost: u64) -> Option<f64> {
    share_of(cell.counts.planned, lost)
}

fn share_of(planned: u64, lost: u64) -> Option<f64> {
    let share = lost as f64 / planned.max(lost).max(1) as f64;
    (share >= LEAST && lost >= FEWEST).then_some(share)
}

fn rate_limited(look: &Look<'_>, refused: u64) -> Option<Finding> {
    let share = share(look.cell, refused)?;
    Draft::in_cell(Cause::RateLimited, share, look.cell)
        .because(Known::Failed, refused as f64)
        .because(Known::FailedShare, share)
        .because(Known::Status, 429.0)
        .refuted_by(Experiment::BelowTheLimit)
        .done()
}

/// `reset during the response`, or the HTTP status where that says it.
fn words(lost: &LostSample) -> String {
    let status = lost.status.filter(|status| *status >= 400);
    match (lost.how, status) {
        (Lost::Failed(_, FailureKind::Status), Some(status)) => format!("with HTTP {status}"),
        (Lost::Failed(stage, kind), _) => failed(stage, kind),
        (Lost::TimedOut, _) => "timed out".to_owned(),
        (Lost::Truncated, _) => "truncated".to_owned(),
        (Lost::Unsent, _) => "unsent".to_owned(),
    }
}

fn failed(stage: Stage, kind: FailureKind) -> String {
    if kind == FailureKind::Status {
        return "with an HTTP error".to_owned();
    }
    let what = kind.as_str().replace('_', " ");
    format!("{what} {}", when(stage))
}

fn when(stage: Stage) -> &'static str {
    match stage {
        Stage::Resolve => "at the look-up of its name",
        Stage::Connect => "at the connection",
        Stage::Tls => "in the TLS handshake",
        Stage::Send => "while it was sent",
        Stage::Headers => "before the response",
        Stage::FirstToken => "before the first token",
        Stage::Stream => "during the response",
        Stage::Tail => "after the last token",
        Stage::Whole => "as a whole",
    }
}

fn failing(look: &Look<'_>, lost: &[&LostSample]) -> Option<Finding> {
    let kinds = by_kind(look, lost.iter().copied());
    let all = kinds.values().sum();
    let share = share(look.cell, all)?;
    // Of several endpoints the one that lost them all.
    let first = lost.first()?.endpoint;
    let one = look.run.server.urls.len() > 1 && lost.iter().all(|lost| lost.endpoint == first);
    let at = if one {
        format!(", all at {}", look.url(first))
    } else {
        String::new()
    };
    let kinds = kinds.into_iter().map(|(kind, n)| (kind + &at, n));
    failing_of(look.cell, share, all, kinds.collect())
}

fn failing_of(
    cell: &CellRecord,
    share: f64,
    lost: u64,
    kinds: BTreeMap<String, u64>,
) -> Option<Finding> {
    let mut kinds: Vec<(String, u64)> = kinds.into_iter().collect();
    kinds.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let mut draft = Draft::in_cell(Cause::Failing, share, cell)
        .because(Known::FailedShare, share)
        .because(Known::Failed, lost as f64);
    for (kind, n) in kinds.into_iter().take(3) {
        draft = draft.push(Evidence {
            of: Some(kind),
            ..Evidence::new(Known::Failed.into(), n as f64, Unit::Count)
        });
    }
    draft.refuted_by(Experiment::AgainWithLog).done()
}

/// The same from counts alone.
fn of_counts(cell: &CellRecord) -> Option<Finding> {
    let counts = &cell.counts;
    let lost = counts.went_wrong();
    let share = share(cell, lost)?;
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for (stage, kind, n) in &counts.failures {
        *kinds.entry(failed(*stage, *kind)).or_default() += n;
    }
    for (stage, n) in &counts.timeouts {
        *kinds
            .entry(format!("timed out {}", when(*stage)))
            .or_default() += n;
    }
    if counts.truncated > 0 {
        kinds.insert("truncated".to_owned(), counts.truncated);
    }
    failing_of(cell, share, lost, kinds)
}

/// Whether a lost request belongs to an outage: it was under way when the server went, or was sent while it was away.
fn is_of(look: &Look<'_>, outage: &Outage, lost: &LostSample) -> bool {
    let until = outage.until.map_or(f64::INFINITY, Nanos::as_f64);
    look.ns(lost.due) <= until && look.ns(lost.end) >= outage.from.as_f64()
}

fn server_gone(look: &Look<'_>, outage: &Outage) -> Option<Finding> {
    let held = look.lost.iter().filter(|lost| is_of(look, outage, lost));
    let lost = in_all(look, held.copied());
    let share = share(look.cell, lost)?;
    let lasted = outage.until.map(|until| (until - outage.from).as_f64());
    Draft::in_cell(Cause::ServerGone, share, look.cell)
        .because(Known::At, outage.from.as_f64())
        .because(Known::Lasted, lasted)
        .because(Known::Failed, lost as f64)
        .because(Known::FailedShare, share)
        .refuted_by(Experiment::AgainWithLog)
        .done()
}
