use std::fs::File;
use std::path::{Path, PathBuf};

use super::*;

/// A pipe with a name. Who reads it to its end knows that every process that had it open is gone.
fn pipe(folder: &Path) -> PathBuf {
    let path = folder.join("pipe");
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    path
}

/// A command whose child outlives a command that is killed alone; both hold the pipe open.
fn endless(pipe: &Path) -> String {
    format!("sh -c 'exec 9>{}; sleep 1000 & sleep 1000'", pipe.display())
}

fn block_on<T>(what: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap().block_on(what)
}

#[test]
fn a_command_that_takes_too_long_is_killed_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = pipe(folder.path());
    let done = block_on(async {
        let (opened, command) = (pipe.clone(), endless(&pipe));
        let held = aside("pipe", move || File::open(opened).unwrap());
        let (held, done) =
            tokio::join!(held, run_command(&command, "", Duration::from_millis(500)));
        let mut said = Vec::new();
        held.unwrap().read_to_end(&mut said).unwrap();
        done
    });
    let why = done.unwrap_err();
    assert!(
        why.contains("did not end within 0.5 s and was killed"),
        "{why}"
    );
}

#[test]
fn a_command_is_killed_with_all_that_it_started_when_the_run_ends() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = pipe(folder.path());
    block_on(async {
        let (opened, command) = (pipe.clone(), endless(&pipe));
        let mut held = tokio::select! {
            held = aside("pipe", move || File::open(opened).unwrap()) => held.unwrap(),
            done = run_command(&command, "", COMMAND_LIMIT) => panic!("{done:?}"),
        };
        let mut said = Vec::new();
        held.read_to_end(&mut said).unwrap();
    });
}

#[test]
fn a_command_that_says_much_ends_and_its_last_line_is_told() {
    let said = "sh -c 'yes | head -c 1000000 >&2; echo gone >&2; exit 3'";
    let why = block_on(run_command(said, "", COMMAND_LIMIT)).unwrap_err();
    assert!(why.ends_with("ended with exit status: 3: gone"), "{why}");
    let missing = block_on(run_command("no-such-program", "", COMMAND_LIMIT));
    assert!(missing.unwrap_err().starts_with("`no-such-program`: "));
}

#[test]
fn what_a_command_that_has_ended_left_running_goes_on_and_nobody_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = pipe(folder.path());
    let leaves = format!("sh -c 'cat {} & echo gone >&2; exit 4'", pipe.display());
    let why = block_on(run_command(&leaves, "", COMMAND_LIMIT)).unwrap_err();
    // its standard error is still open, so that nobody knows which line is the last
    assert!(why.ends_with("ended with exit status: 4: "), "{why}");
    // opening it waits until `cat` reads, and closing it ends `cat`
    drop(File::options().write(true).open(pipe).unwrap());
}
