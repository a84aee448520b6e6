//! One function for each fuzz target: it must come back from any bytes, soon and within bounded memory, and what it computes must hold together.

#[path = "../../crates/bench-client/tests/common/reference.rs"]
mod reference;

use std::cell::RefCell;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};

use bench_client::protocol::PROTOCOLS;
use bench_client::sse::{SseDecoder, SseEvent, SseSplitter};
use bench_client::{
    Answer, AnswerDecoder, AnswerLimits, Client, Clock, Limits, ReadMark, StreamEnd, Target,
    Timeouts, protocol_by_name,
};
use bench_config as config;
use bench_metrics::{CellAccumulator, CellContext};
use bench_schema::{
    Benchmark, GenerationRequest, Nanos, Outcome, Phase, Prompt, Reading, RequestRecord, RunRecord,
    Sampling,
};
use bench_workload::{DatasetSpec, FileFormat, OnBadLine, Plan, PlanSpec, Words};
use reference::ReferenceDecoder;

/// A name and what to do with some bytes.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// Every target; its corpus is in `fuzz/corpus/NAME`.
pub const ALL: [FuzzTarget; 8] = [
    ("sse", sse),
    ("answer", answer),
    ("http", http),
    ("config", config),
    ("results", results),
    ("records", records),
    ("prometheus", prometheus),
    ("dataset", dataset),
];

/// A stream of events, cut where the first bytes say: the decoder of the hot path gives the same events as in one piece, and the same as the
/// reference decoder wherever that one takes the bytes.
pub fn sse(bytes: &[u8]) {
    let (cuts, stream) = split(bytes);
    let whole = events(&mut SseSplitter::new(1 << 16), &[stream]);
    let pieces = cut(stream, cuts);
    let own = events(&mut SseSplitter::new(1 << 16), &pieces);
    if whole.1 && own.1 {
        assert_eq!(whole.0, own.0, "the cuts changed the events");
    }
    if std::str::from_utf8(stream).is_ok() && stream.len() < 4096 {
        // the reference waits for the byte after a CR, which may be its LF: a comment gives it one
        let closed = [stream, b":"].concat();
        let own = events(&mut SseSplitter::new(1 << 16), &[&closed]);
        let reference = events(&mut ReferenceDecoder::new(), &[&closed]);
        if own.1 && reference.1 {
            assert_eq!(
                own.0, reference.0,
                "the reference decoder sees other events"
            );
        }
    }
}

type Seen = (String, Vec<u8>);

/// The events, and whether the stream could be decoded to its end.
fn events(decoder: &mut dyn SseDecoder, reads: &[&[u8]]) -> (Vec<Seen>, bool) {
    let mut seen = Vec::new();
    let mut keep = |event: SseEvent<'_>| {
        // the reference calls an event without a name what the standard calls it
        let name = Some(event.event).filter(|name| *name != "message");
        seen.push((name.unwrap_or_default().to_owned(), event.data.to_vec()));
    };
    let whole = reads
        .iter()
        .all(|read| decoder.feed(read, &mut keep).is_ok());
    (seen, whole)
}

/// A response body in one of the protocols: any cut gives the same answer.
pub fn answer(bytes: &[u8]) {
    let [kind, bytes @ ..] = bytes else { return };
    let (cuts, body) = split(bytes);
    let streaming = kind & 128 == 0;
    let Some(name) = PROTOCOLS.get(usize::from(kind & 127) % PROTOCOLS.len()) else {
        return;
    };
    let Ok(protocol) = protocol_by_name(name) else {
        return;
    };
    let decode = |reads: &[&[u8]]| -> (Answer, bool) {
        let limits = AnswerLimits {
            max_event_bytes: 1 << 16,
            keep_text: Some(1 << 12),
            ..AnswerLimits::default()
        };
        let mut decoder = AnswerDecoder::new(Arc::clone(&protocol), streaming, limits);
        let mut failed = false;
        for read in reads {
            failed |= decoder.push(read, ReadMark::default()).failed;
        }
        (decoder.finish(StreamEnd::Eof), failed)
    };
    let (whole, failed) = decode(&[body]);
    let (pieces, failed_in_pieces) = decode(&cut(body, cuts));
    assert!(
        whole
            .text
            .as_ref()
            .is_none_or(|text| text.chars().count() <= 1 << 12)
    );
    if !failed && !failed_in_pieces {
        assert_eq!(whole.outcome.name(), pieces.outcome.name());
        assert_eq!(whole.events.len(), pieces.events.len());
        assert_eq!(whole.text, pieces.text);
        assert_eq!(whole.usage, pieces.usage);
        assert_eq!(whole.finish_reason, pieces.finish_reason);
    }
}

/// A whole response, head and chunks and all, from a server that writes these bytes and closes: the client comes back with an outcome, long
/// before its limit on time.
pub fn http(bytes: &[u8]) {
    thread_local! {
        static RUNTIME: RefCell<Option<tokio::runtime::Runtime>> = const { RefCell::new(None) };
    }
    let (socket, say) = server();
    if say.send(bytes.to_vec()).is_err() {
        return;
    }
    RUNTIME.with_borrow_mut(|runtime| {
        let runtime = runtime.get_or_insert_with(|| {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all().build().expect("a runtime")
        });
        tokio::task::LocalSet::new().block_on(runtime, async {
            let client = Client::new(Arc::new(target(socket)), Clock::start()).expect("a client");
            let exchange = client.send(&question(), "fuzz").await;
            assert!(
                !matches!(exchange.outcome, Outcome::TimedOut { .. }),
                "hangs: {exchange:?}"
            );
        });
    });
}

