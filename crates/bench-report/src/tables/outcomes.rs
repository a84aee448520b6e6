//! What became of the requests, how objectives and targets came out, and what limits each cell.

use std::collections::BTreeMap;

use bench_schema::{
    Cause, CellRecord, Code, CountOf, Counts, Finding, Metric, PhaseShares, RunRecord, Slo,
    SloOutcome, SloVerdict,
};

use super::details::scale_of;
use super::{label, named, of_cells};
use crate::findings as words;
use crate::number::{percent, rounded, short};
use crate::table::{Cell, Column, Sheet, Table, Tone};
use crate::text::shortened;

/// One row for each cell, where some request of the run has no whole answer; else nothing.
pub(crate) fn counts(run: &RunRecord) -> Option<Table> {
    let mut counts = run.cells.iter().map(|cell| &cell.counts);
    counts
        .any(|counts| counts.without_answer() > 0)
        .then_some(())?;
    let mut sheet = of_cells(run);
    let planned: (&str, CountOf) = ("planned", |c| c.planned);
    let warmup: (&str, CountOf) = ("warm-up", |c| c.warmup);
    let ends = [planned].into_iter().chain(Counts::ENDS);
    for (name, of) in ends.chain([warmup]) {
        sheet = sheet.count(&name.replace('_', " "), move |cell| of(&cell.counts));
    }
    let title = "Request counts (planned = sum of the other columns, without warm-up)";
    sheet.rows(title, &run.cells)
}

/// How many requests of a cell ended without an answer, by stage and kind.
fn lost(counts: &Counts) -> impl Iterator<Item = (String, String, u64)> {
    let words = |name: &dyn ToString| name.to_string().replace('_', " ");
    let failed = counts.failures.iter();
    let failed = failed.map(move |(stage, kind, n)| (words(stage), words(kind), *n));
    let late = counts.timeouts.iter();
    failed.chain(late.map(move |(stage, n)| (words(stage), "timed out".to_owned(), *n)))
}

/// Failures and time-outs by cell, stage and kind.
pub(crate) fn failures(run: &RunRecord) -> Option<Table> {
    let rows = run.cells.iter();
    let rows = rows.flat_map(|cell| lost(&cell.counts).map(move |lost| (cell, lost)));
    Sheet::new()
        .text(
            "cell",
            |(cell, _): &(&CellRecord, (String, String, u64))| label(cell),
        )
        .text("stage", |(_, (stage, ..))| stage.clone())
        .text("kind", |(_, (_, kind, _))| kind.clone())
        .count("requests", |(.., (.., n))| *n)
        .rows("Failures by stage and kind", rows)
}

/// What went wrong over the whole run, the commonest first: how often, at which stage, how.
pub(crate) fn failure_counts(run: &RunRecord) -> Vec<(u64, String, String)> {
    let mut all: BTreeMap<(String, String), u64> = BTreeMap::new();
    for (stage, kind, n) in run.cells.iter().flat_map(|cell| lost(&cell.counts)) {
        *all.entry((stage, kind)).or_default() += n;
    }
    let all = all.into_iter().map(|((stage, kind), n)| (n, stage, kind));
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(n, ..)| std::cmp::Reverse(*n));
    all
}

