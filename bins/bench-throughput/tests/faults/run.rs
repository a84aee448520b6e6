//! One run in which some requests are struck by a fault and the others are not.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bench_engine::{EngineConfig, Entry, FaultKind, PlannedFault};
use bench_schema::{Counts, Phase, RequestRecord};

use super::row::{Row, SENT_AGAIN, Seen, together};
use crate::common::{Killed, Result, bench, quick, records, stored};

/// Requests of a run, and tokens that each asks for.
const REQUESTS: u64 = 7;
const TOKENS: u64 = 8;
/// Bytes of the faults whose size is their point: a gigabyte.
const GIGABYTE: u64 = 1 << 30;
/// No run may need more memory than this, whatever is sent to it (KiB).
const MOST_MEMORY_KIB: u64 = 160 << 10;
/// No run may take longer than this.
const LONGEST: Duration = Duration::from_mins(2);

/// What is played.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) sent: String,
    pub(crate) how: How,
}

pub(crate) enum How {
    /// The engine plays it for some of the requests.
    Planned(FaultKind, u64),
    /// The same where connections carry several requests: the client may send a request again that an idle connection swallowed.
    Reused(FaultKind),
    /// A second endpoint, which this makes, is at fault; the first one is well.
    Beside(fn() -> Result<Beside>),
}

/// A second endpoint: its URL, and what keeps it there.
pub(crate) struct Beside {
    pub(crate) url: String,
    pub(crate) guard: Box<dyn std::any::Any>,
}

impl Case {
    /// A fault of the engine. Those of accepting strike every connection of a second endpoint.
    pub(crate) fn of(kind: FaultKind) -> Self {
        let argument = match kind {
            FaultKind::GiantEvent | FaultKind::EndlessHeader => GIGABYTE,
            // the shortest that is long enough
            FaultKind::SlowHeaders | FaultKind::RoleEarly => 20,
            _ => kind.default_argument().unwrap_or(0),
        };
        let sent = kind.summary().trim_end_matches(" Only from the plan.");
        Self {
            name: kind.name().to_owned(),
            sent: sent
                .trim_end_matches('.')
                .replace("every ARG-th", &every(argument))
                .replace("ARG", &argument.to_string()),
            how: How::Planned(kind, argument),
        }
    }

    /// A fault that closes a connection before the answer begins, under a request that is not the connection's first.
    pub(crate) fn reused(kind: FaultKind) -> Self {
        Self {
            name: format!("{} on a reused connection", kind.name()),
            how: How::Reused(kind),
            ..Self::of(kind)
        }
    }

    fn marked(&self) -> String {
        match self.how {
            How::Beside(_) => format!("*{}*", self.name),
            How::Planned(..) | How::Reused(_) => format!("`{}`", self.name),
        }
    }

    /// The beginning of its row.
    pub(crate) fn key(&self) -> String {
        format!("| {} |", self.marked())
    }

    /// Play it, with limits on time around `limit_ms`.
    pub(crate) fn play(&self, limit_ms: u64) -> Result<Row> {
        let folder = tempfile::tempdir()?;
        let run = folder.path().join("run");
        let struck = match self.how {
            // close-after: a server that closes after some answers only keeps connections, and fails what it reads as it closes one
            How::Planned(kind, argument)
                if kind.is_connection_level() || matches!(kind, FaultKind::CloseAfter) =>
            {
                let fault = plan(kind, argument, 0, 1)?;
                let bad = quick(EngineConfig {
                    faults: vec![fault],
                    ..EngineConfig::default()
                })?;
                beside(&bad.url(), &run, limit_ms)?
            }
            // a connection for each request: none of them is sent again
            How::Planned(kind @ (FaultKind::ResetHead | FaultKind::CloseHead), _) => {
                within(plan(kind, 0, 3, 3)?, "per-request", &run, limit_ms)?
            }
            How::Planned(kind, argument) => {
                within(plan(kind, argument, 3, 3)?, "reuse", &run, limit_ms)?
            }
            // by the sixth the server has answered twice on a connection: it keeps them
            How::Reused(kind) => within(plan(kind, 0, 6, 3)?, "reuse", &run, limit_ms)?,
            How::Beside(make) => {
                let bad = make()?;
                let struck = beside(&bad.url, &run, limit_ms)?;
                drop(bad.guard);
                struck
            }
        };
        // what the client is at when an accepted connection ends is chance, and so is whether it had sent bytes that nobody read: that makes
        // a reset of a close
        let at_accept = ["reset-accept", "close-accept"].contains(&self.name.as_str());
        let reset = at_accept || self.name.starts_with("reset");
        let seen: BTreeSet<Seen> = struck
            .iter()
            .map(|record| {
                let mut one = Seen::of(record, reset);
                // a close that nobody announced may come when the next request has the connection already, also one that was opened before the
                // load began: whether that is sent again is chance
                if at_accept || self.name == "close-after" {
                    one.kept = one.kept.replace(SENT_AGAIN, "");
                }
                one
            })
            .collect();
        let mut seen = together(&seen);
        let early = |stage: &str| ["connect", "send", "headers"].contains(&stage);
        if at_accept && seen.stage.split(" or ").all(early) {
            "connect, send or headers".clone_into(&mut seen.stage);
        }
        Ok(Row {
            fault: self.marked(),
            sent: self.sent.clone(),
            seen,
        })
    }
}

