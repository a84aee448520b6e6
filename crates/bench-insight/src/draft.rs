//! How a finding is put together: nothing that is not a number gets into one.

use bench_schema::{Evidence, Finding, FindingKind};

/// A finding in the making. A number that is not finite anywhere in it makes the whole finding vanish: what the data does
/// not carry is not said.
pub(crate) struct Draft {
    finding: Finding,
    sound: bool,
}

impl Draft {
    /// A claim with its severity, which is clamped to 0…1.
    pub(crate) fn new(
        code: &str,
        kind: FindingKind,
        severity: f64,
        claim: impl Into<String>,
    ) -> Self {
        Self {
            finding: Finding {
                code: code.to_owned(),
                kind,
                claim: claim.into(),
                evidence: Vec::new(),
                severity: severity.clamp(0.0, 1.0),
                hypothesis: None,
                confirm: None,
                actions: Vec::new(),
                cells: Vec::new(),
            },
            sound: severity.is_finite(),
        }
    }

    /// A number it rests on.
    pub(crate) fn because(self, name: impl Into<String>, value: f64, unit: &str) -> Self {
        self.push(name.into(), value, unit, None)
    }

    /// A number it rests on, of one cell.
    pub(crate) fn because_in(
        self,
        cell: &str,
        name: impl Into<String>,
        value: f64,
        unit: &str,
    ) -> Self {
        self.push(name.into(), value, unit, Some(cell.to_owned()))
    }

    /// A share it rests on, as a percentage.
    pub(crate) fn because_share(self, cell: &str, name: impl Into<String>, share: f64) -> Self {
        self.push(name.into(), share * 100.0, "%", Some(cell.to_owned()))
    }

    /// A duration it rests on, given in nanoseconds and shown in milliseconds.
    pub(crate) fn because_time(self, cell: &str, name: impl Into<String>, ns: f64) -> Self {
        self.push(name.into(), ns / 1e6, "ms", Some(cell.to_owned()))
    }

    fn push(mut self, name: String, value: f64, unit: &str, cell: Option<String>) -> Self {
        self.sound &= value.is_finite();
        self.finding.evidence.push(Evidence {
            name,
            value,
            unit: unit.to_owned(),
            cell,
        });
        self
    }

    /// Why it may be so; worded as a hypothesis by the caller.
    pub(crate) fn perhaps(mut self, hypothesis: impl Into<String>) -> Self {
        self.finding.hypothesis = Some(hypothesis.into());
        self
    }

    /// The measurement that would decide.
    pub(crate) fn decided_by(mut self, confirm: impl Into<String>) -> Self {
        self.finding.confirm = Some(confirm.into());
        self
    }

    /// What to try, the most promising first.
    pub(crate) fn attempt<S: Into<String>>(mut self, actions: impl IntoIterator<Item = S>) -> Self {
        self.finding
            .actions
            .extend(actions.into_iter().map(Into::into));
        self
    }

    /// The cells it is about.
    pub(crate) fn about<S: Into<String>>(mut self, cells: impl IntoIterator<Item = S>) -> Self {
        self.finding.cells.extend(cells.into_iter().map(Into::into));
        self
    }

    /// The finding, unless one of its numbers is none.
    pub(crate) fn done(self) -> Option<Finding> {
        self.sound.then_some(self.finding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_with_a_number_that_is_none_is_not_made() {
        let draft = || Draft::new("x", FindingKind::Scaling, 0.5, "x");
        assert!(draft().because("a", 1.0, "").done().is_some());
        assert!(draft().because("a", f64::NAN, "").done().is_none());
        assert!(draft().because("a", f64::INFINITY, "").done().is_none());
        assert!(
            Draft::new("x", FindingKind::Scaling, f64::NAN, "x")
                .done()
                .is_none()
        );
    }
}
