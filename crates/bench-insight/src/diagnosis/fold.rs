//! What follows from what: findings of the same cells that a cause explains are folded under it.

use bench_schema::{Cause, Finding, Known};

pub(super) const WAITING: &[Cause] = &[Cause::Queueing, Cause::WaitingOrPrefill];
pub(super) const LEVELS: &[Cause] = &[Cause::Step, Cause::Drift, Cause::ColdStart];
pub(super) const STANDSTILL: &[Cause] = &[Cause::Frozen, Cause::PeriodicStall];
pub(super) const UNEXPLAINED: &[Cause] =
    &[Cause::SlowRequests, Cause::DecodeInterrupted, Cause::Pauses];
const INTERRUPTED: &[Cause] = &[Cause::DecodeInterrupted];
pub(super) const PREFILL: &[Cause] = &[Cause::Prefill];
const DECODE: &[Cause] = &[Cause::DecodeSlowsWithLoad];
const OVERLOAD: &[Cause] = &[Cause::Overload];
const HEAD_OF_LINE: &[Cause] = &[Cause::HeadOfLine];
const FAILING: &[Cause] = &[Cause::Failing];

/// What a cause explains where both are found in the same cells.
pub(super) struct Explains {
    cause: Cause,
    /// Cost of what it explains over its own, at most: users wait for what a server did in the time that it lost, and what costs them
    /// much more has another reason too.
    at_most: f64,
    effects: &'static [&'static [Cause]],
}

const fn explains(cause: Cause, effects: &'static [&'static [Cause]]) -> Explains {
    up_to(f64::INFINITY, cause, effects)
}

const fn up_to(at_most: f64, cause: Cause, effects: &'static [&'static [Cause]]) -> Explains {
    Explains {
        cause,
        at_most,
        effects,
    }
}

/// Of two that explain each other the first is the cause: what stops or starves a server, then what a level that moves makes of its load.
const EXPLAINS: &[Explains] = &[
    explains(
        Cause::ServerGone,
        &[FAILING, STANDSTILL, LEVELS, OVERLOAD, WAITING],
    ),
    explains(Cause::RateLimited, &[FAILING, &[Cause::ServerGone]]),
    up_to(
        4.0,
        Cause::ServerStarved,
        &[
            OVERLOAD,
            WAITING,
            PREFILL,
            DECODE,
            HEAD_OF_LINE,
            STANDSTILL,
            LEVELS,
            UNEXPLAINED,
        ],
    ),
    explains(
        Cause::SlowReplica,
        &[WAITING, DECODE, &[Cause::Step, Cause::Drift], OVERLOAD],
    ),
    explains(
        Cause::HeadOfLine,
        &[WAITING, LEVELS, PREFILL, DECODE, INTERRUPTED],
    ),
    up_to(4.0, Cause::PeriodicStall, BY_STANDSTILL),
    up_to(4.0, Cause::Frozen, BY_STANDSTILL),
    // Who waits all the time waits for a place.
    up_to(2.0, Cause::PeriodicStall, &[WAITING]),
    up_to(2.0, Cause::Frozen, &[WAITING]),
    // Prompts that hold up answers hold up each other's first tokens too.
    up_to(
        2.5,
        Cause::DecodeInterrupted,
        &[PREFILL, &[Cause::WaitingOrPrefill]],
    ),
    // A stop that costs more is none of a prompt; nor does what interrupts tokens make them slower by more than that.
    up_to(1.0, Cause::DecodeInterrupted, &[STANDSTILL, DECODE]),
    // Prompts come unevenly.
    up_to(0.5, Cause::DecodeInterrupted, &[LEVELS]),
    explains(
        Cause::MemoryPressure,
        &[WAITING, DECODE, &[Cause::Step, Cause::Drift]],
    ),
    // What is thrown out of the cache stands still until it is taken up again.
    up_to(4.0, Cause::MemoryPressure, &[STANDSTILL]),
    up_to(
        2.5,
        Cause::ClientLimited,
        &[
            WAITING,
            &[Cause::HeldBack],
            DECODE,
            STANDSTILL,
            LEVELS,
            UNEXPLAINED,
        ],
    ),
    // What keeps first tokens keeps the others too.
    explains(Cause::HeldBack, &[WAITING, PREFILL, DECODE]),
    up_to(1.0, Cause::HeldBack, &[LEVELS, UNEXPLAINED]),
    explains(Cause::Overload, &[WAITING, PREFILL, DECODE, LEVELS]),
    up_to(
        1.2,
        Cause::ColdStart,
        &[&[Cause::Drift, Cause::Step], WAITING, PREFILL, DECODE],
    ),
    explains(Cause::GpuThrottled, &[LEVELS, DECODE]),
    up_to(1.0, Cause::Pauses, &[LEVELS]),
    explains(Cause::Drift, &[OVERLOAD]),
    explains(Cause::Step, &[OVERLOAD]),
    up_to(2.5, Cause::Drift, &[&[Cause::WaitingOrPrefill]]),
    up_to(2.5, Cause::Step, &[&[Cause::WaitingOrPrefill]]),
    explains(
        Cause::Queueing,
        &[PREFILL, &[Cause::WaitingOrPrefill, Cause::GpuLow]],
    ),
];

/// What streams that stand still explain, once or again and again: behind a stop those that came meanwhile wait for each other.
const BY_STANDSTILL: &[&[Cause]] = &[LEVELS, PREFILL, HEAD_OF_LINE, OVERLOAD, DECODE];

/// Who waits in a queue that grows is cut off by a limit in the end.
pub(super) const CUT_OFF: &[Explains] = &[explains(Cause::Overload, &[FAILING])];
/// Where nobody waits for first tokens, more are in flight since each takes longer: no queue grows.
pub(super) const SLOWER: &[Explains] = &[explains(Cause::Step, &[OVERLOAD])];
/// While a server works for others, who waits for a place of theirs gets no token, and it does not stand still.
pub(super) const OF_OTHERS: &[Explains] = &[up_to(2.5, Cause::Queueing, &[STANDSTILL])];

/// Folds under each cause what follows from it in the same cells.
pub(super) fn fold(found: Vec<Finding>) -> Vec<Finding> {
    fold_by(EXPLAINS, found)
}

/// The same by what holds only where more was seen than the causes.
pub(super) fn fold_by(table: &[Explains], mut found: Vec<Finding>) -> Vec<Finding> {
    for explains in table {
        let is_it = |f: &Finding| f.cause() == Some(explains.cause);
        let Some(at) = found.iter().position(is_it) else {
            continue;
        };
        let mut root = found.remove(at);
        found.retain(|f| {
            let within = root.cells.is_empty() || f.cells.iter().all(|c| root.cells.contains(c));
            let bounded = f.severity <= explains.at_most * root.severity;
            let explained = |other: &Cause| explains.effects.iter().any(|of| of.contains(other));
            let Some(other) = f.cause().filter(|c| within && bounded && explained(c)) else {
                return true;
            };
            if !root.consequences.contains(&other) {
                root.consequences.push(other);
            }
            let of_queue = [Known::OfferedRate, Known::ServedRate].map(Into::into);
            let rates = f.evidence.iter().filter(|e| of_queue.contains(&e.figure));
            root.evidence.extend(rates.cloned());
            // Its users pay for what follows too.
            root.severity = root.severity.max(f.severity);
            false
        });
        found.push(root);
    }
    found
}
