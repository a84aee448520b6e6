//! `export`: a run in other tools' words, one file a cell, or as tables.

use std::path::{Path, PathBuf};

use bench_report::export;

use crate::Done;
use crate::arguments::{Export, Format};
use crate::error::CommandError;
use crate::files;
use crate::run_folder::RunFolder;

pub(crate) fn run(arguments: &Export) -> Result<Done, CommandError> {
    let mut run = RunFolder::open(&arguments.run, arguments.reads)?;
    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| run.path.join("export"));
    let mut in_order = true;
    if arguments.format != Format::Json {
        run.needs_requests()?;
        in_order = run.read_through()?;
    }
    let written = match arguments.format {
        Format::Vllm => for_each_cell(&run, &out, "vllm", in_order)?,
        Format::Aiperf => for_each_cell(&run, &out, "aiperf", in_order)?,
        Format::Csv => csv(&run, &out)?,
        Format::Parquet => bench_frames::write_run(&run.path, &run.record, &out)?,
        Format::Json => {
            let path = out.join("run.json");
            files::write_run(&path, &run.record)?;
            vec![path]
        }
    };
    let output = written
        .iter()
        .map(|path| format!("{}\n", path.display()))
        .collect();
    Ok(Done::well(output, run.notes))
}

/// One file a cell, from records that are read one at a time: once where those of each cell stand together, else again for each cell.
fn for_each_cell(
    run: &RunFolder,
    out: &Path,
    tool: &str,
    in_order: bool,
) -> Result<Vec<PathBuf>, CommandError> {
    let (mut lines, mut written) = (run.requests(), Vec::new());
    let mut ahead = lines.next()?;
    for cell in &run.record.cells {
        let path = out.join(format!(
            "{tool}-{}.json",
            files::plain_name(&cell.id, &run.path)?
        ));
        if !in_order {
            lines = run.requests();
            ahead = lines.next()?;
        }
        let mut unread = None;
        let requests = std::iter::from_fn(|| {
            let one = ahead.take_if(|one| !in_order || one.cell == cell.id)?;
            ahead = lines.next().unwrap_or_else(|error| {
                unread = Some(error);
                None
            });
            Some(one)
        });
        if tool == "vllm" {
            let mut spill = files::scratch(out)?;
            files::write_with(&path, |file| {
                export::vllm((&run.record, cell), requests, &mut spill, file)
            })?;
        } else {
            files::write_json(&path, &export::aiperf(&run.record, cell, requests))?;
        }
        if let Some(error) = unread {
            return Err(error);
        }
        written.push(path);
    }
    Ok(written)
}

/// Cells and metrics from the record, and every request, token and reading.
fn csv(run: &RunFolder, out: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let tables = [
        ("cells.csv", export::cells(&run.record)),
        ("metrics.csv", export::distributions(&run.record)),
    ];
    let mut written = Vec::new();
    for (name, text) in tables {
        let path = out.join(name);
        files::write_whole(&path, text.as_bytes())?;
        written.push(path);
    }
    written.extend(bench_frames::write_run_csv(&run.path, &run.record, out)?);
    Ok(written)
}
