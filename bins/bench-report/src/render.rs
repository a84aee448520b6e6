//! `render`: the reports of a run, again. `recover`: a run that was killed becomes a result.

use std::path::Path;

use bench_report::RunFiles;
use bench_report::markdown::FigureLink;

use crate::Done;
use crate::arguments::{Figures, Output, Recover, Render};
use crate::error::CommandError;
use crate::run_folder::{Reads, RunFolder};
use crate::{files, journal};

pub(crate) fn run(arguments: &Render) -> Result<Done, CommandError> {
    let mut done = Done::well(String::new(), Vec::new());
    for path in &arguments.runs {
        let run = RunFolder::open(path, arguments.reads)?;
        reports(&run, arguments.figures)?;
        done.output += &match arguments.output {
            Output::Table if arguments.verbose => {
                bench_report::terminal::render_all(&run.record, Some(&run.path))
            }
            Output::Table => bench_report::terminal::render(&run.record, Some(&run.path)),
            Output::Markdown => bench_report::markdown::render(&run.record, &[]),
            Output::Json => run.record.to_json().unwrap_or_default(),
        };
        done.notes.extend(run.notes);
    }
    Ok(done)
}

/// A run that was killed becomes a result.
pub(crate) fn recover(arguments: &Recover) -> Result<Done, CommandError> {
    let run = RunFolder::stored_or_begun(&arguments.run)?;
    let _held = files::hold(&run.path)?;
    // it may have ended between the reading and the lock
    let mut run = RunFolder::stored_or_begun(&arguments.run)?;
    if run.record.complete && !arguments.anew {
        run.hold(arguments.reads)?;
        return Ok(Done::well(
            String::new(),
            vec![format!(
                "{} ended normally: nothing to recover, nothing was changed (use --anew to analyse it again)",
                run.path.display()
            )],
        ));
    }
    // A run that was cut short is recovered from what there is; a whole one is not made worse than it stands.
    let damaged_ok = arguments.reads.damaged_ok || !run.record.complete;
    run.hold(Reads { damaged_ok })?;
    run.recover()?;
    run.distrust();
    if run.damage.is_empty() {
        // from now on nothing may change any more
        run.record.journal = journal::parts(&run.path)?;
    }
    files::write_json(&run.path.join("run.json"), &run.record)?;
    reports(&run, None)?;
    let output = bench_report::terminal::render(&run.record, Some(&run.path));
    Ok(Done::well(output, run.notes))
}

/// Write `report.md`, `report.html` and, where asked, `figures/`.
pub(crate) fn reports(run: &RunFolder, figures: Option<Figures>) -> Result<(), CommandError> {
    let links = match figures {
        Some(format) => draw(run, format)?,
        None => Vec::new(),
    };
    let text = bench_report::markdown::render(&run.record, &links);
    files::write_whole(&run.path.join("report.md"), text.as_bytes())?;
    let page = bench_report::html::render(&run.record, &RunFiles::in_dir(&run.path))?;
    files::write_whole(&run.path.join("report.html"), page.as_bytes())
}

#[cfg(feature = "figures")]
fn draw(run: &RunFolder, format: Figures) -> Result<Vec<FigureLink>, CommandError> {
    use bench_report::figures::{FigureFormat, render};

    let format = match format {
        Figures::Svg => FigureFormat::Svg,
        Figures::Png => FigureFormat::Png,
    };
    let folder = run.path.join("figures");
    render(&run.record, &RunFiles::in_dir(&run.path), format)?
        .iter()
        .map(|figure| {
            let name = files::plain_name(&figure.name, Path::new(&run.path))?;
            files::write_whole(&folder.join(name), &figure.bytes)?;
            Ok(figure.link("figures"))
        })
        .collect()
}

#[cfg(not(feature = "figures"))]
fn draw(_: &RunFolder, _: Figures) -> Result<Vec<FigureLink>, CommandError> {
    Err(CommandError::Usage(
        "--figures needs the feature `figures`; build with `cargo build -p bench-report-command --features figures`"
            .to_owned(),
    ))
}
