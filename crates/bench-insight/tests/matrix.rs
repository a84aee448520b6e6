//! Settings of a server beside each other, with known truths.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

use std::collections::BTreeMap;

use crate::load;
use crate::simulated::Noise;
use bench_insight::{
    Against, ComparisonVerdict, MeasuredSetting, ServerMatrix, SettingRow, server_matrix,
};
use bench_metrics::CompareOptions;
use bench_schema::{Interval, RunRecord, TrustVerdict};

/// Runs of settings by their values: how many times the sweep's tokens each of its rounds has.
type Measured = Vec<(BTreeMap<String, String>, Vec<f64>)>;

fn setting(n: &str, tp: &str, factors: &[f64]) -> (BTreeMap<String, String>, Vec<f64>) {
    let values = [("n", n), ("tp", tp)].map(|(k, v)| (k.to_owned(), v.to_owned()));
    (values.into(), factors.to_vec())
}

/// The sweep with this many times the tokens, known to ± 1 %.
fn sweep(base: &RunRecord, factor: f64) -> RunRecord {
    let mut run = base.clone();
    for cell in &mut run.cells {
        cell.windows.steady = None;
        let rates = cell.windows.whole.as_mut().unwrap();
        rates.output_tokens_per_s = rates.output_tokens_per_s.map(|rate| rate * factor);
        rates.output_tokens_per_s_interval = rates.output_tokens_per_s.map(|rate| Interval {
            low: rate * 0.99,
            high: rate * 1.01,
            confidence: 0.95,
        });
    }
    run
}

fn matrix_of(measured: &Measured, change: impl Fn(&mut RunRecord, usize)) -> ServerMatrix {
    with(measured, change, &CompareOptions::default())
}

fn with(
    measured: &Measured,
    change: impl Fn(&mut RunRecord, usize),
    options: &CompareOptions,
) -> ServerMatrix {
    let base = load::run("concurrency-sweep");
    let runs: Vec<Vec<RunRecord>> = measured
        .iter()
        .enumerate()
        .map(|(place, (_, factors))| {
            let mut runs: Vec<_> = factors.iter().map(|factor| sweep(&base, *factor)).collect();
            for run in &mut runs {
                change(run, place);
            }
            runs
        })
        .collect();
    let settings = measured
        .iter()
        .zip(&runs)
        .map(|((values, _), runs)| MeasuredSetting {
            values: values.clone(),
            runs: (0_u32..).zip(runs).collect(),
            failures: Vec::new(),
        });
    let settings: Vec<_> = settings.collect();
    server_matrix(&settings, options).unwrap()
}

fn verdicts(matrix: &ServerMatrix) -> Vec<Option<ComparisonVerdict>> {
    let rows = matrix.settings.iter();
    rows.map(|row| row.against_best.map(|held| held.verdict))
        .collect()
}

#[test]
fn the_best_setting_and_what_each_parameter_does_are_found_through_a_drift() {
    // every round is slower than the one before, for all settings alike
    let drift = |factor: f64| [1.0, 0.9, 0.8, 0.7, 0.6].map(|round| round * factor);
    let noise = |round: [f64; 5], by: [f64; 5]| {
        let both = round.into_iter().zip(by);
        both.map(|(a, b)| a * b).collect::<Vec<_>>()
    };
    let measured = vec![
        setting(
            "8",
            "1",
            &noise(drift(1.0), [1.0, 1.001, 0.999, 1.0, 1.002]),
        ),
        setting("8", "2", &noise(drift(1.5), [1.001, 1.0, 1.0, 0.998, 1.0])),
        setting("16", "1", &noise(drift(1.2), [1.0, 0.999, 1.0, 1.001, 1.0])),
        setting("16", "2", &noise(drift(1.8), [0.999, 1.0, 1.001, 1.0, 1.0])),
    ];
    let found = matrix_of(&measured, |_, _| {});
    assert_eq!(found.best, Some(3));
    let worse = Some(ComparisonVerdict::Worse);
    assert_eq!(verdicts(&found), [worse, worse, worse, None]);
    assert!(
        found
            .summary()
            .contains("n=16, tp=2 has the best output tokens/s")
    );
    let effects: Vec<_> = found
        .effects
        .iter()
        .map(|effect| {
            let i = effect.change.interval.unwrap();
            assert!(i.high - i.low < 0.01, "the drift cancels: {i:?}");
            assert_eq!(effect.change.verdict, ComparisonVerdict::Better);
            (
                effect.parameter.as_str(),
                effect.pairs,
                (effect.change.relative * 100.0).round(),
            )
        })
        .collect();
    assert_eq!(effects, [("n", 10, 20.0), ("tp", 10, 50.0)]);
}

#[test]
fn single_runs_are_held_by_their_own_intervals_and_alike_ones_are_not_told_apart() {
    let measured = vec![
        setting("8", "1", &[1.0]),
        setting("16", "1", &[1.001]),
        setting("32", "1", &[0.5]),
    ];
    let found = matrix_of(&measured, |_, _| {});
    assert_eq!(found.best, Some(1));
    let [alike, best, half] = verdicts(&found)[..] else {
        unreachable!("three settings");
    };
    assert_ne!(alike, Some(ComparisonVerdict::Worse));
    assert_eq!((best, half), (None, Some(ComparisonVerdict::Worse)));
    assert!(
        found
            .summary()
            .contains("not significantly better than n=8, tp=1"),
        "{}",
        found.summary()
    );
}

