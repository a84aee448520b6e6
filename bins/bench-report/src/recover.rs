//! `recover`: a run that was killed becomes a result.

use crate::Done;
use crate::arguments::Recover;
use crate::error::CommandError;
use crate::run_folder::{Reads, RunFolder};
use crate::{files, journal, render};

pub(crate) fn run(arguments: &Recover) -> Result<Done, CommandError> {
    let run = RunFolder::stored_or_begun(&arguments.run)?;
    let _held = files::hold(&run.path)?;
    // it may have ended between the reading and the lock
    let mut run = RunFolder::stored_or_begun(&arguments.run)?;
    if run.record.complete && !arguments.anew {
        return Ok(Done::well(
            String::new(),
            vec![format!(
                "{} ended properly; there is nothing to recover, and nothing was changed (--anew concludes it again)",
                run.path.display()
            )],
        ));
    }
    // A run that was cut short is recovered from what there is; a whole one is not made worse than it stands.
    let damaged_ok = arguments.reads.damaged_ok || !run.record.complete;
    run.hold(Reads { damaged_ok })?;
    run.recover()?;
    journal::distrust(&mut run.record, &run.damage);
    if run.damage.is_empty() {
        // from now on nothing may change any more
        run.record.journal = journal::parts(&run.path)?;
    }
    files::write_run(&run.path.join("run.json"), &run.record)?;
    render::reports(&run, None)?;
    let output = bench_report::terminal::render(&run.record, Some(&run.path));
    Ok(Done::well(output, run.notes))
}
