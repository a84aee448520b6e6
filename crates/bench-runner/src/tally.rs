//! What a cell comes to while it runs: fed by the recorder thread, finished by the run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bench_insight::CellConclusion;
use bench_schema::{
    CellAnalysis, CellRecord, ClientRecord, Counts, Origin, PlanRecord, Reading, RequestRecord,
    WindowRates,
};

use crate::cell::Cell;

/// The running conclusion of one cell, and the flag that ends it once it is precise enough.
pub(crate) struct CellTally {
    conclusion: CellConclusion,
    enough: Arc<AtomicBool>,
}

impl CellTally {
    /// An empty one.
    pub(crate) fn new(conclusion: CellConclusion, enough: Arc<AtomicBool>) -> Self {
        Self { conclusion, enough }
    }

    /// One request is over.
    pub(crate) fn request(&mut self, record: &RequestRecord) {
        self.conclusion.push(record);
        if self.conclusion.is_precise() {
            self.enough.store(true, Ordering::Relaxed);
        }
    }

    /// One reading was taken.
    pub(crate) fn reading(&mut self, reading: Arc<Reading>) {
        self.conclusion.push_reading(reading);
    }

    /// What it came to.
    pub(crate) fn into_conclusion(self) -> CellConclusion {
        self.conclusion
    }
}

/// A cell's record before anything was measured: its design.
pub(crate) fn blank(cell: &Cell, plan: PlanRecord) -> CellRecord {
    CellRecord {
        id: cell.id.clone(),
        label: cell.label.clone(),
        factors: cell.factors.clone(),
        load: cell.load.clone(),
        stop: cell.stop.clone(),
        repeats: cell.repeats,
        plan,
        headline: if cell.load.is_open() {
            Origin::Due
        } else {
            Origin::Sent
        },
        counts: Counts::default(),
        windows: WindowRates::default(),
        metrics: BTreeMap::new(),
        groups: Vec::new(),
        phases: None,
        analysis: CellAnalysis::default(),
        client: ClientRecord::default(),
        ended_early: None,
        hardware: None,
        slos: Vec::new(),
        goodput: None,
    }
}
