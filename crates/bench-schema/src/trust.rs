//! Whether the numbers should be believed.

use serde::{Deserialize, Serialize};

/// The run's judgement of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Trust {
    /// The worst of the reasons.
    pub verdict: TrustVerdict,
    /// Every reason, the worst first; empty for a trusted run.
    pub reasons: Vec<TrustReason>,
}

impl Trust {
    /// The verdict that follows from `reasons`.
    pub fn from_reasons(mut reasons: Vec<TrustReason>) -> Self {
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.verdict));
        let verdict = reasons
            .first()
            .map_or(TrustVerdict::Trusted, |reason| reason.verdict);
        Self { verdict, reasons }
    }

    /// The verdict on one cell: of the reasons that name it or no cell.
    pub fn of_cell(&self, id: &str) -> TrustVerdict {
        let own = |reason: &&TrustReason| reason.concerns(id);
        let verdicts = self.reasons.iter().filter(own).map(|reason| reason.verdict);
        verdicts.max().unwrap_or(TrustVerdict::Trusted)
    }

    /// With these reasons too.
    pub fn add(&mut self, more: impl IntoIterator<Item = TrustReason>) {
        let mut reasons = std::mem::take(&mut self.reasons);
        reasons.extend(more);
        *self = Self::from_reasons(reasons);
    }
}

names! {
    /// How far the numbers can be believed, from good to bad.
    TrustVerdict {
        Trusted "trusted" "Nothing speaks against them.";
        Doubtful "doubtful" "Something may have moved them.";
        Untrusted "untrusted" "Something did.";
    }
}

/// One reason not to believe the numbers.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TrustReason {
    /// Stable name: `bounded_stamps`, `failures`, `lateness`, `slots_idle`, `offered_rate`, `client_cpu`, `clock_step`, `warm_cache`, `prompt_length`,
    /// `few_samples`, `not_stationary`, `short_answers`, `incomplete`, …
    pub code: String,
    /// What it makes of the run.
    pub verdict: TrustVerdict,
    /// What was seen, with numbers. In results of before this had a field of its own, the next step stands behind it.
    pub message: String,
    /// What to do about it.
    pub next: Option<String>,
    /// The cell it is about; absent means the run.
    pub cell: Option<String>,
    /// Other cells of which the same is true, to a lesser degree. Results of before this was a field say only how many there are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_in: Vec<String>,
    /// What was measured.
    pub measured: Option<f64>,
    /// The threshold it crossed, in the same unit.
    pub threshold: Option<f64>,
}

impl TrustReason {
    /// Whether it is about this cell by name.
    pub fn names(&self, cell: &str) -> bool {
        let mut cells = self.cell.iter().chain(&self.also_in);
        cells.any(|named| named == cell)
    }

    /// Whether it speaks against this cell's numbers: it names the cell, or is about the whole run.
    pub fn concerns(&self, cell: &str) -> bool {
        self.cell.is_none() || self.names(cell)
    }

    /// A reason that names no cell and no figure, and nothing to do.
    pub fn new(code: &str, verdict: TrustVerdict, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            verdict,
            message: message.into(),
            next: None,
            cell: None,
            also_in: Vec::new(),
            measured: None,
            threshold: None,
        }
    }

    /// What was seen and what to do about it, in one sentence.
    pub fn sentence(&self) -> String {
        match &self.next {
            Some(next) => format!("{}; {next}", self.message),
            None => self.message.clone(),
        }
    }
}
