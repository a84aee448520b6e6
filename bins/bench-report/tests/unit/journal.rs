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
    let mut all = Values::<Number>::open(folder.path(), JournalFile::Requests, true);
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
    let mut lines = Values::<Number>::open(folder.path(), JournalFile::Requests, true);
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
