//! Comparison, gates and capacity.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

use crate::load;
use crate::simulated::Noise;
use bench_insight::{
    CapacityAssumptions, CellSamples, ComparedSamples, ComparisonVerdict, GateVerdict,
    RegressionRule, RequestSample, capacity, compare, gate,
};
use bench_metrics::CompareOptions;
use bench_schema::{
    Answer, CapacityRecord, Fact, Interval, Known, Metric, Nanos, RunRecord, SearchEnd, Stamp,
};

/// The sweep, with an interval of ± 2 % on every quantile and rate.
fn sweep(title: &str) -> RunRecord {
    let mut run = load::run("concurrency-sweep");
    title.clone_into(&mut run.title);
    let around = |x: f64| Interval {
        low: x * 0.98,
        high: x * 1.02,
        confidence: 0.95,
    };
    for cell in &mut run.cells {
        for d in cell.metrics.values_mut() {
            d.quantiles
                .iter_mut()
                .for_each(|q| q.interval = Some(around(q.value)));
        }
        if let Some(rates) = &mut cell.windows.whole {
            rates.requests_per_s_interval = rates.requests_per_s.map(around);
            rates.output_tokens_per_s_interval = rates.output_tokens_per_s.map(around);
        }
    }
    run
}

fn slowed(factor: f64) -> RunRecord {
    let mut run = sweep("slowed");
    for cell in &mut run.cells {
        let e2e = cell.metrics.get_mut(&Metric::E2e).unwrap();
        for q in &mut e2e.quantiles {
            q.value *= factor;
            let i = q.interval.unwrap();
            q.interval = Some(Interval {
                low: i.low * factor,
                high: i.high * factor,
                ..i
            });
        }
    }
    run
}

fn compared(base: &RunRecord, new: &RunRecord) -> bench_insight::RunComparison {
    compare(
        &[base],
        &[new],
        ComparedSamples::default(),
        &CompareOptions::default(),
    )
    .unwrap()
}

#[test]
fn a_run_against_itself_shows_no_difference_and_one_run_a_side_is_a_caution() {
    let run = sweep("a");
    let same = compared(&run, &run);
    assert!(same.rows.len() > 20);
    assert_eq!(
        same.count(ComparisonVerdict::Better) + same.count(ComparisonVerdict::Worse),
        0
    );
    assert_eq!(
        same.count(ComparisonVerdict::NoDifferenceFound),
        same.rows.len()
    );
    assert!(
        same.cautions
            .iter()
            .any(|c| c.contains("variation between runs"))
    );
}

#[test]
fn a_slower_e2e_is_worse_and_nothing_else_is() {
    let (base, new) = (sweep("a"), slowed(1.2));
    let made = compared(&base, &new);
    let row = made.row("c8", "e2e.p95").unwrap();
    assert_eq!(row.verdict, ComparisonVerdict::Worse);
    assert!((row.relative.unwrap() - 0.2).abs() < 1e-9);
    assert!(row.detectable.is_some_and(|d| d > 0.0 && d < 0.2));
    assert!(
        made.rows
            .iter()
            .filter(|r| r.verdict == ComparisonVerdict::Worse)
            .all(|r| r.quantity.starts_with("e2e"))
    );
    // The other way round the same difference is an improvement.
    assert_eq!(
        compared(&new, &base).row("c8", "e2e.p95").unwrap().verdict,
        ComparisonVerdict::Better
    );
}

#[test]
fn many_rows_raise_the_bar_for_each() {
    let (base, new) = (sweep("a"), slowed(1.2));
    let made = compared(&base, &new);
    let mut alone_base = base.clone();
    alone_base.cells.truncate(1);
    let alone = compared(&alone_base, &new);
    let p = |c: &bench_insight::RunComparison| c.row("c1", "e2e.p50").unwrap().p;
    assert!(p(&made) >= p(&alone));
}

