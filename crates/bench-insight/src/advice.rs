//! What to try for a cause: an action, and the recognised server's own parameter for it.

use bench_schema::{Action, Advice, Cause, Evidence, Finding, Known, ServerRecord};

/// How each kind of server names what an action changes.
const PARAMETERS: &str = include_str!("parameters.txt");

fn row(name: &str) -> Option<impl Iterator<Item = &'static str>> {
    let rows = PARAMETERS.lines().filter(|line| !line.starts_with('#'));
    let mut rows = rows.filter_map(|line| line.split_once(": "));
    let (_, cells) = rows.find(|(names, _)| names.split(' ').any(|own| own == name))?;
    Some(cells.split(" | "))
}

/// A server's own name for what a row is about.
fn own_name(name: &str, kind: Option<&str>) -> Option<String> {
    let kind = kind?.to_ascii_lowercase();
    let is_it = |parts: &str| parts.split(' ').any(|part| kind.contains(part));
    let column = row("servers")?.position(is_it)?;
    let found = row(name)?.nth(column).filter(|own| *own != "-");
    found.map(str::to_owned)
}

/// What a cause asks to try, the most promising first.
fn actions(finding: &Finding) -> Vec<Action> {
    let has = |figure: Known| finding.figure(&figure.into()).is_some();
    let Some(cause) = finding.cause() else {
        return Vec::new();
    };
    match cause {
        Cause::Overload => vec![Action::LowerLoadOrAddReplicas],
        Cause::Queueing => vec![Action::RunMoreAtOnce, Action::LowerLoadOrAddReplicas],
        Cause::Prefill => vec![Action::CachePrefixes, Action::LargerPrefillSteps],
        Cause::WaitingOrPrefill if alone(finding) => vec![Action::LookInBetween],
        Cause::WaitingOrPrefill => vec![Action::ReadServerMetrics, Action::MeasureAlone],
        Cause::HeldBack => vec![Action::LookInBetween],
        Cause::DecodeSlowsWithLoad => {
            vec![Action::RunFewerAtOnce, Action::LowerLoadOrAddReplicas]
        }
        Cause::HeadOfLine => vec![
            Action::ChunkPrefill,
            Action::SmallerPrefillSteps,
            Action::SeparateLongPrompts,
        ],
        Cause::ServerStarved if has(Known::ServerThrottled) => vec![Action::LiftQuota],
        Cause::ServerStarved => vec![Action::GiveServerCores, Action::QuietHost],
        Cause::ClientLimited => vec![Action::GiveClientCores],
        Cause::SlowReplica => vec![Action::LookAtReplica],
        Cause::PeriodicStall => vec![Action::LookForPeriodicJob],
        Cause::Step if has(Known::StallPeriod) => {
            vec![Action::LookForPeriodicJob, Action::ReadServerMetrics]
        }
        Cause::Frozen | Cause::Failing | Cause::ServerGone | Cause::Step => {
            vec![Action::LookAtServerLog]
        }
        Cause::ColdStart => vec![Action::WarmUp],
        Cause::Drift => vec![Action::MeasureLonger, Action::LookAtServerLog],
        Cause::RateLimited => vec![Action::StayBelowLimit],
        Cause::NewConnections => vec![Action::KeepConnections],
        Cause::MemoryPressure => vec![
            Action::MoreCacheMemory,
            Action::SmallerCacheFormat,
            Action::ShorterContext,
            Action::RunFewerAtOnce,
        ],
        Cause::GpuLow => vec![Action::RunMoreAtOnce],
        Cause::GpuSaturated => vec![Action::AddGpus],
        Cause::GpuThrottled => vec![Action::CoolGpu],
        Cause::SlowRequests if is_unnamed(finding) => vec![Action::CompareSlowRequests],
        Cause::SlowRequests => vec![Action::LookAtServerLog],
        Cause::DecodeInterrupted => vec![Action::ChunkPrefill, Action::SmallerPrefillSteps],
        // What is thrown out of the cache and taken up again stands still by itself: the server's metrics tell.
        Cause::Pauses if has(Known::StallLength) => {
            vec![Action::ReadServerMetrics, Action::LookAtServerLog]
        }
        Cause::Pauses => vec![Action::LookForPeriodicJob, Action::LookAtServerLog],
        Cause::PrefixCache | Cause::Healthy => Vec::new(),
    }
}

