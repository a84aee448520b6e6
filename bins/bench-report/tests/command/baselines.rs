//! Baselines, as somebody uses them who changes a server between two rounds.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Said, blank, both_cells, command, ended};
use crate::text;

/// `bench-report` with the store at the end.
fn with_store(store: &Path, arguments: &[&str]) -> Said {
    let mut all = arguments.to_vec();
    all.extend(["--baselines", text(store)]);
    command(&all)
}

fn save_with_goal(store: &Path, run: &Path, goal: &str) -> Said {
    let arguments = [
        "baseline",
        "save",
        "week-2",
        text(run),
        "--note",
        "before tuning",
    ];
    with_store(store, &[&arguments[..], &["--goal", goal]].concat())
}

#[test]
fn a_baseline_outlives_its_run_and_a_slower_round_is_worse_than_it_and_misses_the_gate() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("kept");
    let old = ended(&folder.path().join("old"), &blank(), &both_cells(1.0));
    let said = save_with_goal(&store, &old, "c4 is no gate");
    assert_eq!(
        said.code,
        Some(2),
        "a goal that cannot be read: {}",
        said.err
    );
    let goal = "concurrency=4:requests_per_s>=1000,e2e.p95<=1s";
    let said = save_with_goal(&store, &old, goal);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("single run"), "{}", said.err);
    // a seventh of these requests fails, so that no limit holds their p95
    assert!(
        said.err.contains("failures make it unbounded"),
        "{}",
        said.err
    );
    assert_eq!(Path::new(said.out.trim()), store.join("week-2"));
    fs::remove_dir_all(&old).unwrap();

    let listed = with_store(&store, &["baseline", "list"]);
    for word in ["week-2", "throughput", "tiny", "trusted", "before tuning"] {
        assert!(listed.out.contains(word), "{word}: {}", listed.out);
    }
    let shown = with_store(&store, &["baseline", "show", "week-2"]);
    assert!(
        shown.out.contains("E2E p95") && shown.out.contains("Targets of the next round"),
        "{}",
        shown.out
    );

    let new = ended(&folder.path().join("new"), &blank(), &both_cells(1.6));
    let compared = with_store(&store, &["compare", "--baseline", "week-2", text(&new)]);
    assert_eq!(compared.code, Some(0), "{}", compared.err);
    assert!(
        compared.out.starts_with("new against baseline week-2"),
        "{}",
        compared.out
    );
    assert!(
        compared.out.contains("worse") && compared.out.contains("Targets of the baseline"),
        "{}",
        compared.out
    );
    assert!(compared.out.contains("not reached"), "{}", compared.out);
    let rule = ["--max-regression", "e2e.p50:5%"];
    let gate = |with: &[&str]| {
        let mut all = vec!["gate"];
        all.extend(with);
        all.extend(rule);
        with_store(&store, &all)
    };
    assert_eq!(gate(&["--baseline", "week-2", text(&new)]).code, Some(4));
    assert_eq!(
        gate(&["--baseline", "week-2", text(&new), text(&new)]).code,
        Some(2)
    );
    let same = gate(&["--baseline", "week-2", text(&store.join("week-2"))]);
    assert_eq!(same.code, Some(0), "{}", same.out);
}

