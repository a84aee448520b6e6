//! The words of findings: one place for the terminal, Markdown and HTML. A finding is data; what it says is said here.

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
    let said = match &finding.code {
        Code::Cause(cause) => of_cause(*cause, finding),
        Code::Answer(answer) => of_answer(*answer, finding),
        Code::Fact(fact) => of_fact(*fact, finding),
        Code::Other(_) => None,
    };
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
    let times = Figure::from(Known::SlowDown);
    let ratios = [
        times,
        Known::ReplicaRatio.into(),
        Known::BesideLong.into(),
        Known::SlowRatio.into(),
        Known::TailRatio.into(),
        Known::ScalingFactor.into(),
    ];
    if evidence.figure == Known::LevelBefore.into() || evidence.figure == Known::LevelAfter.into() {
        return match evidence.unit {
            Unit::Ratio => format!("{}×", number::short(evidence.value)),
            unit => value(evidence.value, unit),
        };
    }
    if ratios.contains(&evidence.figure) {
        return format!("{}×", number::short(evidence.value));
    }
    value(evidence.value, evidence.unit)
}

/// The numbers of a finding by name.
struct Numbers<'a>(&'a Finding);

impl Numbers<'_> {
    fn evidence(&self, figure: Known) -> Option<&Evidence> {
        let figure = figure.into();
        self.0.evidence.iter().find(|e| e.figure == figure)
    }

    fn all(&self, figure: Known) -> Vec<&Evidence> {
        let figure = figure.into();
        let own = self.0.evidence.iter().filter(|e| e.figure == figure);
        own.collect()
    }

    fn said(&self, figure: Known) -> Option<String> {
        self.evidence(figure).map(amount)
    }

    /// The words, where the number is there.
    fn and(&self, figure: Known, words: impl Fn(&str) -> String) -> String {
        self.said(figure).map_or_else(String::new, |it| words(&it))
    }

    fn of(&self, figure: Known) -> Option<String> {
        let name = self.evidence(figure)?.of.as_deref()?;
        Some(text::shortened(name, 60))
    }

    /// `75.0 to 83.0 %`.
    fn span(&self, figure: Known) -> Option<String> {
        let mut all = self.all(figure);
        all.sort_by(|a, b| a.value.total_cmp(&b.value));
        let (low, high) = (amount(all.first()?), amount(all.last()?));
        Some(if low == high {
            low
        } else {
            format!("{low} to {high}")
        })
    }
}

