//! The words of findings: one place for the terminal, Markdown and HTML. A finding is data; what it says is said here.

use std::collections::BTreeSet;

use bench_schema::{
    Action, Advice, Answer, Cause, Code, Evidence, Experiment, Fact, Figure, Finding, Known, Unit,
};

use crate::number;
use crate::tables::{scale_of, significant};
use crate::text;

/// What was found, as one sentence without a full stop.
pub fn headline(finding: &Finding) -> String {
    if let Some(message) = &finding.message {
        return text::plain(message);
    }
    let said = computed(finding).or_else(|| {
        let sentence = match &finding.code {
            Code::Cause(cause) => of_cause(*cause),
            Code::Answer(answer) => of_answer(*answer),
            Code::Fact(fact) => of_fact(*fact),
            Code::Other(_) => "",
        };
        Numbers(finding)
            .filled(sentence)
            .filter(|said| !said.is_empty())
    });
    // Without the numbers that its sentence needs, its name and the numbers that there are.
    said.unwrap_or_else(|| {
        let numbers: Vec<String> = finding.evidence.iter().take(4).map(evidence).collect();
        let name = text::plain(&finding.code.as_str().replace('_', " "));
        format!("{name}: {}", numbers.join("; "))
    })
}

/// What it is, for a label.
pub(crate) fn kind(finding: &Finding) -> &'static str {
    match finding.code {
        Code::Cause(Cause::Healthy) => "Healthy",
        Code::Cause(_) => "Cause",
        Code::Answer(_) => "Answer",
        Code::Fact(_) | Code::Other(_) => "Fact",
    }
}

/// A number in its unit: `12.3 ms`, `85.5 %`.
fn value(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ns => number::duration(value),
        Unit::Ratio => format!("{} %", number::percent(value)),
        Unit::Count if value.fract().abs() < f64::MIN_POSITIVE => significant(value),
        Unit::Count => number::short(value),
        Unit::TokensPerS => format!("{} tokens/s", number::short(value)),
        Unit::RequestsPerS => format!("{} requests/s", number::short(value)),
        unit => {
            let (scale, unit) = scale_of(unit);
            format!("{} {unit}", number::short(value / scale))
        }
    }
}

/// `TTFT 12.3 ms (c8)`.
pub(crate) fn evidence(evidence: &Evidence) -> String {
    if let (true, Some(rule)) = (evidence.figure == Known::ClientOther.into(), &evidence.of) {
        // One of the rules of trust, and what it measured.
        let cell = evidence.cell.as_deref().map_or_else(String::new, |cell| {
            format!(" in {}", text::shortened(cell, 40))
        });
        let rule = text::shortened(&rule.replace('_', " "), 40);
        return format!("{rule}{cell}: {}", amount(evidence));
    }
    let of = [&evidence.of, &evidence.cell];
    let of: Vec<String> = of
        .into_iter()
        .flatten()
        .map(|name| text::shortened(name, 40))
        .collect();
    let behind = if of.is_empty() {
        String::new()
    } else {
        format!(" ({})", of.join(", "))
    };
    format!("{} {}{behind}", name(&evidence.figure), amount(evidence))
}

/// The number alone, in its unit.
pub(crate) fn amount(evidence: &Evidence) -> String {
    let level = [Known::LevelBefore, Known::LevelAfter];
    let ratios = [
        Known::SlowDown,
        Known::ReplicaRatio,
        Known::BesideLong,
        Known::SlowRatio,
        Known::TailRatio,
        Known::ScalingFactor,
    ];
    if let Figure::Known(figure) = &evidence.figure
        && (ratios.contains(figure) || level.contains(figure) && evidence.unit == Unit::Ratio)
    {
        return format!("{}×", number::short(evidence.value));
    }
    value(evidence.value, evidence.unit)
}

/// The numbers of a finding by name.
struct Numbers<'a>(&'a Finding);