#[test]
fn what_a_baseline_says_is_the_same_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("kept");
    let run = ended(&folder.path().join("run"), &blank(), &both_cells(1.0));
    let goals = ["--goal", "e2e.p50<=1s"];
    let mut save = vec!["baseline", "save", "b", text(&run)];
    save.extend(goals);
    assert_eq!(with_store(&store, &save).code, Some(0));
    let form = |of: &[&str], form: &str| {
        let mut all = of.to_vec();
        all.extend(["--output", form]);
        with_store(&store, &all).out
    };
    let compare = ["compare", "--baseline", "b", text(&run)];
    let rounds: Value = serde_json::from_str(&form(&compare, "json")).unwrap();
    let goals = &rounds[0]["goals"];
    assert_eq!(goals["own"][0]["goal"], "e2e.p50<=1s");
    assert_eq!(goals["own"][0]["met"], true);
    let rows = rounds[0]["comparison"]["rows"].as_array().unwrap();
    assert!(
        rows.iter()
            .all(|row| row["verdict"] == "no_difference_found" || row["verdict"] == "cannot_tell")
    );
    let page = form(&compare, "markdown");
    assert!(
        page.starts_with("# run against baseline b (1 and 1 run)\n"),
        "{page}"
    );
    for target in goals["targets"].as_array().unwrap() {
        let quantity = target["target"]["quantity"].as_str().unwrap();
        assert!(page.contains(quantity), "{quantity}: {page}");
    }
    let whole: Value = serde_json::from_str(&form(&["baseline", "show", "b"], "json")).unwrap();
    assert_eq!(whole["name"], "b");
    assert!(form(&["baseline", "show", "b"], "markdown").starts_with("# baseline b, saved "));
    let list: Value = serde_json::from_str(&form(&["baseline", "list"], "json")).unwrap();
    assert_eq!(list[0]["goals"], json!(["e2e.p50<=1s"]));
}

#[test]
fn a_goal_that_nobody_can_tell_of_is_not_said_to_be_missed() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("kept");
    let run = ended(&folder.path().join("run"), &blank(), &both_cells(1.0));
    let rates = |cell: &Value| cell["windows"]["whole"]["requests_per_s"].as_f64();
    let record: Value =
        serde_json::from_str(&fs::read_to_string(run.join("run.json")).unwrap()).unwrap();
    let rate = rates(&record["cells"][1]).unwrap();
    let goal = |share: f64| format!("concurrency=4:requests_per_s>={}", rate * share);
    let goals = [goal(0.999), goal(0.1), goal(10.0)].join(",");
    let saved = with_store(
        &store,
        &["baseline", "save", "b", text(&run), "--goal", &goals],
    );
    assert_eq!(saved.code, Some(0), "{}", saved.err);
    let compare = ["compare", "--baseline", "b", text(&run), "--output", "json"];
    let rounds: Value = serde_json::from_str(&with_store(&store, &compare).out).unwrap();
    let own = rounds[0]["goals"]["own"].as_array().unwrap();
    let outcomes: Vec<&str> = own
        .iter()
        .map(|goal| goal["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(outcomes, ["cannot tell", "reached", "not reached"]);
    let shown = with_store(&store, &["baseline", "show", "b"]).out;
    assert!(shown.contains("cannot tell"), "{shown}");
}

#[test]
fn a_name_is_given_once_unless_it_is_to_be_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("kept");
    let run = ended(&folder.path().join("run"), &blank(), &both_cells(1.0));
    let save = |extra: &[&str]| {
        let mut all = vec!["baseline", "save", "b", text(&run)];
        all.extend(extra);
        with_store(&store, &all)
    };
    assert_eq!(save(&[]).code, Some(0));
    let again = save(&[]);
    assert_eq!(again.code, Some(2));
    assert!(again.err.contains("--replace"), "{}", again.err);
    assert_eq!(save(&["--replace", "--small"]).code, Some(0));
    let kept = store.join("b").join("01-run");
    assert!(kept.join("run.json").is_file() && !kept.join("requests.jsonl").exists());
    // what a small one lacks are single requests; it is compared by its intervals
    let compared = with_store(&store, &["compare", "--baseline", "b", text(&run)]);
    assert_eq!(compared.code, Some(0), "{}", compared.err);
    for name in ["../b", "a/b", "", ".b"] {
        let said = with_store(&store, &["baseline", "save", name, text(&run)]);
        assert_eq!(said.code, Some(2), "{name}: {}", said.err);
    }
    assert_eq!(
        with_store(&store, &["baseline", "remove", "b"]).code,
        Some(0)
    );
    let gone = with_store(&store, &["compare", "--baseline", "b", text(&run)]);
    assert_eq!(gone.code, Some(2));
    assert!(gone.err.contains("there is no baseline b"), "{}", gone.err);
}

