use proptest::prelude::*;

use super::*;

const REQUESTS: JournalFile = JournalFile::Requests;
const UNLIMITED: u64 = u64::MAX;

fn text_of(folder: &Path) -> String {
    let parts = REQUESTS.parts_in(folder);
    parts
        .iter()
        .map(|part| fs::read_to_string(part).unwrap())
        .collect()
}

#[test]
fn lines_are_written_in_order_and_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::create(folder.path(), REQUESTS, UNLIMITED).unwrap();
    journal.append(&1);
    journal.append(&"two");
    assert_eq!(journal.flush(), None);
    journal.append(&[3]);
    journal.close().1.unwrap();
    assert_eq!(text_of(folder.path()), "1\n\"two\"\n[3]\n");
}

#[test]
fn a_journal_whose_folder_is_gone_is_made_again_elsewhere_with_everything_in_all_its_parts() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("run");
    fs::create_dir(&inner).unwrap();
    let mut journal = Journal::create(&inner, REQUESTS, 2).unwrap();
    for line in 1..4 {
        journal.append(&line);
        journal.flush();
    }
    assert_eq!(REQUESTS.parts_in(&inner).len(), 3);
    fs::remove_dir_all(&inner).unwrap();
    let again = folder.path().join("again");
    fs::create_dir(&again).unwrap();
    journal.settle(&again);
    journal.append(&4);
    journal.close().1.unwrap();
    assert_eq!(text_of(&again), "1\n2\n3\n4\n");
}

#[test]
fn a_file_that_somebody_replaced_is_trouble_and_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(REQUESTS.part_name(0));
    let mut journal = Journal::create(folder.path(), REQUESTS, UNLIMITED).unwrap();
    journal.append(&1);
    fs::remove_file(&path).unwrap();
    fs::write(&path, "mine").unwrap();
    assert!(journal.flush().is_some_and(|said| said.contains("exists")));
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    assert!(journal.close().1.is_err());
}

#[test]
fn a_file_that_somebody_else_writes_to_is_told_when_it_happens_and_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(REQUESTS.part_name(0));
    let mut journal = Journal::create(folder.path(), REQUESTS, UNLIMITED).unwrap();
    journal.append(&1);
    assert_eq!(journal.flush(), None);
    fs::write(&path, "").unwrap();
    journal.append(&2);
    assert!(
        journal
            .flush()
            .is_some_and(|said| said.contains("changed by another program"))
    );
    assert_eq!(journal.flush(), None);
    assert!(matches!(journal.close().1, Err(JournalError::Changed(_))));
}

#[test]
fn a_disk_that_is_full_is_said_once_and_named_at_the_end() {
    // /dev/full answers every write with ENOSPC; a part on it is made by hand, since it exists already
    let Ok(file) = OpenOptions::new().write(true).read(true).open("/dev/full") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::create(folder.path(), REQUESTS, UNLIMITED).unwrap();
    journal.parts = VecDeque::from([Part::of("/dev/full".into(), file).unwrap()]);
    journal.append(&1);
    journal.append(&2);
    assert!(
        journal
            .flush()
            .is_some_and(|said| said.contains("No space left") && said.contains("requests.jsonl"))
    );
    assert_eq!(journal.flush(), None);
    assert_eq!(journal.pending(), 4);
    assert!(matches!(
        journal.close().1,
        Err(JournalError::Lost { lost_lines: 2, .. })
    ));
}

#[test]
fn a_file_that_exists_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(REQUESTS.part_name(0));
    fs::write(&path, "mine").unwrap();
    assert!(Journal::create(folder.path(), REQUESTS, UNLIMITED).is_err());
    assert_eq!(fs::read_to_string(path).unwrap(), "mine");
}

proptest! {
    #[test]
    fn parts_together_are_what_one_file_would_have_been(
        lines in prop::collection::vec(("[a-z]{0,12}", any::<bool>()), 0..60),
        part_bytes in 1_u64..80,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(folder.path(), REQUESTS, part_bytes).unwrap();
        let mut expected = String::new();
        for (line, flush) in &lines {
            journal.append(line);
            expected.extend(["\"", line, "\"\n"]);
            if *flush {
                prop_assert_eq!(journal.flush(), None);
            }
        }
        journal.close().1.unwrap();
        prop_assert_eq!(text_of(folder.path()), expected);
        for part in REQUESTS.parts_in(folder.path()) {
            let text = fs::read_to_string(&part).unwrap();
            prop_assert!(text.is_empty() || text.ends_with('\n'), "{} is torn", part.display());
        }
        prop_assert!(REQUESTS.missing_in(folder.path()).is_empty());
    }
}

#[test]
fn an_error_names_its_cause_and_what_helps_against_that() {
    let said = |cause: io::Error| {
        let path = "run/cells.json".into();
        JournalError::Create { path, cause }.to_string()
    };
    let of = |errno: Errno| said(errno.into());
    for (errno, cause, cure) in [
        (Errno::MFILE, "open files", "ulimit -n"),
        (Errno::NOSPC, "No space left", "free some disk space"),
        (Errno::DQUOT, "quota", "free some space of the disk quota"),
        (Errno::FBIG, "too large", "ulimit -f"),
        (Errno::ACCESS, "Permission denied", "--out"),
        (Errno::ROFS, "Read-only", "--out"),
    ] {
        let said = of(errno);
        let told = ["run/cells.json", cause, cure];
        assert!(told.iter().all(|told| said.contains(told)), "{said}");
        assert_eq!(said.contains("--out"), cure == "--out", "{said}");
    }
}
