//! What the lines of a journal say.

use bench_schema::{Entries, Exchange, JournalFile, Outcome, Phase, Problem, RequestRecord, Seen};

fn request(id: u64, repeat: u32, phase: Phase) -> RequestRecord {
    RequestRecord {
        repeat,
        phase,
        ..RequestRecord::bare(id, "c", Exchange::nothing(Outcome::Completed))
    }
}

#[test]
fn a_request_is_new_once_in_its_repeat_and_phase() {
    let mut seen = Seen::default();
    let mut insert = |repeat, phase, id| (seen.insert(&request(id, repeat, phase)), seen.holes());
    assert_eq!(insert(0, Phase::Measure, 70), (true, 70));
    assert_eq!(insert(0, Phase::Measure, 70), (false, 70));
    assert_eq!(insert(1, Phase::Measure, 70), (true, 70 + 70));
    assert_eq!(insert(0, Phase::Warmup, 70), (true, 70 + 70 + 70));
    assert_eq!(insert(0, Phase::Measure, 64), (true, 69 + 70 + 70));
    assert_eq!(insert(0, Phase::Measure, u64::MAX), (true, u64::MAX));
    assert_eq!(insert(0, Phase::Measure, u64::MAX), (false, u64::MAX));
}

#[test]
fn each_request_counts_once_and_what_does_not_count_is_told_by_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let line = |id| serde_json::to_string(&request(id, 0, Phase::Measure)).unwrap() + "\n";
    let impossible = line(3).replace("\"due\":0", "\"due\":9223372036854775807");
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    write("requests.jsonl", line(1) + &line(2) + "x\n" + &impossible);
    write("requests.0001.jsonl", line(2) + &line(3) + "{\"id\":4");
    let mut entries = Entries::<RequestRecord>::of(JournalFile::Requests.lines_in(folder.path()));
    let (mut ids, mut bad) = (Vec::new(), Vec::new());
    while let Some(entry) = entries.next_entry().unwrap() {
        match entry {
            Ok(record) => ids.push(record.id),
            Err(line) => bad.push(line),
        }
    }
    assert_eq!(ids, [1, 2, 3]);
    let problems: Vec<Problem> = bad.iter().map(|line| line.problem.clone()).collect();
    let again = Problem::Again("c".to_owned(), 2);
    let unreadable = Problem::Unreadable;
    assert_eq!(
        problems,
        [unreadable.clone(), unreadable, again, Problem::Torn]
    );
    assert_eq!(bad[2].to_string(), "line 1 is request 2 of c again");
    assert!(bad[2].part.ends_with("requests.0001.jsonl"));
}