impl<'a> Numbers<'a> {
    fn all(&self, figure: Known) -> Vec<&'a Evidence> {
        let figure = figure.into();
        let own = self.0.evidence.iter().filter(|e| e.figure == figure);
        own.collect()
    }

    /// What stands between braces in a sentence.
    fn named(&self, name: &str) -> Option<String> {
        let (name, how) = name.split_once('.').unwrap_or((name, ""));
        if name == "place" {
            return Some(place(self.0));
        }
        let mut all = self.all(*Known::ALL.iter().find(|known| known.as_str() == name)?);
        let first = *all.first()?;
        Some(match how {
            "of" => text::shortened(first.of.as_deref()?, 60),
            "bare" => number::short(first.value),
            "grouped" => grouped(first.value),
            "each" => {
                let each = |e: &&Evidence| {
                    Some(format!("{} {}", amount(e), text::plain(e.of.as_deref()?)))
                };
                all.iter().filter_map(each).collect::<Vec<_>>().join(", ")
            }
            "span" => {
                all.sort_by(|a, b| a.value.total_cmp(&b.value));
                match (amount(all.first()?), amount(all.last()?)) {
                    (low, high) if low == high => low,
                    (low, high) => format!("{low} to {high}"),
                }
            }
            _ => amount(first),
        })
    }

    /// A sentence with its numbers: `{served_rate}` is the first of that name, `.of` is whose it is, `.bare` and `.grouped` are without a
    /// unit, `.each` is every one with whose it is, `.span` from the least to the most; `{place}` are the cells. Brackets hold
    /// alternatives: the first that has all its numbers stands, and an empty one makes the part optional. `None` where a number is missing.
    fn filled(&self, sentence: &str) -> Option<String> {
        self.part(&mut &*sentence)
    }

    fn part(&self, rest: &mut &str) -> Option<String> {
        let mut said = Some(String::new());
        while let Some(c) = rest.chars().next().filter(|c| !matches!(c, '|' | ']')) {
            *rest = rest.get(c.len_utf8()..).unwrap_or_default();
            let next = match c {
                '{' => {
                    let (name, behind) = rest.split_once('}').unwrap_or((rest, ""));
                    *rest = behind;
                    self.named(name)
                }
                '[' => self.alternatives(rest),
                c => Some(c.to_string()),
            };
            said = said.zip(next).map(|(said, next)| said + &next);
        }
        said
    }

    fn alternatives(&self, rest: &mut &str) -> Option<String> {
        let mut found = None;
        loop {
            let next = self.part(rest);
            found = found.or(next);
            let sign = rest.chars().next();
            *rest = rest.get(1..).unwrap_or_default();
            if sign != Some('|') {
                return found;
            }
        }
    }
}

