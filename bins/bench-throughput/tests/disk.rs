//! Disks that are full and folders that vanish cost what cannot be written, and nothing else: the run goes on, says so, and counts everything.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{Killed, Result, bench, lines, records, stderr, stored};
use bench_engine::{EngineConfig, Server};
use bench_schema::{JournalFile, TrustVerdict};

fn instant() -> Result<Server> {
    Ok(Server::start(EngineConfig::profile("instant")?)?)
}

fn arguments<'a>(url: &'a str, requests: &'a str) -> Vec<&'a str> {
    vec![
        "--url",
        url,
        "--concurrency",
        "4",
        "--requests",
        requests,
        "--warmup",
        "0",
        "--dataset",
        "random",
        "--input-tokens",
        "4",
        "--output-tokens",
        "32",
        "--server-metrics",
        "none",
        "--no-hardware",
    ]
}

/// A run where no file can be larger than so many KiB. The system would end a program that says nothing to that.
fn on_a_full_disk(most_kib: u32, requests: &str, run: &Path) -> Result<Output> {
    let server = instant()?;
    let url = server.url();
    let limit = format!("-f {}", most_kib * 2);
    under(&limit, &arguments(&url, requests), run)
}

/// A run under a limit of the shell's.
fn under(limit: &str, arguments: &[&str], run: &Path) -> Result<Output> {
    let wanted = bench(arguments);
    let limited = format!("ulimit {limit}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).arg(wanted.get_program());
    command.args(wanted.get_args()).arg("--out").arg(run);
    Ok(command.stdin(Stdio::null()).output()?)
}

#[test]
fn a_result_that_cannot_be_stored_is_shown() -> Result {
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let output = on_a_full_disk(6, "60", &run)?;
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("error: ") && said.contains("run.json"),
        "{said}"
    );
    let shown = String::from_utf8(output.stdout)?;
    assert!(shown.contains("60"), "{shown}");
    assert!(
        !stored(&run)?.complete,
        "the file of its beginning is there"
    );
    Ok(())
}

#[test]
fn a_report_that_cannot_be_written_is_a_failure_with_its_cause() -> Result {
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let server = instant()?;
    let url = server.url();
    // for longer than the folder takes to be there
    let args = [&arguments(&url, "1000000")[..], &["--duration", "500ms"]].concat();
    let mut child = bench(&args)
        .arg("--out")
        .arg(&run)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    while !run.join("run.json").exists() {
        assert!(child.try_wait()?.is_none(), "it ended too early");
        std::thread::yield_now();
    }
    // no file can take its place
    fs::create_dir(run.join("report.md"))?;
    let output = child.wait_with_output()?;
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let told = ["error: ", "report.md", "bench-report render", "because: "];
    assert!(told.iter().all(|told| said.contains(told)), "{said}");
    assert!(stored(&run)?.complete, "{said}");
    Ok(())
}

#[test]
fn a_disk_that_is_full_is_said_at_once_and_the_run_counts_everything_all_the_same() -> Result {
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let output = on_a_full_disk(256, "1500", &run)?;
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let warning = said
        .find("warning: cannot write")
        .ok_or_else(|| said.clone())?;
    let error = said.find("error: ").ok_or_else(|| said.clone())?;
    assert!(
        warning < error,
        "said when it happened, and at the end: {said}"
    );
    assert!(said.contains("requests.jsonl"), "{said}");
    let record = stored(&run)?;
    let cell = record.cells.first().ok_or("no cell")?;
    assert_eq!((cell.counts.planned, cell.counts.completed), (1500, 1500));
    assert!(record.trust.verdict >= TrustVerdict::Doubtful);
    let reasons = &record.trust.reasons;
    assert!(
        reasons
            .iter()
            .any(|reason| reason.code == "journal_incomplete")
    );
    let kept = records(&run)?.len();
    assert!(kept > 0 && kept < 1500, "{kept}");
    Ok(())
}

