//! The situations, as `situations.toml` lists them.

use std::collections::BTreeMap;

use bench_engine::EngineConfig;
use bench_schema::{Cause, TrustVerdict};
use serde::Deserialize;

use crate::error::VerifyError;

/// A server's trouble, a load, and what a run against it has to say.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Situation {
    /// Its name, for `--only` and the table.
    pub name: String,
    /// Names of the servers' profiles.
    engines: Vec<String>,
    /// The profiles themselves.
    #[serde(skip)]
    pub(super) profiles: Vec<EngineConfig>,
    #[serde(default = "throughput")]
    pub(super) program: String,
    /// The command line, without servers, seed and output.
    pub(super) arguments: String,
    /// Whose core real busy loops take, and how many of them.
    pub(super) starve: Option<Starve>,
    /// Causes of which one has to be named first. Empty: there is nothing to name.
    #[serde(default = "healthy")]
    pub causes: Vec<Cause>,
    /// The same where the server tells nothing of itself, if it differs.
    hidden: Option<Vec<Cause>>,
    /// Causes that are true as well, or consequences: no merit, no fault.
    also: Option<Vec<Cause>>,
    /// Verdicts that are right.
    trust: Option<Vec<TrustVerdict>>,
    /// Advice for the first finding: one of these words has to be in it. Empty: none is judged.
    #[serde(default)]
    pub(super) advice: Vec<String>,
}

/// Busy loops on a core.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Starve {
    pub(super) core: Starved,
    pub(super) loops: usize,
}

/// Whose core is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Starved {
    Server,
    Client,
}

fn throughput() -> String {
    "bench-throughput".to_owned()
}

fn healthy() -> Vec<Cause> {
    vec![Cause::Healthy]
}

impl Situation {
    /// Whether nothing is wrong with the server.
    pub fn is_healthy(&self) -> bool {
        self.causes.first() == Some(&Cause::Healthy)
    }

    /// Causes that may come first.
    pub(super) fn accepted(&self, metrics: bool) -> &[Cause] {
        let hidden = self.hidden.as_ref().filter(|_| !metrics);
        hidden.unwrap_or(&self.causes)
    }

    /// Whether a cause is true as well. A healthy server's prefix cache may have helped.
    pub(super) fn is_true_as_well(&self, cause: Cause) -> bool {
        match &self.also {
            Some(also) => also.contains(&cause),
            None => self.is_healthy() && cause == Cause::PrefixCache,
        }
    }

    /// Whether a verdict is right.
    pub(super) fn is_due(&self, verdict: TrustVerdict) -> bool {
        match &self.trust {
            Some(due) => due.contains(&verdict),
            None if self.is_healthy() => verdict == TrustVerdict::Trusted,
            None => verdict != TrustVerdict::Untrusted,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    engines: BTreeMap<String, EngineConfig>,
    situation: Vec<Situation>,
}

/// All situations, the healthy ones first.
///
/// # Errors
/// [`VerifyError::Read`] where the list is not one, or names a profile that there is not.
pub fn situations() -> Result<Vec<Situation>, VerifyError> {
    let wrong = |reason: &dyn ToString| VerifyError::read("situations.toml", &reason.to_string());
    let list: List =
        toml::from_str(include_str!("situations.toml")).map_err(|error| wrong(&error))?;
    let mut all = list.situation;
    for situation in &mut all {
        for name in &situation.engines {
            let profile = list.engines.get(name).cloned();
            let profile = profile.ok_or_else(|| wrong(&format!("there is no engine `{name}`")))?;
            situation.profiles.push(profile);
        }
    }
    Ok(all)
}

#[cfg(test)]
#[path = "../../tests/unit/diagnosis_situations.rs"]
mod tests;