#[test]
fn while_a_baseline_is_replaced_there_is_always_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("kept");
    let run = ended(&folder.path().join("run"), &blank(), &both_cells(1.0));
    let save = ["baseline", "save", "b", text(&run), "--replace", "--small"];
    assert_eq!(with_store(&store, &save).code, Some(0));
    let manifest = store.join("b").join("baseline.json");
    std::thread::scope(|scope| {
        let saves = scope.spawn(|| {
            for _ in 0..8 {
                assert_eq!(with_store(&store, &save).code, Some(0));
            }
        });
        while !saves.is_finished() {
            assert!(manifest.is_file(), "killed now, it would be gone");
            std::thread::yield_now();
        }
    });
    let left: Vec<_> = store
        .read_dir()
        .unwrap()
        .map(|f| f.unwrap().file_name())
        .collect();
    assert_eq!(left, ["b"]);
}

#[test]
fn only_a_baseline_is_ever_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("kept");
    let run = ended(&folder.path().join("run"), &blank(), &both_cells(1.0));
    fs::create_dir_all(store.join("mine")).unwrap();
    fs::write(store.join("mine").join("thesis.txt"), "years of work").unwrap();
    let said = with_store(
        &store,
        &["baseline", "save", "mine", text(&run), "--replace"],
    );
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(store.join("mine").join("thesis.txt").is_file());
}

#[test]
fn what_cannot_be_trusted_is_no_baseline_unless_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("kept");
    let run = ended(&folder.path().join("run"), &blank(), &both_cells(1.0));
    let path = run.join("run.json");
    let mut stored: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    stored["trust"] = json!({"verdict": "untrusted", "reasons": [
        {"code": "client_lag", "verdict": "untrusted", "message": "the client read tokens late"}]});
    fs::write(&path, stored.to_string()).unwrap();
    let refused = with_store(&store, &["baseline", "save", "b", text(&run)]);
    assert_eq!(refused.code, Some(3));
    assert!(
        refused.err.contains("the client read tokens late"),
        "{}",
        refused.err
    );
    let kept = with_store(
        &store,
        &["baseline", "save", "b", text(&run), "--untrusted"],
    );
    assert_eq!(kept.code, Some(0), "{}", kept.err);
    assert!(
        with_store(&store, &["baseline", "list"])
            .out
            .contains("untrusted")
    );
}

#[test]
fn repeats_make_one_baseline_and_different_benchmarks_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("kept");
    let repeats = folder.path().join("repeats");
    for (i, stretch) in [1.0, 1.02, 0.99].into_iter().enumerate() {
        ended(&repeats.join(i.to_string()), &blank(), &both_cells(stretch));
    }
    let said = with_store(&store, &["baseline", "save", "three", text(&repeats)]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(!said.err.contains("single run"), "{}", said.err);
    let page = with_store(
        &store,
        &[
            "compare",
            "--baseline",
            "three",
            text(&repeats),
            "--output",
            "markdown",
        ],
    );
    assert!(page.out.contains("3 and 3 runs"), "{}", page.out);
    // a baseline has no readings, and none are needed
    assert!(!page.err.contains("hardware.jsonl"), "{}", page.err);
    let other = folder.path().join("other");
    let mut design = blank();
    design["experiment"] = "latency".into();
    ended(&other, &design, &both_cells(1.0));
    let said = with_store(
        &store,
        &["baseline", "save", "mixed", text(&repeats), text(&other)],
    );
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("different benchmarks"), "{}", said.err);
}

