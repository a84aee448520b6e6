//! A server that dies, comes back, or does not: whatever its schedule, the result is what a plain script makes of the records, and nothing is hidden.
//!
//! `DEATHS=50 cargo test -p bench-throughput --test deaths` plays that many schedules drawn by chance beside the named ones.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Result, bench, quick, records, stderr, stored};
use bench_engine::config::Outage;
use bench_engine::{EngineConfig, Entry, ledger};
use bench_schema::{CellRecord, Outcome, RequestRecord, RunRecord, SloVerdict, TrustVerdict};

/// Length of the load, ms; what dies later was not there.
const LENGTH_MS: u64 = 1_500;
/// The objective on E2E.
const LIMIT_MS: f64 = 400.0;

/// When the server is away, from the first connection on.
#[derive(Clone, Debug)]
struct Schedule {
    name: String,
    outages: Vec<Outage>,
    open: bool,
    keep_going: bool,
}

fn away(after_ms: u64, for_ms: Option<u64>) -> Outage {
    Outage { after_ms, for_ms }
}

fn schedules() -> Vec<Schedule> {
    let named = [
        ("never", vec![]),
        ("in the first third", vec![away(150, Some(400))]),
        ("in the middle", vec![away(600, Some(300))]),
        ("in the last third", vec![away(1_100, Some(250))]),
        ("for ever", vec![away(500, None)]),
        (
            "again and again",
            (0..6).map(|n| away(200 + 220 * n, Some(60))).collect(),
        ),
    ];
    let named = named
        .into_iter()
        .enumerate()
        .map(|(at, (name, outages))| Schedule {
            name: name.to_owned(),
            outages,
            open: at % 2 == 0,
            keep_going: at % 3 != 0,
        });
    let more: u64 = std::env::var_os("DEATHS")
        .and_then(|text| text.to_str()?.parse().ok())
        .unwrap_or(2);
    named.chain((0..more).map(drawn)).collect()
}

/// Up to four outages, drawn by chance that is the same each time.
fn drawn(number: u64) -> Schedule {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    let outages = (0..=draw(4))
        .map(|_| {
            let (after, length) = (100 + draw(LENGTH_MS), 20 + draw(600));
            away(after, (draw(5) > 0).then_some(length))
        })
        .collect();
    Schedule {
        name: format!("drawn {number}"),
        outages,
        open: draw(2) == 0,
        keep_going: draw(2) == 0,
    }
}

#[test]
fn whatever_the_schedule_of_deaths_the_result_is_that_of_a_plain_script() -> Result {
    for schedule in schedules() {
        play(&schedule).map_err(|error| format!("{}: {error}", schedule.name))?;
    }
    Ok(())
}

fn play(schedule: &Schedule) -> Result {
    let server = quick(EngineConfig {
        outages: schedule.outages.clone(),
        ..EngineConfig::default()
    })?;
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let url = server.url();
    // a plan that ends by time asks the server nothing before it begins
    let (length, objective) = (format!("{LENGTH_MS}ms"), format!("e2e={LIMIT_MS}ms"));
    let mut args = vec![
        "--url",
        &url,
        "--dataset",
        "random",
        "--input-tokens",
        "4",
        "--output-tokens",
        "8",
        "--warmup",
        "0",
        "--server-metrics",
        "none",
        "--no-hardware",
        "--quiet",
        "--duration",
        &length,
        "--slo",
        &objective,
    ];
    args.extend(if schedule.open {
        ["--rate", "100"]
    } else {
        ["--concurrency", "2"]
    });
    args.extend(schedule.keep_going.then_some("--keep-going"));
    let output = bench(&args).arg("--out").arg(&run).output()?;
    if !run.exists() {
        // it died before the first request
        let said = stderr(&output);
        assert!(
            output.status.code() == Some(1) && !said.is_empty(),
            "{said}"
        );
        return Ok(());
    }
    let result = stored(&run).map_err(|error| format!("{error}: {}", stderr(&output)))?;
    let records = records(&run)?;
    let told = output.status.code().ok_or("it was killed")?;
    holds(schedule, &result, &records)?;
    is_told(told, &result, &records);
    of_the_ledger(&records, &server.shutdown());
    Ok(())
}

/// Counts, windows, rates and attainment by plain sums over the records.
fn holds(schedule: &Schedule, result: &RunRecord, records: &[RequestRecord]) -> Result {
    let cell: &CellRecord = result.cells.first().ok_or("no cell")?;
    let ids: BTreeSet<u64> = records.iter().map(|record| record.id).collect();
    assert_eq!(ids.len(), records.len(), "a request is there twice");
    let mut by_outcome: BTreeMap<&str, u64> = BTreeMap::new();
    for record in records {
        *by_outcome.entry(record.wire.outcome.name()).or_default() += 1;
    }
    let counts = &cell.counts;
    let of = |name: &str| by_outcome.get(name).copied().unwrap_or(0);
    let counted = [
        ("completed", counts.completed),
        ("failed", counts.failed),
        ("timed_out", counts.timed_out),
        ("truncated", counts.truncated),
        ("cancelled", counts.cancelled),
        ("unsent", counts.unsent),
    ];
    for (name, count) in counted {
        assert_eq!(count, of(name), "{name} of {schedule:?}: {by_outcome:?}");
    }
    assert!(counts.add_up());
    assert_eq!(counts.planned, records.len() as u64);
    if cell.ended_early.is_none() && schedule.open {
        assert_eq!(counts.planned, LENGTH_MS / 10, "all that was asked for");
    }
    windows_hold(schedule, cell, records)
}

