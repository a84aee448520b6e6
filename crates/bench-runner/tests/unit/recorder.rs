use bench_schema::{Exchange, Outcome, Phase, TokenSource};

use super::*;
use crate::progress::Progress;
use crate::redact::Console;

fn record(id: u64) -> RequestRecord {
    RequestRecord {
        id,
        cell: "c".to_owned(),
        repeat: 0,
        phase: Phase::Measure,
        use_case: None,
        session: None,
        turn: None,
        worker: Some(0),
        due: Stamp::EPOCH,
        dispatched: None,
        prompt: bench_schema::PromptSize::default(),
        asked_output_tokens: None,
        output_tokens: None,
        token_source: TokenSource::Unknown,
        wire: Exchange::nothing(Outcome::Unsent {
            reason: "a test".to_owned(),
        }),
    }
}

#[test]
fn more_records_than_the_queues_hold_are_all_kept() {
    let folder = tempfile::tempdir().unwrap();
    let progress = Progress::new(false, Console::default());
    let directory = RunDirectory::at(folder.path().to_owned(), progress).unwrap();
    let thread =
        RecorderThread::start(&Arc::new(directory), Clock::start(), Secrets::default()).unwrap();
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
