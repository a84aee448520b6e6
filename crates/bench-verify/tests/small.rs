//! The matrix of truth and the diagnosis benchmark, as far as they can decide on a busy machine.
//!
//! They need the programs beside them. `cargo test --workspace` builds these; where the tests of this package run alone they are built here.

use std::path::{Path, PathBuf};
use std::process::Command;

use bench_schema::Cause;
use bench_verify::Programs;
use bench_verify::diagnosis::{self, Trial, situations};
use bench_verify::matrix::{self, Size};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The programs, on whatever cores there are: other tests run beside these.
fn programs() -> Result<Programs> {
    let beside = Path::new(env!("CARGO_BIN_EXE_truth-matrix"));
    let folder: PathBuf = beside.parent().ok_or("no folder")?.to_owned();
    for name in ["bench-engine", "bench-throughput"] {
        if !folder.join(name).exists() {
            let built = Command::new(env!("CARGO"))
                .args(["build", "--quiet", "--workspace", "--bin", name])
                .status()?;
            assert!(built.success(), "{name} could not be built");
        }
    }
    let mut programs = Programs::new(Some(folder))?;
    programs.cores = None;
    Ok(programs)
}

#[test]
fn every_request_of_every_way_to_run_is_the_servers_own_and_no_connection_is_for_nothing() -> Result
{
    let programs = programs()?;
    let mut short = Vec::new();
    for case in matrix::cases(Size::Small) {
        let judged = matrix::judge(&programs, &case)?;
        let failed: Vec<String> = judged
            .failed()
            .map(|check| format!("{}: {} for {}", check.name, check.said, check.so))
            .collect();
        if !failed.is_empty() {
            short.push(format!("{} ({}): {failed:?}", judged.name, judged.command));
        }
    }
    assert!(short.is_empty(), "{short:#?}");
    Ok(())
}

/// What follows from statuses and from connections, not from times, is named on a busy machine too.
#[test]
fn failures_are_named_by_what_they_are() -> Result {
    let programs = programs()?;
    let expected = [
        ("429, closed", Cause::RateLimited),
        ("500, closed", Cause::Failing),
        ("dead for ever", Cause::ServerGone),
    ];
    for (name, cause) in expected {
        let situation = situations()?
            .into_iter()
            .find(|one| one.name == name)
            .ok_or(name)?;
        let trial = Trial {
            situation,
            seed: 1,
            metrics: true,
        };
        let judged = diagnosis::play(&programs, &trial, None)?;
        assert!(
            judged.claimed.contains(&cause),
            "{name}: {:?}",
            judged.claimed
        );
        assert!(judged.trust.1, "{name}: {:?}", judged.trust);
    }
    Ok(())
}
