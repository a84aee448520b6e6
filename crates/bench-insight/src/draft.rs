//! How a finding is put together: nothing that is not a number gets into one.

use bench_schema::{
    Cause, CellRecord, Code, Evidence, Experiment, Figure, Finding, RuledOut, Unit,
};

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

    /// A number it rests on.
    pub(crate) fn because(self, figure: impl Into<Figure>, value: f64, unit: Unit) -> Self {
        self.push(Evidence::new(figure.into(), value, unit))
    }

    /// A number it rests on, where it is known.
    pub(crate) fn because_some(
        self,
        figure: impl Into<Figure>,
        value: Option<f64>,
        unit: Unit,
    ) -> Self {
        match value {
            Some(value) => self.because(figure, value, unit),
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
    pub(crate) fn rules_out(
        mut self,
        cause: Cause,
        figure: impl Into<Figure>,
        value: Option<f64>,
        unit: Unit,
    ) -> Self {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            let by = Evidence::new(figure.into(), value, unit);
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

/// A number of one cell.
pub(crate) fn of_cell(figure: impl Into<Figure>, value: f64, unit: Unit, cell: &str) -> Evidence {
    Evidence {
        cell: Some(cell.to_owned()),
        ..Evidence::new(figure.into(), value, unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_schema::Known;

    #[test]
    fn a_finding_with_a_number_that_is_none_is_not_made() {
        let with = |value| {
            let draft = Draft::new(Cause::Queueing, 0.5);
            draft.because(Known::QueueShare, value, Unit::Ratio).done()
        };
        assert!(with(1.0).is_some());
        assert!(with(f64::NAN).is_none() && with(f64::INFINITY).is_none());
        assert!(Draft::new(Cause::Queueing, f64::NAN).done().is_none());
    }
}
