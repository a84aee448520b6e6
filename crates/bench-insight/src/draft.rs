//! How a finding is put together: nothing that is not a number gets into one.

use bench_schema::{Cause, CellRecord, Code, Evidence, Experiment, Finding, Known, RuledOut, Unit};

/// A finding in the making. A number that is not finite anywhere in it makes the whole finding vanish: what the data does
/// not carry is not said.
pub(crate) struct Draft {
    finding: Finding,
    sound: bool,
}

impl Draft {
    /// What was found, and the share of the users' time or of the requests that it costs.
    pub(crate) fn new(code: impl Into<Code>, severity: f64) -> Self {
        Self {
            finding: Finding::new(code, severity),
            sound: severity.is_finite(),
        }
    }

    /// The same about one cell.
    pub(crate) fn in_cell(code: impl Into<Code>, severity: f64, cell: &CellRecord) -> Self {
        let mut draft = Self::new(code, severity);
        draft.finding.cells.push(cell.id.clone());
        draft
    }

    /// A number it rests on, where it is known.
    pub(crate) fn because(self, figure: Known, value: impl Into<Option<f64>>) -> Self {
        self.in_unit(figure, value, unit_of(figure))
    }

    /// The same in a unit that is not the figure's usual one.
    pub(crate) fn in_unit(self, figure: Known, value: impl Into<Option<f64>>, unit: Unit) -> Self {
        match value.into() {
            Some(value) => self.push(Evidence::new(figure.into(), value, unit)),
            None => self,
        }
    }

    /// A number it rests on, with its cell or whatever else it is of.
    pub(crate) fn push(mut self, evidence: Evidence) -> Self {
        self.sound &= evidence.value.is_finite();
        self.finding.evidence.push(evidence);
        self
    }

    /// Another cause that it is not, and the number that says so, where that is known.
    pub(crate) fn rules_out(mut self, cause: Cause, figure: Known, value: Option<f64>) -> Self {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            let by = Evidence::new(figure.into(), value, unit_of(figure));
            self.finding.ruled_out.push(RuledOut { cause, by });
        }
        self
    }

    /// The measurement that would refute it.
    pub(crate) fn refuted_by(mut self, experiment: Experiment) -> Self {
        self.finding.refute = Some(experiment);
        self
    }

    /// Its sentence, where numbers alone do not make one.
    pub(crate) fn saying(mut self, message: String) -> Self {
        self.finding.message = Some(message);
        self
    }

    /// The finding, unless one of its numbers is none.
    pub(crate) fn done(self) -> Option<Finding> {
        self.sound.then_some(self.finding)
    }
}

pub(crate) fn of_cell(figure: Known, value: f64, cell: &str) -> Evidence {
    Evidence {
        cell: Some(cell.to_owned()),
        ..Evidence::new(figure.into(), value, unit_of(figure))
    }
}

/// The unit that a figure is in, but for those of objectives, of levels over lengths and of a throughput in requests.
#[expect(clippy::match_same_arms, reason = "a line for each kind of figure")]
fn unit_of(figure: Known) -> Unit {
    use Known as K;
    match figure {
        K::At
        | K::Lasted
        | K::ConnectTime
        | K::StallPeriod
        | K::StallLength
        | K::ClientLateness
        | K::SlowAfterIdle
        | K::Limit => Unit::Ns,
        K::Ttft | K::QuietTtft | K::CachedTtft | K::TtftPerToken => Unit::Ns,
        K::ServerTtft | K::ScheduledTtft | K::QueueTime => Unit::Ns,
        K::Itl | K::MeanGap | K::Tpot | K::QuietTpot | K::TimePerOutputToken => Unit::Ns,
        K::E2eMean | K::E2eP50 | K::E2eP95 | K::QueueTimeP50 | K::GenerationTimeP50 => Unit::Ns,
        K::Level | K::HighestLevel | K::LimitLevel | K::MissedLevel => Unit::Count,
        K::UndecidedLevel | K::UndecidedBelow | K::TimesAsMany | K::Changes | K::Stalls => {
            Unit::Count
        }
        K::Requests | K::Completed | K::Failed | K::Vacuous | K::Status | K::RequestsPerDay => {
            Unit::Count
        }
        K::InFlight
        | K::Waiting
        | K::Running
        | K::Preemptions
        | K::LongPrompts
        | K::EventsAtOnce => Unit::Count,
        K::ServerCores | K::ClientCores | K::ServerRunQueue | K::TokensPerChunk => Unit::Count,
        K::TokensOverClient | K::SlowDown | K::SlowRatio | K::ReplicaRatio | K::BesideLong => {
            Unit::Count
        }
        K::ScalingFactor | K::TailRatio => Unit::Count,
        K::PromptTokens | K::SlowFromTokens => Unit::Tokens,
        K::FewestTokens | K::MostTokens | K::LongestWithin => Unit::Tokens,
        K::RequestRate | K::OfferedRate | K::ServedRate => Unit::RequestsPerS,
        K::Throughput => Unit::TokensPerS,
        _ => Unit::Ratio,
    }
}

#[cfg(test)]
#[path = "../tests/unit/draft.rs"]
mod tests;
