//! Cells that cross factors, and what is done before each cell.

use std::path::Path;
use std::process::Output;

use crate::common::{Result, bench, quick, records, stderr, stored};
use bench_engine::EngineConfig;

/// The cells of a run in the order in which they were measured, each with its factors.
fn crossed(url: &str, out: &Path, more: &[&str]) -> Result<Vec<(String, String)>> {
    let args = [
        "--url",
        url,
        "--factor",
        "input_tokens=4,9",
        "--factor",
        "concurrency=1,2,3",
        "--requests",
        "6",
        "--dataset",
        "random",
        "--output-tokens",
        "2",
        "--no-hardware",
    ];
    let output = bench(&[&args[..], more].concat())
        .arg("--out")
        .arg(out)
        .output()?;
    let run = stored(out)?;
    assert_eq!(run.cells.len(), 6, "{}", stderr(&output));
    let mut asked = std::collections::BTreeMap::new();
    for record in records(out)? {
        asked.insert(record.cell.clone(), record.prompt.asked_tokens);
    }
    let mut cells = Vec::new();
    for cell in &run.cells {
        let input = cell.factors.get("input_tokens").ok_or("no length")?;
        let level = cell.factors.get("concurrency").ok_or("no level")?;
        let asked = asked.get(&cell.id).copied().flatten().ok_or("no request")?;
        assert_eq!(asked.to_string(), input.to_string(), "{}", cell.id);
        assert_eq!(cell.counts.completed, 6, "{}", cell.id);
        cells.push((input.to_string(), level.to_string()));
    }
    Ok(cells)
}

#[test]
fn factors_are_crossed_into_cells_in_random_order_unless_told_otherwise() -> Result {
    let server = quick(EngineConfig::default())?;
    let folder = tempfile::tempdir()?;
    let out = folder.path();
    let as_given = crossed(&server.url(), &out.join("a"), &["--in-order"])?;
    let text = |input: &str, level: &str| (input.to_owned(), level.to_owned());
    let wanted = ["4", "9"].map(|input| ["1", "2", "3"].map(|level| text(input, level)));
    let mut sorted = as_given.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, wanted.concat());
    assert!(as_given.first() == wanted.concat().first());
    let drawn = crossed(&server.url(), &out.join("b"), &["--seed", "1"])?;
    assert_ne!(drawn, as_given);
    assert_eq!(
        drawn,
        crossed(&server.url(), &out.join("c"), &["--seed", "1"])?
    );
    Ok(())
}

#[test]
fn a_server_is_reset_before_each_cell_or_the_run_ends_with_why() -> Result {
    let server = quick(EngineConfig::default())?;
    let folder = tempfile::tempdir()?;
    let (out, log) = (folder.path(), folder.path().join("log"));
    let run = |name: &str, reset: &str| -> Result<Output> {
        let url = server.url();
        let args = [
            "--url",
            &url,
            "--concurrency",
            "1,2",
            "--requests",
            "4",
            "--no-hardware",
        ];
        let mut command = bench(&args);
        Ok(command
            .args(["--reset", reset])
            .arg("--out")
            .arg(out.join(name))
            .output()?)
    };
    let note = format!("sh -c 'echo {{url}} >> {}'", log.display());
    run("command", &note)?;
    let said = std::fs::read_to_string(&log)?;
    assert_eq!(said, format!("{0}\n{0}\n", server.url()));
    assert_eq!(stored(&out.join("command"))?.cells.len(), 2);
    let page = run("page", "{url}/no-such-page")?;
    assert_eq!(page.status.code(), Some(1));
    let told = stderr(&page);
    assert!(
        told.contains("--reset failed before") && told.contains("404"),
        "{told}"
    );
    let failed = run("failed", "sh -c 'echo gone >&2; exit 3'")?;
    let told = stderr(&failed);
    assert!(told.contains("exit status: 3: gone"), "{told}");
    Ok(())
}

#[test]
#[cfg(target_os = "linux")]
fn a_reset_that_hangs_ends_with_the_run() -> Result {
    let server = quick(EngineConfig::default())?;
    let folder = tempfile::tempdir()?;
    let pid = folder.path().join("pid");
    // a file that is renamed is there as a whole
    let hangs = format!(
        "sh -c 'sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait'",
        pid.display()
    );
    let args = ["--url", &server.url(), "--no-hardware", "--deadline", "2s"];
    let mut command = bench(&args);
    let output = command
        .args(["--reset", &hangs])
        .arg("--out")
        .arg(folder.path().join("run"))
        .output()?;
    assert_ne!(output.status.code(), Some(0));
    let sleeping = std::fs::read_to_string(&pid)?;
    // gone, or ended and not yet collected by the process that inherited it
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", sleeping.trim()));
    let stat = stat.unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z"), "{stat}");
    Ok(())
}
