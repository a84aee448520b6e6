//! `recover`: a run that was killed becomes a result.

use crate::Done;
use crate::arguments::Recover;
use crate::error::CommandError;
use crate::run_folder::RunFolder;
use crate::{files, lock, render};

pub(crate) fn run(arguments: &Recover) -> Result<Done, CommandError> {
    let run = RunFolder::stored(&arguments.run)?;
    let _held = lock::hold(&run.path)?;
    // it may have ended between the reading and the lock
    let mut run = RunFolder::stored(&arguments.run)?;
    if run.record.complete {
        return Ok(Done::well(
            String::new(),
            vec![format!(
                "{} ended properly; there is nothing to recover, and nothing was changed",
                run.path.display()
            )],
        ));
    }
    run.recover()?;
    files::write_json(&run.path.join("run.json"), &run.record)?;
    render::reports(&run, None)?;
    let output = bench_report::terminal::render(&run.record, Some(&run.path));
    Ok(Done::well(output, run.notes))
}