#[test]
fn two_pairs_that_agree_are_judged_by_their_own_intervals_as_settings_are() {
    let measured = vec![
        setting("3", "1", &[1.0]),
        setting("3", "2", &[1.0]),
        setting("6", "1", &[2.0]),
        setting("6", "2", &[2.0]),
    ];
    let found = matrix_of(&measured, |_, _| {});
    let effect = |parameter: &str| {
        let mut all = found.effects.iter();
        all.find(|effect| effect.parameter == parameter)
            .unwrap()
            .change
    };
    assert_eq!(
        effect("n").verdict,
        ComparisonVerdict::Better,
        "{:?}",
        effect("n")
    );
    let interval = effect("n").interval.unwrap();
    assert!(interval.low > 0.9 && interval.high < 1.1, "{interval:?}");
    assert_ne!(effect("tp").verdict, ComparisonVerdict::Better);
}

#[test]
fn the_effect_of_a_single_parameter_is_judged_as_its_settings_are() {
    let mut worse = 0;
    for seed in 0..200 {
        let mut noise = Noise(seed);
        let mut rounds = || [(); 5].map(|()| 1.0 + 0.05 * noise.normal());
        let values = ["1", "2", "4", "8", "16", "32"];
        let measured = values.map(|n| setting(n, "1", &rounds())).to_vec();
        let found = matrix_of(&measured, |_, _| {});
        let best = found.best.unwrap();
        let row = found.settings[0].against_best.map(|held| held.verdict);
        let to = &found.settings[best].values["n"];
        let effect = found.effects.iter().find(|effect| effect.to == *to);
        let is = |verdict: Option<ComparisonVerdict>, of| verdict == Some(of);
        let effect = effect.map(|effect| effect.change.verdict);
        assert_eq!(
            is(row, ComparisonVerdict::Worse),
            is(effect, ComparisonVerdict::Better),
            "{seed}"
        );
        worse += u32::from(is(row, ComparisonVerdict::Worse));
    }
    assert!(worse <= 10, "{worse} of 200 equal ones");
}

#[test]
fn what_is_not_believed_is_shown_and_never_best() {
    let measured = vec![setting("8", "1", &[1.0]), setting("16", "1", &[9.0])];
    let untrusted = |run: &mut RunRecord, place| {
        if place == 1 {
            run.trust.verdict = TrustVerdict::Untrusted;
        }
    };
    let found = matrix_of(&measured, untrusted);
    assert_eq!(found.best, Some(0));
    assert!(found.settings[1].value.is_some());
    assert_eq!(found.settings[1].trust, TrustVerdict::Untrusted);
    let said = found.summary();
    assert!(said.ends_with("no other setting can be compared with it; n=16, tp=1 measured better, but untrusted: measure again"), "{said}");
}

#[test]
fn settings_that_never_started_have_a_reason_and_no_figure() {
    let run = load::run("concurrency-sweep");
    let (values, _) = setting("8", "1", &[]);
    let (others, _) = setting("16", "1", &[]);
    let failed = MeasuredSetting {
        values: others,
        runs: Vec::new(),
        failures: vec!["out of memory".to_owned()],
    };
    let options = CompareOptions::default();
    assert_eq!(server_matrix(std::slice::from_ref(&failed), &options), None);
    let measured = MeasuredSetting {
        values,
        runs: vec![(0, &run)],
        failures: Vec::new(),
    };
    let found = server_matrix(&[failed, measured], &options).unwrap();
    assert_eq!((found.best, found.settings[0].value), (Some(1), None));
    assert_eq!(found.settings[0].failures, ["out of memory"]);
    assert!(
        found.effects.is_empty(),
        "there is nothing to hold it against"
    );
}

/// Six settings that are all the same, four rounds, 1 % of noise from start to start: none is better than another.
#[test]
fn alike_settings_are_rarely_told_apart() {
    let mut noise = Noise(22);
    let trials = 300;
    let (mut told, mut effects) = (0, 0);
    for _ in 0..trials {
        let mut rounds = || -> Vec<f64> { (0..4).map(|_| (0.01 * noise.normal()).exp()).collect() };
        let mut measured = Measured::new();
        for n in ["8", "16", "32"] {
            for tp in ["1", "2"] {
                measured.push(setting(n, tp, &rounds()));
            }
        }
        // every difference matters
        let options = CompareOptions {
            margin: 0.0,
            ..CompareOptions::default()
        };
        let found = with(&measured, |run, _| run.cells.truncate(1), &options);
        let certain = |held: &Against| {
            matches!(
                held.verdict,
                ComparisonVerdict::Better | ComparisonVerdict::Worse
            )
        };
        let against = |row: &SettingRow| row.against_best.as_ref().is_some_and(certain);
        told += u32::from(found.settings.iter().any(against));
        effects += u32::from(found.effects.iter().any(|effect| certain(&effect.change)));
    }
    println!("{told} settings and {effects} effects told apart of {trials} alike");
    // 5 %, and what chance adds to 300 trials
    assert!(told <= 25 && effects <= 25, "{told}, {effects} of {trials}");
}

#[test]
fn the_interval_of_two_runs_that_differ_much_has_no_negative_rates() {
    let one = setting("8", "1", &[1.0, 1.2]);
    let other = setting("16", "1", &[2.0, 2.1]);
    let matrix = matrix_of(&vec![one, other], |_, _| {});
    let row = matrix.settings.iter().find(|row| row.values["n"] == "8");
    let interval = row.unwrap().interval.unwrap();
    assert!(interval.low >= 0.0 && interval.high > 0.0, "{interval:?}");
}
