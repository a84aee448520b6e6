//! The files of a run directory.

use std::io::{self, Write as _};
use std::path::Path;

use bench_schema::{InUse, JournalFile, Lines, hold_folder, replace_file};

#[test]
fn parts_are_found_in_order_and_gaps_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let names = [
        "requests.0010.jsonl",
        "requests.jsonl",
        "requests.0002.jsonl",
        "requests.2.jsonl",
        "requests.0000.jsonl",
        "requests-old.jsonl",
        "hardware.jsonl",
        "requests.jsonl.part",
    ];
    for name in names {
        std::fs::write(dir.path().join(name), "").unwrap();
    }
    std::fs::create_dir(dir.path().join("requests.0011.jsonl")).unwrap();
    let found: Vec<_> = JournalFile::Requests
        .parts_in(dir.path())
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        found,
        [
            "requests.jsonl",
            "requests.0002.jsonl",
            "requests.0010.jsonl"
        ]
    );
    let missing = JournalFile::Requests.missing_in(dir.path());
    assert_eq!(missing.len(), 8);
    assert_eq!(
        missing.first().map(String::as_str),
        Some("requests.0001.jsonl")
    );
    assert!(JournalFile::Readings.missing_in(dir.path()).is_empty());
}

#[test]
fn a_folder_that_is_not_there_has_no_parts() {
    let nowhere = Path::new("/no/such/folder");
    assert!(JournalFile::Requests.parts_in(nowhere).is_empty());
    assert!(JournalFile::Requests.missing_in(nowhere).is_empty());
}

#[test]
fn a_file_is_replaced_as_a_whole_and_nothing_is_left_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("inner").join("x");
    replace_file(&path, |file| file.write_all(b"one")).unwrap();
    replace_file(&path, |file| file.write_all(b"two")).unwrap();
    let full = replace_file(&path, |file| {
        file.write_all(b"thr")?;
        Err(io::ErrorKind::StorageFull.into())
    });
    assert!(full.is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"two");
    assert_eq!(path.parent().unwrap().read_dir().unwrap().count(), 1);
}

#[test]
fn a_folder_is_held_by_one_program_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let held = hold_folder(folder.path()).unwrap();
    assert!(held.is_some());
    assert_eq!(hold_folder(folder.path()).unwrap_err(), InUse);
    drop(held);
    assert!(hold_folder(folder.path()).unwrap().is_some());
}

#[test]
fn lines_are_read_part_after_part_with_their_numbers_and_blank_ones_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let parts = [("a", "1\n\nx\n"), ("b", ""), ("c", "4\n5")].map(|(name, text)| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    });
    let mut lines = Lines::of(parts);
    let mut seen = Vec::new();
    while let Some(line) = lines.next_line().unwrap() {
        let part = line.part.file_name().unwrap().to_str().unwrap().to_owned();
        seen.push((part, line.number, line.value::<u32>(), line.is_torn()));
    }
    let line = |part: &str, number, value, torn| (part.to_owned(), number, value, torn);
    assert_eq!(
        seen,
        [
            line("a", 1, Some(1), false),
            line("a", 3, None, false),
            line("c", 1, Some(4), false),
            line("c", 2, Some(5), true)
        ]
    );
    let mut gone = Lines::of([folder.path().join("gone")]);
    assert!(gone.next_line().unwrap_err().path.ends_with("gone"));
}