#[test]
fn a_run_with_too_few_files_says_so_first_and_names_them_as_the_cause() -> Result {
    let server = instant()?;
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let url = server.url();
    let mut args = arguments(&url, "2000");
    args.extend(["--concurrency", "200"]);
    let output = under("-n 100", &args, &run)?;
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let told = [
        "200 streams need about 264 open files",
        "only 100",
        "--keep-going",
    ];
    assert!(told.iter().all(|told| said.contains(told)), "{said}");
    args.push("--keep-going");
    let output = under("-n 100", &args, &run)?;
    let said = stderr(&output);
    let first = said.lines().next().unwrap_or_default();
    let told = [
        "warning: 200 streams need about 264 open files",
        "ulimit -Hn",
    ];
    assert!(told.iter().all(|told| first.contains(told)), "{said}");
    let mut cannot = said.lines().filter(|line| line.contains("cannot write"));
    assert!(
        cannot.all(|line| line.contains("Too many open files") && line.contains("ulimit -n")),
        "{said}"
    );
    Ok(())
}

#[test]
fn a_folder_that_vanishes_is_made_again_with_everything() -> Result {
    let server = instant()?;
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let url = server.url();
    let mut child = Killed(
        bench(&arguments(&url, "4000"))
            .arg("--out")
            .arg(&run)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?,
    );
    while lines(&run)?.is_empty() {
        assert!(child.0.try_wait()?.is_none(), "it ended too early");
        std::thread::yield_now();
    }
    fs::rename(&run, folder.path().join("elsewhere"))?;
    let status = child.0.wait()?;
    assert!(matches!(status.code(), Some(0 | 3)), "{status}");
    let record = stored(&run)?;
    assert!(record.complete);
    let mut ids: Vec<u64> = records(&run)?.iter().map(|record| record.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..4000).collect::<Vec<u64>>());
    Ok(())
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_before_anything_is_measured() -> Result {
    let server = instant()?;
    let folder = tempfile::tempdir()?;
    let taken = folder.path().join("file");
    fs::write(&taken, "no folder")?;
    let url = server.url();
    let output = bench(&arguments(&url, "10"))
        .arg("--out")
        .arg(taken.join("run"))
        .output()?;
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("--out"), "{}", stderr(&output));
    let asked = server.shutdown();
    assert!(
        asked.iter().all(|entry| entry.id == "preflight"),
        "{asked:?}"
    );
    Ok(())
}

#[test]
fn a_journal_in_parts_is_read_as_one() -> Result {
    let server = instant()?;
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let url = server.url();
    let output = bench(&arguments(&url, "40"))
        .arg("--out")
        .arg(&run)
        .output()?;
    assert!(output.status.code() != Some(1), "{}", stderr(&output));
    let whole = lines(&run)?;
    rewrite_in_parts(&run, &whole, 7)?;
    assert_eq!(lines(&run)?, whole);
    assert_eq!(records(&run)?.len(), 40);
    Ok(())
}

fn rewrite_in_parts(run: &Path, lines: &[String], each: usize) -> Result {
    for (part, lines) in (0..).zip(lines.chunks(each)) {
        let text = lines.join("\n") + "\n";
        fs::write(run.join(JournalFile::Requests.part_name(part)), text)?;
    }
    Ok(())
}

#[test]
fn output_that_cannot_be_written_is_a_failure_and_a_closed_pipe_is_none() -> Result {
    let program = bench(&["--help"]);
    for (redirect, code) in [
        ("> /dev/full", 1),
        ("> /dev/null", 0),
        ("| true; exit ${PIPESTATUS[0]}", 0),
    ] {
        let output = Command::new("bash")
            .args(["-c", &format!("\"$0\" --help {redirect}")])
            .arg(program.get_program())
            .output()?;
        assert_eq!(output.status.code(), Some(code), "{redirect}");
        assert_eq!(
            code == 1,
            stderr(&output).contains("cannot write to standard output")
        );
    }
    Ok(())
}

#[test]
fn a_configuration_that_never_ends_is_refused() -> Result {
    for (flag, code) in [("--config", 2), ("--engine", 1)] {
        let output = bench(&[flag, "/dev/zero"]).output()?;
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains("more than 1024 KiB"), "{said}");
    }
    Ok(())
}