/// ` in c8`, ` in c8 and 3 more cells`.
fn place(finding: &Finding) -> String {
    match finding.cells.as_slice() {
        [] => String::new(),
        [one] => format!(" in {}", text::shortened(one, 40)),
        [first, rest @ ..] => format!(
            " in {} and {} more cell{}",
            text::shortened(first, 40),
            rest.len(),
            plural(rest.len())
        ),
    }
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

#[expect(clippy::too_many_lines, reason = "one arm for each cause")]
fn of_cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Overload => {
            "overload{place}: {served_rate} served of {offered_rate} offered, so the queue grows for as long as it lasts"
        }
        Cause::Queueing => {
            "requests wait in the server{place}: [TTFT is {ttft}, of the same prompts without load {quiet_ttft}|{queue_share} of E2E is waiting|{waiting} wait while {running} run][, {queue_time_p50} in the queue and {generation_time_p50} generating at the median|]"
        }
        Cause::Prefill => {
            "prompts take long to process{place}: {prefill_share} of E2E[, {ttft_per_token} for each prompt token|]"
        }
        Cause::WaitingOrPrefill => {
            "{ttft_share} of E2E passes before the first token{place}, in a queue, in prefill or on the way: nothing here tells which[, the server itself counts {queue_share} as waiting|]"
        }
        Cause::HeldBack => {
            "first tokens are held back on their way to the client{place}: {ttft} here, {server_ttft} by the server's own count"
        }
        Cause::DecodeSlowsWithLoad => {
            "decoding slows with load{place}: {tpot} a token, {quiet_tpot} at low load"
        }
        Cause::HeadOfLine => {
            "short requests are held up by long prompts{place}: {long_prompts} long prompts, TTFT of short ones beside them {beside_long}"
        }
        Cause::ServerStarved => {
            "the server is kept from its CPU{place}: [a quota held it back {server_throttled} of the time|its threads waited {server_run_queue} s for a CPU each second|the hypervisor took {host_steal} of the CPUs|its CPUs are {host_cpu} used]"
        }
        Cause::ClientLimited => "the client limits what is measured: ",
        Cause::SlowReplica => {
            "one endpoint is slower than the others{place}: {replica_ratio.of} takes {replica_ratio} their time for the same lengths"
        }
        Cause::PeriodicStall => {
            "all streams stop together every {stall_period} for {stall_length}{place}"
        }
        Cause::Frozen => {
            "all streams stood still[ {stalls} times, at most|] for {stall_length}[, from {at} after the first request on|]{place}"
        }
        Cause::SlowRequests => {
            "[requests of `{slow_share.of}` take {slow_ratio} the time of the quickest quarter{place}, at the same lengths: {slow_share} of all are that slow, nearly all of them its own|{slow_share} of the requests take {slow_ratio} the time of the quickest quarter{place}, at the same lengths; nothing that was measured tells why]"
        }
        Cause::DecodeInterrupted => {
            "prompts of others interrupt the answers{place}: {pause_share} of the users' time is pauses, {pause_prompts} of that beside a prompt in progress"
        }
        Cause::Pauses => {
            "answers pause{place}: {pause_share} of the users' time lies in gaps of four times the usual or more; nothing that was measured tells why"
        }
        Cause::ColdStart => {
            "slow at first{place}: {level_before} the usual time until[ {at} after the first request|]"
        }
        Cause::Drift => {
            "times drift{place}: from {level_before} to {level_after} the usual for their lengths"
        }
        Cause::Step => {
            "[times change for a while{place}: {level_after} the usual for their lengths for {lasted}, from {at} after the first request on; {level_before} before|times change {changes} times{place}, between {level_before} and {level_after} the usual for their lengths|times change at one moment{place}:[ {at} after the first request|], from {level_before} to {level_after} the usual for their lengths]"
        }
        Cause::RateLimited => {
            "the server's rate limit refuses {failed_share} of the requests{place} (HTTP 429)"
        }
        Cause::Failing => "{failed_share} of the requests fail{place}: [{failed.each}|]",
        Cause::ServerGone => {
            "the server was gone [for {lasted}|and did not come back]{place}:[ {at} after the first request|], {failed_share} of the requests lost"
        }
        Cause::MemoryPressure => {
            "the KV cache is full ({kv_cache_peak}){place}[, {preemptions} preemptions|][, {waiting} requests wait|]"
        }
        Cause::PrefixCache => {
            "the prefix cache helps{place}: TTFT {cached_ttft} with a known beginning, {ttft} without"
        }
        Cause::GpuLow => {
            "throughput no longer rises although the GPU is only {gpu_use} used{place}"
        }
        Cause::GpuSaturated => {
            "the GPU has nothing left{place}: {gpu_use} used, {load_added} more load brought {throughput_gained} more throughput"
        }
        Cause::GpuThrottled => {
            "the GPU was held back by heat or power {gpu_held_back} of the time{place}"
        }
        Cause::Healthy => {
            "healthy: nothing was found that costs users time[; throughput stops rising at {limit_level.of} {limit_level}[ with {throughput}|]|; its limit was not reached up to {highest_level.of} {highest_level}[ with {throughput}|]|]"
        }
    }
}

/// The sentences of answers and facts that are the same whatever their numbers.
fn of_answer(answer: Answer) -> &'static str {
    match answer {
        Answer::SloMissed => {
            "[{measured.of} is {measured}{place} and misses {limit}: {attainment} of the requests meet it|{limit.of} is unbounded{place}, because failed requests count as slower than any limit: {attainment} of the requests stay within {limit}]"
        }
        Answer::SloCapacity => {
            "[all objectives hold up to {level.of} {level}[, {request_rate}|]|no load is known to meet all objectives][; {missed_level.of} {missed_level} misses them|; at {undecided_level.of} {undecided_level} the data cannot tell|, the highest load that was measured]"
        }
        Answer::Capacity => {
            "{request_rate} served{place}: {requests_per_day.grouped} requests a day if sustained"
        }
        _ => "",
    }
}

fn of_fact(fact: Fact) -> &'static str {
    match fact {
        Fact::OutputLength => {
            "E2E grows linearly with the answer: {time_per_output_token} per output token from {fewest_tokens.bare} to {most_tokens}[; by that line up to {longest_within} within {limit}|]"
        }
        Fact::PromptLength => {
            "[over prompts from {fewest_tokens.bare} to {most_tokens}, E2E changes by {latency_penalty}|the time before the first token grows {slow_down} over prompts from {fewest_tokens.bare} to {most_tokens}: {level_before} to {level_after}]"
        }
        Fact::PhaseSplit => {
            "decode is {decode_share.span} of E2E[, prefill {prefill_share.span}|][, waiting or prefill {ttft_share.span}|][, waiting {queue_share.span}|]"
        }
        Fact::CpuUse => {
            "CPU use of the server's host is {host_cpu.span}[; the server uses {server_cores.span} cores|]"
        }
        Fact::OperatingPoint => "the GPU is well used at {gpu_use.of}: {gpu_use}, within 80–90 %",
        Fact::Tail => {
            "P95 of E2E is {tail_ratio} its median{place}: {e2e_p95} and {e2e_p50}[; lengths of answers vary by {length_cov}|]"
        }
        Fact::Consistency => "equal requests differ by {cov.span} (CoV of E2E)",
        Fact::AllAnswered => "every request got a whole answer: {completed} of them",
        Fact::TokensPerChunk => {
            "a chunk is not a token here: {tokens_per_chunk} tokens per content event"
        }
        Fact::ServerDisagrees => {
            "client and server tell different TTFT: {ttft} seen, {server_ttft} by the server's own count"
        }
        Fact::RepeatsDiffer => "repeats of one cell differ by {cov} (CoV of their means)",
        Fact::GpuUse | Fact::Scaling | Fact::LoadEffects | Fact::WorkloadsDiffer => "",
    }
}