#[test]
fn repeats_on_both_sides_are_compared_run_by_run() {
    let jitter = |k: u32| slowed(1.0 + f64::from(k) * 0.002);
    let base: Vec<RunRecord> = (0..5).map(jitter).collect();
    let new: Vec<RunRecord> = (50..55).map(jitter).collect();
    let refs = |runs: &'_ [RunRecord]| -> Vec<RunRecord> { runs.to_vec() };
    let (base, new) = (refs(&base), refs(&new));
    let (a, b): (Vec<&RunRecord>, Vec<&RunRecord>) = (base.iter().collect(), new.iter().collect());
    let made = compare(
        &a,
        &b,
        ComparedSamples::default(),
        &CompareOptions::default(),
    )
    .unwrap();
    let row = made.row("c4", "e2e.p50").unwrap();
    assert_eq!(
        (row.verdict, row.test.as_str()),
        (ComparisonVerdict::Worse, "welch over runs")
    );
    assert!(
        !made
            .cautions
            .iter()
            .any(|c| c.contains("variation between runs"))
    );
}

#[test]
fn cells_that_one_side_lacks_are_named() {
    let (base, mut new) = (sweep("a"), sweep("b"));
    new.cells.remove(0);
    let made = compared(&base, &new);
    assert_eq!(
        (made.only_base.as_slice(), made.only_new.len()),
        (["c1".to_owned()].as_slice(), 0)
    );
}

#[test]
fn a_gate_fails_on_a_significant_regression_beyond_what_is_allowed() {
    let made = compared(&sweep("a"), &slowed(1.2));
    let verdicts = |rule: &str| -> Vec<GateVerdict> {
        gate(&made, &RegressionRule::list(&[rule]).unwrap())
            .unwrap()
            .iter()
            .map(|g| g.verdict)
            .collect()
    };
    assert!(
        verdicts("e2e.p95:5%")
            .iter()
            .all(|v| *v == GateVerdict::Regressed)
    );
    assert!(
        verdicts("e2e.p95:25%")
            .iter()
            .all(|v| *v == GateVerdict::Passed)
    );
    assert!(
        verdicts("output_tokens_per_s:0%")
            .iter()
            .all(|v| *v == GateVerdict::Passed)
    );
}

#[test]
fn a_gate_that_checks_nothing_is_refused() {
    let made = compared(&sweep("a"), &sweep("b"));
    for (rule, hint) in [
        ("ttfa.p95:5%", "e2e.p95"),
        ("e2e.p95", "e2e.p95:5%"),
        ("e2e.p95:5", "no `%`"),
        (":5%", "missing"),
    ] {
        let gates = RegressionRule::list(&[rule]).and_then(|rules| gate(&made, &rules));
        let problem = gates.unwrap_err().to_string();
        assert!(problem.contains(hint), "{problem}");
    }
}

#[test]
fn a_comparison_survives_being_stored() {
    let made = compared(&sweep("a"), &slowed(1.2));
    let text = serde_json::to_string(&made).unwrap();
    let read: bench_insight::RunComparison = serde_json::from_str(&text).unwrap();
    let told = |c: &bench_insight::RunComparison| -> Vec<_> {
        c.rows
            .iter()
            .map(|r| (r.cell.clone(), r.quantity.clone(), r.verdict))
            .collect()
    };
    assert_eq!(told(&read), told(&made));
    assert_eq!(read.summary(), made.summary());
}

#[test]
fn week_2_capacity_in_days_users_replicas_and_money() {
    // 4.6 requests/s, 949 tokens/s; the document wants 20 requests/s.
    let mut run = load::run("week2-production");
    let mut cell = run.cells.remove(1);
    let mut other = load::run("week2-lengths").cells.remove(0);
    cell.metrics.append(&mut other.metrics);
    let rates = cell.windows.whole.as_mut().unwrap();
    rates.requests_per_s_interval = Some(Interval {
        low: 4.2,
        high: 5.0,
        confidence: 0.95,
    });
    let given = CapacityAssumptions {
        think_time_s: Some(10.0),
        target_rate_per_s: Some(20.0),
        price_per_hour: Some(1.2),
        planned_use: None,
    };
    given.check().unwrap();
    let figures = capacity(&cell, &given);
    let figure = |name: &str| figures.iter().find(|f| f.name == name).unwrap();
    assert!((figure("requests_per_day").value - 397_440.0).abs() < 1e-6);
    // 4.6 · (1.134 + 10)
    assert!((figure("users").value - 51.216_4).abs() < 1e-3);
    let replicas = figure("replicas");
    assert!((replicas.value - 5.0).abs() < 1e-9);
    let interval = replicas.interval.unwrap();
    assert!((interval.low - 4.0).abs() < 1e-9 && (interval.high - 5.0).abs() < 1e-9);
    // 1.2 / 3600 / 949 · 10⁶
    assert!((figure("cost_per_million_output_tokens").value - 0.351_247).abs() < 1e-5);
    assert!(figures.iter().all(|f| !f.assumptions.is_empty()));
}

