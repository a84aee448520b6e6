//! Sending: was the load that was asked for also the load that was offered, and was the client able to do its part.

use bench_schema::{Interval, Load, Metric, Nanos};

use super::answers::requests;
use super::{Limits, Scene, Seen, stamps, usual_next};
use crate::signals::derived;
use crate::{text, view};

/// Of 1 ms, 1 % of the mean gap and 2 % of the median TTFT the largest: below a millisecond no server can tell, a slow schedule forgives more, and what is less than
/// that part of the shortest time that holds it moves no figure by more.
pub(super) fn lateness(scene: &Scene<'_>) -> Option<Seen> {
    let Load::Open { rate_per_s, .. } = scene.cell.load else {
        return None;
    };
    // a trace's own pace is in the plan only
    let planned = scene.cell.windows.whole.as_ref()?.offered_requests_per_s;
    let gap = 1e9 / view::positive(planned.or(rate_per_s)?)?;
    let p99 = view::quantile(scene.cell, Metric::Lateness, 0.99)?;
    let median = |metric| view::quantile(scene.cell, metric, 0.5);
    let shortest = median(Metric::Ttft).or_else(|| median(Metric::E2e));
    let unseen = shortest.map_or(0.0, |shortest| stamps::LIMITS.0 * shortest);
    let doubtful = (0.01 * gap).max(unseen).max(1e6);
    let what = format!(
        "requests were sent late: lateness p99 is {} at a mean gap of {}",
        text::time(p99),
        text::time(gap),
    );
    Some(Seen {
        limits: Some(Limits::Time(doubtful, gap.max(1e7).max(doubtful))),
        next: unprepared(scene)
            .or_else(|| one_after_another(scene))
            .or_else(|| taken_or_slow(scene)),
        ..Seen::new(p99, what)
    })
}

/// The next step where requests left late because so many were due at once.
fn one_after_another(scene: &Scene<'_>) -> Option<String> {
    let bunch = scene.requests()?.bunch.as_ref()?;
    let when = if bunch.within > bunch.each {
        format!("within {}", text::time(bunch.within.as_f64()))
    } else {
        "at the same instant".to_owned()
    };
    Some(format!(
        "up to {} are due {when}, and the client sends them one after another, {} each: use more workers (`--workers`) or smaller bursts",
        requests(bunch.requests),
        text::time(bunch.each.as_f64())
    ))
}

/// How long requests that should have left did not, as a part of the time from one of a slot to its next (in an open loop, of the users' time), and
/// on average; what connecting took is the server's.
fn idle(scene: &Scene<'_>) -> Option<(f64, f64)> {
    let mean = |metric| scene.cell.metrics.get(&metric).map(|d| d.mean);
    let (from_due, from_sent) = (mean(Metric::E2eDue)?, mean(Metric::E2e)?);
    let connecting = scene.requests().map(|seen| seen.connecting.as_f64());
    let idle = from_due - from_sent - connecting.unwrap_or(0.0);
    let cycle = match scene.cell.load {
        // Where users think, between requests or between turns, most of a slot's time is theirs.
        Load::Closed {
            concurrency,
            think_time,
            ..
        } if think_time.is_some() || scene.requests().is_some_and(|seen| seen.later_turns) => {
            let planned = scene.cell.counts.planned.max(1) as f64;
            let seconds = scene.cell.windows.whole.as_ref()?.seconds;
            from_due.max(f64::from(concurrency) * seconds * 1e9 / planned)
        }
        _ => from_due,
    };
    Some((idle / view::positive(cycle)?, idle))
}

/// The part of a closed loop's slots that never had a request; an open loop that its answers outlast.
pub(super) fn load_not_reached(scene: &Scene<'_>) -> Option<Seen> {
    if view::is_outlasted(scene.cell) {
        let what = "answers (or conversations) take longer on average than load was offered, so that the server never had what this rate makes of it in the long run";
        return Some(Seen {
            limits: Some(Limits::Plain(super::ANY, super::NEVER)),
            detail: "; the cell has no rate of requests or tokens, and is excluded from scaling".to_owned(),
            next: Some("measure for many times the time of an answer or a conversation (`--duration`, `--requests`)".to_owned()),
            ..Seen::new(1.0, what.to_owned())
        });
    }
    let (most, asked) = view::load_reached(scene.cell)?;
    let what = format!(
        "the load never reached concurrency {}: {} requests in flight on average",
        text::number(asked),
        text::number(most),
    );
    Some(Seen {
        detail: "; the cell is excluded from scaling".to_owned(),
        ..Seen::new(1.0 - most / asked, what)
    })
}

