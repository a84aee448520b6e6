//! Whether a run should be believed: a table of rules, each with what it looks at, its limits, and the next step.

mod answers;
mod sending;
mod stamps;

use std::collections::BTreeMap;

use bench_schema::{
    Cause, CellRecord, ClockKind, ClockRecord, Finding, RunRecord, Trust, TrustReason, TrustVerdict,
};

use crate::diagnosis;
use crate::facts::{CellFacts, TrustFacts};
use crate::samples::CellSamples;
use crate::text;
use crate::view;

/// Judge a run by whether its numbers may be wrong, and by how much.
///
/// A rule whose input was not measured does not speak. The same rule in several cells gives one reason for each verdict, that of the worst cell;
/// it names the others. A run that was cut short is never trusted, nor is one that measured nothing.
/// `docs/insight.md` (Trust) lists the rules with their limits.
pub fn trust(facts: &TrustFacts<'_>, cells: &[CellRecord]) -> Trust {
    let mut reasons = Vec::new();
    reasons.extend(of_the_run(facts, cells));
    for rule in RULES {
        // of a cell that measured nothing only that is said
        let of_counts = COUNTS.contains(&rule.code);
        let judged = cells.iter();
        let judged = judged.filter(|cell| of_counts || cell.counts.planned > 0);
        let found: Vec<TrustReason> = judged
            .filter_map(|cell| rule.judge(&Scene { facts, cell }))
            .collect();
        for verdict in [TrustVerdict::Untrusted, TrustVerdict::Doubtful] {
            let alike = found.iter().filter(|reason| reason.verdict == verdict);
            reasons.extend(worst(alike.cloned().collect()));
        }
    }
    Trust::from_reasons(reasons)
}

/// One cell with what is known of its run.
#[derive(Clone, Copy)]
struct Scene<'a> {
    facts: &'a TrustFacts<'a>,
    cell: &'a CellRecord,
}

impl<'a> Scene<'a> {
    /// What single requests tell of the cell.
    fn requests(&self) -> Option<&'a CellFacts> {
        self.facts.cells.get(&self.cell.id)
    }

    /// Whether arrival stamps are the kernel's.
    fn by_kernel(&self) -> bool {
        self.facts.clock.arrival == ClockKind::Kernel
    }

    /// Whether the cell is long enough for shares of CPU time to be about something.
    fn long_enough(&self) -> bool {
        const SHORTEST: f64 = 0.5;
        let whole = self.cell.windows.whole.as_ref();
        whole.is_none_or(|whole| whole.seconds >= SHORTEST)
    }
}

/// What a rule found in a cell.
struct Seen {
    /// The number that is held against the limits.
    value: f64,
    /// The finding with its number, a clause.
    what: String,
    /// What else there is to know, from its colon or semicolon on; empty for nothing.
    detail: String,
    /// Limits of this cell, where those of the rule are not for every cell alike.
    limits: Option<Limits>,
    /// A next step that depends on what was found; else the rule's.
    next: Option<String>,
}

impl Seen {
    fn new(value: f64, what: String) -> Self {
        Self {
            value,
            what,
            detail: String::new(),
            limits: None,
            next: None,
        }
    }

    /// So many of so many (of none at all as of one): `what` is given both and the share, for people.
    fn share(n: u64, of: u64, what: impl FnOnce(&str, &str, &str) -> String) -> Self {
        let of = of.max(1);
        let share = n as f64 / of as f64;
        let [n, of] = [n, of].map(|count| text::grouped(count as f64));
        Self::new(share, what(&n, &of, &text::percent(share)))
    }
}

/// Doubtful above the first, untrusted above the second, and how that is shown.
#[derive(Clone, Copy)]
enum Limits {
    Share(f64, f64),
    Time(f64, f64),
    /// There is nothing to show.
    Plain(f64, f64),
}

impl Limits {
    fn both(self) -> (f64, f64) {
        let (Self::Share(a, b) | Self::Time(a, b) | Self::Plain(a, b)) = self;
        (a, b)
    }
}

