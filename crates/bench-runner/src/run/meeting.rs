//! What shards have to have in common before they load a server together, and the one result of theirs.

use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use bench_schema::{ClockRecord, KEYS_OF_EACH_SHARD, MOST_RUN_BYTES, RunRecord, read_file};
use serde_json::{Value, json};

use super::Run;
use crate::meet::{Facts, Invitation, Meeting};
use crate::{Cell, RunError};

/// Requests of each cell, of all shards, that are made to compare plans.
const COMPARED: u64 = 32;
/// Characters of a fact that are told; a longer one is told by its beginning, its length and its hash.
const LONGEST: usize = 100;

impl Run<'_> {
    /// Meet the other shards, where that was asked for and there are others.
    pub(super) async fn roll_call(&self, cells: &[Cell]) -> Result<Option<Meeting>, RunError> {
        let settings = self.settings;
        let (index, count) = settings.client.part();
        let invited = settings
            .client
            .meet
            .clone()
            .zip(settings.credentials.meet.clone());
        let Some((at, token)) = invited.filter(|_| count > 1) else {
            return Ok(None);
        };
        let facts = self.facts(cells)?;
        let invitation = Invitation {
            index,
            count,
            at,
            token,
        };
        let tools = (&self.clock, &self.stop, &self.progress);
        Meeting::begin(&invitation, facts, tools).await.map(Some)
    }

    /// What this shard is about to do, as far as all have to do the same.
    fn facts(&self, cells: &[Cell]) -> Result<Facts, RunError> {
        let settings = self.settings;
        let program = format!(
            "bench-{} {}",
            settings.benchmark.as_str(),
            env!("CARGO_PKG_VERSION")
        );
        let mut all = vec![
            ("the program".to_owned(), Value::from(program)),
            ("the program file".to_owned(), program_file().into()),
            (
                "the number of shards".to_owned(),
                settings.client.part().1.into(),
            ),
            (
                "the model".to_owned(),
                self.server.record.model.clone().into(),
            ),
            (
                "how prompts are sized".to_owned(),
                self.token_counter.name().into(),
            ),
        ];
        let learned = self
            .server
            .calibration
            .map(|learned| learned.overhead_tokens);
        all.push((
            "the tokens that the server adds to a prompt".to_owned(),
            learned.into(),
        ));
        let stored = settings.stored();
        let config = stored.as_object().into_iter().flatten();
        let config = config.filter(|(key, _)| !KEYS_OF_EACH_SHARD.contains(&key.as_str()));
        all.extend(config.map(|(key, value)| (format!("`{key}`"), value.clone())));
        for cell in cells {
            let begins = self
                .plan(cell, 0)?
                .summary(COMPARED)
                .map_err(RunError::Workload)?;
            let design = json!([cell.load, cell.stop, cell.repeats]);
            all.push((format!("the design of cell {}", cell.id), design));
            let first = format!("{} for the first {}", begins.hash, begins.looked_at);
            all.push((
                format!("the hash of the requests of cell {}", cell.id),
                first.into(),
            ));
        }
        let told = |(key, value): (String, Value)| {
            let mut text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            self.secrets.hide(&mut text);
            (key, short(text))
        };
        Ok(all.into_iter().map(told).collect())
    }

    /// Shard 0 makes one result of all shards', where their folders are in reach, and else says what makes it; the others wait for it.
    pub(super) async fn together(&self, mut meeting: Meeting) -> Together {
        let (index, count) = self.settings.client.part();
        if !meeting.written().await {
            if index == 0 {
                self.say_how_to_merge(&meeting);
            } else if meeting.lacks_first() {
                self.say_that_none_merged();
            }
            return Together::Apart;
        }
        if index > 0 {
            return if meeting.merged().await {
                self.progress.note(&format!(
                    "shard {index} of {count} is done; shard 0 has merged all results"
                ));
                Together::Elsewhere
            } else {
                self.say_that_none_merged();
                Together::Apart
            };
        }
        self.progress.note(&format!("merging {count} shards"));
        match merge(meeting.folders().into_iter().map(str::to_owned).collect()).await {
            Ok((record, folder)) => {
                meeting.merged().await;
                Together::Merged(record, folder)
            }
            Err(why) => {
                self.progress.note(&format!("shard 0 cannot merge: {why}"));
                self.say_how_to_merge(&meeting);
                Together::Apart
            }
        }
    }

    /// What another shard knows where shard 0 is gone, or could not merge.
    fn say_that_none_merged(&self) {
        self.progress.note(&format!(
            "shard 0 did not merge the results. When all shards have ended, run `{MERGER} merge` with their directories"
        ));
    }

    /// Where the shards' results are, and what makes one of them.
    fn say_how_to_merge(&self, meeting: &Meeting) {
        let folders = meeting.folders();
        self.progress.note(&format!(
            "{} of {} shards finished. To merge their results, on a machine that has their folders:\n  {MERGER} merge {} --out {}",
            meeting.remaining(),
            self.settings.client.part().1,
            folders.join(" "),
            merged_folder(&folders).display()
        ));
    }
}