/// ` in c8`, ` in 3 cells`.
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
fn of_cause(cause: Cause, finding: &Finding) -> Option<String> {
    let n = Numbers(finding);
    let place = place(finding);
    let at = n.and(Known::At, |at| format!(" {at} after the first request"));
    Some(match cause {
        Cause::Overload => format!(
            "overload{place}: {} served of {} offered, so the queue grows for as long as it lasts",
            n.said(Known::ServedRate)?,
            n.said(Known::OfferedRate)?
        ),
        Cause::Queueing => {
            let how = n
                .said(Known::QueueShare)
                .map(|share| format!("{share} of E2E is waiting"))
                .or_else(|| {
                    let running = n.said(Known::Running)?;
                    let waiting = n.said(Known::Waiting)?;
                    Some(format!("{waiting} wait while {running} run"))
                })
                .or_else(|| {
                    let (now, alone) = (n.said(Known::Ttft)?, n.said(Known::QuietTtft)?);
                    Some(format!(
                        "TTFT is {now}, of the same prompts without load {alone}"
                    ))
                })?;
            let times = n.and(Known::QueueTimeP50, |queue| {
                n.and(Known::GenerationTimeP50, |rest| {
                    format!(", {queue} in the queue and {rest} generating at the median")
                })
            });
            format!("requests wait in the server{place}: {how}{times}")
        }
        Cause::Prefill => format!(
            "prompts take long to process{place}: {} of E2E{}",
            n.said(Known::PrefillShare)?,
            n.and(Known::TtftPerToken, |each| format!(
                ", {each} for each prompt token"
            ))
        ),
        Cause::WaitingOrPrefill => format!(
            "waiting or prefill, nothing here tells which{place}: {} of E2E passes before the first token",
            n.said(Known::TtftShare)?
        ),
        Cause::DecodeSlowsWithLoad => format!(
            "decoding slows with load{place}: {} a token, {} at low load",
            n.said(Known::Tpot)?,
            n.said(Known::QuietTpot)?
        ),
        Cause::HeadOfLine => format!(
            "short requests are held up by long prompts{place}: {} long prompts, TTFT of short ones beside them {}",
            n.said(Known::LongPrompts)?,
            n.said(Known::BesideLong)?
        ),
        Cause::ServerStarved => {
            let how = n
                .said(Known::ServerThrottled)
                .map(|share| format!("a quota held it back {share} of the time"))
                .or_else(|| {
                    let waits = n.said(Known::ServerRunQueue)?;
                    Some(format!(
                        "its threads waited {waits} s for a CPU each second"
                    ))
                })
                .or_else(|| {
                    let share = n.said(Known::HostSteal)?;
                    Some(format!("the hypervisor took {share} of the CPUs"))
                })
                .or_else(|| Some(format!("its CPUs are {} used", n.said(Known::HostCpu)?)))?;
            format!("the server is kept from its CPU{place}: {how}")
        }
        Cause::ClientLimited => {
            let numbers: Vec<String> = finding.evidence.iter().take(2).map(evidence).collect();
            format!("the client limits what is measured: {}", numbers.join("; "))
        }
        Cause::SlowReplica => format!(
            "one endpoint is slower than the others{place}: {} takes {} their time for the same lengths",
            n.of(Known::ReplicaRatio)?,
            n.said(Known::ReplicaRatio)?
        ),
        Cause::PeriodicStall => format!(
            "all streams stop together every {} for {}{place}",
            n.said(Known::StallPeriod)?,
            n.said(Known::StallLength)?
        ),
        Cause::Frozen => format!(
            "all streams stood still for {}{at}{place}",
            n.said(Known::StallLength)?
        ),
        Cause::SlowRequests => format!(
            "{} of the requests take {} the time of the quickest quarter{place}, at the same lengths; nothing that was measured tells why",
            n.said(Known::SlowShare)?,
            n.said(Known::SlowRatio)?
        ),
        Cause::DecodeInterrupted => format!(
            "prompts of others interrupt the answers{place}: {} of the users' time is pauses, {} of that beside a prompt in progress",
            n.said(Known::PauseShare)?,
            n.said(Known::PausePrompts)?
        ),
        Cause::Pauses => format!(
            "answers pause{place}: {} of the users' time lies in gaps of four times the usual or more; nothing that was measured tells why",
            n.said(Known::PauseShare)?
        ),
        Cause::ColdStart => format!(
            "slow at first{place}: {} the usual time until{at}",
            n.said(Known::LevelBefore)?
        ),
        Cause::Drift => format!(
            "times drift{place}: from {} to {} the usual for their lengths",
            n.said(Known::LevelBefore)?,
            n.said(Known::LevelAfter)?
        ),
        Cause::Step => format!(
            "times change at one moment{place}:{at}, from {} to {} the usual for their lengths",
            n.said(Known::LevelBefore)?,
            n.said(Known::LevelAfter)?
        ),
        Cause::RateLimited => format!(
            "the server's rate limit refuses {} of the requests{place} (HTTP 429)",
            n.said(Known::FailedShare)?
        ),
        Cause::Failing => {
            let kinds: Vec<String> = n
                .all(Known::Failed)
                .iter()
                .filter_map(|e| Some(format!("{} {}", amount(e), text::plain(e.of.as_deref()?))))
                .collect();
            format!(
                "{} of the requests fail{place}: {}",
                n.said(Known::FailedShare)?,
                kinds.join(", ")
            )
        }
        Cause::ServerGone => {
            let lasted = n.said(Known::Lasted).map_or_else(
                || "and did not come back".to_owned(),
                |t| format!("for {t}"),
            );
            format!(
                "the server was gone {lasted}{place}:{at}, {} of the requests lost",
                n.said(Known::FailedShare)?
            )
        }
        Cause::MemoryPressure => format!(
            "the KV cache is full ({}){place}{}{}",
            n.said(Known::KvCachePeak)?,
            n.and(Known::Preemptions, |n| format!(", {n} preemptions")),
            n.and(Known::Waiting, |n| format!(", {n} requests wait"))
        ),
        Cause::PrefixCache => format!(
            "the prefix cache helps{place}: TTFT {} with a known beginning, {} without",
            n.said(Known::CachedTtft)?,
            n.said(Known::Ttft)?
        ),
        Cause::GpuLow => format!(
            "throughput no longer rises although the GPU is only {} used{place}",
            n.said(Known::GpuUse)?
        ),
        Cause::GpuSaturated => format!(
            "the GPU has nothing left{place}: {} used, {} more load brought {} more throughput",
            n.said(Known::GpuUse)?,
            n.said(Known::LoadAdded)?,
            n.said(Known::ThroughputGained)?
        ),
        Cause::GpuThrottled => format!(
            "the GPU was held back by heat or power {} of the time{place}",
            n.said(Known::GpuHeldBack)?
        ),
        Cause::Healthy => {
            let throughput = n.and(Known::Throughput, |rate| format!(" with {rate}"));
            let limit = |figure, words: &str| {
                let level = n.said(figure)?;
                Some(format!("; {words} {} {level}{throughput}", n.of(figure)?))
            };
            let where_to = limit(Known::LimitLevel, "throughput stops rising at")
                .or_else(|| limit(Known::HighestLevel, "its limit was not reached up to"))
                .unwrap_or_default();
            format!("healthy: nothing was found that costs users time{where_to}")
        }
    })
}