/// A server on a Unix socket that answers each connection with the next bytes that it is given.
fn server() -> (&'static Path, &'static Sender<Vec<u8>>) {
    static SERVER: OnceLock<(tempfile::TempDir, PathBuf, Sender<Vec<u8>>)> = OnceLock::new();
    let (_, path, say) = SERVER.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        let (say, answers) = channel::<Vec<u8>>();
        std::thread::spawn(move || {
            for answer in answers {
                let Ok((mut stream, _)) = listener.accept() else {
                    return;
                };
                // whatever the client does with it, and however early it goes
                let mut asked = [0; 1 << 14];
                let _read = stream.read(&mut asked);
                let _written = stream.write_all(&answer);
                let _shut = stream.shutdown(Shutdown::Write);
                while stream.read(&mut asked).is_ok_and(|n| n > 0) {}
            }
        });
        (folder, path, say)
    });
    (path, say)
}

fn target(socket: &Path) -> Target {
    let url = format!("unix://{}", socket.display());
    let protocol = protocol_by_name("openai-chat").expect("a protocol");
    let mut target = Target::new(&url, protocol, "m").expect("a target");
    target.timeouts = Timeouts {
        whole: Nanos::from_millis(10_000),
        ..Timeouts::default()
    };
    target.limits = Limits {
        event_bytes: 1 << 16,
        ..Limits::default()
    };
    target
}

fn question() -> GenerationRequest {
    GenerationRequest {
        prompt: Prompt::Text("hello".into()),
        max_tokens: Some(4),
        min_tokens: None,
        ignore_eos: false,
        sampling: Sampling::default(),
        stream: true,
        extra_body: None,
    }
}

/// A configuration file: settings, or problems that say something.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    for benchmark in [Benchmark::Latency, Benchmark::Throughput, Benchmark::Seqlen] {
        let flags = config::flags(benchmark, "", ["bench".into()]).expect("no flags are right");
        let file = Some((Path::new("fuzz.toml"), text));
        if let Err(problems) =
            config::Given::read(benchmark, flags, file, &Nothing).and_then(config::Given::finish)
        {
            assert!(!problems.is_empty());
            for problem in problems {
                assert!(!problem.to_string().trim().is_empty());
            }
        }
    }
}

/// Neither environment nor files.
struct Nothing;

impl config::Surroundings for Nothing {
    fn variable(&self, _: &str) -> Option<std::ffi::OsString> {
        None
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn read(&self, _: &Path) -> Result<String, String> {
        Err("there are no files here".to_owned())
    }
}

/// A `run.json` from anywhere: what is taken can be written, read again and shown, and no text of it becomes part of a page's markup.
pub fn results(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(run) = RunRecord::from_json(text) else {
        return;
    };
    let again = serde_json::to_string(&run).expect("a record has a JSON form");
    RunRecord::from_json(&again).expect("what was written can be read");
    let _table = bench_report::terminal::render(&run, None);
    let _text = bench_report::markdown::render(&run, &[]);
    if let Ok(page) = bench_report::html::render(&run, &bench_report::RunFiles::default()) {
        assert!(!page.contains("<fuzz"), "a text became markup");
    }
}

/// The journals of a run: records are added up, readings are kept as series.
pub fn records(bytes: &[u8]) {
    let mut history = bench_metrics::readings::History::default();
    let mut cell = CellAccumulator::new(CellContext::new(PlanSpec::default().load));
    let mut planned = 0;
    for line in bytes.split(|&byte| byte == b'\n').take(64) {
        if let Ok(record) = serde_json::from_slice::<RequestRecord>(line) {
            planned += u64::from(record.phase == Phase::Measure);
            cell.push(&record);
        } else if let Ok(reading) = serde_json::from_slice::<Reading>(line) {
            history.push(&reading);
        }
    }
    let summary = cell.finish();
    assert!(summary.counts.add_up());
    assert_eq!(summary.counts.planned, planned);
    for key in history.keys() {
        let _points = history.series(&key);
    }
}

/// A page of metrics.
pub fn prometheus(bytes: &[u8]) {
    if let Ok(page) = bench_hardware::Page::parse(bytes) {
        assert!(!page.samples.is_empty() || page.malformed == 0);
    }
}

/// A dataset file in one of its formats, packed or not: requests, or an error that says what is wrong.
pub fn dataset(bytes: &[u8]) {
    let [kind, bytes @ ..] = bytes else { return };
    let Some(format) = FileFormat::ALL.get(usize::from(kind & 63) % FileFormat::ALL.len()) else {
        return;
    };
    let packed = kind & 64 != 0;
    let path = dataset_file(packed);
    if fs::write(&path, bytes).is_err() {
        return;
    }
    let spec = PlanSpec {
        dataset: DatasetSpec::File {
            format: *format,
            path,
        },
        requests: Some(50),
        on_bad_line: if kind & 128 == 0 {
            OnBadLine::Stop
        } else {
            OnBadLine::Skip
        },
        chat: true,
        ..PlanSpec::default()
    };
    match Plan::new(spec, Arc::new(Words)) {
        Ok(plan) => {
            for planned in plan.iter().take(50) {
                if let Err(error) = planned {
                    assert!(!error.to_string().is_empty());
                    break;
                }
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn dataset_file(packed: bool) -> PathBuf {
    thread_local! {
        static FOLDER: tempfile::TempDir = tempfile::tempdir().expect("a folder");
    }
    FOLDER.with(|folder| folder.path().join(if packed { "data.gz" } else { "data" }))
}

/// The first bytes say where the others are cut.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.len().min(4))
}

fn cut<'a>(bytes: &'a [u8], at: &[u8]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = at
        .iter()
        .map(|&place| usize::from(place) * bytes.len() / 255)
        .collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2)
        .filter_map(|pair| bytes.get(*pair.first()?..*pair.last()?))
        .collect()
}