/// The sentences that take more than filling in.
fn computed(finding: &Finding) -> Option<String> {
    let n = Numbers(finding);
    Some(match finding.code {
        Code::Cause(Cause::ClientLimited) => {
            let numbers: Vec<String> = finding.evidence.iter().take(2).map(evidence).collect();
            of_cause(Cause::ClientLimited).to_owned() + &numbers.join("; ")
        }
        Code::Answer(Answer::SloMet) => met(&n),
        Code::Answer(Answer::SloUndecided) => open_objectives(&n),
        Code::Fact(Fact::GpuUse) => {
            let parts = [
                "GPU use {gpu_use.span}",
                "at most {gpu_use_peak.span}",
                "its memory {gpu_memory_peak.span}",
                "the KV cache at most {kv_cache_peak.span}",
            ];
            let parts = parts.iter().filter_map(|part| n.filled(part));
            parts.collect::<Vec<_>>().join(", ")
        }
        Code::Fact(Fact::Scaling) => scaling(&n)?,
        Code::Fact(Fact::LoadEffects) => {
            let along = |(figure, title): (Known, &str)| {
                let all = n.all(figure);
                let (first, last) = (all.first()?, all.last().filter(|_| all.len() > 1)?);
                let times = number::short(last.value / first.value);
                Some(format!(
                    "{title} p50 goes from {} to {} ({times}×)",
                    amount(first),
                    amount(last)
                ))
            };
            let parts = [(Known::Ttft, "TTFT"), (Known::Itl, "ITL")];
            let parts: Vec<String> = parts.into_iter().filter_map(along).collect();
            format!("over the load, {}", parts.join(", "))
        }
        Code::Fact(Fact::WorkloadsDiffer) => {
            let rates = n.all(Known::RequestRate);
            let (low, high) = number::ends(rates.iter().map(|e| e.value))?;
            let said = rates.iter();
            let said = said.filter_map(|e| {
                Some(format!(
                    "{} with {}",
                    amount(e),
                    text::plain(e.of.as_deref()?)
                ))
            });
            let said = said.collect::<Vec<_>>().join(", ");
            match high / low {
                ratio if ratio < 1.05 => format!("the rate is the same: {said}"),
                ratio => format!("the rate differs {}×: {said}", number::short(ratio)),
            }
        }
        _ => return None,
    })
}

/// Throughput of each level over that of the first.
fn scaling(n: &Numbers<'_>) -> Option<String> {
    let told = n.all(Known::ScalingFactor);
    let (first, rest) = told.split_first()?;
    let efficiency = n.all(Known::Efficiency);
    let levels = rest.iter().filter_map(|e| {
        let share = efficiency.iter().find(|share| share.of == e.of);
        let share = share.map_or_else(String::new, |e| format!(" (efficiency {})", amount(e)));
        Some(format!(
            "{} at {}{share}",
            amount(e),
            text::plain(e.of.as_deref()?)
        ))
    });
    let levels = levels.collect::<Vec<_>>().join(", ");
    Some(format!(
        "throughput over that at {}: {levels}",
        text::plain(first.of.as_deref()?)
    ))
}

/// How many objectives hold, up to which rate, and which is nearest to its limit.
fn met(n: &Numbers<'_>) -> String {
    let rate = n.all(Known::RequestRate);
    let rate = rate.first().map_or_else(String::new, |rate| {
        let cell = text::shortened(rate.cell.as_deref().unwrap_or_default(), 40);
        format!(", at up to {} ({cell})", amount(rate))
    });
    let limits = n.all(Known::Limit);
    let names: BTreeSet<_> = limits.iter().map(|e| &e.of).collect();
    let (names, cells) = (names.len(), n.0.cells.len());
    let tightest = tightest(n).map_or_else(String::new, |t| format!("; the tightest is {t}"));
    let (s, of_cells) = (plural(names), plural(cells));
    format!("{names} objective{s} met in {cells} cell{of_cells}{rate}{tightest}")
}