/// `960 planned = 957 completed + 3 failed; plus 60 warm-up requests`, and whether that was requested precision reached.
pub(crate) fn summary_line(run: &RunRecord) -> String {
    let sum = |of: CountOf| run.cells.iter().map(|cell| of(&cell.counts)).sum::<u64>();
    let ends = Counts::ENDS.map(|(name, of)| {
        let words = name.replace("unsent", "never sent").replace('_', " ");
        (sum(of), words)
    });
    let said = ends
        .iter()
        .filter(|(n, word)| *n > 0 || word == "completed");
    let said: Vec<String> = said.map(|(n, word)| format!("{n} {word}")).collect();
    let mut line = format!("{} planned = {}", sum(|c| c.planned), said.join(" + "));
    let asides = [
        ("plus ", sum(|c| c.warmup), "warm-up requests"),
        ("", sum(|c| c.retried), "retried"),
        (
            "",
            sum(|c| c.replaced_connections),
            "closed connections replaced",
        ),
    ];
    let rates = run.cells.iter().filter_map(CellRecord::headline_rates);
    let steady: u64 = rates.filter_map(|rates| rates.requests).sum();
    let planned = sum(|c| c.planned);
    if steady < planned && run.cells.iter().any(|c| c.windows.steady.is_some()) {
        line.push_str(&format!(
            "; tables cover the {steady} requests of the steady-state window"
        ));
    }
    for (lead, n, words) in asides.into_iter().filter(|aside| aside.1 > 0) {
        line.push_str(&format!("; {lead}{n} {words}"));
    }
    if let Some(said) = precision(run) {
        line.push_str(&format!("; {said}"));
    }
    if tokens_are_unknown(run) {
        line.push_str(
            "; the server reported no usable token counts, so tokens/s and time per token are unknown: give its `--tokenizer`",
        );
    }
    line
}

/// Whether content came and nobody told how many tokens any of it was.
fn tokens_are_unknown(run: &RunRecord) -> bool {
    let known = |metric: Metric| run.cells.iter().any(|c| c.metrics.contains_key(&metric));
    let mut rates = run.cells.iter().filter_map(CellRecord::headline_rates);
    known(Metric::Ttft)
        && !known(Metric::OutputTokens)
        && !rates.any(|rates| rates.output_tokens_per_s.is_some())
}

/// How the rules of `--precision` came out: the first that was not reached, and what it would take.
fn precision(run: &RunRecord) -> Option<String> {
    let of = |cell| (label(cell), &cell.analysis.precision);
    let (missed, reached): (Vec<_>, Vec<_>) = run
        .cells
        .iter()
        .map(of)
        .flat_map(|(cell, rules)| rules.iter().map(move |rule| (cell.clone(), rule)))
        .partition(|(_, rule)| !rule.reached);
    let Some((cell, rule)) = missed.first() else {
        return (!reached.is_empty()).then(|| "requested precision reached".to_owned());
    };
    let known = rule.half_width.map(|half| format!("± {} %", percent(half)));
    let needed = rule
        .needed
        .map(|n| format!("about {} requests needed", short(rounded(n as f64))));
    let more = missed.len() - 1;
    let more = (more > 0).then(|| format!("{more} more not reached"));
    let known: Vec<String> = [known, needed, more].into_iter().flatten().collect();
    let said = format!(
        "precision {} NOT reached in {cell}",
        shortened(&rule.rule, 40)
    );
    Some(match known.as_slice() {
        [] => said,
        known => format!("{said} ({})", known.join(", ")),
    })
}