/// What a comparison rests on is what was saved: a baseline that lost a repeat has other medians and other intervals.
#[test]
fn a_baseline_whose_runs_or_goals_are_not_those_that_were_saved_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (store, repeats) = (folder.path().join("kept"), folder.path().join("repeats"));
    for (i, stretch) in [1.0, 1.02, 0.99].into_iter().enumerate() {
        ended(&repeats.join(i.to_string()), &blank(), &both_cells(stretch));
    }
    let new = ended(&folder.path().join("new"), &blank(), &both_cells(1.1));
    let three = store.join("three");
    let spoilt = |spoil: &dyn Fn()| {
        let save = ["baseline", "save", "three", text(&repeats), "--replace"];
        let save = [&save[..], &["--goal", "failed<=1000"]].concat();
        assert_eq!(with_store(&store, &save).code, Some(0));
        spoil();
        let compare = ["compare", "--baseline", "three", text(&new)];
        [&compare[..], &["baseline", "show", "three"]].map(|command| with_store(&store, command))
    };
    for whole in spoilt(&|| ()) {
        assert_eq!(whole.code, Some(0), "{}", whole.err);
    }
    let manifest = three.join("baseline.json");
    let edit = |from: &str, to: &str| {
        let said = fs::read_to_string(&manifest).unwrap();
        let changed = said.replace(from, to);
        assert_ne!(changed, said);
        fs::write(&manifest, changed).unwrap();
    };
    let faults: [(&dyn Fn(), &str); 5] = [
        (&|| fs::remove_dir_all(three.join("02-1")).unwrap(), "02-1"),
        (
            &|| fs::remove_file(three.join("02-1/run.json")).unwrap(),
            "02-1",
        ),
        (
            &|| fs::rename(three.join("03-2"), three.join("04-2")).unwrap(),
            "03-2",
        ),
        (
            &|| edit("failed<=1000", "failed<=2000"),
            "changed or damaged",
        ),
        (
            &|| {
                let (from, to) = (three.join("03-2"), three.join("04-2"));
                fs::create_dir(&to).unwrap();
                fs::copy(from.join("run.json"), to.join("run.json")).unwrap();
            },
            "04-2 does not belong to it",
        ),
    ];
    for (fault, named) in faults {
        for refused in spoilt(fault) {
            assert_eq!(refused.code, Some(1), "{named}: {}", refused.err);
            assert!(refused.err.contains(named), "{named}: {}", refused.err);
        }
    }
    fs::remove_file(&manifest).unwrap();
    let listed = with_store(&store, &["baseline", "list"]);
    assert!(listed.err.contains("no baseline.json"), "{}", listed.err);
}

#[test]
fn a_goal_that_was_changed_on_purpose_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("kept");
    let run = ended(&folder.path().join("run"), &blank(), &both_cells(1.0));
    assert_eq!(save_with_goal(&store, &run, "failed<=1000").code, Some(0));
    let manifest = store.join("week-2/baseline.json");
    let said = fs::read_to_string(&manifest).unwrap();
    let changed = said.replace("<=1000", "<=2000");
    let (before, _) = changed.rsplit_once(",\n").unwrap();
    fs::write(&manifest, format!("{before}\n}}\n")).unwrap();
    let taken = with_store(&store, &["baseline", "show", "week-2"]);
    assert_eq!(taken.code, Some(0), "{}", taken.err);
    assert!(taken.out.contains("failed<=2000"), "{}", taken.out);
}

/// A folder of repeats with one that lost its run.json is not a folder of fewer repeats.
#[test]
fn a_repeat_that_lost_its_run_json_is_named_and_not_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let repeats = folder.path().join("repeats");
    for (i, stretch) in [1.0, 1.02, 0.99].into_iter().enumerate() {
        ended(&repeats.join(i.to_string()), &blank(), &both_cells(stretch));
    }
    let new = ended(&folder.path().join("new"), &blank(), &both_cells(1.1));
    fs::remove_file(repeats.join("1/run.json")).unwrap();
    let commands: [&[&str]; 3] = [
        &["compare", text(&repeats), text(&new)],
        &["pivot", text(&repeats)],
        &[
            "gate",
            "--max-regression",
            "e2e:5%",
            text(&repeats),
            text(&new),
        ],
    ];
    for arguments in commands {
        let said = command(arguments);
        assert_eq!(said.code, Some(1), "{arguments:?}: {}", said.err);
        let lost = repeats.join("1");
        assert!(
            said.err.contains(text(&lost)),
            "{arguments:?}: {}",
            said.err
        );
    }
}