#[test]
fn what_an_open_loop_asked_for_and_got_is_a_bound() {
    let run = load::run("week2-production");
    let mut cell = run.cells[1].clone();
    cell.load = bench_schema::Load::Open {
        rate_per_s: Some(4.6),
        arrival: bench_schema::ArrivalKind::Poisson,
        in_flight_cap: None,
    };
    let given = CapacityAssumptions {
        target_rate_per_s: Some(20.0),
        ..CapacityAssumptions::default()
    };
    let told: Vec<String> = capacity(&cell, &given)
        .iter()
        .map(bench_insight::CapacityFigure::sentence)
        .collect();
    assert!(
        told[0].starts_with("requests per day: at least 397,440, assuming"),
        "{told:?}"
    );
    assert!(told[1].starts_with("replicas: at most 5,"), "{told:?}");
}

#[test]
fn assumptions_that_make_no_sense_are_refused_and_absent_ones_are_not_calculated() {
    let cell = load::run("week2-production").cells.remove(1);
    let names: Vec<String> = capacity(&cell, &CapacityAssumptions::default())
        .into_iter()
        .map(|f| f.name)
        .collect();
    assert_eq!(names, ["requests_per_day"]);
    for bad in [
        CapacityAssumptions {
            planned_use: Some(1.5),
            ..CapacityAssumptions::default()
        },
        CapacityAssumptions {
            think_time_s: Some(-1.0),
            ..CapacityAssumptions::default()
        },
        CapacityAssumptions {
            target_rate_per_s: Some(0.0),
            ..CapacityAssumptions::default()
        },
        CapacityAssumptions {
            price_per_hour: Some(f64::NAN),
            ..CapacityAssumptions::default()
        },
    ] {
        assert!(bad.check().is_err(), "{bad:?}");
    }
}

#[test]
fn a_cell_that_misses_an_objective_or_is_overloaded_is_no_capacity_and_says_why() {
    let doubts = |change: fn(&mut bench_schema::CellRecord)| {
        let mut cell = load::run("phases-rates").cell("r20").unwrap().clone();
        cell.counts.planned = 100;
        cell.counts.completed = 100;
        cell.slos.clear();
        let rates = cell.windows.whole.as_mut().unwrap();
        rates.offered_requests_per_s = Some(20.0);
        rates.served_requests_per_s = Some(20.0);
        rates.requests_per_s = Some(20.0);
        change(&mut cell);
        bench_insight::capacity_doubts(&load::run("phases-rates"), &cell)
    };
    assert_eq!(doubts(|_| {}), Vec::<String>::new());
    let behind = doubts(|cell| {
        let rates = cell.windows.whole.as_mut().unwrap();
        rates.served_requests_per_s = Some(15.0);
        // of requests that timed out the row counts none: one rate is told
        rates.requests_per_s = Some(14.0);
    });
    assert!(
        behind[0].starts_with("overload: the server completed 14.0 of 20.0 requests/s"),
        "{behind:?}"
    );
    let slow_client = doubts(|cell| {
        let rates = cell.windows.whole.as_mut().unwrap();
        rates.served_requests_per_s = Some(15.0);
        rates.requests_per_s = Some(15.0);
        cell.plan.offered_rate_per_s = Some(15.0);
    });
    assert!(
        !slow_client
            .iter()
            .any(|doubt| doubt.starts_with("overload")),
        "{slow_client:?}"
    );
    let moving = doubts(|cell| {
        cell.load = bench_schema::Load::closed(4);
        let found = r#"{"stationary": false, "reason": "TTFT rises to twice its level"}"#;
        cell.windows.stationarity = Some(serde_json::from_str(found).unwrap());
    });
    assert!(
        moving[0].starts_with("the window is not in steady state"),
        "{moving:?}"
    );
    let missed = doubts(|cell| {
        let outcome = r#"{"slo": {"metric": "ttft", "q": 0.95, "limit": 5e8}, "verdict": "fail", "attainment": 0.04,
            "attainment_interval": {"low": 0.01, "high": 0.13}}"#;
        cell.slos = vec![serde_json::from_str(outcome).unwrap()];
    });
    assert_eq!(
        missed,
        ["P95 TTFT misses its limit: 4.0 % of the requests meet it"]
    );
    let lost = doubts(|cell| {
        cell.counts.completed = 90;
        cell.counts.failed = 10;
    });
    assert_eq!(lost, ["10 of 100 requests got no complete response"]);
}

