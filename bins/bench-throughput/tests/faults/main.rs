//! Everything that a server or a network can do wrong, played against the benchmark as a user runs it: each fault ends in the outcome and the
//! stage that it is, keeps what had come, and costs the other requests nothing. What was found is the table of `docs/reliability.md`.

mod around;
mod row;
mod run;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bench_engine::FaultKind;

use crate::common::Result;
use row::Row;
use run::Case;

const BEGIN: &str = "<!-- faults: written by the test, UPDATE_GOLDEN=1 -->";
const END: &str = "<!-- end of faults -->";
/// Runs side by side; each waits most of its time.
const TOGETHER: usize = 4;

#[test]
fn every_fault_ends_as_what_it_is_and_harms_nobody_else() -> Result {
    let cases = cases();
    let golden = golden()?;
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..TOGETHER {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let known = golden.iter().find(|row| row.starts_with(&case.key()));
                    let row = patiently(case, known).map_err(|error| error.to_string());
                    found.lock().unwrap().push((case.key(), row));
                }
            });
        }
    });
    let mut found = found.into_inner()?;
    found.sort_by_key(|(key, _)| cases.iter().position(|case| case.key() == *key));
    let mut rows = Vec::new();
    let mut problems = Vec::new();
    for (key, row) in found {
        match row {
            Ok(row) => rows.push(row.to_string()),
            Err(problem) => problems.push(format!("{key}: {problem}")),
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    compare(&rows)
}

/// The engine's faults and those around it.
fn cases() -> Vec<Case> {
    let engine = FaultKind::ALL.iter().map(|kind| Case::of(*kind));
    let reused = [FaultKind::ResetHead, FaultKind::CloseHead].map(Case::reused);
    engine.chain(reused).chain(around::cases()).collect()
}

/// Times limits are short at first. Where the machine was too busy for them, the case is tried again with more.
fn patiently(case: &Case, known: Option<&String>) -> Result<Row> {
    let mut last = Err("never tried".into());
    for limit_ms in [700, 3_000, 15_000] {
        last = case.play(limit_ms);
        let as_known = |row: &Row| known.is_none_or(|known| *known == row.to_string());
        if last.as_ref().is_ok_and(as_known) {
            break;
        }
    }
    last
}

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reliability.md")
}

/// The rows of the page's table.
fn golden() -> Result<Vec<String>> {
    let text = std::fs::read_to_string(page())?;
    let (_, rest) = text
        .split_once(BEGIN)
        .ok_or("no table in docs/reliability.md")?;
    let (table, _) = rest.split_once(END).ok_or("the table has no end")?;
    let rows = table
        .lines()
        .filter(|line| line.starts_with("| `") || line.starts_with("| *"));
    Ok(rows.map(str::to_owned).collect())
}

/// The page has to say what was found.
fn compare(rows: &[String]) -> Result {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let text = std::fs::read_to_string(page())?;
        let (before, rest) = text.split_once(BEGIN).ok_or("no table")?;
        let (_, after) = rest.split_once(END).ok_or("no end")?;
        let table = rows.join("\n");
        let head = "| fault | what was sent | outcome | stage | kept |\n|---|---|---|---|---|";
        std::fs::write(
            page(),
            format!("{before}{BEGIN}\n{head}\n{table}\n{END}{after}"),
        )?;
        return Ok(());
    }
    let golden = golden()?;
    let differ: Vec<_> = rows.iter().filter(|row| !golden.contains(row)).collect();
    assert!(
        differ.is_empty() && golden.len() == rows.len(),
        "docs/reliability.md says otherwise (UPDATE_GOLDEN=1 writes it anew): {} rows found, {} there; new:\n{differ:#?}",
        rows.len(),
        golden.len()
    );
    Ok(())
}