/// Window, rates and attainment likewise.
fn windows_hold(schedule: &Schedule, cell: &CellRecord, records: &[RequestRecord]) -> Result {
    let ended = |r: &RequestRecord| match r.wire.outcome {
        Outcome::Completed => r.wire.events.last(),
        _ => r.wire.closed.or(r.wire.sent).or(r.dispatched),
    };
    let due = || records.iter().map(|r| r.due);
    let first = due().min().ok_or("nothing was due")?;
    let ends = records.iter().map(|r| ended(r).unwrap_or(r.due).max(r.due));
    let seconds = (ends.max().ok_or("nothing ended")? - first).as_secs_f64();
    let origin = |r: &RequestRecord| {
        if schedule.open {
            Some(r.due)
        } else {
            r.wire.sent
        }
    };
    let met = records.iter().filter(|r| {
        let span = r.wire.events.last().zip(origin(r));
        let e2e = span.map(|(end, from)| end - from);
        r.wire.outcome.is_completed() && e2e.is_some_and(|e2e| e2e.as_millis_f64() <= LIMIT_MS)
    });
    let (met, planned) = (met.count() as f64, records.len() as f64);
    let whole = |r: &&RequestRecord| r.wire.outcome.is_completed();
    let completed = records.iter().filter(whole).count() as f64;
    let near = |name: &str, got: f64, want: f64| {
        assert!(
            (got - want).abs() <= 1e-5 * want.abs(),
            "{name} of {schedule:?}: {got}, not {want}"
        );
    };
    let whole = cell.windows.whole.as_ref().ok_or("no window")?;
    near("window", whole.seconds, seconds);
    if schedule.open {
        // Requests followed to their ends: what was due a second, of that the part that completed; requests hardly grow longer here.
        let last_due = due().max().ok_or("nothing was due")?;
        let offered = (planned - 1.0) / (last_due - first).as_secs_f64();
        let got = whole.requests_per_s.ok_or("no rate")?;
        let want = offered * completed / planned;
        // If this machine stood still the answers grew longer meanwhile, and the rate is lower by what that stretched the run.
        let stretch = records.iter().filter_map(|r| Some(ended(r)? - r.due)).max();
        let stretch = stretch.map_or(0.0, |late| late.as_secs_f64() / seconds);
        assert!(
            (got - want).abs() <= (0.1 + stretch) * want,
            "rate of {schedule:?}: {got}, not {want}"
        );
    } else {
        let got = whole.requests_per_s.ok_or("no rate")?;
        near("rate", got, completed / seconds);
    }
    let goodput = cell.goodput.as_ref().ok_or("no goodput")?;
    near("attainment", goodput.attainment, met / planned);
    // over the time of the requests/s beside it
    let rate = cell.headline_rates().and_then(|rates| rates.requests_per_s);
    let rate = rate.unwrap_or(0.0);
    let seconds = if rate > 0.0 {
        completed / rate
    } else {
        seconds
    };
    near("goodput", goodput.requests_per_s, met / seconds);
    Ok(())
}

/// Trust, objective and exit code say what share was lost.
fn is_told(code: i32, result: &RunRecord, records: &[RequestRecord]) {
    let lost = records
        .iter()
        .filter(|r| !r.wire.outcome.is_completed())
        .count() as f64;
    let share = lost / records.len().max(1) as f64;
    if share > 0.99 {
        assert_eq!(result.trust.verdict, TrustVerdict::Untrusted);
        assert!(matches!(code, 1 | 3), "{code}");
        return;
    }
    let reasons = result.trust.reasons.iter();
    let failures = reasons
        .filter(|reason| reason.code == "failures")
        .map(|r| r.verdict)
        .max();
    let wanted = match share {
        s if s > 0.10 => Some(TrustVerdict::Untrusted),
        s if s > 0.01 => Some(TrustVerdict::Doubtful),
        _ => None,
    };
    assert_eq!(failures, wanted, "{share} lost: {:?}", result.trust.reasons);
    let early = result.cells.iter().any(|cell| cell.ended_early.is_some());
    assert_eq!(result.complete, !early);
    if share > 0.10 || early {
        assert_eq!((result.trust.verdict, code), (TrustVerdict::Untrusted, 3));
    }
    // P95 reaches into the lost ones, which are +∞
    let verdicts = result
        .cells
        .iter()
        .flat_map(|cell| &cell.slos)
        .map(|slo| slo.verdict);
    for verdict in verdicts {
        assert!(
            share <= 0.06 || verdict != SloVerdict::Pass,
            "{share} lost and passed"
        );
    }
}

/// What the client calls a whole answer is one for the server too, with as many tokens.
fn of_the_ledger(records: &[RequestRecord], entries: &[Entry]) {
    let served: BTreeMap<&str, &Entry> = entries
        .iter()
        .map(|entry| (entry.id.as_str(), entry))
        .collect();
    for record in records
        .iter()
        .filter(|record| record.wire.outcome.is_completed())
    {
        let name = format!("{}-{}-{}", record.cell, record.repeat, record.id);
        let entry = served.get(name.as_str());
        let tokens = entry.filter(|entry| entry.outcome == ledger::Outcome::Completed);
        assert_eq!(
            tokens.map(|entry| entry.completion_tokens),
            record.output_tokens,
            "{name}: {entry:?}"
        );
    }
}
