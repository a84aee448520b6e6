use super::*;
use crate::redact::Secrets;

fn at(path: &Path) -> Result<RunDirectory, RunError> {
    let progress = Progress::new(false, Secrets::default());
    RunDirectory::at(path.to_owned(), progress)
}

fn record(started_at: &str) -> RunRecord {
    let text = include_str!("../../../../fixtures/results/v1.2/run.json");
    RunRecord {
        started_at: started_at.to_owned(),
        ..RunRecord::from_json(text).unwrap()
    }
}

fn started_at(folder: &Path) -> String {
    let text = fs::read_to_string(folder.join("run.json")).unwrap();
    RunRecord::from_json(&text).unwrap().started_at
}

#[test]
fn a_run_whose_directory_was_moved_away_goes_on_beside_the_one_that_has_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let (name, beside) = (folder.path().join("run"), folder.path().join("run-2"));
    let one = at(&name).unwrap();
    one.begin(&record("one")).unwrap();
    fs::rename(&name, folder.path().join("elsewhere")).unwrap();
    let other = at(&name).unwrap();
    // also where that one has not written anything yet
    one.write_run(&record("one")).unwrap();
    other.begin(&record("other")).unwrap();
    one.write_run(&record("one")).unwrap();
    assert_eq!(started_at(&name), "other");
    assert_eq!(started_at(&beside), "one");
    assert!(beside.join(BEGIN_FILE).is_file());
    assert!(matches!(at(&beside), Err(RunError::OutExists(_))));
}

#[test]
fn a_directory_that_is_gone_is_made_again_and_held() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("run");
    let one = at(&name).unwrap();
    one.begin(&record("one")).unwrap();
    fs::remove_dir_all(&name).unwrap();
    assert_eq!(one.path().unwrap(), name);
    assert!(hold_folder(&name).is_err() && name.join(BEGIN_FILE).is_file());
    // one with something in it that nobody holds is not taken either
    fs::rename(&name, folder.path().join("elsewhere")).unwrap();
    fs::create_dir(&name).unwrap();
    fs::write(name.join("mine"), "").unwrap();
    assert_eq!(one.path().unwrap(), folder.path().join("run-2"));
}
