//! The words of findings: one place for the terminal, Markdown and HTML. A finding is data; what it says is said here.

use std::collections::BTreeSet;

use bench_schema::{
    Advice, Answer, Cause, Code, Evidence, Fact, Figure, Finding, Known, Unit, counted,
};

use crate::number;
use crate::tables::{scale_of, significant};
use crate::text;

/// Every word that findings are told with; `#` begins a remark.
const WORDS: &str = include_str!("findings.txt");

/// What stands there for a name; nothing where it has no words.
fn words(kind: &str, name: &str) -> &'static str {
    let own = |line: &'static str| {
        let named = line.strip_prefix(kind)?.strip_prefix(' ')?;
        named.strip_prefix(name)?.strip_prefix(": ")
    };
    WORDS.lines().find_map(own).unwrap_or_default()
}

/// What was found, as one sentence without a full stop.
pub fn headline(finding: &Finding) -> String {
    if let Some(message) = &finding.message {
        return text::plain(message);
    }
    let said = computed(finding).or_else(|| {
        let sentence = match &finding.code {
            Code::Other(_) => "",
            known => words("found", known.as_str()),
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

/// The same with the cells it is about, where its sentence does not tell them.
pub(crate) fn placed(finding: &Finding) -> String {
    let said = headline(finding);
    let counts = [Answer::SloMet, Answer::SloUndecided].map(Code::from);
    let told = counts.contains(&finding.code);
    let known = |cell: &String| said.contains(&text::shortened(cell, 40));
    if told || finding.cells.iter().any(known) {
        return said;
    }
    let place = place(&finding.cells);
    match said.split_once(": ") {
        // what is assumed stands last
        Some((name, value)) if finding.code == Answer::Planning.into() => {
            format!("{name}{place}: {value}")
        }
        _ => said + &place,
    }
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
        // from ten million on a stored number is a whole one, whatever it was before
        Unit::Count if value.abs() < 1e7 && value.fract().abs() < f64::MIN_POSITIVE => {
            significant(value)
        }
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
    let levels = [
        Known::Level,
        Known::HighestLevel,
        Known::LimitLevel,
        Known::MissedLevel,
        Known::UndecidedLevel,
        Known::UndecidedBelow,
    ];
    // `missed at concurrency 8 (c8)`
    let is_level = levels
        .iter()
        .any(|known| evidence.figure == (*known).into());
    let factor = evidence.of.as_ref().filter(|_| is_level);
    let amount = match factor {
        Some(factor) => format!("{} {}", text::shortened(factor, 40), amount(evidence)),
        None => amount(evidence),
    };
    let of = [
        evidence.of.as_ref().filter(|_| factor.is_none()),
        evidence.cell.as_ref(),
    ];
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
    format!("{} {amount}{behind}", name(&evidence.figure))
}

/// The number alone, in its unit.
pub(crate) fn amount(evidence: &Evidence) -> String {
    let level = [Known::LevelBefore, Known::LevelAfter];
    let ratios = [
        Known::SlowDown,
        Known::ReplicaRatio,
        Known::BesideLong,
        Known::SlowRatio,
        Known::TokensOverClient,
        Known::TailRatio,
        Known::ScalingFactor,
    ];
    if evidence.figure == Known::TimesAsMany.into() {
        return times_as_many(evidence.value);
    }
    if let Figure::Known(figure) = &evidence.figure
        && (ratios.contains(figure) || level.contains(figure) && evidence.unit == Unit::Ratio)
    {
        return format!("{}×", number::short(evidence.value));
    }
    value(evidence.value, evidence.unit)
}

/// From here on it does not matter how many times as many requests would decide something.
pub(crate) const FAR_TOO_FEW: f64 = 100.0;

/// `about 3`, `more than 100`.
fn times_as_many(times: f64) -> String {
    if times > FAR_TOO_FEW {
        return format!("more than {}", significant(FAR_TOO_FEW));
    }
    format!("about {}", value(times, Unit::Count))
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
            return Some(place(&self.0.cells));
        }
        let mut all = self.all(*Known::ALL.iter().find(|known| known.as_str() == name)?);
        let first = *all.first()?;
        // what begins with the cell needs no time
        if first.figure == Known::At.into() && first.value < 1e6 {
            return None;
        }
        Some(match how {
            "of" => text::shortened(first.of.as_deref()?, 60),
            "bare" => number::short(first.value),
            "grouped" => bench_insight::rounded(first.value),
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
                    // a share of ticks that saw none is no measurement
                    (_, high) if all.first()?.value == 0.0 => format!("up to {high}"),
                    (low, high) => format!("{low} to {high}"),
                }
            }
            _ => amount(first),
        })
    }

    /// A sentence with its numbers, written as the list of words says. `None` where a number is missing.
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
pub(crate) fn place(cells: &[String]) -> String {
    match cells {
        [] => String::new(),
        [one] => format!(" in {}", text::shortened(one, 40)),
        [first, rest @ ..] => format!(
            " in {} and {}",
            text::shortened(first, 40),
            counted(rest.len(), "more cell")
        ),
    }
}

/// The sentences that take more than filling in.
fn computed(finding: &Finding) -> Option<String> {
    let n = Numbers(finding);
    Some(match finding.code {
        Code::Cause(Cause::ClientLimited) => {
            let numbers: Vec<String> = finding.evidence.iter().take(2).map(evidence).collect();
            format!("the client limits the measurement: {}", numbers.join("; "))
        }
        Code::Answer(Answer::SloMet) => met(&n),
        Code::Answer(Answer::SloUndecided) => open_objectives(&n),
        Code::Fact(Fact::GpuUse) => {
            let parts = [
                "GPU use {gpu_use.span}",
                "peak {gpu_use_peak.span}",
                "GPU memory peak {gpu_memory_peak.span}",
                "KV cache peak {kv_cache_peak.span}",
            ];
            let parts = parts.iter().filter_map(|part| n.filled(part));
            parts.collect::<Vec<_>>().join(", ")
        }
        Code::Fact(Fact::Scaling) => scaling(&n)?,
        Code::Fact(Fact::LoadEffects) => {
            let along = |(figure, title): (Known, &str)| {
                let all = n.all(figure);
                let (first, last) = (all.first()?, all.last().filter(|_| all.len() > 1)?);
                if crate::charts::load::is_alike(last.value / first.value) {
                    return Some(format!("{title} p50 stays at {}", amount(first)));
                }
                let times = number::short(last.value / first.value);
                Some(format!(
                    "{title} p50 goes from {} to {} ({times}×)",
                    amount(first),
                    amount(last)
                ))
            };
            let parts = [(Known::Ttft, "TTFT"), (Known::Itl, "ITL")];
            let parts: Vec<String> = parts.into_iter().filter_map(along).collect();
            format!("as load rises, {}", parts.join(", "))
        }
        Code::Fact(Fact::WorkloadsDiffer) => beside(&n)?,
        _ => return None,
    })
}

/// How far rates are apart; where they are not, how long answers take.
fn beside(n: &Numbers<'_>) -> Option<String> {
    let each = |all: &[&Evidence]| {
        let said = all.iter().filter_map(|e| {
            let of = text::plain(e.of.as_deref()?);
            Some(format!("{} with {of}", amount(e)))
        });
        said.collect::<Vec<_>>().join(", ")
    };
    let (rates, latencies) = (n.all(Known::RequestRate), n.all(Known::E2eMean));
    let Some((low, high)) = number::ends(rates.iter().map(|e| e.value)) else {
        let each = each(&latencies);
        return Some(format!(
            "the request rates cannot be told apart; mean E2E is {each}"
        ));
    };
    Some(match high / low {
        ratio if ratio >= bench_insight::RATES_DIFFER => {
            format!(
                "request rates differ by a factor of {}: {}",
                number::short(ratio),
                each(&rates)
            )
        }
        _ if latencies.is_empty() => format!("the request rate is the same: {}", each(&rates)),
        _ => {
            let (rate, each) = (amount(rates.first()?), each(&latencies));
            format!("at the same request rate ({rate}), mean E2E is {each}")
        }
    })
}

/// Throughput of each level over that of the first.
fn scaling(n: &Numbers<'_>) -> Option<String> {
    let told = n.all(Known::ScalingFactor);
    let (first, rest) = told.split_first()?;
    let efficiency = n.all(Known::Efficiency);
    // of cells that differ in something else too, each group has a first level of its own
    let is_first = |e: &&&Evidence| (e.value - 1.0).abs() < 1e-9 && e.of == first.of;
    let levels = rest.iter().filter(|e| !is_first(e)).filter_map(|e| {
        let mut shares = efficiency.iter();
        let share = shares.find(|share| (&share.cell, &share.of) == (&e.cell, &e.of));
        let share = share.map_or_else(String::new, |e| format!(" (efficiency {})", amount(e)));
        let level = text::plain(e.of.as_deref()?);
        let twice = rest.iter().filter(|other| other.of == e.of).count() > 1;
        let cell = e.cell.as_deref().filter(|_| twice);
        let cell = cell.map_or_else(String::new, |cell| {
            format!(" in {}", text::shortened(cell, 40))
        });
        Some(format!("{} at {level}{cell}{share}", amount(e)))
    });
    let levels = levels.collect::<Vec<_>>().join(", ");
    Some(format!(
        "throughput relative to {}: {levels}",
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
    let (names, cells) = (counted(names, "objective"), counted(cells, "cell"));
    let without = n.all(Known::Vacuous).into_iter();
    let without = without.max_by(|a, b| a.value.total_cmp(&b.value));
    let without = without.map_or_else(String::new, |most| {
        let cell = text::shortened(most.cell.as_deref().unwrap_or_default(), 40);
        let of = text::plain(most.of.as_deref().unwrap_or_default());
        let n = counted(bench_schema::whole(most.value), "request");
        format!("; {n} of {cell} without a value count as meeting {of}")
    });
    format!("{names} met in {cells}{rate}{tightest}{without}")
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
    let more = text::and_more(limits.len(), open.len());
    format!("the data cannot decide {}{more}", open.join(", "))
}

/// `P95 E2E ≤ 2.00 s (1.90 s to 2.10 s; about 4 times as many requests needed to decide)`, or in how many cells.
fn undecided(n: &Numbers<'_>, limit: &Evidence, cells: usize) -> Option<String> {
    let name = text::plain(limit.of.as_deref()?);
    let of = |figure: Known| {
        let mut all = n.all(figure);
        all.retain(|e| e.of == limit.of && (cells > 1 || e.cell == limit.cell));
        all
    };
    let one = |figure: Known| of(figure).first().filter(|_| cells == 1).map(|e| amount(e));
    let ends = one(Known::Low).zip(one(Known::High));
    let ends = ends.map(|(low, high)| format!("{low} to {high}"));
    let mut decide = of(Known::TimesAsMany);
    decide.sort_by(|a, b| a.value.total_cmp(&b.value));
    let times = decide.first().zip(decide.last()).map(|(least, most)| {
        let span = match [least, most].map(|e| amount(e)) {
            [least, most] if least == most => most,
            [least, most] => format!("{least} to {}", most.trim_start_matches("about ")),
        };
        // where the share lies on what is asked, no number would
        let of_them = match decide.len() {
            n if n < cells => format!(" in {n} of them"),
            _ => String::new(),
        };
        format!("{span} times as many requests needed to decide{of_them}")
    });
    // where no answer has the value no share was measured
    let has_share = |v: &&Evidence| {
        n.all(Known::Attainment)
            .iter()
            .any(|a| a.of == v.of && a.cell == v.cell)
    };
    let empty = of(Known::Vacuous).iter().filter(|v| !has_share(v)).count();
    let empty = (empty > 0).then(|| match cells {
        1 => "no request has this value".to_owned(),
        _ => format!("no request of {empty} of them has this value"),
    });
    let told: Vec<String> = ends.into_iter().chain(times).chain(empty).collect();
    let told = match told.as_slice() {
        [] => String::new(),
        told => format!(" ({})", told.join("; ")),
    };
    let cell = match (cells, limit.cell.as_deref()) {
        (1, Some(cell)) => format!(" in {}", text::shortened(cell, 40)),
        (1, None) => String::new(),
        (cells, _) => format!(" in {cells} cells"),
    };
    Some(format!("{name} ≤ {}{cell}{told}", amount(limit)))
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
    Some(format!("{name}, {} of {}", amount(m), amount(limit)))
}

/// What stands under a finding besides its evidence: what follows from it, what was ruled out and by which number, what would refute it.
pub(crate) fn reasons(finding: &Finding) -> [(&'static str, String); 3] {
    let follows = finding.consequences.iter().copied().map(cause_name);
    let ruled_out = finding.ruled_out.iter();
    let ruled_out =
        ruled_out.map(|out| format!("{}: {}", cause_name(out.cause), evidence(&out.by)));
    let refute = finding
        .refute
        .map_or("", |refute| words("refute", refute.as_str()));
    [
        ("Consequences", follows.collect::<Vec<_>>().join("; ")),
        ("Ruled out", ruled_out.collect::<Vec<_>>().join("; ")),
        ("How to check", refute.to_owned()),
    ]
}

/// A cause in two or three words.
pub(crate) fn cause_name(cause: Cause) -> &'static str {
    words("cause", cause.as_str())
}

/// What to try, in words, with the server's own parameter.
pub fn advice(advice: &Advice) -> String {
    let what = words("try", advice.action.as_str());
    match &advice.parameter {
        Some(parameter) => format!("{what}: {}", text::plain(parameter)),
        None => what.to_owned(),
    }
}

/// The same, with how to measure what the parameter does.
pub(crate) fn advice_to_measure(of: &Advice, finding: &Finding) -> String {
    match bench_insight::how_to_vary(of, finding) {
        Some((word, vary)) => {
            let what = advice(of);
            format!("{what} (to measure it: --server 'COMMAND {word}' {vary})")
        }
        None => advice(of),
    }
}

fn name(figure: &Figure) -> String {
    match figure {
        Figure::Known(known) => words("figure", known.as_str()).to_owned(),
        Figure::Other(name) => text::shortened(&name.replace('_', " "), 80),
    }
}

#[cfg(test)]
#[path = "../tests/unit/findings.rs"]
mod tests;