/// What to try for a finding on this server, without the switches that it says are on.
pub(crate) fn of(finding: &Finding, server: &ServerRecord) -> Vec<Advice> {
    let kind = server.kind.as_deref();
    let is_on = |parameter: &String| {
        let told = server.facts.get(&as_key(parameter));
        told.is_some_and(|value| value.eq_ignore_ascii_case("true"))
    };
    let advice = actions(finding).into_iter().map(|action| Advice {
        action,
        parameter: own_name(action.as_str(), kind),
    });
    advice
        .filter(|advice| !advice.parameter.as_ref().is_some_and(is_on))
        .collect()
}

/// Whether one action undoes what the other does.
pub(crate) fn are_opposite(a: Action, b: Action) -> bool {
    let pairs = [
        (Action::RunMoreAtOnce, Action::RunFewerAtOnce),
        (Action::LargerPrefillSteps, Action::SmallerPrefillSteps),
    ];
    pairs.contains(&(a, b)) || pairs.contains(&(b, a))
}

/// `--max-num-seqs` as servers call it among their settings: `max_num_seqs`.
fn as_key(parameter: &str) -> String {
    parameter.trim_start_matches('-').replace('-', "_")
}

/// How to measure what a parameter does: what to write into the command of `--server`, and the `--vary` that goes with it. `None` of a parameter that no command
/// line has.
///
/// How many requests run at once is varied from what the finding saw: below that where fewer are to run, above it where more are.
pub fn how_to_vary(advice: &Advice, finding: &Finding) -> Option<(String, String)> {
    let parameter = advice.parameter.as_deref()?;
    let usual = row(parameter)?.next()?;
    let seen = at_once(finding).and_then(|n| around(advice.action, n));
    let values = seen.as_deref().unwrap_or(usual);
    let name = as_key(parameter);
    Some(match (values, parameter.starts_with("--")) {
        ("switch", _) => (
            format!("{{{name}}}"),
            format!("--vary '{name}=,{parameter}'"),
        ),
        (values, true) => (
            format!("{parameter} {{{name}}}"),
            format!("--vary {name}={values}"),
        ),
        // the parameters of bench-engine are keys of its configuration
        (values, false) => (
            format!("--set engine.scheduler.{name}={{{name}}}"),
            format!("--vary {name}={values}"),
        ),
    })
}

/// How many requests ran at once.
fn at_once(finding: &Finding) -> Option<f64> {
    let figure = |known: Known| finding.figure(&known.into());
    figure(Known::Running).or_else(|| figure(Known::InFlight))
}

/// Limits of so many at once that would show what the action does; none of too few.
fn around(action: Action, at_once: f64) -> Option<String> {
    const FEWEST: u64 = 4;
    let n = bench_schema::whole(at_once.ceil());
    let values = match action {
        Action::RunFewerAtOnce => [n / 4, n / 2, n],
        Action::RunMoreAtOnce => [n, 2 * n, 4 * n],
        _ => return None,
    };
    let values = values.map(|n| n.to_string()).join(",");
    (n >= FEWEST).then_some(values)
}

/// Whether slow requests have nothing in common that was told.
pub(crate) fn is_unnamed(finding: &Finding) -> bool {
    let told = [
        Known::SlowReplaced,
        Known::SlowFromTokens,
        Known::SlowAfterIdle,
        Known::LateShare,
    ]
    .map(Known::into);
    let named = |e: &Evidence| {
        told.contains(&e.figure) || e.of.is_some() && e.figure == Known::SlowShare.into()
    };
    !finding.evidence.iter().any(named)
}

/// Whether requests were sent one at a time, so that they did not wait for each other.
fn alone(finding: &Finding) -> bool {
    let mut excluded = finding.ruled_out.iter();
    excluded.any(|other| other.cause == Cause::Queueing)
}

/// The switch that turns a server's prefix cache off, in its own words; vLLM's where the kind is not known.
pub(crate) fn without_prefix_cache(kind: Option<&str>) -> String {
    let vllm = || own_name("no_prefix_cache", Some("vllm")).unwrap_or_default();
    own_name("no_prefix_cache", kind).unwrap_or_else(|| format!("vLLM: {}", vllm()))
}

#[cfg(test)]
#[path = "../tests/unit/advice.rs"]
mod tests;