#[test]
fn planning_findings_name_their_assumptions() {
    let run = load::run("week2-production");
    let given = CapacityAssumptions {
        target_rate_per_s: Some(20.0),
        price_per_hour: Some(1.2),
        ..CapacityAssumptions::default()
    };
    let all = bench_insight::planning_findings(&run, &given).unwrap();
    let figures: Vec<_> = all.iter().map(|f| f.evidence[0].figure.clone()).collect();
    assert_eq!(
        figures,
        [
            "replicas",
            "cost_per_million_output_tokens",
            "cost_per_thousand_requests"
        ]
        .map(bench_schema::Figure::from)
    );
    let claim = |i: usize| all[i].message.clone().unwrap_or_default();
    assert!(
        claim(0).starts_with("replicas: 5, assuming"),
        "{}",
        claim(0)
    );
    assert!(
        claim(1).starts_with("cost per million output tokens: 0.351, assuming")
            && claim(1).contains("1.20 per hour"),
        "{}",
        claim(1)
    );
    let mut part = run.clone();
    part.config["shard"] = "1/4".into();
    assert_eq!(
        bench_insight::planning_findings(&part, &given),
        Ok(Vec::new())
    );
    let wrong = CapacityAssumptions {
        planned_use: Some(2.0),
        ..given
    };
    assert!(bench_insight::planning_findings(&run, &wrong).is_err());
}

#[test]
fn scenarios_and_plans_join_the_findings_before_the_facts() {
    let run = load::run("week2-lengths");
    let scenarios: bench_insight::ScenarioSet = toml::from_str(
        "[[scenario]]\nname = \"long-form\"\nuse_cases = [\"long-form\"]\nslos = [\"p95:e2e=3s\"]",
    )
    .unwrap();
    let all = bench_insight::findings_with(&run, &[], &scenarios, &CapacityAssumptions::default())
        .unwrap();
    assert!(all.iter().any(|f| f.code == Answer::ScenarioMissed.into()));
    // What was asked stands before what was found.
    let asked = |f: &bench_schema::Finding| matches!(f.code, bench_schema::Code::Answer(_));
    assert!(asked(&all[0]));
}

#[test]
fn what_a_scenario_tells_is_not_told_again_as_an_objective() {
    let mut run = load::run("week2-lengths");
    let scenarios: bench_insight::ScenarioSet = toml::from_str(
        "[[scenario]]\nname = \"long-form\"\nuse_cases = [\"long-form\"]\nslos = [\"p95:e2e=3s\"]",
    )
    .unwrap();
    let missed = |limit: f64, whom: &str| {
        let outcome = format!(
            r#"{{"slo": {{"metric": "e2e", "q": 0.95, "limit": {limit}, "use_case": {whom}}}, "verdict": "fail", "measured": 5e9, "attainment": 0.1,
            "attainment_interval": {{"low": 0.0, "high": 0.3}}}}"#
        );
        serde_json::from_str::<bench_schema::SloOutcome>(&outcome).unwrap()
    };
    run.cells[0].slos = vec![missed(3e9, "\"long-form\""), missed(4e9, "null")];
    let all = bench_insight::findings_with(&run, &[], &scenarios, &CapacityAssumptions::default())
        .unwrap();
    let of = |answer: Answer| all.iter().filter(move |f| f.code == answer.into()).count();
    // the other objective is nobody else's
    assert_eq!((of(Answer::ScenarioMissed), of(Answer::SloMissed)), (1, 1));
}

#[test]
fn a_level_that_nobody_can_tell_is_told_beside_a_higher_one_that_holds() {
    let mut run = sweep("objectives");
    for (i, cell) in run.cells.iter_mut().enumerate() {
        let verdict = if i == 0 { "cannot_tell" } else { "pass" };
        let outcome = format!(
            r#"{{"slo": {{"metric": "e2e", "q": 0.95, "limit": 9e9}}, "verdict": "{verdict}", "attainment": 1.0,
            "attainment_interval": {{"low": 0.9, "high": 1.0}}}}"#
        );
        cell.slos = vec![serde_json::from_str(&outcome).unwrap()];
    }
    let all = bench_insight::findings(&run, &[]);
    let told = all.iter().find(|f| f.code == Answer::SloCapacity.into());
    let figure = |figure: Known| told.unwrap().figure(&figure.into());
    let level = |i: usize| run.cells[i].factors["concurrency"].as_number();
    assert_eq!(figure(Known::UndecidedBelow), level(0));
    assert_eq!(figure(Known::Level), level(run.cells.len() - 1));
}