/// A rule that never makes a run more than doubtful.
const NEVER: f64 = f64::INFINITY;
/// A rule that, where it finds something, has found enough.
const ANY: f64 = 0.0;

/// What to do next by the code of a rule, where what it found suggests nothing better.
const NEXT: &str = include_str!("trust/next.txt");

/// One way in which numbers can be wrong.
struct Rule {
    code: &'static str,
    limits: Limits,
    look: fn(&Scene<'_>) -> Option<Seen>,
}

impl Rule {
    fn judge(&self, scene: &Scene<'_>) -> Option<TrustReason> {
        let seen = (self.look)(scene).filter(|seen| !seen.value.is_nan())?;
        let limits = seen.limits.unwrap_or(self.limits);
        let (doubtful, untrusted) = limits.both();
        let (verdict, crossed) = if seen.value > untrusted {
            (TrustVerdict::Untrusted, untrusted)
        } else if seen.value > doubtful {
            (TrustVerdict::Doubtful, doubtful)
        } else {
            return None;
        };
        let limit = match limits {
            Limits::Share(..) => format!("limit {}", text::percent(crossed)),
            Limits::Time(..) => format!("limit {}", text::time(crossed)),
            Limits::Plain(..) => String::new(),
        };
        // `… (50 %)` becomes `… (50 %, limit 10 %)`
        let what = match seen.what.strip_suffix(')') {
            _ if limit.is_empty() => seen.what,
            Some(open) => format!("{open}, {limit})"),
            None => format!("{} ({limit})", seen.what),
        };
        Some(TrustReason {
            next: seen
                .next
                .or_else(|| usual_next(self.code))
                .map(|next| next.replace("{more}", scene.facts.more_requests())),
            cell: Some(scene.cell.id.clone()),
            measured: Some(seen.value).filter(|m| m.is_finite()),
            threshold: Some(crossed),
            ..TrustReason::new(self.code, verdict, what + &seen.detail)
        })
    }
}

/// The next step of a rule, unless what it found suggests a better one.
fn usual_next(code: &str) -> Option<String> {
    let mut lines = NEXT.lines();
    let next = lines.find_map(|line| line.strip_prefix(code)?.strip_prefix(": "));
    next.map(str::to_owned)
}

/// A line is the module and the function that looks, which is called as the code is, and its limits.
macro_rules! rules {
    ($($module:ident::$code:ident $kind:ident($doubtful:expr, $untrusted:expr);)*) => {
        &[$(Rule {
            code: stringify!($code),
            limits: Limits::$kind($doubtful, $untrusted),
            look: $module::$code,
        }),*]
    };
}

/// Those that speak of a cell of which nothing was measured.
const COUNTS: &[&str] = &["counts", "nothing_planned", "nothing_measured"];

/// The rules over cells, in the order in which their reasons are listed within a verdict.
const RULES: &[Rule] = rules! {
    answers::counts Plain(ANY, ANY);
    answers::nothing_planned Plain(ANY, ANY);
    answers::nothing_measured Plain(ANY, ANY);
    answers::failures Share(0.01, 0.10);
    answers::away Share(0.01, 0.10);
    answers::cancelled_unanswered Share(0.01, NEVER);
    answers::backed_off Share(0.01, 0.10);
    answers::empty_answers Share(0.01, 0.10);
    stamps::bounded_stamps Share(stamps::LIMITS.0, stamps::LIMITS.1);
    stamps::no_kernel_stamps Plain(ANY, NEVER);
    stamps::clock_step Time(1e6, 1e9);
    sending::lateness Time(1e6, 1e7);
    sending::slots_idle Share(0.01, 0.10);
    sending::load_not_reached Plain(1.0 - view::REACHED, 0.5);
    sending::rate_undecided Share(0.10, NEVER);
    sending::connection_full Share(0.01, 0.10);
    sending::stood_still Share(0.03, 0.10);
    sending::offered_rate Share(0.01, 0.10);
    sending::starved Share(0.01, 0.10);
    sending::in_flight_cap Plain(ANY, NEVER);
    sending::client_cpu Share(0.9, NEVER);
    sending::run_queue Share(0.1, 0.5);
    sending::steal Share(0.1, NEVER);
    sending::client_throttled Share(0.01, 0.1);
    answers::stalled Share(0.01, NEVER);
    answers::not_stationary Plain(ANY, NEVER);
    answers::tokens_told Share(answers::LONG, 0.10);
    answers::tokens_per_event Share(0.05, NEVER);
    answers::tokens_untold Share(0.01, NEVER);
    answers::tokens_by_text Share(0.01, NEVER);
    answers::short_answers Share(0.01, NEVER);
    answers::runaway_answers Share(0.01, 0.10);
    answers::prompt_length Share(0.05, NEVER);
    answers::warm_cache Share(0.1, NEVER);
    answers::few_samples Plain(ANY, NEVER);
};

pub(crate) use answers::asleep;

/// What of a cell's sending makes it untrustworthy by the rules, as far as the cell itself tells: its figures are the client's, not the server's.
pub(crate) fn client_limit(cell: &CellRecord) -> Option<String> {
    const CODES: &[&str] = &[
        "lateness",
        "slots_idle",
        "stood_still",
        "offered_rate",
        "starved",
        "client_throttled",
    ];
    let clock = ClockRecord {
        arrival: ClockKind::ReadReturn,
        fallback_reason: None,
        monotonic_epoch_ns: None,
        unix_epoch_ns: None,
        met: Vec::new(),
        meeting: None,
    };
    let cells = BTreeMap::new();
    let facts = TrustFacts::of(&clock, &cells);
    let rules = RULES.iter().filter(|rule| CODES.contains(&rule.code));
    let reasons = rules.filter_map(|rule| {
        rule.judge(&Scene {
            facts: &facts,
            cell,
        })
    });
    let mut fatal = reasons.filter(|reason| reason.verdict == TrustVerdict::Untrusted);
    fatal.next().map(|reason| reason.message)
}

/// Adds that a cell is not stationary where a cause says so that the trend tests of its window did not see: a level that moves, or a queue that grows. Where
/// they saw it, what to do follows from the cause.
pub(crate) fn doubt_mixed_levels(trust: &mut Trust, found: &[Finding]) {
    const CODE: &str = "not_stationary";
    let mut reasons = std::mem::take(&mut trust.reasons);
    let overload = found.iter().filter(|f| diagnosis::is_overload(f));
    for finding in diagnosis::of_two_levels(found).chain(overload) {
        let (message, next, threshold) = not_of_one_speed(finding);
        let is_it = |r: &TrustReason, cell: &String| r.code == CODE && r.names(cell);
        for seen in &mut reasons {
            if finding.cells.iter().any(|cell| is_it(seen, cell)) {
                seen.next = Some(next.to_owned());
                // Trends are what a queue that grows looks like.
                if diagnosis::is_overload(finding) && seen.also_in.is_empty() {
                    seen.message.clone_from(&message);
                }
            }
        }
        let known = |cell: &String| reasons.iter().any(|r| is_it(r, cell));
        let mut cells = finding.cells.iter().filter(|cell| !known(cell)).cloned();
        let Some(cell) = cells.next() else {
            continue;
        };
        let also_in = cells.collect();
        reasons.push(TrustReason {
            next: Some(next.to_owned()),
            cell: Some(cell),
            also_in,
            measured: Some(finding.severity),
            threshold: Some(threshold),
            ..TrustReason::new(CODE, TrustVerdict::Doubtful, message)
        });
    }
    *trust = Trust::from_reasons(reasons);
}

/// How a cause makes a cell's figures means over different speeds, what to do about it, and the cost beyond which it does.
fn not_of_one_speed(finding: &Finding) -> (String, &'static str, f64) {
    if diagnosis::is_overload(finding) {
        let message = "the queue grows for as long as the load lasts, since the server does not keep up with the rate: latencies depend on the length of the run, and are no property of the server".to_owned();
        let next = "lower the rate for latencies; the completed rate is what the server can do";
        return (message, next, 0.0);
    }
    let (what, next) = match finding.cause() {
        Some(Cause::ColdStart) => (
            "the first requests are slower than the rest",
            "use a longer warm-up, until the server is as quick as it stays",
        ),
        Some(Cause::Drift) => (
            "latency drifts",
            "find out what drifts (the server's log, its memory): a longer run only has more of it",
        ),
        Some(Cause::Queueing) => (
            "requests queue in one part of it only",
            "measure each load in a cell of its own",
        ),
        Some(Cause::SlowReplica) => (
            "one endpoint becomes slower",
            "find out what made it slower (its log at that time), or measure again without it",
        ),
        _ => (
            "its speed changes",
            "find out what changes it (the server's log at that time), or measure each speed in a cell of its own",
        ),
    };
    let message = format!(
        "the cell does not show the server at a constant speed: {what}, which costs {} of the users' time",
        text::percent(finding.severity)
    );
    (message, next, diagnosis::MIXED)
}

/// Adds that the server stood still in the warm-up of a cell, whose requests then waited for that and not for their load.
pub(crate) fn doubt_stops_in_warm_ups(run: &mut RunRecord, samples: &[CellSamples]) {
    const CODE: &str = "stalled";
    if samples.iter().all(|own| own.silences.is_empty()) {
        return;
    }
    let reason = |(cell, length): (String, f64)| TrustReason {
        next: Some("find out what stopped the server, and measure again".to_owned()),
        cell: Some(cell),
        ..TrustReason::new(
            CODE,
            TrustVerdict::Doubtful,
            format!(
                "no part of any response in progress arrived for {} of the warm-up, and the first measured requests still waited for the server to catch up",
                text::time(length)
            ),
        )
    };
    let mut found = diagnosis::stops_in_warm_ups(run, samples);
    let reasons = &run.trust.reasons;
    found.retain(|(cell, _)| !reasons.iter().any(|r| r.code == CODE && r.names(cell)));
    run.trust.add(found.into_iter().map(reason));
}

/// What speaks against the run as a whole.
fn of_the_run(facts: &TrustFacts<'_>, cells: &[CellRecord]) -> Option<TrustReason> {
    let reason = |code: &str, verdict, message: String, next: &str| TrustReason {
        next: Some(next.to_owned()),
        ..TrustReason::new(code, verdict, message)
    };
    if !facts.complete {
        let why = facts.incomplete_reason.unwrap_or("reason unknown");
        let why = why.trim_end_matches('.');
        let nothing = cells.iter().all(|cell| cell.counts.planned == 0);
        let (verdict, what, next) = if nothing {
            let what = "no measured request was recorded";
            let next = "fix what stopped the run, and run it again";
            (TrustVerdict::Untrusted, what, next)
        } else {
            let next = "the results cover what was measured; run it again for the rest";
            (TrustVerdict::Doubtful, "the run ended early", next)
        };
        let message = format!("{what}: {why}");
        return Some(reason("incomplete", verdict, message, next));
    }
    cells.is_empty().then(|| {
        let message = "the run has no cells, so it measured nothing".to_owned();
        let next = "check the plan with `--dry-run`";
        reason("nothing_planned", TrustVerdict::Untrusted, message, next)
    })
}

/// The worst of the same rule's reasons of one verdict, which names the other cells that it holds for.
fn worst(mut found: Vec<TrustReason>) -> Option<TrustReason> {
    let excess = |r: &TrustReason| match (r.measured, r.threshold) {
        (Some(m), Some(t)) if t.abs() > 0.0 => m / t,
        (Some(m), _) => m,
        _ => 0.0,
    };
    found.sort_by(|a, b| excess(b).total_cmp(&excess(a)));
    let mut found = found.into_iter();
    let mut first = found.next()?;
    first.also_in = found.filter_map(|reason| reason.cell).collect();
    if !first.also_in.is_empty() {
        first.message = format!(
            "{} (the same in {})",
            first.message,
            bench_schema::counted(first.also_in.len(), "other cell")
        );
    }
    Some(first)
}

#[cfg(test)]
#[path = "../tests/unit/trust.rs"]
mod tests;
