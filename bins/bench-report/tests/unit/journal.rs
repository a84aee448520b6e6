//! Tests of `src/journal.rs`.

use bench_schema::Seen;

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
struct Number(u32);

impl Entry for Number {
    fn problem(&self, _: &mut Seen) -> Option<Problem> {
        None
    }
}

fn read(text: &str) -> (Vec<u32>, Damage) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("requests.jsonl"), text).unwrap();
    let mut all = Values::<Number>::open(folder.path(), JournalFile::Requests, None, true);
    let mut values = Vec::new();
    while let Some(value) = all.next().unwrap() {
        values.push(value.0);
    }
    (values, all.parts.pop().unwrap_or_default().1)
}

#[test]
fn parts_are_read_one_after_another_with_the_damage_of_each() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("requests.jsonl", "1\n2\n");
    write("requests.0001.jsonl", "3\nx\n");
    write("requests.0003.jsonl", "4\n5");
    write("hardware.jsonl", "9\n");
    let mut lines = Values::<Number>::open(folder.path(), JournalFile::Requests, None, true);
    let mut values = Vec::new();
    while let Some(value) = lines.next().unwrap() {
        values.push(value.0);
    }
    assert_eq!(values, [1, 2, 3, 4, 5]);
    let notes: Vec<_> = lines.notes().collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("requests.0002.jsonl"), "{notes:?}");
    assert!(
        notes[1].contains("requests.0001.jsonl") && notes[1].contains("line 2"),
        "{notes:?}"
    );
}

#[test]
fn a_torn_last_line_is_passed_over_without_being_called_damage() {
    let (values, damage) = read("1\n2\n{\"a");
    assert_eq!(values, [1, 2]);
    assert_eq!((damage.lines, damage.torn), (0, true));
}

#[test]
fn a_last_line_that_only_lacks_its_end_counts() {
    assert_eq!(read("1\n2"), (vec![1, 2], Damage::default()));
}

#[test]
fn damaged_lines_are_counted_and_named_by_their_numbers() {
    let (values, damage) = read("1\nx\n\n4\n{}\n");
    assert_eq!(values, [1, 4]);
    assert_eq!((damage.lines, damage.named.len()), (2, 2));
    let notes: Vec<_> = damage.notes(Path::new("r.jsonl")).collect();
    assert_eq!(
        notes,
        ["r.jsonl: line 2 cannot be read, line 5 cannot be read; left out"]
    );
}

/// What was checked has to be what was read.
#[test]
fn a_journal_that_changes_while_it_is_read_is_an_error() {
    let requests = JournalFile::Requests;
    for change in ["cut", "removed", "more"] {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("requests.jsonl"), "1\n2\n").unwrap();
        std::fs::write(path("requests.0001.jsonl"), "3\n").unwrap();
        let held = Some(PartStates::of(folder.path(), requests));
        let mut all = Values::<Number>::open(folder.path(), requests, held.clone(), false);
        while all.next().unwrap().is_some() {}
        let mut all = Values::<Number>::open(folder.path(), requests, held, false);
        assert_eq!(all.next().unwrap(), Some(Number(1)));
        match change {
            "cut" => std::fs::write(path("requests.jsonl"), "1\n").unwrap(),
            "removed" => std::fs::remove_file(path("requests.0001.jsonl")).unwrap(),
            _ => std::fs::write(path("requests.0001.jsonl"), "3\n4\n").unwrap(),
        }
        let told = loop {
            match all.next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("{change} is not seen"),
                Err(error) => break error.to_string(),
            }
        };
        let wanted = match change {
            "removed" => "cannot read",
            _ => "was changed while it was read",
        };
        assert!(told.contains(wanted), "{told}");
    }
}