#[test]
fn cells_that_never_had_their_load_are_no_point_of_scaling_along_a_tag() {
    let mut one = sweep("one");
    one.cells.truncate(2);
    let mut two = one.clone();
    for (run, gpus) in [(&mut one, "1"), (&mut two, "2")] {
        run.tags.insert("gpus".to_owned(), gpus.to_owned());
    }
    let best = |two: &RunRecord| {
        let mut two = two.clone();
        for rates in two
            .cells
            .iter_mut()
            .filter_map(|cell| cell.windows.whole.as_mut())
        {
            rates.output_tokens_per_s = rates.output_tokens_per_s.map(|rate| 2.0 * rate);
        }
        let rows = bench_insight::scaling_by_tag("gpus", &[&one, &two]);
        rows.last().unwrap().cell.clone()
    };
    let fastest = best(&two);
    let cell = two.cells.iter_mut().find(|cell| cell.id == fastest);
    let cell = cell.unwrap();
    (cell.windows.steady, cell.load) = (None, bench_schema::Load::closed(64));
    cell.groups.clear();
    cell.windows.whole.as_mut().unwrap().mean_in_flight = 2.0;
    cell.windows.whole.as_mut().unwrap().peak_in_flight = 3;
    cell.counts.completed = cell.counts.planned;
    assert_ne!(best(&two), fastest);
}

/// Three users on four places: a second GPU can bring nothing, whatever it can do.
#[test]
fn nothing_scales_along_a_tag_where_the_load_is_the_limit() {
    let mut one = sweep("one");
    one.cells.drain(..1);
    one.cells.truncate(1);
    let mut two = one.clone();
    for (run, gpus) in [(&mut one, "1"), (&mut two, "2")] {
        run.tags.insert("gpus".to_owned(), gpus.to_owned());
    }
    let scales = |one: &RunRecord, two: &RunRecord| {
        let rows = bench_insight::scaling_by_tag("gpus", &[one, two]);
        let found = bench_insight::findings_by_tag("gpus", &[one, two]);
        let told = found.iter().any(|f| f.code == Fact::Scaling.into());
        assert_eq!(told, !rows.is_empty());
        told
    };
    assert!(!scales(&one, &two));
    let faster = |run: &RunRecord, by: f64| {
        let mut run = run.clone();
        for cell in &mut run.cells {
            let windows = [&mut cell.windows.steady, &mut cell.windows.whole];
            for rates in windows.into_iter().flatten() {
                rates.output_tokens_per_s = rates.output_tokens_per_s.map(|rate| rate * by);
                rates.requests_per_s = rates.requests_per_s.map(|rate| rate * by);
            }
        }
        run
    };
    assert!(scales(&one, &faster(&two, 1.6)));
    // a level above it that served no more shows that it was the server's limit
    let mut flat = one.clone();
    flat.cells.push(faster(&one, 0.99).cells.remove(0));
    "c99".clone_into(&mut flat.cells[1].id);
    flat.cells[1].load = bench_schema::Load::closed(99);
    assert!(scales(&flat, &two));
    // arrivals that both keep up with
    let open = |run: &RunRecord| {
        let mut run = run.clone();
        run.cells[0].load = bench_schema::Load::Open {
            rate_per_s: Some(1.0),
            arrival: bench_schema::ArrivalKind::Poisson,
            in_flight_cap: None,
        };
        run
    };
    assert!(!scales(&open(&one), &open(&faster(&two, 1.6))));
}

