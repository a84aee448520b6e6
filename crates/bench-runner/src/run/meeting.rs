//! What shards have to have in common before they load a server together.

use std::path::Path;

use bench_schema::{ClockExchange, KEYS_OF_EACH_SHARD};
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
            (
                "the number of shards".to_owned(),
                settings.client.part().1.into(),
            ),
            (
                "the model".to_owned(),
                self.server.record.model.clone().into(),
            ),
            (
                "what sizes prompts".to_owned(),
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
                format!("the sum of the hashes of requests of cell {}", cell.id),
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

    /// Where the shards' results are, and what makes one of them: for shard 0 to say.
    pub(super) fn say_how_to_merge(&self, meeting: &Meeting) {
        let (index, count) = self.settings.client.part();
        if index > 0 {
            return;
        }
        let folders = meeting.folders();
        let parents: Vec<_> = folders
            .iter()
            .map(|folder| Path::new(folder).parent())
            .collect();
        let parent = parents.iter().all(|parent| parents.first() == Some(parent));
        let parent = parents.first().copied().flatten().filter(|_| parent);
        let out = parent.unwrap_or_else(|| Path::new("")).join("merged");
        self.progress.note(&format!(
            "{} of {count} shards came to the end. One result of theirs, where their folders are in reach:\n  bench-report merge {} --out {}",
            meeting.remaining(),
            folders.join(" "),
            out.display()
        ));
    }
}

/// A shard's clock at each meeting; none where it met nobody.
pub(super) fn exchanges(meeting: Option<&Meeting>) -> Vec<ClockExchange> {
    meeting.map_or_else(Vec::new, |meeting| meeting.exchanges().to_vec())
}

/// A text that can be told and compared.
fn short(text: String) -> String {
    let length = text.chars().count();
    if length <= LONGEST {
        return text;
    }
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let digest = digest
        .as_ref()
        .first_chunk()
        .copied()
        .map(u64::from_be_bytes);
    let digest = digest.unwrap_or_default();
    let head: String = text.chars().take(LONGEST / 2).collect();
    format!("{head}… ({length} characters, SHA-256 {digest:016x}…)")
}
