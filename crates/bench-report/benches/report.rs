//! What it costs to make the reports of a run: the page from its journals, which is nearly all of it, and the rest from the record.
//!
//! `cargo bench -p bench-report` gives both with criterion's intervals. `cargo bench -p bench-report -- --million` makes one page of a
//! million requests instead, and prints its time, its size and the most memory the process held.

#![expect(
    clippy::unwrap_used,
    clippy::wildcard_imports,
    unused_imports,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::too_many_lines,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    dead_code,
    reason = "a benchmark stops where it cannot go on, prints, reads the clock, and needs only a part of the tests' golden runs"
)]

/// The golden runs of the tests.
#[path = "../tests/it/support"]
mod support {
    pub(crate) mod cells;
    mod disorder;
    pub(crate) mod requests;
    pub(crate) mod runs;

    pub(crate) use disorder::Disorder;
}

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::time::Instant;

use bench_report::{RunFiles, html, markdown, terminal};
use criterion::{Criterion, Throughput};

/// A run directory with `n` requests of 24 to 128 tokens: those of the golden sweep over and over.
fn directory_of(n: u64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let lines = support::requests::jsonl(&support::requests::records(&support::runs::sweep()));
    let mut out = BufWriter::new(File::create(dir.path().join("requests.jsonl")).unwrap());
    let n = usize::try_from(n).unwrap_or(usize::MAX);
    for line in lines.lines().cycle().take(n) {
        writeln!(out, "{line}").unwrap();
    }
    out.flush().unwrap();
    dir
}

fn pages(c: &mut Criterion) {
    let run = support::runs::sweep();
    let mut group = c.benchmark_group("report");
    group.sample_size(10);
    for n in [1_000_u64, 30_000] {
        let dir = directory_of(n);
        let files = RunFiles::in_dir(dir.path());
        group.throughput(Throughput::Elements(n));
        group.bench_function(format!("page of {n} requests"), |b| {
            b.iter(|| html::render(&run, &files).unwrap());
        });
    }
    group.finish();
    c.bench_function("report.md and the terminal's table", |b| {
        b.iter(|| (markdown::render(&run, &[]), terminal::render(&run, None)));
    });
}

fn million() {
    let dir = directory_of(1_000_000);
    let journal = std::fs::metadata(dir.path().join("requests.jsonl")).unwrap();
    let begun = Instant::now();
    let page = html::render(&support::runs::sweep(), &RunFiles::in_dir(dir.path())).unwrap();
    let seconds = begun.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .map_or("unknown", str::trim);
    println!(
        "1000000 requests, journal of {} MB: page of {} kB in {seconds:.1} s, at most {peak} of memory",
        journal.len() / 1_000_000,
        page.len() / 1_000
    );
}

fn main() {
    if std::env::args().any(|argument| argument == "--million") {
        million();
        return;
    }
    let mut criterion = Criterion::default().configure_from_args();
    pages(&mut criterion);
    criterion.final_summary();
}