#[test]
fn more_tokens_at_one_arrival_rate_are_other_requests_and_no_better_server() {
    let open = |longer: f64| {
        let mut run = sweep("open");
        for cell in &mut run.cells {
            cell.load = bench_schema::Load::Open {
                rate_per_s: Some(4.0),
                arrival: bench_schema::ArrivalKind::Poisson,
                in_flight_cap: None,
            };
            let lengths = cell.metrics.get_mut(&Metric::OutputTokens).unwrap();
            lengths.mean *= longer;
            let rates = cell.windows.whole.as_mut().unwrap();
            rates.output_tokens_per_s = rates.output_tokens_per_s.map(|rate| rate * longer);
            let interval = rates.output_tokens_per_s_interval.as_mut().unwrap();
            (interval.low, interval.high) = (interval.low * longer, interval.high * longer);
        }
        run
    };
    let found = compared(&open(1.0), &open(2.0));
    let row = found.row("c8", "output_tokens_per_s").unwrap();
    assert_eq!(row.verdict, ComparisonVerdict::OtherLengths);
    assert_eq!(found.count(ComparisonVerdict::Better), 0);
    assert!(
        found.summary().ends_with("not judged"),
        "{}",
        found.summary()
    );
    let why = "at a fixed arrival rate it depends on the output length";
    assert!(found.cautions.iter().any(|said| said.contains(why)));
    // a gate on it does not pass
    let rules = RegressionRule::list(&["output_tokens_per_s:5%"]).unwrap();
    let gates = gate(&found, &rules).unwrap();
    assert!(gates.iter().all(|g| g.verdict == GateVerdict::CannotTell));
    // at the same lengths it is judged
    let same = compared(&open(1.0), &open(1.0));
    let row = same.row("c8", "output_tokens_per_s").unwrap();
    assert_eq!(row.verdict, ComparisonVerdict::NoDifferenceFound);
}

#[test]
fn a_server_that_ends_answers_early_is_no_better_one_and_passes_no_gate() {
    // 10 % slower in everything, with answers that are a quarter shorter
    let shorter = |by: f64| {
        let mut run = slowed(if by < 1.0 { 0.82 } else { 1.0 });
        for cell in &mut run.cells {
            cell.load = bench_schema::Load::closed(cell.id[1..].parse().unwrap());
            cell.metrics.get_mut(&Metric::OutputTokens).unwrap().mean *= by;
            let rates = [&mut cell.windows.whole, &mut cell.windows.steady];
            for rates in rates.into_iter().flatten() {
                rates.requests_per_s = rates.requests_per_s.map(|rate| rate / by);
                if let Some(i) = &mut rates.requests_per_s_interval {
                    (i.low, i.high) = (i.low / by, i.high / by);
                }
            }
        }
        run
    };
    let found = compared(&shorter(1.0), &shorter(0.75));
    for quantity in ["requests_per_s", "e2e.p50", "e2e.p95"] {
        let row = found.row("c8", quantity).unwrap();
        assert_eq!(row.verdict, ComparisonVerdict::OtherLengths, "{quantity}");
    }
    // the less is decoded, the more prompts come between the tokens of others: that is no change of the server, unless it is a larger one or nobody else is there
    let judged = |found: &bench_insight::RunComparison, cell, quantity| {
        found.row(cell, quantity).unwrap().verdict != ComparisonVerdict::OtherLengths
    };
    for quantity in ["ttft.p50", "itl.p50", "output_tokens_per_s"] {
        assert!(!judged(&found, "c8", quantity), "{quantity}");
    }
    assert!(judged(&found, "c1", "ttft.p50"));
    assert!(!judged(&found, "c1", "e2e.p50"));
    assert!(judged(
        &compared(&shorter(1.0), &shorter(0.95)),
        "c8",
        "ttft.p50"
    ));
    let why = "E2E of c8";
    let said = found.cautions.iter().find(|said| said.contains(why));
    assert!(said.is_some_and(|s| s.contains("answers to the same requests")));
    let rules = RegressionRule::list(&["e2e.p95:5%", "requests_per_s:3%"]).unwrap();
    let gates = gate(&found, &rules).unwrap();
    assert!(gates.iter().all(|g| g.verdict == GateVerdict::CannotTell));
    assert!(gates.iter().all(|g| g.times_as_many().is_none()));
    let same = compared(&shorter(1.0), &shorter(1.0));
    assert_eq!(same.count(ComparisonVerdict::OtherLengths), 0);
}