/// For people.
fn every(number: u64) -> String {
    match number {
        1 => "every".to_owned(),
        2 => "every second".to_owned(),
        3 => "every third".to_owned(),
        n => format!("every {n}th"),
    }
}

fn plan(kind: FaultKind, argument: u64, from: u64, every: u64) -> Result<PlannedFault> {
    let name = kind.name();
    let text = match kind.default_argument() {
        Some(_) => format!("{name}:{argument}"),
        None => name.to_owned(),
    };
    Ok(PlannedFault {
        fault: text.parse()?,
        from,
        until: None,
        every,
        share: 1.0,
    })
}

/// One engine that strikes every third request; its ledger says which. Returns the records of those.
fn within(
    fault: PlannedFault,
    connections: &str,
    run: &Path,
    limit_ms: u64,
) -> Result<Vec<RequestRecord>> {
    let server = quick(EngineConfig {
        faults: vec![fault],
        ..EngineConfig::default()
    })?;
    let ended = measure(&[server.url()], connections, run, limit_ms)?;
    // a request that was sent again has several entries
    let mut truth: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
    for entry in server.shutdown() {
        truth.entry(entry.id.clone()).or_default().push(entry);
    }
    let was_struck = |record: &RequestRecord| {
        let name = format!("{}-{}-{}", record.cell, record.repeat, record.id);
        let entries = truth.get(&name);
        entries.is_none_or(|entries| entries.iter().any(|entry| entry.fault.is_some()))
    };
    sift(run, &ended, was_struck)
}

/// Two endpoints, the second of which is at fault. Returns the records that went there.
fn beside(url: &str, run: &Path, limit_ms: u64) -> Result<Vec<RequestRecord>> {
    let good = quick(EngineConfig::default())?;
    let ended = measure(&[good.url(), url.to_owned()], "reuse", run, limit_ms)?;
    sift(run, &ended, |record| record.wire.connection.endpoint == 1)
}

/// How a run ended.
struct Ended {
    status: ExitStatus,
    said: String,
    memory_kib: u64,
}

/// The run itself: two at a time, so that a struck request and an unharmed one are under way together.
fn measure(urls: &[String], connections: &str, run: &Path, limit_ms: u64) -> Result<Ended> {
    let mut child = Killed(
        bench(&["--connections", connections])
            .args(arguments(urls, limit_ms))
            // a second endpoint that is at fault from its first connection is measured all the same
            .args((urls.len() > 1).then_some("--keep-going"))
            .arg("--out")
            .arg(run)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?,
    );
    let mut errors = child.0.stderr.take().ok_or("no stderr")?;
    let reader = std::thread::spawn(move || {
        let mut said = String::new();
        errors.read_to_string(&mut said).map(|_| said)
    });
    let status_file = format!("/proc/{}/status", child.0.id());
    let (mut memory_kib, step, mut waited) = (0, Duration::from_millis(5), Duration::ZERO);
    let status = loop {
        // the peak that the kernel keeps, as long as it keeps it
        memory_kib = memory_kib.max(peak(&status_file).unwrap_or(0));
        if let Some(status) = child.0.try_wait()? {
            break status;
        }
        if waited > LONGEST {
            return Err(format!("still running after {LONGEST:?}").into());
        }
        std::thread::sleep(step);
        waited += step;
    };
    let said = reader.join().map_err(|_| "the reader of stderr")??;
    Ok(Ended {
        status,
        said,
        memory_kib,
    })
}