/// An open loop whose rate is not known, by the farther end of its interval.
pub(super) fn rate_undecided(scene: &Scene<'_>) -> Option<Seen> {
    let rates = scene
        .cell
        .headline_rates()
        .filter(|_| scene.cell.load.is_open())?;
    let rate = view::positive(rates.requests_per_s?)?;
    let Interval { low, high, .. } = rates.requests_per_s_interval?;
    let open = (high / rate - 1.0).max(1.0 - low / rate);
    let [told, low, high] = [rate, low, high].map(text::number);
    let what = if view::undecided(scene.cell) {
        format!(
            "nobody can tell whether the server keeps up: {told} requests/s were served while load was offered, and {high} were offered and answered in the end"
        )
    } else {
        format!("{told} requests/s were served, but it may be {low} to {high} in the long run")
    };
    let what = format!("{what} (up to {} off)", text::percent(open));
    Some(Seen {
        detail: "; tokens/s are known no better, and latencies may depend on the length of the run"
            .to_owned(),
        ..Seen::new(open, what)
    })
}

/// Whether most of that is the connection's, which did not take the request. Up to a millisecond it may be the client's own time, and where one request
/// was in flight it is.
fn is_the_connections(scene: &Scene<'_>, idle: f64) -> bool {
    const OWN: f64 = 1e6;
    let whole = scene.cell.windows.whole.as_ref();
    let others = whole.is_none_or(|whole| whole.peak_in_flight != 1);
    let to_send = scene.requests().map(|seen| seen.to_send.as_f64());
    to_send.is_some_and(|to_send| others && to_send > OWN && to_send > idle / 2.0)
}

/// The part of a slot's time between an answer and the next request, which the client took.
pub(super) fn slots_idle(scene: &Scene<'_>) -> Option<Seen> {
    let closed = !scene.cell.load.is_open();
    let own = |(_, idle): &(f64, f64)| closed && !is_the_connections(scene, *idle);
    let (share, idle) = idle(scene).filter(own)?;
    let from_sent = scene.cell.metrics.get(&Metric::E2e)?.mean;
    let detail = format!(
        ": {} on average between a response and the next request, which then took {}",
        text::time(idle),
        text::time(from_sent),
    );
    let what = format!(
        "concurrency slots were idle for {} of the time",
        text::percent(share)
    );
    Some(Seen {
        detail,
        next: unprepared(scene).or_else(|| taken(scene)),
        ..Seen::new(share, what)
    })
}

/// The part of the time for which a request was ready and the connection did not take it.
pub(super) fn connection_full(scene: &Scene<'_>) -> Option<Seen> {
    let (share, idle) = idle(scene).filter(|(_, idle)| is_the_connections(scene, *idle))?;
    let what = format!(
        "requests waited {} on average ({} of their time) for their connection to accept them",
        text::time(idle),
        text::percent(share),
    );
    Some(Seen::new(share, what))
}

/// How long something waited to be read and nothing was, in one piece or in many: the client stood still then, and so did the slots of a closed loop, though no
/// latency shows it.
pub(super) fn stood_still(scene: &Scene<'_>) -> Option<Seen> {
    const NOTICED: Nanos = Nanos::from_millis(100);
    if scene.cell.load.is_open() {
        return None;
    }
    let still = scene.cell.client.behind?;
    let seconds = scene.cell.windows.whole.as_ref()?.seconds;
    let share = still.as_secs_f64() / view::positive(seconds)?;
    let what = format!(
        "the client was stopped for {} ({} of the cell)",
        text::time(still.as_f64()),
        text::percent(share)
    );
    (still >= NOTICED).then(|| Seen {
        detail: ": rates are too low, because nothing was sent in that time".to_owned(),
        ..Seen::new(share, what)
    })
}

/// Whether the client sent when it should.
pub(super) fn is_on_time(scene: &Scene<'_>) -> bool {
    let within = |seen: Option<Seen>, usual: f64| {
        seen.is_none_or(|s| s.value <= s.limits.map_or(usual, |limits| limits.both().0))
    };
    within(lateness(scene), 1e6) && within(slots_idle(scene), 0.01)
}