/// One place that serves 150 requests one after another, at so much of what it can do: a run, and its requests. The arrivals are those of the plan, the seed
/// is the server's.
fn one_place(use_of_it: f64, slower: f64, seed: u64) -> (RunRecord, [CellSamples; 1]) {
    let mut run = sweep("open");
    run.cells.truncate(1);
    let cell = &mut run.cells[0];
    let rate = use_of_it * 10.0;
    cell.load = bench_schema::Load::Open {
        rate_per_s: Some(rate),
        arrival: bench_schema::ArrivalKind::Poisson,
        in_flight_cap: None,
    };
    let (mut arrivals, mut server) = (Noise(1), Noise(1 + seed));
    let (mut due, mut free) = (0.0_f64, 0.0_f64);
    let at = |s: f64| Stamp::EPOCH + Nanos::from_secs_f64(s);
    let requests = (0..150).map(|id| {
        due -= arrivals.uniform().ln() / rate;
        let begun = due.max(free);
        free = begun + slower * 0.1 * (0.2 * server.normal()).exp();
        RequestSample {
            id,
            due: at(due),
            start: at(due),
            end: at(free),
            ttft: Some((begun - due + 0.02 * slower) * 1e9),
            output_tokens: Some(20),
            events: 20,
            ..RequestSample::default()
        }
    });
    let samples = CellSamples {
        cell: cell.id.clone(),
        requests: requests.collect(),
        ..CellSamples::default()
    };
    (run, [samples])
}

#[test]
fn waits_of_one_queue_are_one_value_and_no_verdict_on_two_servers() {
    let held = |(a, of_a): (RunRecord, [CellSamples; 1]),
                (b, of_b): (RunRecord, [CellSamples; 1])| {
        let samples = ComparedSamples {
            base: &[&of_a],
            new: &[&of_b],
        };
        compare(&[&a], &[&b], samples, &CompareOptions::default()).unwrap()
    };
    for use_of_it in [0.85, 1.4] {
        for seed in (0..12).step_by(2) {
            let pair = [seed, seed + 1].map(|seed| one_place(use_of_it, 1.0, seed));
            let [one, other] = pair;
            let found = held(one, other);
            for row in &found.rows {
                let waits = row.quantity.starts_with("ttft") || row.quantity.starts_with("e2e");
                let open = row.verdict == ComparisonVerdict::CannotTell;
                assert!(open || !waits, "{use_of_it} {seed}: {row:?}");
            }
            let why = "no interval for TTFT";
            assert!(found.cautions.iter().any(|said| said.contains(why)));
        }
    }
    // where nobody waits requests are independent
    let found = held(one_place(0.03, 1.0, 1), one_place(0.03, 1.1, 2));
    let e2e = found.rows.iter().find(|row| row.quantity == "e2e.paired");
    assert_eq!(e2e.unwrap().verdict, ComparisonVerdict::Worse);
}

/// Each cell of `bench-latency` has too few requests to be compared alone; all of them are the same 12 requests a cell on both sides.
#[test]
fn cells_with_few_requests_are_compared_and_gated_together() {
    let short_cells = |slower: f64, seed: u64| {
        let run = sweep("short cells");
        let mut noise = Noise(seed);
        let mut now = 0.0;
        let cells = run.cells.iter().zip(1_u32..).map(|(cell, number)| {
            let requests = (0..12).map(|id| {
                let took = 0.2 * f64::from(number) * slower * (0.1 * noise.normal()).exp();
                let [start, end] =
                    [now, now + took].map(|s| Stamp::EPOCH + Nanos::from_secs_f64(s));
                now += took;
                RequestSample {
                    id,
                    due: start,
                    start,
                    end,
                    ttft: Some(took * 1e8),
                    output_tokens: Some(20),
                    events: 20,
                    ..RequestSample::default()
                }
            });
            CellSamples {
                cell: cell.id.clone(),
                requests: requests.collect(),
                ..CellSamples::default()
            }
        });
        let samples: Vec<CellSamples> = cells.collect();
        (run, samples)
    };
    let base = short_cells(1.0, 1);
    assert!(base.0.cells.len() > 2 && base.0.cells.iter().all(|cell| !cell.load.is_open()));
    let verdicts = |slower: f64, seed: u64| {
        let new = short_cells(slower, seed);
        let samples = ComparedSamples {
            base: &[&base.1],
            new: &[&new.1],
        };
        let found = compare(&[&base.0], &[&new.0], samples, &CompareOptions::default()).unwrap();
        let rules = RegressionRule::list(&["e2e:5%"]).unwrap();
        let outcomes = gate(&found, &rules).unwrap();
        let told = |of: &bench_insight::GateOutcome| (of.cell.clone(), of.verdict);
        outcomes.iter().map(told).collect::<Vec<_>>()
    };
    let together = |verdict| vec![("all cells".to_owned(), verdict)];
    assert_eq!(verdicts(1.0, 2), together(GateVerdict::Passed));
    assert_eq!(verdicts(1.15, 3), together(GateVerdict::Regressed));
}

