//! Which runs are compared with which.

use bench_insight::RunComparison;
use bench_schema::RunRecord;

use crate::ReportError;
use crate::files::RunFiles;
use crate::table::Table;

/// Runs that are repeats of each other, or share a level of the axis.
#[derive(Debug)]
pub struct Point<'a> {
    /// What it is called: a level of the axis, a folder.
    pub name: String,
    /// One at least.
    pub runs: Vec<&'a RunRecord>,
    /// Where the requests of each run lie, for the distributions.
    pub files: Vec<RunFiles>,
    /// How it stands against the first point; `None` for that one.
    pub held: Option<RunComparison>,
}

/// A baseline, which is the first point, and those that are held against it.
#[derive(Debug)]
pub struct Study<'a> {
    pub(super) axis: Option<String>,
    pub(super) points: Vec<Point<'a>>,
    pub(super) along: Option<Table>,
}

impl<'a> Study<'a> {
    /// Of points along a tag, or of runs without an axis. `along` is a table of the points with their best cells.
    ///
    /// # Errors
    /// [`ReportError::TooFewRuns`] where there are not two points to compare.
    pub fn new(
        points: Vec<Point<'a>>,
        axis: Option<&str>,
        along: Option<Table>,
    ) -> Result<Self, ReportError> {
        if points.len() < 2 {
            return Err(ReportError::TooFewRuns {
                given: points.len(),
            });
        }
        Ok(Self {
            axis: axis.map(str::to_owned),
            points,
            along,
        })
    }

    pub(super) fn title(&self) -> String {
        match (&self.axis, self.points.as_slice()) {
            (Some(axis), points) => format!("{} levels of {axis} compared", points.len()),
            (None, [base, new]) => format!("{} against {}", new.name, base.name),
            (None, points) => format!("{} runs compared", points.len()),
        }
    }

    /// The point that the others are held against.
    pub(super) fn baseline(&self) -> Option<&Point<'a>> {
        self.points.first()
    }

    /// The comparisons with it.
    pub(super) fn held(&self) -> impl Iterator<Item = (&Point<'a>, &RunComparison)> {
        let points = self.points.iter();
        points.filter_map(|point| Some((point, point.held.as_ref()?)))
    }

    /// The first run of each point.
    pub(super) fn firsts(&self) -> Vec<&'a RunRecord> {
        let points = self.points.iter();
        points
            .filter_map(|point| point.runs.first().copied())
            .collect()
    }
}
