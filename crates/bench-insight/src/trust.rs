//! Whether a run should be believed: a table of rules, each with what it looks at, its limits, and the next step.

mod answers;
mod sending;
mod stamps;

use bench_schema::{
    Cause, CellRecord, ClockKind, Finding, Known, Trust, TrustReason, TrustVerdict,
};

use crate::diagnosis;
use crate::facts::{CellFacts, TrustFacts};
use crate::signals::derived;
use crate::text;
use crate::view;

/// Judge a run by whether its numbers may be wrong, and by how much.
///
/// A rule whose input was not measured does not speak. The same rule in several cells gives one reason, that of the worst cell;
/// its message says in how many others it holds. A run that was cut short is never trusted, nor is one that measured nothing.
/// `docs/metrics.md` (Trust) lists the rules with their limits.
pub fn trust(facts: &TrustFacts<'_>, cells: &[CellRecord]) -> Trust {
    let mut reasons = Vec::new();
    reasons.extend(of_the_run(facts, cells));
    for rule in RULES {
        let found: Vec<TrustReason> = cells
            .iter()
            .filter_map(|cell| rule.judge(&Scene { facts, cell }))
            .collect();
        reasons.extend(worst(found));
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

/// Doubtful above the first, untrusted above the second.
#[derive(Clone, Copy)]
struct Limits(f64, f64);

/// A rule that never makes a run more than doubtful.
const NEVER: f64 = f64::INFINITY;
/// A rule that, where it finds something, has found enough.
const ANY: f64 = 0.0;

/// How the limit is shown.
#[derive(Clone, Copy)]
enum Limit {
    Share,
    Time,
    /// There is nothing to show: any is too many.
    None,
}

/// A worker that used less of its core than this had it to spare: there no flag of ours helps.
const SPARE: f64 = 0.5;

/// The next step where a client with a core to spare had its machine taken from it.
fn taken(scene: &Scene<'_>) -> Option<String> {
    const NOTICED: f64 = 0.01;
    busiest_with_a_core_to_spare(scene)?;
    let stolen = derived(scene.cell, "host_steal_share").filter(|share| *share >= NOTICED);
    let waited = scene
        .cell
        .client
        .run_queue_wait
        .filter(|share| *share >= NOTICED);
    // Waiting for a core that other programs have is counted as waiting; one that the hypervisor has is not.
    if let Some(waited) = waited.filter(|waited| stolen.is_none_or(|stolen| *waited > stolen)) {
        return Some(format!(
            "the client was not busy, but other programs (the server, if it runs here) kept it from a core for {} of the time: give it cores of its own",
            text::percent(waited)
        ));
    }
    let stolen = stolen?;
    Some(format!(
        "the client was not busy, but the hypervisor gave {} of this machine's CPU time to others: use a machine that is not shared, or a quieter time",
        text::percent(stolen)
    ))
}

/// The same, or that the machine was slow to wake it.
fn taken_or_slow(scene: &Scene<'_>) -> Option<String> {
    let slow = || {
        let busiest = busiest_with_a_core_to_spare(scene)?;
        Some(format!(
            "the client used {} of a core at most, so its machine was slow to wake it: give it a core of its own, or a machine that is not shared",
            text::percent(busiest)
        ))
    };
    taken(scene).or_else(slow)
}

fn busiest_with_a_core_to_spare(scene: &Scene<'_>) -> Option<f64> {
    let busiest = scene.cell.client.busiest_worker;
    busiest.filter(|busy| *busy < SPARE)
}

/// One way in which numbers can be wrong.
struct Rule {
    code: &'static str,
    limits: Limits,
    limit: Limit,
    look: fn(&Scene<'_>) -> Option<Seen>,
    next: &'static str,
}

impl Rule {
    fn judge(&self, scene: &Scene<'_>) -> Option<TrustReason> {
        let seen = (self.look)(scene).filter(|seen| !seen.value.is_nan())?;
        let Limits(doubtful, untrusted) = seen.limits.unwrap_or(self.limits);
        let (verdict, crossed) = if seen.value > untrusted {
            (TrustVerdict::Untrusted, untrusted)
        } else if seen.value > doubtful {
            (TrustVerdict::Doubtful, doubtful)
        } else {
            return None;
        };
        let limit = match self.limit {
            Limit::Share => format!(" (limit {})", text::percent(crossed)),
            Limit::Time => format!(" (limit {})", text::time(crossed)),
            Limit::None => String::new(),
        };
        Some(TrustReason {
            code: self.code.to_owned(),
            verdict,
            message: format!("{}{limit}{}", seen.what, seen.detail),
            next: Some(seen.next.unwrap_or_else(|| self.next.to_owned())),
            cell: Some(scene.cell.id.clone()),
            measured: Some(seen.value).filter(|m| m.is_finite()),
            threshold: Some(crossed),
        })
    }
}

/// The rules over cells, in the order in which their reasons are listed within a verdict.
const RULES: &[Rule] = &[
    Rule {
        code: "counts",
        limits: Limits(ANY, ANY),
        limit: Limit::None,
        look: answers::counts,
        next: "recover the run from its journal, and report this as a defect",
    },
    Rule {
        code: "nothing_planned",
        limits: Limits(ANY, ANY),
        limit: Limit::None,
        look: answers::nothing_planned,
        next: "ask for requests: `--requests`, `--duration`; in bench-latency `--repeat`",
    },
    Rule {
        code: "nothing_measured",
        limits: Limits(ANY, ANY),
        limit: Limit::None,
        look: answers::nothing_measured,
        next: "look at the failures first",
    },
    Rule {
        code: "failures",
        limits: Limits(0.01, 0.10),
        limit: Limit::Share,
        look: answers::failures,
        next: "find their cause (the server's log at those times), then measure again: rates and latencies are of the requests that were answered",
    },
    Rule {
        code: "away",
        limits: Limits(0.01, 0.10),
        limit: Limit::Share,
        look: answers::away,
        next: "find out why it was away (its log at that time), then measure again",
    },
    Rule {
        code: "cancelled_unanswered",
        limits: Limits(0.01, NEVER),
        limit: Limit::Share,
        look: answers::cancelled_unanswered,
        next: "give the first token more time than `--cancel-after` did, or use `--first-token-timeout`, whose requests count as lost",
    },
    Rule {
        code: "backed_off",
        limits: Limits(0.01, 0.10),
        limit: Limit::Share,
        look: answers::backed_off,
        next: "find out why it refused, and measure again below its limit: these figures are of fewer requests at once than the row says",
    },
    Rule {
        code: "empty_answers",
        limits: Limits(0.01, 0.10),
        limit: Limit::Share,
        look: answers::empty_answers,
        next: "look at what the server sends (`--keep-text`, its log); rates count these answers as served",
    },
    Rule {
        code: "bounded_stamps",
        limits: Limits(0.02, 0.10),
        limit: Limit::Share,
        look: stamps::bounded,
        next: "give the client a core of its own, fewer streams per worker (`--workers`), or a machine of its own",
    },
    Rule {
        code: "no_kernel_stamps",
        limits: Limits(ANY, NEVER),
        limit: Limit::None,
        look: stamps::not_the_kernels,
        next: "measure from Linux, or keep the client below half a core",
    },
    Rule {
        code: "clock_step",
        limits: Limits(1e6, 1e9),
        limit: Limit::Time,
        look: stamps::clock_step,
        next: "stop the time service's corrections (or let it slew) and run again",
    },
    Rule {
        code: "lateness",
        limits: Limits(1e6, 1e7),
        limit: Limit::Time,
        look: sending::lateness,
        next: "more workers (`--workers`), or a lower rate per client",
    },
    Rule {
        code: "slots_idle",
        limits: Limits(0.01, 0.10),
        limit: Limit::Share,
        look: sending::slots_idle,
        next: "give the client a core of its own or more workers (`--workers`); the load was lower than the concurrency says",
    },
    Rule {
        code: "load_not_reached",
        limits: Limits(1.0 - view::REACHED, 0.5),
        limit: Limit::None,
        look: sending::load_not_reached,
        next: "measure more requests, many times the concurrency (`--requests`, `--duration`; rows for all of them), or ask for less concurrency",
    },
    Rule {
        code: "connection_full",
        limits: Limits(0.01, 0.10),
        limit: Limit::Share,
        look: sending::connection_full,
        next: "over HTTP/2 a server limits the streams of a connection: raise its limit, or measure over HTTP/1.1; latencies from sent do not hold this time, those from due do",
    },
    Rule {
        code: "stood_still",
        limits: Limits(0.03, 0.10),
        limit: Limit::Share,
        look: sending::stood_still,
        next: "find out what stopped it (a suspended machine, a debugger, a frozen control group, a disk), then measure again",
    },
    Rule {
        code: "offered_rate",
        limits: Limits(0.01, 0.10),
        limit: Limit::Share,
        look: sending::offered_rate,
        next: "more workers (`--workers`), a higher in-flight cap, or a lower rate",
    },
    Rule {
        code: "starved",
        limits: Limits(0.01, 0.10),
        limit: Limit::Share,
        look: sending::starved,
        next: "prompts were not made fast enough: give the client more cores, or a dataset with shorter prompts",
    },
    Rule {
        code: "in_flight_cap",
        limits: Limits(ANY, NEVER),
        limit: Limit::None,
        look: sending::in_flight_cap,
        next: "raise the cap, or read the cell as an overload",
    },
    Rule {
        code: "client_cpu",
        limits: Limits(0.9, NEVER),
        limit: Limit::Share,
        look: |scene| {
            let busy = scene.cell.client.busiest_worker;
            of_cpu_time(scene, busy, "the client's busiest worker used")
        },
        next: "add workers (`--workers`) or a second client",
    },
    Rule {
        code: "run_queue",
        limits: Limits(0.1, 0.5),
        limit: Limit::Share,
        look: |scene| {
            let waited = scene.cell.client.run_queue_wait;
            let harmful = !sending::is_on_time(scene) || !stamps::are_exact(scene);
            let what = "the client was ready to run but waited for a core during";
            of_cpu_time(scene, waited.filter(|_| harmful), what)
        },
        next: "something else uses its cores: move it, or pin both",
    },
    Rule {
        code: "steal",
        limits: Limits(0.1, NEVER),
        limit: Limit::Share,
        look: |scene| {
            let taken = derived(scene.cell, "host_steal_share");
            of_cpu_time(scene, taken, "the hypervisor took from this host")
        },
        next: "use a machine that is not shared",
    },
    Rule {
        code: "client_throttled",
        limits: Limits(0.01, 0.1),
        limit: Limit::Share,
        look: |scene| {
            let held = derived(scene.cell, "client_throttled_share");
            of_cpu_time(scene, held, "a CPU quota stopped the client during")
        },
        next: "raise its container's CPU limit",
    },
    Rule {
        code: "stalled",
        limits: Limits(0.01, NEVER),
        limit: Limit::Share,
        look: answers::stalled,
        next: "measure longer, or find what stopped the server: rates are of a server that stood still for a while",
    },
    Rule {
        code: "not_stationary",
        limits: Limits(ANY, NEVER),
        limit: Limit::None,
        look: answers::not_stationary,
        next: "measure longer, or warm up more",
    },
    Rule {
        code: "tokens_told",
        limits: Limits(answers::LONG, 0.10),
        limit: Limit::Share,
        look: answers::more_tokens_than_asked,
        next: "do not believe the server's usage: give the model's own `--tokenizer`, and report it to the server's authors",
    },
    Rule {
        code: "tokens_per_event",
        limits: Limits(0.05, NEVER),
        limit: Limit::Share,
        look: answers::more_tokens_than_events,
        next: "nothing in the stream confirms them, so tokens/s may be too high by as much; check with the model's own `--tokenizer`, or ask for continuous usage",
    },
    Rule {
        code: "tokens_untold",
        limits: Limits(0.01, NEVER),
        limit: Limit::Share,
        look: answers::untold,
        next: "look at what these answers end with (`--keep-text`, the server's log)",
    },
    Rule {
        code: "tokens_by_text",
        limits: Limits(0.01, NEVER),
        limit: Limit::Share,
        look: answers::by_text,
        next: "have the server send `usage`: the count misses tokens without text, and is another where the tokenizer is not the server's",
    },
    Rule {
        code: "short_answers",
        limits: Limits(0.01, NEVER),
        limit: Limit::Share,
        look: answers::short,
        next: "the server may not know it: check its API, or `min_tokens`",
    },
    Rule {
        code: "prompt_length",
        limits: Limits(0.05, NEVER),
        limit: Limit::Share,
        look: answers::prompt_length,
        next: "give the model's own `--tokenizer`, and ask for more than its chat template takes",
    },
    Rule {
        code: "warm_cache",
        limits: Limits(0.1, NEVER),
        limit: Limit::Share,
        look: answers::warm_cache,
        next: "salt the prompts, or start the server without a prefix cache",
    },
    Rule {
        code: "few_samples",
        limits: Limits(ANY, NEVER),
        limit: Limit::None,
        look: answers::few_samples,
        next: "measure more requests: `--requests`, `--duration`; in bench-latency `--repeat`",
    },
];

/// A share of CPU time or of the wall clock, of a cell that is long enough for it to mean something.
fn of_cpu_time(scene: &Scene<'_>, share: Option<f64>, what: &str) -> Option<Seen> {
    let share = share.filter(|_| scene.long_enough())?;
    let of = if what.ends_with("during") {
        "of the time"
    } else {
        "of the CPU"
    };
    Some(Seen::new(
        share,
        format!("{what} {} {of}", text::percent(share)),
    ))
}

/// Adds that a cell is not stationary where a cause says so that the trend tests of its window did not see.
pub(crate) fn doubt_mixed_levels(trust: &mut Trust, found: &[Finding]) {
    const CODE: &str = "not_stationary";
    let mut reasons = std::mem::take(&mut trust.reasons);
    for finding in diagnosis::of_two_levels(found) {
        let known = |cell: &String| {
            let same = |r: &TrustReason| r.code == CODE && r.cell.as_ref() == Some(cell);
            reasons.iter().any(same)
        };
        let Some(cell) = finding.cells.iter().find(|cell| !known(cell)) else {
            continue;
        };
        let what = match finding.cause() {
            Some(Cause::ColdStart) => "its first requests are slower than the rest",
            Some(Cause::Drift) => "its times drift",
            _ if finding.figure(&Known::TpotAtMore.into()).is_some() => {
                "it is slower than a cell at more load"
            }
            _ => "its times change within it",
        };
        reasons.push(TrustReason {
            code: CODE.to_owned(),
            verdict: TrustVerdict::Doubtful,
            message: format!(
                "the cell's figures are not those of one level of the server: {what}, which costs {} of the users' time",
                text::percent(finding.severity)
            ),
            next: Some("measure longer, or warm up more".to_owned()),
            cell: Some(cell.clone()),
            measured: Some(finding.severity),
            threshold: Some(diagnosis::MIXED),
        });
    }
    *trust = Trust::from_reasons(reasons);
}

/// What speaks against the run as a whole.
fn of_the_run(facts: &TrustFacts<'_>, cells: &[CellRecord]) -> Option<TrustReason> {
    let reason = |code: &str, verdict, message: String, next: &str| TrustReason {
        code: code.to_owned(),
        verdict,
        message,
        next: Some(next.to_owned()),
        cell: None,
        measured: None,
        threshold: None,
    };
    if !facts.complete {
        let why = facts.incomplete_reason.unwrap_or("it did not say why");
        let why = why.trim_end_matches('.');
        let nothing = cells.iter().all(|cell| cell.counts.planned == 0);
        let (verdict, what, next) = if nothing {
            let next = "mend that and run it again";
            (
                TrustVerdict::Untrusted,
                "the run ended before it measured a request",
                next,
            )
        } else {
            let next = "what was measured is here, run it again for the rest";
            (TrustVerdict::Doubtful, "the run was cut short", next)
        };
        return Some(reason(
            "incomplete",
            verdict,
            format!("{what}: {why}"),
            next,
        ));
    }
    cells.is_empty().then(|| {
        let message = "the run has no cell, so it measured nothing".to_owned();
        let next = "check the plan with `--dry-run`";
        reason("nothing_planned", TrustVerdict::Untrusted, message, next)
    })
}

/// The worst of the same rule's reasons, which tells how many other cells it holds for.
fn worst(mut found: Vec<TrustReason>) -> Option<TrustReason> {
    let excess = |r: &TrustReason| match (r.measured, r.threshold) {
        (Some(m), Some(t)) if t.abs() > 0.0 => m / t,
        (Some(m), _) => m,
        _ => 0.0,
    };
    found.sort_by(|a, b| {
        b.verdict
            .cmp(&a.verdict)
            .then(excess(b).total_cmp(&excess(a)))
    });
    let others = found.len().saturating_sub(1);
    let mut first = found.into_iter().next()?;
    if others > 0 {
        first.message = format!(
            "{} (the same in {})",
            first.message,
            text::count(others, "other cell")
        );
    }
    Some(first)
}