/// One row for each objective in each cell; the verdict stands first, where no screen is too narrow for it.
pub(crate) fn objectives(run: &RunRecord) -> Option<Table> {
    type Row<'a> = (&'a CellRecord, &'a str, &'a SloOutcome);
    // The stages of a search miss on purpose.
    if run.analysis.capacity.is_some() {
        return super::search::objectives(run);
    }
    let rows = run.cells.iter().flat_map(|cell| {
        let own = bench_insight::objectives_of(cell).into_iter();
        own.map(move |(whom, outcome)| (cell, whom, outcome))
    });
    let verdict = |(.., outcome): &Row<'_>| {
        Cell::text(verdict_words(outcome.verdict)).toned(match outcome.verdict {
            SloVerdict::Pass => Tone::Good,
            SloVerdict::Fail => Tone::Bad,
            SloVerdict::CannotTell => Tone::Warn,
        })
    };
    Sheet::new()
        .column(Column::text("verdict"), verdict)
        .text("objective", |(.., outcome)| objective_words(&outcome.slo))
        .text("measured", |(.., outcome)| match outcome.measured {
            Some(value) => amount(&outcome.slo, value),
            None if is_of_some(outcome) => "unbounded or missing".to_owned(),
            None if outcome.vacuous > 0 => "no request has it".to_owned(),
            None => "no matching request".to_owned(),
        })
        .text("cell", |(cell, ..)| label(cell))
        .text("applies to", |(_, whom, _)| shortened(whom, 40))
        .number(("met by", "% of planned"), |(.., outcome)| {
            is_of_some(outcome).then_some(outcome.attainment * 100.0)
        })
        .text("95 % interval", |(.., outcome)| {
            let interval = outcome.attainment_interval;
            let ends = [interval.low, interval.high].map(|end| short(end * 100.0));
            is_of_some(outcome).then(|| ends.join("–"))
        })
        .count("without the value", |(.., outcome)| {
            Some(outcome.vacuous).filter(|n| *n > 0)
        })
        .text("needed to decide", |(.., outcome)| {
            Some(match bench_insight::times_to_decide(outcome)? {
                times if times > words::FAR_TOO_FEW => {
                    format!("more than {}× the requests", words::FAR_TOO_FEW)
                }
                times => format!("{times}× the requests"),
            })
        })
        .rows("Objectives", rows)
}

/// Whether any value was held against it: of none the share lies anywhere.
fn is_of_some(outcome: &SloOutcome) -> bool {
    !bench_insight::is_unmeasured(outcome)
}

/// `9 pass, 2 FAIL, 1 cannot tell`; nothing of none.
pub(crate) fn verdict_counts(verdicts: &[SloVerdict]) -> Option<String> {
    let all = [SloVerdict::Pass, SloVerdict::Fail, SloVerdict::CannotTell];
    let count = |verdict| verdicts.iter().filter(|v| **v == verdict).count();
    let said = all
        .into_iter()
        .map(|verdict| (count(verdict), verdict_words(verdict)));
    let said = said
        .filter(|(n, _)| *n > 0)
        .map(|(n, words)| match verdicts {
            [_] => words.to_owned(),
            _ => format!("{n} {words}"),
        });
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// A value of the objective's metric.
pub(super) fn amount(slo: &Slo, value: f64) -> String {
    let (scale, unit) = scale_of(slo.metric.unit());
    format!("{} {unit}", short(value / scale))
}

/// `p95 TTFT ≤ 200 ms`.
pub(crate) fn objective_words(slo: &Slo) -> String {
    let limit = amount(slo, slo.limit);
    format!("{} {} ≤ {limit}", quantile_words(slo.q), slo.metric.title())
}

/// `p95 ≤ 2000 ms`: an objective where its metric is known, as on a chart of that metric.
pub(crate) fn limit_words(slo: &Slo) -> String {
    format!("{} ≤ {}", quantile_words(slo.q), amount(slo, slo.limit))
}

/// `p95`, `p99.9`.
pub(crate) fn quantile_words(q: f64) -> String {
    format!("p{}", (q * 1e6).round() / 1e4)
}

fn verdict_words(verdict: SloVerdict) -> &'static str {
    match verdict {
        SloVerdict::Pass => "pass",
        SloVerdict::Fail => "FAIL",
        SloVerdict::CannotTell => "cannot tell",
    }
}

/// One row for each `--target`.
pub(crate) fn targets(run: &RunRecord) -> Option<Table> {
    Sheet::new()
        .column(
            Column::text("met"),
            |target: &&bench_schema::TargetOutcome| match target.verdict {
                _ if target.met => Cell::text("yes").toned(Tone::Good),
                Some(SloVerdict::CannotTell) => Cell::text("cannot tell").toned(Tone::Warn),
                _ => Cell::text("NO").toned(Tone::Bad),
            },
        )
        .text("target", |target| shortened(&target.target, 60))
        .text("measured", |target| {
            measured_words(&target.target, target.measured)
        })
        .text("decided by", |target| {
            Some(shortened(target.cell.as_deref()?, 200))
        })
        .text("note", |target| {
            Some(shortened(target.note.as_deref()?, 200))
        })
        .rows("Targets", &run.targets)
}