fn of_answer(answer: Answer, finding: &Finding) -> Option<String> {
    let n = Numbers(finding);
    Some(match answer {
        Answer::SloMissed => match n.said(Known::Measured) {
            Some(measured) => format!(
                "{} is {measured} and misses {}: {} of the requests meet it",
                n.of(Known::Measured)?,
                n.said(Known::Limit)?,
                n.said(Known::Attainment)?
            ),
            None => format!(
                "{} is unbounded, because failed requests count as slower than any limit: {} of the requests stay within {}",
                n.of(Known::Limit)?,
                n.said(Known::Attainment)?,
                n.said(Known::Limit)?
            ),
        },
        Answer::SloMet => {
            let rate = n
                .evidence(Known::RequestRate)
                .map_or_else(String::new, |rate| {
                    let cell = rate.cell.as_deref().unwrap_or_default();
                    let cell = text::shortened(cell, 40);
                    format!(", at up to {} ({cell})", amount(rate))
                });
            let mut names: Vec<_> = n.all(Known::Limit).iter().map(|e| &e.of).collect();
            names.sort();
            names.dedup();
            let (s, cells) = (plural(names.len()), finding.cells.len());
            let cells = format!(" in {cells} cell{}", plural(cells));
            format!(
                "{} objective{s} met{cells}{rate}{}",
                names.len(),
                tightest(&n).map_or_else(String::new, |t| format!("; the tightest is {t}"))
            )
        }
        Answer::SloUndecided => open_objectives(&n),
        Answer::Capacity => format!(
            "{} served{}: {} requests a day if sustained",
            n.said(Known::RequestRate)?,
            place(finding),
            grouped(n.evidence(Known::RequestsPerDay)?.value)
        ),
        Answer::ScenarioMet
        | Answer::ScenarioMissed
        | Answer::ScenarioUndecided
        | Answer::Planning => return None,
    })
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
    Some(format!("{name} against {}{ends}", amount(limit)))
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

#[expect(clippy::too_many_lines, reason = "one arm for each fact")]
fn of_fact(fact: Fact, finding: &Finding) -> Option<String> {
    let n = Numbers(finding);
    Some(match fact {
        Fact::OutputLength => format!(
            "E2E grows linearly with the answer: {} per output token from {} to {}{}",
            n.said(Known::TimePerOutputToken)?,
            number::short(n.evidence(Known::FewestTokens)?.value),
            n.said(Known::MostTokens)?,
            n.and(Known::LongestWithin, |tokens| {
                n.and(Known::Limit, |limit| {
                    format!("; by that line up to {tokens} within {limit}")
                })
            })
        ),
        Fact::PromptLength => {
            let range = format!(
                "from {} to {}",
                number::short(n.evidence(Known::FewestTokens)?.value),
                n.said(Known::MostTokens)?
            );
            match n.said(Known::LatencyPenalty) {
                Some(change) => format!("over prompts {range}, E2E changes by {change}"),
                None => format!(
                    "the time before the first token grows {} over prompts {range}: {} to {}",
                    n.said(Known::SlowDown)?,
                    n.said(Known::LevelBefore)?,
                    n.said(Known::LevelAfter)?
                ),
            }
        }
        Fact::Scaling => {
            let told = n.all(Known::ScalingFactor);
            let (first, rest) = told.split_first()?;
            let level = |e: &Evidence| Some(text::plain(e.of.as_deref()?));
            let share = |of: &Option<String>| {
                let mut all = n.all(Known::Efficiency).into_iter();
                let own = all.find(|e| e.of == *of);
                own.map_or_else(String::new, |e| format!(" (efficiency {})", amount(e)))
            };
            let levels = rest
                .iter()
                .filter_map(|e| Some(format!("{} at {}{}", amount(e), level(e)?, share(&e.of))));
            let levels: Vec<String> = levels.collect();
            format!(
                "throughput over that at {}: {}",
                level(first)?,
                levels.join(", ")
            )
        }
        Fact::LoadEffects => {
            let along = |figure: Known, title: &str| {
                let all = n.all(figure);
                let (first, last) = (all.first()?, all.last()?);
                (all.len() > 1).then(|| {
                    format!(
                        "{title} p50 goes from {} to {} ({}×)",
                        amount(first),
                        amount(last),
                        number::short(last.value / first.value)
                    )
                })
            };
            let parts = [along(Known::Ttft, "TTFT"), along(Known::Itl, "ITL")];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            format!("over the load, {}", parts.join(", "))
        }
        Fact::PhaseSplit => format!(
            "decode is {} of E2E{}",
            n.span(Known::DecodeShare)?,
            [
                (Known::PrefillShare, "prefill"),
                (Known::TtftShare, "waiting or prefill"),
                (Known::QueueShare, "waiting"),
            ]
            .into_iter()
            .filter_map(|(figure, name)| Some(format!(", {name} {}", n.span(figure)?)))
            .collect::<String>()
        ),
        Fact::GpuUse => {
            let part = |figure, title: &str| Some(format!("{title} {}", n.span(figure)?));
            let parts = [
                part(Known::GpuUse, "GPU use"),
                part(Known::GpuUsePeak, "at most"),
                part(Known::GpuMemoryPeak, "its memory"),
                part(Known::KvCachePeak, "the KV cache at most"),
            ];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            parts.join(", ")
        }
        Fact::CpuUse => format!(
            "CPU use of the server's host is {}{}",
            n.span(Known::HostCpu)?,
            n.span(Known::ServerCores)
                .map_or_else(String::new, |cores| format!(
                    "; the server uses {cores} cores"
                ))
        ),
        Fact::OperatingPoint => format!(
            "the GPU is well used at {}: {}, within 80–90 %",
            n.of(Known::GpuUse)?,
            n.said(Known::GpuUse)?
        ),
        Fact::WorkloadsDiffer => {
            let rates = n.all(Known::RequestRate);
            let ends = rates.iter().map(|e| e.value);
            let (low, high) = (ends.clone().reduce(f64::min)?, ends.reduce(f64::max)?);
            let said: Vec<String> = rates
                .iter()
                .filter_map(|e| {
                    let name = text::plain(e.of.as_deref()?);
                    Some(format!("{} with {name}", amount(e)))
                })
                .collect();
            let said = said.join(", ");
            match high / low {
                ratio if ratio < 1.05 => format!("the rate is the same: {said}"),
                ratio => format!("the rate differs {}×: {said}", number::short(ratio)),
            }
        }
        Fact::Tail => format!(
            "P95 of E2E is {} its median{}: {} and {}{}",
            n.said(Known::TailRatio)?,
            place(finding),
            n.said(Known::E2eP95)?,
            n.said(Known::E2eP50)?,
            n.and(Known::LengthCov, |cov| format!(
                "; lengths of answers vary by {cov}"
            ))
        ),
        Fact::Consistency => format!(
            "equal requests differ by {} (CoV of E2E)",
            n.span(Known::Cov)?
        ),
        Fact::AllAnswered => format!(
            "every request got a whole answer: {} of them",
            n.said(Known::Completed)?
        ),
        Fact::TokensPerChunk => format!(
            "a chunk is not a token here: {} tokens per content event",
            n.said(Known::TokensPerChunk)?
        ),
        Fact::ServerDisagrees => format!(
            "client and server tell different TTFT: {} seen, {} by the server's own count",
            n.said(Known::Ttft)?,
            n.said(Known::ServerTtft)?
        ),
        Fact::RepeatsDiffer => format!(
            "repeats of one cell differ by {} (CoV of their means)",
            n.said(Known::Cov)?
        ),
    })
}

/// What was ruled out, each with the number that says so.
pub(crate) fn ruled_out(finding: &Finding) -> Vec<String> {
    finding
        .ruled_out
        .iter()
        .map(|out| format!("{}: {}", cause_name(out.cause), evidence(&out.by)))
        .collect()
}

/// What follows from it.
pub(crate) fn consequences(finding: &Finding) -> Vec<&'static str> {
    finding
        .consequences
        .iter()
        .map(|cause| cause_name(*cause))
        .collect()
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
        Cause::WaitingOrPrefill => "waiting or prefill",
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
pub(crate) fn experiment(experiment: Experiment) -> &'static str {
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
        Known::Ttft => "TTFT",
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
