//! Which runs are compared with which.

use bench_schema::RunRecord;

use super::change::{Change, changes};
use crate::ReportError;
use crate::text::shortened;

/// Runs that share a level of the axis.
pub(super) struct Point<'a> {
    pub(super) name: String,
    /// The level as a number, where every point has one.
    pub(super) level: Option<f64>,
    pub(super) runs: Vec<&'a RunRecord>,
    /// Against the baseline; empty for the baseline itself.
    pub(super) changes: Vec<Change>,
}

/// A baseline and the points that are held against it.
pub(super) struct Study<'a> {
    pub(super) axis: Option<String>,
    pub(super) points: Vec<Point<'a>>,
}

impl<'a> Study<'a> {
    pub(super) fn new(runs: &'a [RunRecord], axis: Option<&str>) -> Result<Self, ReportError> {
        let mut points = match axis {
            Some(tag) => by_tag(runs, tag),
            None => runs
                .iter()
                .enumerate()
                .map(|(i, run)| point(own_name(runs, i), vec![run]))
                .collect(),
        };
        if points.len() < 2 {
            return Err(ReportError::TooFewRuns {
                given: points.len(),
            });
        }
        if let Some(axis) = axis {
            number(&mut points);
            for point in &mut points {
                point.name = format!("{} {}", shortened(axis, 40), point.name);
            }
        }
        let baseline: Vec<&RunRecord> = points
            .first()
            .map(|base| base.runs.clone())
            .unwrap_or_default();
        for point in points.iter_mut().skip(1) {
            point.changes = changes(&baseline, &point.runs);
        }
        Ok(Self {
            axis: axis.map(str::to_owned),
            points,
        })
    }

    pub(super) fn title(&self) -> String {
        match (&self.axis, self.points.as_slice()) {
            (Some(axis), points) => format!(
                "{} levels of {} compared",
                points.len(),
                shortened(axis, 40)
            ),
            (None, [base, new]) => format!("{} against {}", new.name, base.name),
            (None, points) => format!("{} runs compared", points.len()),
        }
    }

    /// The point that the others are held against.
    pub(super) fn baseline(&self) -> Option<&Point<'a>> {
        self.points.first()
    }

    pub(super) fn others(&self) -> impl Iterator<Item = &Point<'a>> {
        self.points.iter().skip(1)
    }

    /// Whether every point has a numeric level.
    pub(super) fn numeric(&self) -> bool {
        self.points.iter().all(|point| point.level.is_some())
    }
}

fn point(name: String, runs: Vec<&RunRecord>) -> Point<'_> {
    Point {
        name,
        level: None,
        runs,
        changes: Vec::new(),
    }
}

/// Points by the value of a tag, in the order they were given; runs without the tag make a point of their own.
fn by_tag<'a>(runs: &'a [RunRecord], tag: &str) -> Vec<Point<'a>> {
    let mut points: Vec<Point<'a>> = Vec::new();
    for run in runs {
        let value = run
            .tags
            .get(tag)
            .map_or_else(|| "(without)".to_owned(), |value| shortened(value, 40));
        match points.iter_mut().find(|point| point.name == value) {
            Some(known) => known.runs.push(run),
            None => points.push(point(value, vec![run])),
        }
    }
    points
}

/// Levels in order, where all are numbers.
fn number(points: &mut [Point<'_>]) {
    let levels: Vec<Option<f64>> = points
        .iter()
        .map(|point| point.name.parse::<f64>().ok().filter(|x| x.is_finite()))
        .collect();
    if levels.iter().all(Option::is_some) {
        for (point, level) in points.iter_mut().zip(levels) {
            point.level = level;
        }
        points.sort_by(|a, b| a.level.unwrap_or(0.0).total_cmp(&b.level.unwrap_or(0.0)));
    }
}

/// What tells a run from the others: its model, the tags in which they differ, else its title; numbered where that is not
/// enough.
fn own_name(runs: &[RunRecord], i: usize) -> String {
    let name = |run: &RunRecord| {
        let mut parts = Vec::new();
        if runs
            .iter()
            .any(|other| other.server.model != run.server.model)
        {
            parts.extend(run.server.model.clone());
        }
        let differs = |key: &String| {
            runs.iter()
                .any(|other| other.tags.get(key) != run.tags.get(key))
        };
        parts.extend(
            run.tags
                .iter()
                .filter(|(key, _)| differs(key))
                .map(|(key, value)| format!("{key}={value}")),
        );
        if parts.is_empty() {
            run.title.clone()
        } else {
            parts.join(", ")
        }
    };
    let Some(run) = runs.get(i) else {
        return String::new();
    };
    let own = shortened(&name(run), 60);
    let twins = runs
        .iter()
        .filter(|other| shortened(&name(other), 60) == own)
        .count();
    if twins > 1 {
        format!("{own} (run {})", i + 1)
    } else {
        own
    }
}