/// What a target measured, in the unit that its quantity has: `ttft.p95<=200ms` is told in milliseconds.
pub fn measured_words(target: &str, value: Option<f64>) -> String {
    let Some(value) = value else {
        return "–".to_owned();
    };
    // `concurrency=1:ttft.p95<=200ms`: scope, quantity, limit.
    let quantity = target.rsplit(':').next().unwrap_or(target);
    let name = quantity.split(['<', '>', '=', '!']).next();
    let name = name.unwrap_or(quantity).trim();
    let metric = name.split('.').next().unwrap_or(name).parse::<Metric>();
    let (scale, unit) = match (metric, name) {
        (Ok(metric), _) => scale_of(metric.unit()),
        (_, "requests_per_s" | "goodput" | "goodput_per_s") => (1.0, "req/s"),
        (_, name) if name.ends_with("tokens_per_s") => (1.0, "tok/s"),
        _ if target.ends_with('%') => (0.01, "%"),
        _ => (1.0, ""),
    };
    let words = format!("{} {unit}", short(value / scale));
    words.trim_end().to_owned()
}

/// Bottleneck of each cell: its costliest cause, or that none was found, beside the phase that takes most of its time.
pub(crate) fn causes(run: &RunRecord) -> Option<Table> {
    type Row<'a> = (&'a CellRecord, [Cell; 3]);
    if run.findings.is_empty() {
        return None;
    }
    let of = |i: usize| move |(_, cost): &Row<'_>| cost.get(i).cloned().unwrap_or_default();
    let cells = run.cells.iter();
    Sheet::new()
        .column(Column::text("cell"), |(cell, _): &Row<'_>| named(run, cell))
        .column(Column::text("cause"), of(0))
        .column(Column::text("severity"), of(1))
        .text("largest phase", |(cell, _)| {
            let (name, share) = largest_phase(cell.phases.as_ref()?);
            Some(format!("{name} {} %", percent(share)))
        })
        .column(Column::text("try first"), of(2))
        .rows(
            "Bottleneck of each cell",
            cells.map(|cell| (cell, costliest(run, &cell.id))),
        )
}

/// The costliest cause of a cell: what it is, what it costs, what to try first.
pub(crate) fn costliest(run: &RunRecord, cell: &str) -> [Cell; 3] {
    let own = |finding: &&Finding| {
        let is_cause = matches!(finding.code, Code::Cause(cause) if cause != Cause::Healthy);
        is_cause && finding.cells.iter().any(|id| id == cell)
    };
    let found = run.findings.iter().filter(own);
    let Some(finding) = found.max_by(|a, b| a.severity.total_cmp(&b.severity)) else {
        return [Cell::text("none found"), Cell::default(), Cell::default()];
    };
    let advice = finding.advice.first();
    // A finding has the severity of its worst cell, which is named first.
    let is_worst = finding.cells.first().is_some_and(|id| id == cell);
    let up_to = if is_worst { "" } else { "up to " };
    [
        Cell::text(finding.cause().map_or("", words::cause_name)),
        Cell::text(format!("{up_to}{} %", percent(finding.severity))),
        advice.map_or_else(Cell::default, |advice| Cell::text(words::advice(advice))),
    ]
}

/// The phase that takes most of the time, and its share.
pub(crate) fn largest_phase(phases: &PhaseShares) -> (&'static str, f64) {
    let early = (phases.first_phase(), phases.prefill);
    let late = [early, ("decode", phases.decode)].into_iter();
    late.fold(("queue", phases.queue), |most, next| {
        if next.1 >= most.1 { next } else { most }
    })
}

#[cfg(test)]
#[path = "../../tests/unit/tables_outcomes.rs"]
mod tests;
