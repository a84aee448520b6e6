//! `export`: a run in other tools' words, one file a cell, or as tables.

use std::fs;
use std::path::{Path, PathBuf};

use bench_frames::{Format as Form, partition, run_name, write_run};
use bench_report::export::{self, Exporter, Tool};

use crate::Done;
use crate::arguments::{Export, Format};
use crate::error::CommandError;
use crate::files;
use crate::run_folder::RunFolder;

pub(crate) fn run(arguments: &Export) -> Result<Done, CommandError> {
    let mut run = RunFolder::open(&arguments.run, arguments.reads)?;
    let own = || run.path.join("export");
    let mut out = arguments.out.clone().unwrap_or_else(own);
    let mut name = run_name(&run.path);
    if arguments.partition {
        if arguments.format != Format::Parquet {
            return Err(CommandError::Usage(
                "--partition lays out Parquet files; add --format parquet".to_owned(),
            ));
        }
        let (called, folder) = partition(&run.path, &run.record);
        name = called;
        out.push(folder);
    }
    if arguments.format != Format::Json {
        run.needs_requests()?;
    } else if arguments.out.is_some() && out.join("run.json").exists() {
        return Err(CommandError::HoldsRun(out));
    }
    let is_new = !out.exists();
    let written = write(&mut run, arguments.format, (&name, &out)).inspect_err(|_| {
        if is_new {
            // what is not empty stays
            fs::remove_dir(&out).ok();
        }
    })?;
    let paths = written.iter();
    let output = paths.map(|path| format!("{}\n", path.display())).collect();
    let doubt = run.doubt();
    run.notes.extend(doubt.into_iter().chain(left_over(&out)));
    Ok(Done::well(output, run.notes))
}

fn write(
    run: &mut RunFolder,
    format: Format,
    (name, out): (&str, &Path),
) -> Result<Vec<PathBuf>, CommandError> {
    match format {
        Format::Vllm => for_each_cell(run, out, Tool::Vllm),
        Format::Aiperf => for_each_cell(run, out, Tool::Aiperf),
        Format::Parquet => journals(run, name, (out, Form::Parquet)),
        Format::Csv => {
            let journals = journals(run, name, (out, Form::Csv))?;
            let cells = [
                ("cells.csv", export::cells(&run.record)),
                ("metrics.csv", export::distributions(&run.record)),
            ];
            let mut written = Vec::new();
            for (name, text) in cells {
                written.push(out.join(name));
                files::write_whole(&out.join(name), text.as_bytes())?;
            }
            written.extend(journals);
            Ok(written)
        }
        Format::Json => {
            let path = out.join("run.json");
            files::write_json(&path, &run.record)?;
            Ok(vec![path])
        }
    }
}

/// Files that an export leaves behind when it is killed.
fn left_over(out: &Path) -> Vec<String> {
    let all = fs::read_dir(out).into_iter().flatten().flatten();
    let names = all.filter_map(|entry| entry.file_name().into_string().ok());
    let ends = [".json.part", ".csv.part", ".parquet.part"];
    let mut halves: Vec<String> = names
        .filter(|name| ends.iter().any(|end| name.ends_with(end)))
        .map(|name| {
            let path = out.join(name);
            let path = path.display();
            format!("{path} is half a file, of an export that was killed; delete it, unless another export is writing it now")
        })
        .collect();
    halves.sort();
    halves
}

/// One file a cell, from records that are read once, one at a time.
fn for_each_cell(
    run: &mut RunFolder,
    out: &Path,
    tool: Tool,
) -> Result<Vec<PathBuf>, CommandError> {
    let path = |id: &str| -> Result<PathBuf, CommandError> {
        let name = files::plain_name(id, &run.path)?;
        Ok(out.join(format!("{}-{name}.json", tool.name())))
    };
    let cells = run.record.cells.iter();
    let paths: Vec<PathBuf> = cells.map(|cell| path(&cell.id)).collect::<Result<_, _>>()?;
    let mut lines = run.requests();
    let mut all = Exporter::new(&run.record, files::scratch(out)?);
    while let Some(record) = lines.next()? {
        all.add(&record).map_err(CommandError::write(out))?;
    }
    for (cell, path) in run.record.cells.iter().zip(&paths) {
        files::write_with(path, |file| all.write(tool, cell, file))?;
    }
    run.notes.extend(lines.notes());
    Ok(paths)
}

/// Every request, token and reading, each journal read once.
fn journals(
    run: &mut RunFolder,
    name: &str,
    to: (&Path, Form),
) -> Result<Vec<PathBuf>, CommandError> {
    let mut requests = run.requests();
    let mut readings = run.readings();
    let of = (name, &run.record);
    let written = write_run(of, to, || requests.next(), || readings.next())?;
    run.notes.extend(requests.notes().chain(readings.notes()));
    Ok(written)
}