#[test]
fn other_requests_make_no_server_worse() {
    let asked = |tokens: f64, longer: f64| {
        let mut run = slowed(longer);
        for cell in &mut run.cells {
            cell.plan.hash = Some(tokens.to_string());
            let mut prompts = cell.metrics[&Metric::OutputTokens].clone();
            prompts.mean = tokens;
            cell.metrics.insert(Metric::InputTokens, prompts);
        }
        run
    };
    let found = compared(&asked(128.0, 1.0), &asked(512.0, 2.0));
    assert_eq!(found.count(ComparisonVerdict::Worse), 0);
    assert_eq!(
        found.count(ComparisonVerdict::OtherLengths),
        found.rows.len()
    );
    let why = "other requests were sent; prompts have 128 tokens on average before and 512 now";
    let said: Vec<&String> = found
        .cautions
        .iter()
        .filter(|said| said.contains(why))
        .collect();
    assert!(
        matches!(&said[..], [one] if one.contains("c1, c2")),
        "{:?}",
        found.cautions
    );
    // of one length they are judged, whatever their words are
    let found = compared(&asked(128.0, 1.0), &asked(129.0, 2.0));
    assert!(found.count(ComparisonVerdict::Worse) > 0);
}

/// A search that ended with no more than two bounds: they are compared, and no change of their middle is told.
#[test]
fn searches_that_found_a_range_are_compared_by_it() {
    let found = |value: Option<f64>, low: Option<f64>, high: Option<f64>, why: &str| {
        let mut run = load::run("concurrency-sweep");
        run.analysis.capacity = Some(CapacityRecord {
            factor: "rate".to_owned(),
            stopped: SearchEnd::Budget,
            why: Some(why.to_owned()),
            value,
            low,
            high,
            precision: 0.05,
            binding: None,
            objectives: Vec::new(),
            left_out: [].into(),
            requests: 1_500,
            seconds: 60.0,
        });
        run
    };
    let held = |base: &RunRecord, new: &RunRecord| {
        let options = CompareOptions::default();
        compare(&[base], &[new], ComparedSamples::default(), &options).unwrap()
    };
    let base = found(None, Some(60.0), Some(110.0), "the budget is used up");
    let told = |held: &bench_insight::RunComparison, what: &str| {
        held.cautions.iter().any(|caution| caution.contains(what))
    };
    let worse = held(&base, &found(Some(20.0), Some(18.0), Some(22.0), ""));
    let row = worse.row("search", "capacity").unwrap();
    assert_eq!(row.verdict, ComparisonVerdict::Worse, "{row:?}");
    let is_said = told(&worse, "the capacity is between 60.0 and 110 requests/s");
    assert!(is_said, "{:?}", worse.cautions);
    assert_eq!(row.relative, None);
    let change = row.relative_interval.unwrap();
    let ends = [18.0 / 110.0 - 1.0, 22.0 / 60.0 - 1.0];
    assert!((change.low - ends[0]).abs() < 1e-9 && (change.high - ends[1]).abs() < 1e-9);
    let ends = |range: Option<Interval>| range.map(|range| (range.low, range.high));
    assert_eq!(ends(row.base_range), Some((60.0, 110.0)));
    assert_eq!(ends(row.new_range), None);
    // ranges that overlap say nothing, however little
    for (low, high) in [(80.0, 140.0), (30.0, 61.0)] {
        let open = held(&base, &found(None, Some(low), Some(high), ""));
        let row = open.row("search", "capacity").unwrap();
        assert_eq!(row.verdict, ComparisonVerdict::CannotTell, "{row:?}");
    }
    // without an upper bound there is nothing to compare, and that is said
    let none = held(
        &base,
        &found(None, Some(70.0), None, "no load missed an objective"),
    );
    assert!(none.rows.is_empty());
    let is_said = told(
        &none,
        "at least 70.0 requests/s, since no load missed an objective; capacities are not compared",
    );
    assert!(is_said, "{:?}", none.cautions);
}
