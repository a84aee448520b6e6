//! One experiment point, before it is run.

use std::collections::BTreeMap;

use bench_schema::{Factor, Load, StopRule};
use bench_workload::{DatasetSpec, LengthSpec};

use crate::config::Amount;

/// What distinguishes a point of the experiment, and what is to be done there. The three binaries differ only in these.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Unique, short, usable in a file name.
    pub id: String,
    /// For people.
    pub label: String,
    /// What distinguishes it.
    pub factors: BTreeMap<String, Factor>,
    /// How load is offered.
    pub load: Load,
    /// What ends it.
    pub stop: StopRule,
    /// How often it is run.
    pub repeats: u32,
    /// What goes before each run, where it was said.
    pub warmup: Option<Amount>,
    /// What is asked.
    pub ask: Ask,
}

/// What a cell asks.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Where prompts come from.
    pub dataset: DatasetSpec,
    /// Prompt length; absent leaves it to the dataset.
    pub input: Option<LengthSpec>,
    /// Output length; absent leaves it to the dataset.
    pub output: Option<LengthSpec>,
}