#[test]
fn capacity_follows_from_the_measured_rate_and_the_given_assumptions() {
    let folder = tempfile::tempdir().unwrap();
    let run = ended(&folder.path().join("run"), &blank(), &both_cells(1.0));
    let given = [
        "--cell",
        "c4",
        "--target-rate",
        "100",
        "--price-per-hour",
        "3.6",
        "--think-time",
        "10",
    ];
    let said = |extra: &[&str]| {
        let mut all = vec!["capacity", text(&run)];
        all.extend(given);
        all.extend(extra);
        command(&all)
    };
    let all: Value = serde_json::from_str(&said(&["--output", "json"]).out).unwrap();
    let figure = |name: &str| {
        let figures = all[0]["figures"].as_array().unwrap();
        figures.iter().find(|f| f["name"] == name).unwrap()["value"]
            .as_f64()
            .unwrap()
    };
    let rate = figure("requests_per_day") / 86_400.0;
    assert!(rate > 0.0);
    assert!((figure("replicas") - (100.0 / rate).ceil()).abs() < 1e-9);
    // 3.6 an hour is 0.001 a second
    assert!((figure("cost_per_thousand_requests") - 1.0 / rate).abs() < 1e-9 / rate);
    let text = said(&[]).out;
    assert!(
        text.starts_with("c4\n") && text.contains("users: ") && text.contains("assuming"),
        "{text}"
    );
    assert_eq!(said(&["--planned-use", "150"]).code, Some(2));
}

/// A run whose cells are the stages of a search, with what that found.
fn searched(folder: &Path, [value, low, high]: [Option<f64>; 3]) -> std::path::PathBuf {
    let run = ended(folder, &blank(), &both_cells(1.0));
    let path = folder.join("run.json");
    let mut stored: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    for (cell, rate) in stored["cells"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .zip([8.0, 30.0])
    {
        cell["load"] = json!({"kind": "open", "rate_per_s": rate, "arrival": {"kind": "poisson"}});
        cell["factors"] = json!({"rate": rate});
    }
    stored["analysis"]["capacity"] = json!({
        "factor": "rate", "stopped": if value.is_some() { "precise" } else { "budget" },
        "value": value, "low": low, "high": high, "precision": 0.05, "objectives": [],
        "requests": 160, "seconds": 20.0,
    });
    fs::write(&path, stored.to_string()).unwrap();
    run
}

#[test]
fn what_a_search_found_is_planned_with_compared_gated_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let known = |name: &str, capacity: f64| {
        let found = [capacity, 0.95 * capacity, 1.05 * capacity].map(Some);
        searched(&folder.path().join(name), found)
    };
    let (old, new) = (known("old", 20.0), known("new", 10.0));
    let planned = |run: &Path, more: &[&str]| {
        let all = [&["capacity", text(run), "--target-rate", "100"], more].concat();
        command(&all).out
    };
    let said = planned(&old, &[]);
    assert!(
        said.contains("20 requests/s (95 % CI 19 to 21)") && !said.contains("NOT usable"),
        "{said}"
    );
    assert!(said.contains("replicas: 5 (95 % CI 5 to 6)"), "{said}");
    assert!(!said.contains("at most"), "{said}");
    assert!(planned(&old, &["--cell", "c4"]).starts_with("c4\n"));
    // between two bounds the lower one is what is known
    let open = searched(&folder.path().join("open"), [None, Some(10.0), Some(40.0)]);
    let said = planned(&open, &[]);
    assert!(
        said.contains("NOT usable for planning: the search did not find the capacity")
            && said.contains("replicas: at most 10"),
        "{said}"
    );

    let compared = command(&["compare", text(&old), text(&new), "--output", "json"]);
    let compared: Value = serde_json::from_str(&compared.out).unwrap();
    let rows = compared[0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(
        (&rows[0]["quantity"], &rows[0]["verdict"]),
        (&json!("capacity"), &json!("worse"))
    );
    let gate = |new: &Path| {
        let said = command(&[
            "gate",
            text(&old),
            text(new),
            "--max-regression",
            "capacity:5%",
        ]);
        (said.code, said.out + &said.err)
    };
    assert_eq!(gate(&new).0, Some(4), "{}", gate(&new).1);
    assert_eq!(gate(&old).0, Some(0), "{}", gate(&old).1);
    let (code, said) = gate(&open);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("found no capacity"), "{said}");

    let store = folder.path().join("kept");
    assert_eq!(save_with_goal(&store, &old, "capacity>=15").code, Some(0));
    let shown = with_store(&store, &["baseline", "show", "week-2"]).out;
    assert!(
        shown.contains("20 requests/s (95 % CI 19 to 21)"),
        "{shown}"
    );
}
