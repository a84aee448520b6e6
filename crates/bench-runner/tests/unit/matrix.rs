use std::collections::BTreeSet;

use bench_schema::Benchmark;

use super::*;
use crate::config::for_tests;

fn settings(more: &[&str]) -> Settings {
    let server = ["--server", "serve {n} {tp} --port {port}", "--tag", "gpu=x"];
    let vary = ["--vary", "n=8,16", "--vary", "tp=1,2", "--seed", "7"];
    for_tests(Benchmark::Throughput, &[&server[..], &vary, more].concat())
}

#[test]
fn a_round_has_every_setting_once_in_an_order_of_its_own() {
    let drawn = order(&settings(&[]), 50);
    let rounds: Vec<Vec<usize>> = drawn
        .chunks(4)
        .map(|round| round.iter().map(|(_, index)| *index).collect())
        .collect();
    assert!(
        rounds
            .iter()
            .all(|round| round.iter().collect::<BTreeSet<_>>().len() == 4)
    );
    let orders: BTreeSet<_> = rounds.into_iter().collect();
    assert!(orders.len() > 12, "24 orders, 50 draws: {}", orders.len());
    let as_given = order(&settings(&["--in-order"]), 2);
    let round = |n| (0..4).map(move |index| (n, index));
    assert_eq!(as_given, round(0).chain(round(1)).collect::<Vec<_>>());
}

#[test]
fn a_baseline_is_measured_first_last_and_after_every_fourth_setting() {
    let asked = settings(&["--in-order", "--baseline", "n=8,tp=2"]);
    let places: Vec<usize> = order(&asked, 2)
        .into_iter()
        .map(|(_, index)| index)
        .collect();
    assert_eq!(places, [4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
    let times: Vec<u32> = order(&asked, 2)
        .into_iter()
        .filter(|(_, index)| *index == 4)
        .map(|(n, _)| n)
        .collect();
    assert_eq!(times, [0, 1, 2]);
    let own = baseline(&asked, Path::new("out")).unwrap();
    assert_eq!(own.folder, Path::new("out/baseline"));
    assert_eq!(own.values.into_values().collect::<Vec<_>>(), ["8", "2"]);
}

#[test]
fn a_run_has_its_settings_command_tags_and_folder_and_its_rounds_seed() {
    let asked = settings(&[]);
    let all = all_settings(&asked, Path::new("out"));
    let folders: Vec<_> = all
        .iter()
        .map(|one| one.folder.display().to_string())
        .collect();
    assert_eq!(
        folders,
        [
            "out/n=8,tp=1",
            "out/n=8,tp=2",
            "out/n=16,tp=1",
            "out/n=16,tp=2"
        ]
    );
    let own = settings_of(&asked, &all[3].values, 2, "out/x/003".into());
    assert_eq!(
        own.server.server.as_deref(),
        Some("serve 16 2 --port {port}")
    );
    assert_eq!(own.seed, 9);
    let tags: Vec<String> = own
        .output
        .tag
        .iter()
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    assert_eq!(tags, ["gpu=x", "n=16", "tp=2", "block=3"]);
    assert!(own.server.vary.is_empty() && own.server.rounds.is_none());
}

#[test]
fn values_that_a_file_cannot_be_called_by_get_folders_of_their_own() {
    let args = ["--server", "s {p} {port}", "--vary", "p=a/b,a:b,a b"];
    let asked = for_tests(Benchmark::Throughput, &args);
    let all = all_settings(&asked, Path::new("o"));
    let folders: Vec<_> = all
        .iter()
        .map(|one| one.folder.display().to_string())
        .collect();
    assert_eq!(folders, ["o/p=a_b", "o/p=a_b-2", "o/p=a_b-3"]);
}

#[test]
fn what_changes_the_measurement_makes_another_matrix_and_more_values_do_not() {
    let none = Secrets::default();
    let (first, more) = (
        asked(&settings(&[]), &none),
        asked(&settings(&["--rounds", "9", "--quiet"]), &none),
    );
    assert_eq!(differing(&first, &more), None);
    let other = asked(&settings(&["--requests", "9"]), &none);
    assert_eq!(differing(&first, &other).as_deref(), Some("requests"));
}

#[test]
fn a_run_whose_records_were_damaged_since_is_not_taken_for_measured() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    assert!(finished(place).unwrap().is_none(), "nothing is there");
    let mut run =
        RunRecord::from_json(include_str!("../../../../fixtures/results/v1.2/run.json")).unwrap();
    let records = place.join("requests.jsonl");
    let mut written = bench_schema::PartMeter::default();
    written.update(b"{}\n{}\n");
    run.journal = vec![written.part("requests.jsonl")];
    fs::write(&records, "{}\n{}\n").unwrap();
    fs::write(place.join("run.json"), serde_json::to_string(&run).unwrap()).unwrap();
    assert_eq!(finished(place).unwrap().map(|run| run.complete), Some(true));
    for damage in ["{}\n", "{}\n[]\n", "{}\n{}\n{}\n"] {
        fs::write(&records, damage).unwrap();
        assert_eq!(finished(place).unwrap_err(), records.display().to_string());
    }
    fs::remove_file(&records).unwrap();
    assert!(finished(place).is_err());
}