fn arguments(urls: &[String], limit_ms: u64) -> Vec<String> {
    let (limit, whole) = (format!("{limit_ms}ms"), format!("{}ms", 2 * limit_ms));
    let (requests, tokens) = (REQUESTS.to_string(), TOKENS.to_string());
    let urls = urls.join(",");
    let pairs = [
        ("--url", urls.as_str()),
        ("--concurrency", "2"),
        ("--requests", &requests),
        ("--warmup", "0"),
        ("--dataset", "random"),
        ("--input-tokens", "12"),
        ("--output-tokens", &tokens),
        ("--server-metrics", "none"),
        ("--workers", "1"),
        ("--model", "simulated"),
        ("--timeout", &whole),
        ("--connect-timeout", &limit),
        ("--first-token-timeout", &limit),
        ("--token-timeout", &limit),
    ];
    let flags = ["--no-hardware", "--quiet"].map(str::to_owned);
    let pairs = pairs.map(|(flag, value)| [flag.to_owned(), value.to_owned()]);
    pairs.into_iter().flatten().chain(flags).collect()
}

fn peak(status_file: &str) -> Option<u64> {
    let status = std::fs::read_to_string(status_file).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The run is whole, its counts add up, and what was not struck is unharmed; returns what was struck.
fn sift(
    run: &Path,
    ended: &Ended,
    struck: impl Fn(&RequestRecord) -> bool,
) -> Result<Vec<RequestRecord>> {
    let said = &ended.said;
    let code = ended.status.code();
    // 3: done, and doubtful, for requests failed; 1: nothing was answered, which the rest below would find
    check(matches!(code, Some(0 | 3)), || {
        format!("exit {code:?}: {said}")
    })?;
    check(!said.contains("panicked"), || said.clone())?;
    check(ended.memory_kib < MOST_MEMORY_KIB, || {
        format!("{} KiB of memory", ended.memory_kib)
    })?;
    let record = stored(run)?;
    let cell = record.cells.first().ok_or("no cell")?;
    let (mut bad, mut good) = (Vec::new(), 0);
    let all = records(run)?;
    check(
        all.iter().all(|record| record.phase == Phase::Measure),
        || "warm-up without being asked".to_owned(),
    )?;
    counts_hold(&cell.counts, &all)?;
    for record in all {
        if struck(&record) {
            bad.push(record);
            continue;
        }
        good += 1;
        let whole = record.wire.outcome.is_completed()
            && record.output_tokens == Some(TOKENS)
            && record.wire.events.len() as u64 == TOKENS;
        check(whole, || {
            format!("a request that was not struck: {record:?}")
        })?;
    }
    check(record.complete, || {
        format!("incomplete: {:?}", record.incomplete_reason)
    })?;
    check(good > 0 && !bad.is_empty(), || {
        format!("{good} unharmed, {} struck", bad.len())
    })?;
    Ok(bad)
}

/// The counts add up, and are those of the records.
fn counts_hold(counts: &Counts, all: &[RequestRecord]) -> Result {
    let of = |name: &str| {
        let named = all
            .iter()
            .filter(|record| record.wire.outcome.name() == name);
        named.count() as u64
    };
    let same = counts.add_up()
        && counts.planned == REQUESTS
        && all.len() as u64 == REQUESTS
        && counts.completed == of("completed")
        && counts.failed == of("failed")
        && counts.timed_out == of("timed_out")
        && counts.truncated == of("truncated");
    check(same, || format!("{counts:?} of {} records", all.len()))
}

fn check(holds: bool, problem: impl FnOnce() -> String) -> Result {
    if holds { Ok(()) } else { Err(problem().into()) }
}
