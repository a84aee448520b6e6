//! Nothing is said that the data does not carry: no finding from nothing, no NaN in any text, whatever the numbers are.

use crate::load;
use bench_insight::{analyse_run, findings, next_round};
use bench_schema::{Distribution, RunRecord};
use proptest::prelude::*;

use crate::fixtures::FIXTURES;

/// What is done to a number of a run.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Keep,
    Nan,
    Infinite,
    Zero,
    Negative,
    Huge,
    Drop,
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        4 => Just(Harm::Keep),
        1 => Just(Harm::Nan),
        1 => Just(Harm::Infinite),
        1 => Just(Harm::Zero),
        1 => Just(Harm::Negative),
        1 => Just(Harm::Huge),
        1 => Just(Harm::Drop),
    ]
}

impl Harm {
    fn to(self, x: f64) -> f64 {
        match self {
            Self::Keep | Self::Drop => x,
            Self::Nan => f64::NAN,
            Self::Infinite => f64::INFINITY,
            Self::Zero => 0.0,
            Self::Negative => -x,
            Self::Huge => x * 1e300,
        }
    }
}

fn harm_distribution(d: &mut Distribution, harm: Harm) {
    d.mean = harm.to(d.mean);
    d.cov = d.cov.map(|c| harm.to(c));
    for q in &mut d.quantiles {
        q.value = harm.to(q.value);
    }
}

/// A fixture's run with some of its numbers harmed.
fn harmed() -> impl Strategy<Value = RunRecord> {
    (0..FIXTURES.len(), proptest::collection::vec(harm(), 64)).prop_map(|(fixture, harms)| {
        let mut run = load::run(FIXTURES[fixture]);
        let mut next = harms.into_iter().cycle();
        let mut take = move || next.next().unwrap_or(Harm::Keep);
        for cell in &mut run.cells {
            cell.metrics.retain(|_, d| {
                let harm = take();
                harm_distribution(d, harm);
                !matches!(harm, Harm::Drop)
            });
            for group in &mut cell.groups {
                group.metrics.retain(|_, d| {
                    let harm = take();
                    harm_distribution(d, harm);
                    !matches!(harm, Harm::Drop)
                });
            }
            if let Some(rates) = &mut cell.windows.whole {
                rates.requests_per_s = rates.requests_per_s.map(|rate| take().to(rate));
                rates.output_tokens_per_s = rates.output_tokens_per_s.map(|x| take().to(x));
            }
            if let Some(hardware) = &mut cell.hardware {
                for resource in &mut hardware.resources {
                    resource.mean = take().to(resource.mean);
                    resource.peak = take().to(resource.peak);
                }
            }
            if let Some(phases) = &mut cell.phases {
                phases.queue = take().to(phases.queue);
                phases.prefill = take().to(phases.prefill);
                phases.decode = take().to(phases.decode);
            }
        }
        run
    })
}

/// Words that a number which is none would leave in a text.
fn is_clean(text: &str) -> bool {
    !["NaN", "inf", "-0 ", "92233720368", "9223372037"]
        .iter()
        .any(|bad| text.contains(bad))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn every_finding_of_any_data_is_sound(run in harmed()) {
        let all = findings(&run, &[]);
        for f in &all {
            prop_assert!((0.0..=1.0).contains(&f.severity), "{f:?}");
            prop_assert!(!f.evidence.is_empty(), "without a number: {f:?}");
            prop_assert!(f.evidence.iter().all(|e| e.value.is_finite()), "{f:?}");
            prop_assert!(f.cause().is_none() || f.refute.is_some(), "nothing would refute {f:?}");
            prop_assert!(f.cause().is_some() || f.advice.is_empty(), "advice without a cause: {f:?}");
        }
        let costs: Vec<f64> = all.iter().filter(|f| f.cause().is_some()).map(|f| f.severity).collect();
        prop_assert!(costs.is_sorted_by(|a, b| a >= b));
        for (i, f) in all.iter().enumerate() {
            prop_assert!(f.cause().is_none() || !all[..i].iter().any(|g| g.code == f.code));
        }
    }

    #[test]
    fn every_fit_and_row_of_any_data_is_finite(run in harmed()) {
        let analysis = analyse_run(&run, &[]);
        for fit in analysis.fits.values() {
            prop_assert!(fit.parameters.values().all(|p| p.is_finite()), "{fit:?}");
        }
        for row in &analysis.scaling {
            prop_assert!(row.value.is_finite() && row.scaling_factor.is_finite(), "{row:?}");
            prop_assert!(row.efficiency.is_none_or(f64::is_finite));
        }
        let mut run = run;
        run.findings = findings(&run, &[]);
        prop_assert!(next_round(&run).iter().all(|t| is_clean(&t.subject()) && is_clean(&t.shown(t.now))));
    }

    #[test]
    fn any_text_as_a_gate_is_read_or_refused_with_its_name(text in "[a-z0-9_.:=<>!+% ]{0,30}") {
        if let Err(problem) = bench_insight::Target::parse_all(&[&text]) {
            prop_assert!(problem.to_string().starts_with("target `"));
        }
    }
}

#[test]
fn a_run_without_cells_or_with_empty_cells_says_nothing() {
    for fixture in FIXTURES {
        let mut run = load::run(fixture);
        for cell in &mut run.cells {
            cell.counts = bench_schema::Counts::default();
            cell.metrics.clear();
            cell.groups.clear();
            cell.windows.whole = None;
            cell.phases = None;
            cell.hardware = None;
            cell.slos.clear();
        }
        assert!(
            findings(&run, &[]).is_empty(),
            "{fixture}: {:?}",
            findings(&run, &[])
        );
        run.cells.clear();
        assert!(findings(&run, &[]).is_empty());
        assert_eq!(analyse_run(&run, &[]), bench_schema::Analysis::default());
    }
}

#[test]
fn the_fixtures_themselves_are_trusted() {
    let facts = std::collections::BTreeMap::new();
    for fixture in FIXTURES {
        let run = load::run(fixture);
        let trust = bench_insight::trust(
            &bench_insight::TrustFacts::of(&run.clock, &facts),
            &run.cells,
        );
        // The CPU study has five and six requests a cell.
        let few = *fixture == "gpt2-cpu";
        let speaking = trust
            .reasons
            .iter()
            .any(|r| !(few && r.code == "few_samples"));
        assert!(!speaking, "{fixture}: {:?}", trust.reasons);
    }
}
