//! Engines in processes of their own, and what they know after a run.

use std::path::{Path, PathBuf};

use bench_engine::child::{self, Child};
use bench_engine::{EngineConfig, Entry};

use crate::error::VerifyError;
use crate::http;
use crate::programs::Programs;

/// The servers of one run.
#[derive(Debug)]
pub struct Engines {
    children: Vec<Child>,
    ca: Option<PathBuf>,
}

/// What they know after a run.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Every request for an answer, of all servers, with the number of its server.
    pub(crate) entries: Vec<(usize, Entry)>,
    /// Connections that were accepted and carried nothing.
    pub(crate) unused: usize,
    /// Share of this machine's CPU time that its host gave to others meanwhile, where it tells.
    pub(crate) stolen: Option<f64>,
}

impl Known {
    pub(crate) fn to_json(&self) -> Result<Vec<u8>, VerifyError> {
        serde_json::to_vec(&(&self.entries, self.unused, self.stolen))
            .map_err(|error| VerifyError::read("what the servers know", &error))
    }

    pub(crate) fn from_json(text: &[u8]) -> Result<Self, VerifyError> {
        let (entries, unused, stolen) = serde_json::from_slice(text)
            .map_err(|error| VerifyError::read("what the servers knew", &error))?;
        Ok(Self {
            entries,
            unused,
            stolen,
        })
    }
}

impl Engines {
    /// Starts one process for each configuration; they listen when it returns.
    pub(crate) fn start(
        programs: &Programs,
        configs: &[EngineConfig],
        ca: Option<&Path>,
    ) -> Result<Self, VerifyError> {
        let mut children = Vec::new();
        for config in configs {
            children.push(child::spawn_program(
                programs.server("bench-engine")?,
                config,
            )?);
        }
        Ok(Self {
            children,
            ca: ca.map(Path::to_owned),
        })
    }

    /// Base URLs as clients write them, in the order of the configurations.
    pub(crate) fn urls(&self) -> Vec<String> {
        let url = |child: &Child| match child.url().strip_prefix("unix:") {
            Some(path) => format!("unix://{path}"),
            None => child.url().to_owned(),
        };
        self.children.iter().map(url).collect()
    }

    /// [`Engines::known`], for up to half a minute: a server that is gone may come back.
    pub(crate) fn known_patiently(&self) -> Result<Known, VerifyError> {
        for _ in 0..60 {
            if let Ok(known) = self.known() {
                return Ok(known);
            }
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
        self.known()
    }

    /// Asks every server for its ledger and its connections.
    pub(crate) fn known(&self) -> Result<Known, VerifyError> {
        let mut known = Known::default();
        for (at, child) in self.children.iter().enumerate() {
            let ledger = http::get(child.url(), "/ledger", self.ca.as_deref())?;
            for line in ledger
                .split(|b| *b == b'\n')
                .filter(|line| !line.is_empty())
            {
                let entry = serde_json::from_slice(line)
                    .map_err(|error| VerifyError::read("the ledger", &error))?;
                known.entries.push((at, entry));
            }
            let page = http::get(child.url(), "/connections", self.ca.as_deref())?;
            let carried: Vec<u64> = serde_json::from_slice(&page)
                .map_err(|error| VerifyError::read("the connections", &error))?;
            known.unused += carried.iter().filter(|carried| **carried == 0).count();
        }
        Ok(known)
    }
}