/// What was sent beside what the plan held: that a plan's own rate is not the one asked for is its shape or its luck, not the client's.
pub(super) fn offered_rate(scene: &Scene<'_>) -> Option<Seen> {
    let Load::Open { rate_per_s, .. } = &scene.cell.load else {
        return None;
    };
    let planned = scene.cell.windows.whole.as_ref()?.offered_requests_per_s?;
    let planned = view::positive(planned)?;
    let offered = scene
        .cell
        .plan
        .offered_rate_per_s
        .filter(|r| r.is_finite())?;
    // Turns that waited for an answer which never came are the server's; a cap's refusals have a rule of their own.
    let counts = &scene.cell.counts;
    let unsent = counts.unsent as f64 / counts.planned.max(1) as f64;
    let below = 1.0 - offered / planned - unsent;
    let differs = rate_per_s.filter(|asked| (planned / asked - 1.0).abs() > 0.01);
    let asked = differs.map_or_else(String::new, |asked| {
        format!(" ({} were requested)", text::number(asked))
    });
    let could = if counts.unsent == 0 {
        format!("the planned {} requests/s{asked}", text::number(planned))
    } else {
        format!(
            "{} requests/s (the planned {} without the {} that were left unsent)",
            text::number(planned * (1.0 - unsent)),
            text::number(planned),
            requests(counts.unsent),
        )
    };
    let what = format!(
        "only {} of {could} were sent, a shortfall of {}",
        text::number(offered),
        text::percent(below),
    );
    Some(Seen {
        limits: Some(Limits::Share(0.01, 0.10)),
        next: unprepared(scene).or_else(|| taken(scene)),
        ..Seen::new(below, what)
    })
}

pub(super) fn starved(scene: &Scene<'_>) -> Option<Seen> {
    let starved = scene.cell.client.starved?;
    Some(Seen::share(
        starved,
        scene.cell.counts.planned,
        |n, of, share| {
            format!("{n} of {of} requests were due before they had been generated ({share})")
        },
    ))
}

/// The next step where requests left late because they had not been generated.
fn unprepared(scene: &Scene<'_>) -> Option<String> {
    starved(scene).filter(|seen| seen.value > 0.01)?;
    usual_next("starved")
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "every rule of the table has this shape"
)]
pub(super) fn in_flight_cap(scene: &Scene<'_>) -> Option<Seen> {
    let hits = scene.cell.client.cap_hits;
    let what = format!(
        "{} of {} requests were not sent because the in-flight cap was reached",
        text::grouped(hits as f64),
        text::grouped(scene.cell.counts.planned as f64),
    );
    Some(Seen::new(hits as f64, what))
}

// The client: was it able to do its part, and who kept it from that.

pub(super) fn client_cpu(scene: &Scene<'_>) -> Option<Seen> {
    let busy = scene.cell.client.busiest_worker;
    of_cpu_time(scene, busy, "the client's busiest worker used")
}

pub(super) fn run_queue(scene: &Scene<'_>) -> Option<Seen> {
    let waited = scene.cell.client.run_queue_wait;
    let harmful = !is_on_time(scene) || !stamps::are_exact(scene);
    let what = "the client was ready to run but had to wait for a core during";
    of_cpu_time(scene, waited.filter(|_| harmful), what)
}

pub(super) fn steal(scene: &Scene<'_>) -> Option<Seen> {
    let taken = derived(scene.cell, "host_steal_share");
    of_cpu_time(scene, taken, "the hypervisor took from this machine")
}

pub(super) fn client_throttled(scene: &Scene<'_>) -> Option<Seen> {
    let held = derived(scene.cell, "client_throttled_share");
    of_cpu_time(scene, held, "a CPU quota throttled the client during")
}

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

/// A worker that used less of its core than this had it to spare: there no flag of ours helps.
const SPARE: f64 = 0.5;

/// The next step where a client with a core to spare had its machine taken from it.
pub(super) fn taken(scene: &Scene<'_>) -> Option<String> {
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
            "the client was not busy, but other programs (such as a server on this machine) kept it off the CPU for {} of the time: give it dedicated cores",
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
pub(super) fn taken_or_slow(scene: &Scene<'_>) -> Option<String> {
    let slow = || {
        let busiest = busiest_with_a_core_to_spare(scene)?;
        Some(format!(
            "the client used at most {} of a core, so the machine was slow to wake it: give it a dedicated core, or a machine that is not shared",
            text::percent(busiest)
        ))
    };
    taken(scene).or_else(slow)
}

fn busiest_with_a_core_to_spare(scene: &Scene<'_>) -> Option<f64> {
    let busiest = scene.cell.client.busiest_worker;
    busiest.filter(|busy| *busy < SPARE)
}
