//! `--reset`: what brings the server back to a known state before a cell.

use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

use bench_client::Fetcher;

use super::aside;
use crate::config::Reset;
use crate::launch::Group;

/// Time limit for a page.
const PAGE_LIMIT: Duration = Duration::from_mins(1);
/// Bytes of its answer.
const MOST_OF_PAGE: usize = 1 << 20;
/// Time limit for a command: some start a server and load a model.
const COMMAND_LIMIT: Duration = Duration::from_mins(10);
/// Between two looks at whether a command has ended.
const PAUSE: Duration = Duration::from_millis(20);
/// How long the standard error of a command that has ended may stay open: what it left running may hold it.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Of the end of its standard error.
const MOST_OF_STDERR: usize = 4096;

/// Posts to the page, or runs the command. A command and whatever it started are killed where it takes too long, this is dropped,
/// or this process is killed.
pub(super) async fn carry_out(
    reset: &Reset,
    url: &str,
    fetcher: Option<Fetcher>,
) -> Result<(), String> {
    match reset {
        Reset::Post(page) => {
            let page = page.expose().replace("{url}", url);
            let fetcher = fetcher.ok_or("no HTTP client is available")?;
            let post = move || fetcher.post(&page, PAGE_LIMIT, MOST_OF_PAGE).map(drop);
            let done = aside("reset", post).await;
            done.unwrap_or_else(|gone| Err(gone.to_string()))
        }
        Reset::Command(line) => run_command(line, url, COMMAND_LIMIT).await,
    }
}

async fn run_command(line: &str, url: &str, limit: Duration) -> Result<(), String> {
    let words = shlex::split(&line.replace("{url}", url)).unwrap_or_default();
    let (program, arguments) = words.split_first().ok_or("it is empty")?;
    let mut command = Command::new(program);
    let command = command.args(arguments).stdin(Stdio::null());
    let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
    let failed = |error: io::Error| format!("`{program}`: {error}");
    let group = Group::new().map_err(failed)?;
    let mut running = group.spawn(command).map_err(failed)?;
    let stderr = running.stderr.take();
    let said = aside("reset stderr", move || stderr.map(last_line));
    let ended = async {
        loop {
            if let Some(status) = running.try_wait().map_err(failed)? {
                return Ok::<_, String>(status);
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let status = tokio::time::timeout(limit, ended).await.map_err(|_| {
        format!(
            "`{line}` did not end within {} s and was killed",
            limit.as_secs_f64()
        )
    })??;
    // it may have left a server running on purpose
    group.release();
    if status.success() {
        return Ok(());
    }
    let said = tokio::time::timeout(LAST_WORDS, said).await;
    let said = said.ok().and_then(Result::ok).flatten().unwrap_or_default();
    Err(format!("`{line}` ended with {status}: {said}"))
}

/// The last line of all that comes.
fn last_line(mut from: impl Read) -> String {
    let (mut kept, mut block) = (Vec::new(), [0; MOST_OF_STDERR]);
    while let Ok(n @ 1..) = from.read(&mut block) {
        kept.extend_from_slice(block.get(..n).unwrap_or_default());
        let too_many = kept.len().saturating_sub(MOST_OF_STDERR);
        kept.drain(..too_many);
    }
    let said = String::from_utf8_lossy(&kept);
    said.lines().next_back().unwrap_or_default().to_owned()
}

#[cfg(test)]
#[path = "../../tests/unit/reset.rs"]
mod tests;
