use std::path::Path;

use bench_schema::{Exchange, Outcome, TokenSource};

use super::*;
use crate::progress::Progress;

fn record(id: u64) -> RequestRecord {
    RequestRecord {
        worker: Some(0),
        ..RequestRecord::bare(
            id,
            "c",
            Exchange::nothing(Outcome::Unsent {
                reason: "a test".to_owned(),
            }),
        )
    }
}

#[test]
fn a_text_is_counted_where_nobody_told_its_tokens_and_stored_only_where_asked() {
    let settled = |keep, counts: bool, told: Option<u64>, chars: u64| {
        let count = |text: &str| Ok(text.split(' ').count() as u64);
        let counter = bench_workload::CountWith::new("a tokenizer", count);
        let texts = AnswerTexts {
            counter: counts.then(|| Arc::new(counter) as Arc<_>),
            keep,
        };
        let mut record = record(1);
        record.wire.outcome = Outcome::Completed;
        record.wire.text = Some("one two three four".to_owned());
        record.wire.text_chars = chars;
        record.asked_output_tokens = Some(5);
        if told.is_some() {
            (record.output_tokens, record.token_source) = (told, TokenSource::Usage);
        }
        texts.settle(&mut record);
        (record.output_tokens, record.token_source, record.wire.text)
    };
    let text = || Some("one two three four".to_owned());
    let by_text = TokenSource::Tokenizer;
    assert_eq!(settled(false, true, None, 18), (Some(4), by_text, None));
    assert_eq!(settled(true, true, None, 18), (Some(4), by_text, text()));
    let told = (Some(3), TokenSource::Usage, None);
    assert_eq!(settled(false, true, Some(3), 18), told);
    // the end of it was not kept
    let unknown = (None, TokenSource::Unknown, None);
    assert_eq!(settled(false, true, None, 19), unknown);
    assert_eq!(settled(false, false, None, 18), unknown);
}

fn started_in(folder: &Path) -> RecorderThread {
    let progress = Progress::new(false, Secrets::default());
    let directory = RunDirectory::at(folder.to_owned(), progress).unwrap();
    let texts = AnswerTexts {
        counter: None,
        keep: false,
    };
    let (clock, secrets) = (Clock::start(), Secrets::default());
    RecorderThread::start(&Arc::new(directory), clock, secrets, texts, None).unwrap()
}

/// What is killed right after a cell is said to have ended has all of the cell's records.
#[test]
fn the_records_of_a_cell_are_written_when_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let thread = started_in(folder.path());
    for id in 0..3 {
        thread.recorder.request(Box::new(record(id)));
    }
    assert!(thread.recorder.end().is_err(), "nobody asked to add up");
    let parts = JournalFile::Requests.parts_in(folder.path());
    let lines = parts
        .iter()
        .map(|part| std::fs::read_to_string(part).unwrap().lines().count());
    assert_eq!(lines.sum::<usize>(), 3);
    assert!(thread.close().1.is_empty());
}

#[test]
fn more_records_than_the_queues_hold_are_all_kept() {
    let folder = tempfile::tempdir().unwrap();
    let thread = started_in(folder.path());
    let many = u64::try_from(3 * CAPACITY).unwrap();
    let senders: Vec<_> = (0..2)
        .map(|sender| {
            let recorder = thread.recorder.clone();
            std::thread::spawn(move || {
                for id in (sender..many).step_by(2) {
                    recorder.request(Box::new(record(id)));
                }
            })
        })
        .collect();
    for sender in senders {
        sender.join().unwrap();
    }
    assert!(thread.close().1.is_empty());
    let mut seen = vec![false; usize::try_from(many).unwrap()];
    for part in JournalFile::Requests.parts_in(folder.path()) {
        for line in std::fs::read_to_string(part).unwrap().lines() {
            let record: RequestRecord = serde_json::from_str(line).unwrap();
            let seen = &mut seen[usize::try_from(record.id).unwrap()];
            assert!(!*seen, "{} is there twice", record.id);
            *seen = true;
        }
    }
    assert!(seen.iter().all(|seen| *seen));
}
