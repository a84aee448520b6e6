//! `gate`: an exit code for a pipeline.

use bench_insight::{GateOutcome, GateVerdict, InsightError, RegressionRule};
use bench_report::compare::terminal;
use bench_report::{Column, Table};
use serde::Serialize;

use crate::arguments::{Gate, Output};
use crate::baseline::beside;
use crate::compare::{hold, options, percent};
use crate::error::CommandError;
use crate::run_folder::{against_themselves, notes, open_group};
use crate::{Done, json};

/// The runs cannot be compared, or their numbers not believed: the gate says nothing.
const REFUSED: u8 = 3;
/// A gate was missed, or nobody can tell whether it was.
const MISSED: u8 = 4;

#[derive(Serialize)]
struct Answer<'a> {
    verdict: &'static str,
    refused: &'a [String],
    gates: &'a [GateOutcome],
}

pub(crate) fn run(arguments: &Gate) -> Result<Done, CommandError> {
    let options = options(&arguments.test)?;
    let rules = RegressionRule::list(&arguments.max_regression)?;
    let (base, new) = arguments.from.sides(&arguments.runs)?;
    let [new] = new.as_slice() else {
        return Err(CommandError::Usage(
            "a gate compares one run (or a folder of repeats) with a base; with --baseline, give only NEW"
                .to_owned(),
        ));
    };
    let (base, new) = (
        open_group(&base, arguments.reads)?,
        open_group(new, arguments.reads)?,
    );
    let mut found = hold(&base, &new, &options)?;
    if let Some(beside) = beside(&arguments.from, &base)? {
        beside.name(&mut found);
    }
    let gates = match bench_insight::gate(&found, &rules) {
        // What is missing for want of a run that can be compared is no fault of the rule.
        Err(InsightError::NotCompared { rule, problem }) => {
            found.incomparable.push(format!("{rule}: {problem}"));
            Vec::new()
        }
        gates => gates?,
    };
    if gates.is_empty() && found.incomparable.is_empty() {
        return Err(CommandError::Usage(
            "--max-regression is empty; write for example --max-regression 'e2e.p95:5%'".to_owned(),
        ));
    }
    let refused = &found.incomparable;
    let gates = unless_refused(gates, refused);
    let (verdict, code) = verdict(&gates, refused, arguments.strict);
    let output = match arguments.output {
        Output::Json => json(&Answer {
            verdict,
            refused,
            gates: &gates,
        }),
        Output::Markdown => markdown(verdict, &gates),
        Output::Table => lines(verdict, &gates, arguments.strict) + "\n" + &terminal(&found),
    };
    let mut notes = notes(base.iter().chain(&new));
    notes.extend(against_themselves(&base, &new));
    notes.extend(
        refused
            .iter()
            .map(|why| format!("the gate cannot be evaluated: {why}")),
    );
    Ok(Done {
        output,
        notes,
        code,
    })
}

/// Gates on runs that cannot be compared are not judged.
fn unless_refused(mut gates: Vec<GateOutcome>, refused: &[String]) -> Vec<GateOutcome> {
    for gate in gates.iter_mut().filter(|_| !refused.is_empty()) {
        gate.verdict = GateVerdict::NotJudged;
    }
    gates
}

/// What cannot be compared outranks everything: a gate on it says nothing. What nobody can tell is no pass.
fn verdict(gates: &[GateOutcome], refused: &[String], strict: bool) -> (&'static str, u8) {
    let any = |wanted| gates.iter().any(|gate| gate.verdict == wanted);
    if !refused.is_empty() {
        ("refused: the runs cannot be compared", REFUSED)
    } else if any(GateVerdict::Regressed) {
        ("missed", MISSED)
    } else if any(GateVerdict::CannotTell) || strict && !gates.iter().all(GateOutcome::is_certain) {
        ("cannot tell, which counts as missed", MISSED)
    } else {
        ("passed", 0)
    }
}

fn word(gate: &GateOutcome) -> &'static str {
    match gate.verdict {
        GateVerdict::Passed => "passed",
        GateVerdict::Regressed => "MISSED",
        GateVerdict::CannotTell => "cannot tell",
        GateVerdict::NotJudged => "not judged",
    }
}

fn lines(verdict: &str, gates: &[GateOutcome], strict: bool) -> String {
    let mut out = format!("gate: {verdict}\n");
    for gate in gates {
        let unsure = strict && gate.verdict == GateVerdict::Passed && !gate.is_certain();
        out += &format!(
            "  {:11}  {} {}: {} {}{}, {} allowed{}\n",
            if unsure { "cannot tell" } else { word(gate) },
            gate.cell.escape_debug(),
            gate.quantity,
            percent(gate.regression.abs()),
            if gate.regression > 0.0 {
                "worse"
            } else {
                "better"
            },
            gate.interval.map_or_else(String::new, |i| format!(
                " (worse by {} to {})",
                percent(i.low),
                percent(i.high)
            )),
            percent(gate.allowed),
            if unsure || gate.verdict == GateVerdict::CannotTell {
                needed(gate)
            } else {
                String::new()
            },
        );
    }
    out
}

/// What it takes to decide a gate that nobody can tell.
fn needed(gate: &GateOutcome) -> String {
    match gate.times_as_many() {
        Some(times) if times > 1.0 => format!(
            "; about {:.0} times as many requests are needed to decide",
            times.ceil()
        ),
        Some(_) => {
            "; not significant after correction for the number of rows: measure longer".to_owned()
        }
        None => String::new(),
    }
}

fn markdown(verdict: &str, gates: &[GateOutcome]) -> String {
    let columns = ["", "cell", "quantity"].map(Column::text).into_iter();
    let shares = ["worse by", "allowed"].map(|title| Column::number(title, ""));
    let mut table = Table::new("", columns.chain(shares).collect());
    for gate in gates {
        let shares = [gate.regression, gate.allowed].map(percent);
        let names = [word(gate), &gate.cell, &gate.quantity].map(str::to_owned);
        table.push_words(names.into_iter().chain(shares));
    }
    format!("**gate: {verdict}**\n\n{}", table.to_markdown())
}

#[cfg(test)]
#[path = "../tests/unit/gate.rs"]
mod tests;
