//! A report of many requests stays small: charts get summaries.

use std::fs::File;
use std::io::{BufWriter, Write};

use bench_report::{RunFiles, html};
use bench_schema::{CellRecord, Load};

use crate::support::{requests, runs};

/// The golden sweep's requests over and over until there are `n`; returns the directory.
fn directory_of(n: usize) -> tempfile::TempDir {
    let run = runs::sweep();
    let dir = tempfile::tempdir().unwrap();
    let records = requests::records(&run);
    let mut out = BufWriter::new(File::create(dir.path().join("requests.jsonl")).unwrap());
    for (id, mut record) in (0..).zip(records.into_iter().cycle().take(n)) {
        record.id = id;
        writeln!(out, "{}", serde_json::to_string(&record).unwrap()).unwrap();
    }
    out.write_all(b"{\"id\":1,\"cell\":\"torn").unwrap();
    out.flush().unwrap();
    dir
}

fn page_of(n: usize) -> String {
    html::render(&runs::sweep(), &RunFiles::in_dir(directory_of(n).path())).unwrap()
}

#[test]
fn ten_times_the_requests_make_the_page_no_larger() {
    let (few, many) = (page_of(2_000), page_of(20_000));
    assert!(
        many.len() < few.len() + 100_000,
        "{} bytes for 2000 requests, {} for 20000",
        few.len(),
        many.len()
    );
    assert!(
        many.contains("1 lines of requests.jsonl were skipped"),
        "the torn last line is told"
    );
}

#[test]
fn a_thousand_cells_make_a_page_that_a_browser_opens_and_that_says_what_it_leaves_out() {
    let mut run = runs::sweep();
    let few = std::mem::take(&mut run.cells);
    let cell = |(level, cell): (u32, &CellRecord)| CellRecord {
        id: format!("c{level}"),
        label: format!("concurrency {level}"),
        load: Load::closed(level),
        ..cell.clone()
    };
    run.cells = (1..=1_000).zip(few.iter().cycle()).map(cell).collect();
    let page = html::render(&run, &RunFiles::default()).unwrap();
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    assert!(
        page.contains("The first 200 of 4000 rows"),
        "what is left out is told"
    );
}

/// `cargo nextest run -p bench-report --release --run-ignored only a_million`: prints what it cost.
#[test]
#[ignore = "minutes of work; run it by name"]
fn a_million_requests_make_a_page_below_5_mb() {
    let dir = directory_of(1_000_000);
    let size = std::fs::metadata(dir.path().join("requests.jsonl"))
        .unwrap()
        .len();
    let page = html::render(&runs::sweep(), &RunFiles::in_dir(dir.path())).unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap_or_default();
    println!(
        "{} bytes of requests.jsonl, page of {} bytes, {peak}",
        size,
        page.len()
    );
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
}