/// What nobody can tell, an objective once for all its cells.
fn open_objectives(n: &Numbers<'_>) -> String {
    let mut limits: Vec<(&Evidence, usize)> = Vec::new();
    for limit in n.all(Known::Limit) {
        let same = |known: &&mut (&Evidence, usize)| {
            known.0.of == limit.of && amount(known.0) == amount(limit)
        };
        match limits.iter_mut().find(same) {
            Some(known) => known.1 += 1,
            None => limits.push((limit, 1)),
        }
    }
    let open = limits.iter().take(3);
    let open: Vec<String> = open
        .filter_map(|(limit, cells)| undecided(n, limit, *cells))
        .collect();
    let more = match limits.len().saturating_sub(open.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("the data cannot decide {}{more}", open.join(", "))
}

/// `P95 E2E against 2.00 s (1.90 s to 2.10 s; about 4 times as many requests would decide)`, or in how many cells.
fn undecided(n: &Numbers<'_>, limit: &Evidence, cells: usize) -> Option<String> {
    let name = text::plain(limit.of.as_deref()?);
    if cells > 1 {
        return Some(format!("{name} against {} in {cells} cells", amount(limit)));
    }
    let of = |figure: Known| {
        let all = n.all(figure).into_iter();
        let mut own = all.filter(|e| e.of == limit.of && e.cell == limit.cell);
        own.next().map(amount)
    };
    let times = of(Known::TimesAsMany).map_or_else(String::new, |times| {
        format!("; about {times} times as many requests would decide")
    });
    let ends = of(Known::Low)
        .zip(of(Known::High))
        .map_or_else(String::new, |(low, high)| {
            format!(" ({low} to {high}{times})")
        });
    let cell = limit.cell.as_deref().map_or_else(String::new, |cell| {
        format!(" in {}", text::shortened(cell, 40))
    });
    Some(format!("{name} against {}{cell}{ends}", amount(limit)))
}

/// The objective that is nearest to its limit.
fn tightest(n: &Numbers<'_>) -> Option<String> {
    let limits = n.all(Known::Limit);
    let measured = n.all(Known::Measured);
    let used = measured.iter().filter_map(|m| {
        let same = |l: &&&Evidence| l.of == m.of && l.cell == m.cell;
        let limit = limits.iter().find(same)?;
        Some((m, limit, m.value / limit.value))
    });
    let (m, limit, _) = used.max_by(|a, b| a.2.total_cmp(&b.2))?;
    let name = text::plain(m.of.as_deref()?);
    Some(format!("{name} with {} of {}", amount(m), amount(limit)))
}

/// `397,000`: what follows from a rate of three figures has no more.
fn grouped(x: f64) -> String {
    let digits = x.abs().max(1.0).log10().floor();
    let step = 10_f64.powf((digits - 2.0).max(0.0));
    let plain = format!("{:.0}", (x / step).round() * step);
    let mut out = String::new();
    for (i, digit) in plain.chars().enumerate() {
        if i > 0 && (plain.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// What stands under a finding besides its evidence: what follows from it, what was ruled out and by which number, what would refute it.
pub(crate) fn reasons(finding: &Finding) -> [(&'static str, String); 3] {
    let follows = finding.consequences.iter().map(|cause| cause_name(*cause));
    let ruled_out = finding.ruled_out.iter();
    let ruled_out =
        ruled_out.map(|out| format!("{}: {}", cause_name(out.cause), evidence(&out.by)));
    let refute = finding.refute.map_or("", experiment);
    [
        (
            "What follows from it",
            follows.collect::<Vec<_>>().join("; "),
        ),
        ("Ruled out", ruled_out.collect::<Vec<_>>().join("; ")),
        ("What would refute it", refute.to_owned()),
    ]
}

/// What to try, in words, with the server's own parameter.
pub fn advice(advice: &Advice) -> String {
    let what = action(advice.action);
    match &advice.parameter {
        Some(parameter) => format!("{what}: {}", text::plain(parameter)),
        None => what.to_owned(),
    }
}

/// A cause in two or three words.
pub(crate) fn cause_name(cause: Cause) -> &'static str {
    match cause {
        Cause::Overload => "overload",
        Cause::Queueing => "waiting in the server",
        Cause::Prefill => "prefill",
        Cause::WaitingOrPrefill => "time before the first token",
        Cause::HeldBack => "tokens held back on their way",
        Cause::DecodeSlowsWithLoad => "slower decoding",
        Cause::HeadOfLine => "head-of-line blocking",
        Cause::ServerStarved => "a starved server",
        Cause::ClientLimited => "a limited client",
        Cause::SlowReplica => "a slow endpoint",
        Cause::PeriodicStall => "periodic stalls",
        Cause::Frozen => "a frozen server",
        Cause::ColdStart => "a slow start",
        Cause::Drift => "drift",
        Cause::Step => "a change of level",
        Cause::RateLimited => "a rate limit",
        Cause::Failing => "failures",
        Cause::ServerGone => "a server that was gone",
        Cause::MemoryPressure => "a full cache",
        Cause::PrefixCache => "the prefix cache",
        Cause::GpuLow => "an idle GPU",
        Cause::GpuSaturated => "a full GPU",
        Cause::GpuThrottled => "a GPU held back",
        Cause::SlowRequests => "slow requests",
        Cause::DecodeInterrupted => "interrupted answers",
        Cause::Pauses => "pauses",
        Cause::Healthy => "healthy",
    }
}

fn action(action: Action) -> &'static str {
    match action {
        Action::RunMoreAtOnce => "let more requests run at once, while memory lasts",
        Action::RunFewerAtOnce => "let fewer requests run at once",
        Action::LowerLoadOrAddReplicas => "lower the load, or add replicas",
        Action::LookInBetween => {
            "look at what is in between (a proxy that buffers responses, the server's front end, the network)"
        }
        Action::ChunkPrefill => "process long prompts in pieces between the tokens of others",
        Action::SmallerPrefillSteps => "make those pieces smaller",
        Action::LargerPrefillSteps => "give prompts more room in a step",
        Action::CachePrefixes => "keep known beginnings of prompts",
        Action::MoreCacheMemory => "give the KV cache more memory",
        Action::SmallerCacheFormat => "store the KV cache in a smaller format",
        Action::ShorterContext => "limit the length of a sequence to what is needed",
        Action::MoreDevicesPerModel => "spread the model over more devices",
        Action::GiveServerCores => "give the server more cores, or cores of its own",
        Action::LiftQuota => "raise or lift the CPU quota of the server's container",
        Action::QuietHost => "stop what else runs on its host",
        Action::GiveClientCores => {
            "give the client cores or a machine of its own, or split the load between two"
        }
        Action::LookAtReplica => {
            "look at that endpoint: its hardware, its configuration, who else uses it"
        }
        Action::LookForPeriodicJob => {
            "look for a job that runs on the server now and then: garbage collection, logging, snapshots, health checks"
        }
        Action::CompareSlowRequests => {
            "look for what the slow ones have in common: a replica behind the same address, an adapter, a time of day"
        }
        Action::LookAtServerLog => "look into the server's log",
        Action::WarmUp => "warm up for longer before measuring: --warmup",
        Action::MeasureLonger => "measure for longer, to see where it ends",
        Action::StayBelowLimit => "stay below the limit, or have it raised",
        Action::ReadServerMetrics => "read the server's own queue: --server-metrics URL",
        Action::MeasureAlone => "add a cell at concurrency 1 with the same prompts",
        Action::OfferMore => "offer more load",
        Action::AddGpus => "add GPUs, or replicas on GPUs of their own",
        Action::CoolGpu => "check cooling and the power limit",
        Action::SeparateLongPrompts => "serve long prompts from replicas of their own",
    }
}

/// The measurement that would refute a finding.
fn experiment(experiment: Experiment) -> &'static str {
    match experiment {
        Experiment::LowerRate => {
            "the same at four fifths of the rate: if requests in flight grow there too, it is not the rate"
        }
        Experiment::HigherLimit => {
            "the same with a higher limit of running requests: if as many wait, the limit was not the cause"
        }
        Experiment::OneAtATime => {
            "the same prompts one at a time: if TTFT falls, it was not the prompts"
        }
        Experiment::BesideTheServer => {
            "the same from the server's own machine, past any proxy: if TTFT stays, it is the server"
        }
        Experiment::WithServerMetrics => {
            "the same with --server-metrics, or with a cell at concurrency 1"
        }
        Experiment::WithoutLongPrompts => {
            "the same without the long prompts: if short ones stay slow, it was not those"
        }
        Experiment::LowerConcurrency => {
            "the same at half the load: if the time per token stays, it is not load"
        }
        Experiment::ServerOnOwnCores => {
            "the same with cores of its own for the server: if times stay, it was not starved"
        }
        Experiment::TwoClients => {
            "the same load from two clients: if times stay, it was not the client"
        }
        Experiment::ReplicaAlone => {
            "the same requests to that endpoint alone and to another alone: if they take the same, it was the balance"
        }
        Experiment::Longer => {
            "the same for twice as long: if it does not show again, it was chance"
        }
        Experiment::LongerWarmUp => {
            "the same with a longer warm-up: if it stays, it is no slow start"
        }
        Experiment::BelowTheLimit => {
            "the same below the limit: if requests are refused there too, it is not the rate"
        }
        Experiment::AgainWithLog => {
            "the same again beside the server's log: if the times do not match, look elsewhere"
        }
        Experiment::HalfConcurrency => {
            "half the concurrency: if requests still wait, it is not memory"
        }
        Experiment::ColdCache => {
            "the same prompts with a cold cache: if they are as quick, it was not the cache"
        }
        Experiment::TwiceTheLoad => "twice the load: where times rise, a limit lies between",
        Experiment::FixedClock => {
            "the same with a lower, fixed clock: if the spread stays, it was not the clock"
        }
        Experiment::MoreLevels => {
            "levels between and beyond: if throughput rises there, the GPU was not the limit"
        }
        Experiment::MoreRequests => {
            "the same with more requests: four times as many halve the interval"
        }
    }
}

fn name(figure: &Figure) -> String {
    match figure {
        Figure::Known(known) => known_name(*known).to_owned(),
        Figure::Other(name) => text::shortened(&name.replace('_', " "), 80),
    }
}

#[expect(clippy::too_many_lines, reason = "one arm for each name")]
fn known_name(figure: Known) -> &'static str {
    match figure {
        Known::OfferedRate => "offered",
        Known::ServedRate => "served",
        Known::InFlightGrowth => "requests in flight grew by",
        Known::InFlightGrowthOverError => "that over its standard error",
        Known::QueueShare => "waiting's share of E2E",
        Known::PrefillShare => "prefill's share of E2E",
        Known::DecodeShare => "decode's share of E2E",
        Known::TtftShare => "share of E2E before the first token",
        Known::QueueTime => "mean time in the queue",
        Known::QueueTimeP50 => "queue time p50",
        Known::GenerationTimeP50 => "generation time p50",
        Known::Waiting => "requests waiting",
        Known::Running => "requests running",
        Known::InFlight => "in flight",
        Known::Ttft => "mean TTFT",
        Known::QuietTtft => "TTFT of such prompts without load",
        Known::TtftPerToken => "TTFT for each prompt token",
        Known::TtftByLength => "share of TTFT that prompt length explains",
        Known::PromptTokens => "prompt tokens",
        Known::Tpot => "time per token",
        Known::QuietTpot => "time per token at low load",
        Known::Itl => "ITL p50",
        Known::SlowDown => "slower by",
        Known::BesideLong => "TTFT of short requests beside a long prompt, over others",
        Known::LongPrompts => "long prompts",
        Known::ServerRunQueue => "seconds that the server's threads waited for a CPU, each second",
        Known::ServerThrottled => "time held back by the quota",
        Known::HostSteal => "CPU time taken by the hypervisor",
        Known::CpuPressure => "time that tasks waited for a CPU",
        Known::HostCpu => "CPU use of the host",
        Known::HostCpuPeak => "CPU use of the host at most",
        Known::ServerCores => "cores used by the server",
        Known::ClientCores => "cores used by the client",
        Known::ClientCpu => "busiest client worker's use of its core",
        Known::ClientRunQueue => "time that client workers waited for a core",
        Known::ClientLateness => "lateness p99",
        Known::ClientOffered => "offered below the requested rate",
        Known::ClientOther => "client",
        Known::ReplicaRatio => "times over the others'",
        Known::SlowShare => "share of slow requests",
        Known::SlowRatio => "their time over the quick quarter's",
        Known::SlowBeforeFirst => "of that before the first token",
        Known::PauseShare => "time in pauses",
        Known::PausePrompts => "of that beside a prompt in progress",
        Known::ReplicaShare => "share of the requests",
        Known::Stalls => "stalls",
        Known::StallPeriod => "period",
        Known::StallLength => "length",
        Known::At => "after the first request",
        Known::Lasted => "lasted",
        Known::Changes => "changes",
        Known::LevelBefore => "before",
        Known::LevelAfter => "after",
        Known::Requests => "requests",
        Known::Failed => "lost requests",
        Known::FailedShare => "their share",
        Known::Status => "HTTP status",
        Known::KvCachePeak => "KV cache at most",
        Known::Preemptions => "preemptions",
        Known::CachedShare => "prompt tokens found in the prefix cache",
        Known::CachedTtft => "TTFT with a known beginning",
        Known::GpuUse => "GPU use",
        Known::GpuUsePeak => "GPU use at most",
        Known::GpuMemoryPeak => "GPU memory at most",
        Known::GpuHeldBack => "time held back",
        Known::LoadAdded => "load added",
        Known::ThroughputGained => "throughput gained",
        Known::Level => "level",
        Known::HighestLevel => "highest level",
        Known::LimitLevel => "throughput stops rising at",
        Known::MissedLevel => "missed at",
        Known::UndecidedLevel => "cannot tell at",
        Known::Throughput => "throughput",
        Known::ScalingFactor => "throughput over the first level's",
        Known::Efficiency => "efficiency",
        Known::LatencyPenalty => "growth of E2E",
        Known::RequestRate => "rate",
        Known::E2eMean => "mean E2E",
        Known::E2eP50 => "E2E p50",
        Known::E2eP95 => "E2E p95",
        Known::TailRatio => "P95 over P50 of E2E",
        Known::Cov => "CoV",
        Known::LengthCov => "CoV of answer lengths",
        Known::TimePerOutputToken => "E2E for each output token",
        Known::FewestTokens => "fewest",
        Known::MostTokens => "most",
        Known::RSquared => "variance explained",
        Known::LogSlope => "log–log slope",
        Known::LongestWithin => "longest answer within the limit",
        Known::Limit => "limit",
        Known::Measured => "measured",
        Known::Low => "at least",
        Known::High => "at most",
        Known::TimesAsMany => "times as many requests would decide",
        Known::Attainment => "requests that met it",
        Known::IdentityResidual => "E2E − TTFT − gaps, over E2E",
        Known::Completed => "whole answers",
        Known::RequestsPerDay => "requests a day",
        Known::TokensPerChunk => "tokens per content event",
        Known::ServerTtft => "TTFT by the server",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_without_numbers_still_has_a_line() {
        for cause in Cause::ALL {
            let said = headline(&Finding::new(*cause, 0.5));
            assert!(!said.is_empty(), "{cause}");
        }
    }

    #[test]
    fn every_number_that_a_sentence_names_is_one_that_findings_have() {
        let causes = Cause::ALL.iter().map(|code| of_cause(*code));
        let answers = Answer::ALL.iter().map(|code| of_answer(*code));
        let facts = Fact::ALL.iter().map(|code| of_fact(*code));
        for sentence in causes.chain(answers).chain(facts) {
            for named in sentence.split('{').skip(1) {
                let name = named.split(['}', '.']).next().unwrap();
                let known = Known::ALL.iter().any(|known| known.as_str() == name);
                assert!(known || name == "place", "{name} in: {sentence}");
            }
            assert_eq!(sentence.matches('[').count(), sentence.matches(']').count());
        }
    }

    #[test]
    fn of_alternatives_the_first_with_all_its_numbers_stands() {
        let mut found = Finding::new(Cause::Queueing, 0.5);
        let numbers = [(Known::Waiting, 3.0), (Known::Running, 8.0)];
        let evidence = numbers.map(|(figure, n)| Evidence::new(figure.into(), n, Unit::Count));
        found.evidence.extend(evidence);
        let said = headline(&found);
        assert_eq!(said, "requests wait in the server: 3 wait while 8 run");
    }

    #[test]
    fn an_old_finding_says_what_it_said() {
        let mut old = Finding::new(Code::Other("tail_gap".to_owned()), 0.5);
        old.message = Some("P95 is 3.0× the median".to_owned());
        assert_eq!(headline(&old), "P95 is 3.0× the median");
    }

    #[test]
    fn overload_is_told_with_both_rates() {
        let mut found = Finding::new(Cause::Overload, 0.5);
        found.cells = vec!["r20".to_owned()];
        for (figure, rate) in [(Known::ServedRate, 2.84), (Known::OfferedRate, 20.0)] {
            found
                .evidence
                .push(Evidence::new(figure.into(), rate, Unit::RequestsPerS));
        }
        assert_eq!(
            headline(&found),
            "overload in r20: 2.84 requests/s served of 20 requests/s offered, so the queue grows for as long as it lasts"
        );
    }
}