/// What became of the shards' results.
pub(super) enum Together {
    /// Each has its own.
    Apart,
    /// This is shard 0, with the result of all.
    Merged(Box<RunRecord>, PathBuf),
    /// Shard 0 has the result of all.
    Elsewhere,
}

/// The program that merges.
const MERGER: &str = "bench-report";

/// Beside the shards' folders where these lie together, else in the working directory.
fn merged_folder(folders: &[impl AsRef<Path>]) -> PathBuf {
    let mut parents = folders.iter().map(|folder| folder.as_ref().parent());
    let first = parents.next().flatten();
    let parent = first.filter(|first| parents.all(|parent| parent == Some(first)));
    parent.unwrap_or_else(|| Path::new("")).join("merged")
}

/// The result of these folders', by the program that merges: the one beside this program, else one of the `PATH`.
async fn merge(folders: Vec<String>) -> Result<(Box<RunRecord>, PathBuf), String> {
    let unseen = folders.iter().find(|folder| !Path::new(folder).is_dir());
    if let Some(unseen) = unseen {
        return Err(format!("{unseen} is not accessible from this host"));
    }
    let beside = std::env::current_exe().map(|program| program.with_file_name(MERGER));
    let program = beside.ok().filter(|program| program.is_file());
    let program = program.unwrap_or_else(|| MERGER.into());
    let out = merged_folder(&folders);
    let mut merge = Command::new(&program);
    merge.arg("merge").args(folders).arg("--out").arg(&out);
    let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", program.display());
    let ended = tokio::task::spawn_blocking(move || merge.output());
    let ended = ended.await.map_err(|error| failed(&error))?;
    let ended = ended.map_err(|error| failed(&error))?;
    if !ended.status.success() {
        return Err(failed(&String::from_utf8_lossy(&ended.stderr).trim()));
    }
    let path = out.join("run.json");
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = read_file(&path, MOST_RUN_BYTES).map_err(|error| told(&error))?;
    let record = RunRecord::from_json(&String::from_utf8_lossy(&text));
    let record = record.map_err(|error| told(&error))?;
    Ok((Box::new(record), out))
}

/// What a shard knows of its clock beside the others' so far; nothing where it met nobody.
pub(super) fn compare_clocks(clock: &mut ClockRecord, meeting: Option<&Meeting>) {
    let Some(meeting) = meeting else { return };
    clock.met = meeting.exchanges().to_vec();
    clock.meeting = Some(meeting.name().to_owned());
}

/// The hash of the file that this program runs from: two builds of one version may measure in different ways.
fn program_file() -> Option<String> {
    let file = std::fs::File::open(std::env::current_exe().ok()?).ok()?;
    let mut file = std::io::BufReader::with_capacity(1 << 16, file);
    let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
    loop {
        let bytes = file.fill_buf().ok()?;
        if bytes.is_empty() {
            return Some(format!("SHA-256 {}", beginning(&digest.finish())));
        }
        digest.update(bytes);
        let read = bytes.len();
        file.consume(read);
    }
}

/// Enough of a hash to tell two apart.
fn beginning(digest: &ring::digest::Digest) -> String {
    let first = digest.as_ref().first_chunk().copied();
    format!(
        "{:016x}…",
        first.map(u64::from_be_bytes).unwrap_or_default()
    )
}

/// A text that can be told and compared.
fn short(text: String) -> String {
    let length = text.chars().count();
    if length <= LONGEST {
        return text;
    }
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let head: String = text.chars().take(LONGEST / 2).collect();
    let digest = beginning(&digest);
    format!("{head}… ({length} characters, SHA-256 {digest})")
}
