//! `gate`: an exit code for a pipeline.

use bench_insight::{GateOutcome, GateVerdict, RegressionRule};
use bench_schema::TrustVerdict;
use serde::Serialize;

use crate::Done;
use crate::arguments::{Gate, Output};
use crate::baseline::beside;
use crate::compare::{hold, options, percent, text};
use crate::error::CommandError;
use crate::run_folder::{RunFolder, open_group};

/// The numbers cannot be believed, so the gate cannot tell.
const UNTRUSTED: u8 = 3;
/// A gate was missed.
const MISSED: u8 = 4;

#[derive(Serialize)]
struct Answer<'a> {
    verdict: &'static str,
    untrusted: &'a [String],
    gates: &'a [GateOutcome],
}

pub(crate) fn run(arguments: &Gate) -> Result<Done, CommandError> {
    let options = options(&arguments.test)?;
    for rule in arguments
        .max_regression
        .iter()
        .flat_map(|list| list.split(','))
    {
        if !rule.trim().is_empty() {
            RegressionRule::parse(rule.trim())?;
        }
    }
    let (base, new) = arguments.from.sides(&arguments.runs)?;
    let [new] = new.as_slice() else {
        return Err(CommandError::Usage(
            "a gate holds one run (or a folder of its repeats) against a base; with --baseline give NEW alone"
                .to_owned(),
        ));
    };
    let (base, new) = (open_group(&base)?, open_group(new)?);
    let mut found = hold(&base, &new, &options)?;
    if let Some(beside) = beside(&arguments.from, &base)? {
        beside.name(&mut found);
    }
    let gates = bench_insight::gate(&found, &arguments.max_regression)?;
    if gates.is_empty() {
        return Err(CommandError::Usage(
            "--max-regression names no gate; write --max-regression 'e2e.p95:5%'".to_owned(),
        ));
    }
    let untrusted: Vec<String> = base.iter().chain(&new).filter_map(distrust).collect();
    let (verdict, code) = verdict(&gates, &untrusted, arguments.strict);
    let output = match arguments.output {
        Output::Json => {
            let answer = Answer {
                verdict,
                untrusted: &untrusted,
                gates: &gates,
            };
            serde_json::to_string_pretty(&answer).unwrap_or_default() + "\n"
        }
        Output::Markdown => markdown(verdict, &gates),
        Output::Table => lines(verdict, &gates) + "\n" + &text(&found),
    };
    let mut notes: Vec<String> = base
        .iter()
        .chain(&new)
        .flat_map(|run| run.notes.clone())
        .collect();
    notes.extend(untrusted);
    Ok(Done {
        output,
        notes,
        code,
    })
}

fn distrust(run: &RunFolder) -> Option<String> {
    let trust = &run.record.trust;
    let worst = trust
        .reasons
        .first()
        .filter(|_| trust.verdict == TrustVerdict::Untrusted)?;
    Some(format!(
        "{} cannot be trusted ({}): {}; measure it again",
        run.path.display(),
        worst.code,
        worst.message
    ))
}

/// Doubt outranks everything: a gate on numbers that cannot be believed says nothing.
fn verdict(gates: &[GateOutcome], untrusted: &[String], strict: bool) -> (&'static str, u8) {
    let any = |wanted| gates.iter().any(|gate| gate.verdict == wanted);
    if !untrusted.is_empty() {
        ("cannot tell: untrusted", UNTRUSTED)
    } else if any(GateVerdict::Regressed) {
        ("missed", MISSED)
    } else if any(GateVerdict::CannotTell) {
        ("passed, not certain", if strict { MISSED } else { 0 })
    } else {
        ("passed", 0)
    }
}

fn word(gate: &GateOutcome) -> &'static str {
    match gate.verdict {
        GateVerdict::Passed => "passed",
        GateVerdict::Regressed => "MISSED",
        GateVerdict::CannotTell => "cannot tell",
    }
}

fn lines(verdict: &str, gates: &[GateOutcome]) -> String {
    let mut out = format!("gate: {verdict}\n");
    for gate in gates {
        out += &format!(
            "  {:11}  {} {}: {} {}, {} allowed\n",
            word(gate),
            gate.cell.escape_debug(),
            gate.quantity,
            percent(gate.regression.abs()),
            if gate.regression > 0.0 {
                "worse"
            } else {
                "better"
            },
            percent(gate.allowed),
        );
    }
    out
}

fn markdown(verdict: &str, gates: &[GateOutcome]) -> String {
    let mut out = format!(
        "**gate: {verdict}**\n\n| | cell | quantity | worse by | allowed |\n| --- | --- | --- | ---: | ---: |\n"
    );
    for gate in gates {
        out += &format!(
            "| {} | {} | {} | {} | {} |\n",
            word(gate),
            gate.cell.escape_debug().to_string().replace('|', "\\|"),
            gate.quantity,
            percent(gate.regression),
            percent(gate.allowed),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(verdicts: &[GateVerdict]) -> Vec<GateOutcome> {
        let gate = |&verdict| GateOutcome {
            rule: "e2e.p95:5%".to_owned(),
            cell: "c1".to_owned(),
            quantity: "e2e.p95".to_owned(),
            regression: 0.1,
            allowed: 0.05,
            verdict,
        };
        verdicts.iter().map(gate).collect()
    }

    #[test]
    fn a_missed_gate_is_4_unless_the_runs_cannot_be_trusted_which_is_3() {
        let regressed = gates(&[GateVerdict::Passed, GateVerdict::Regressed]);
        assert_eq!(verdict(&regressed, &[], false).1, 4);
        assert_eq!(verdict(&regressed, &["why".to_owned()], false).1, 3);
        let unsure = gates(&[GateVerdict::CannotTell]);
        assert_eq!(
            (
                verdict(&unsure, &[], false).1,
                verdict(&unsure, &[], true).1
            ),
            (0, 4)
        );
        assert_eq!(verdict(&gates(&[GateVerdict::Passed]), &[], true).1, 0);
    }
}
