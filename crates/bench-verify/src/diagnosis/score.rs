//! What all runs come to.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::judge::Judged;

/// What has to be reached.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Share of faulty runs whose true cause is named first.
    pub first: f64,
    /// Share in which it is among the first three.
    pub third: f64,
    /// Forbidden findings a run.
    pub forbidden: f64,
    /// Share of healthy runs without an alarm.
    pub quiet: f64,
    /// Share of runs whose verdict is wrong.
    pub trust: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            first: 0.80,
            third: 0.95,
            forbidden: 0.2,
            quiet: 0.95,
            trust: 0.02,
        }
    }
}

/// Counts over runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Score {
    /// Runs that are not judged, and in nothing below.
    disturbed: usize,
    runs: usize,
    faulty: usize,
    first: usize,
    third: usize,
    forbidden: usize,
    healthy: usize,
    quiet: usize,
    trust_wrong: usize,
    advised: usize,
    advice_right: usize,
    numbers: usize,
    numbers_off: usize,
}

impl Score {
    /// Over some runs.
    pub fn of<'a>(runs: impl IntoIterator<Item = &'a Judged>) -> Self {
        let mut score = Self::default();
        for run in runs {
            score.add(run);
        }
        score
    }

    fn add(&mut self, run: &Judged) {
        let one = usize::from;
        if run.disturbed {
            self.disturbed += 1;
            return;
        }
        self.runs += 1;
        self.faulty += one(run.has_cause);
        self.first += one(run.has_cause && run.place == Some(0));
        self.third += one(run.has_cause && run.place.is_some_and(|place| place < 3));
        self.forbidden += run.forbidden.len();
        self.healthy += one(run.healthy);
        self.quiet += one(run.healthy && run.forbidden.is_empty());
        self.trust_wrong += one(!run.trust.1);
        self.advised += one(run.advice.is_some());
        self.advice_right += one(run.advice == Some(true));
        if run.trust.0 == "trusted" {
            self.numbers += run.numbers.len();
            self.numbers_off += run.off().count();
        }
    }

    /// Whether the limits are kept.
    pub fn holds(&self, limits: Limits) -> bool {
        let share = |part: usize, of: usize| part as f64 / of.max(1) as f64;
        let recalled = share(self.first, self.faulty) >= limits.first
            && share(self.third, self.faulty) >= limits.third;
        (self.faulty == 0 || recalled)
            && share(self.forbidden, self.runs) <= limits.forbidden
            && (self.healthy == 0 || share(self.quiet, self.healthy) >= limits.quiet)
            && share(self.trust_wrong, self.runs) <= limits.trust
    }

    /// A line for each quantity, with its limit.
    pub fn table(&self, limits: Limits) -> String {
        let of = |part: usize, of: usize| {
            let share = 100.0 * part as f64 / of.max(1) as f64;
            format!("{part} of {of} ({share:.0} %)")
        };
        let least = |limit: f64| format!("≥ {:.0} %", limit * 100.0);
        let most = |limit: f64| format!("≤ {:.0} %", limit * 100.0);
        let none = || "–".to_owned();
        let forbidden = format!("{:.2}", self.forbidden as f64 / self.runs.max(1) as f64);
        let all = self.disturbed + self.runs;
        let rows = [
            (
                "true cause named first",
                of(self.first, self.faulty),
                least(limits.first),
            ),
            (
                "among the first three",
                of(self.third, self.faulty),
                least(limits.third),
            ),
            (
                "forbidden findings a run",
                forbidden,
                format!("≤ {}", limits.forbidden),
            ),
            (
                "healthy runs without an alarm",
                of(self.quiet, self.healthy),
                least(limits.quiet),
            ),
            (
                "wrong verdicts of trust",
                of(self.trust_wrong, self.runs),
                most(limits.trust),
            ),
            (
                "advice that fits its cause",
                of(self.advice_right, self.advised),
                none(),
            ),
            (
                "figures of trusted runs beyond 2 % (rates 3 %)",
                of(self.numbers_off, self.numbers),
                none(),
            ),
            (
                "not judged: the machine was taken from them",
                of(self.disturbed, all),
                none(),
            ),
        ];
        let mut out = String::from("| over all runs | | limit |\n|---|---|---|\n");
        for (name, value, limit) in rows {
            // Writing to a string cannot fail.
            writeln!(out, "| {name} | {value} | {limit} |").ok();
        }
        out
    }
}

/// A line for each situation.
pub fn by_situation(runs: &[Judged]) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut of: BTreeMap<&str, Vec<&Judged>> = BTreeMap::new();
    for run in runs {
        if !names.contains(&run.name.as_str()) {
            names.push(&run.name);
        }
        of.entry(&run.name).or_default().push(run);
    }
    let mut out = String::from(
        "| situation | runs | first | in three | forbidden | trust wrong | figures off |\n|---|---|---|---|---|---|---|\n",
    );
    for name in names {
        let Some(runs) = of.get(name) else { continue };
        let score = Score::of(runs.iter().copied());
        let recall = |part: usize| {
            if score.faulty == 0 {
                "–".to_owned()
            } else {
                part.to_string()
            }
        };
        let forbidden = runs
            .iter()
            .flat_map(|run| &run.forbidden)
            .map(|cause| cause.as_str());
        let trust = runs
            .iter()
            .filter(|run| !run.trust.1)
            .map(|run| run.trust.0);
        let off = runs
            .iter()
            .flat_map(|run| run.off())
            .map(|(_, check)| check.name);
        writeln!(
            out,
            "| {name} | {} | {} | {} | {} | {} | {} |",
            score.runs,
            recall(score.first),
            recall(score.third),
            tally(forbidden),
            tally(trust),
            tally(off),
        )
        .ok();
    }
    out
}

/// Each of them with how often it is there, if more than once.
fn tally<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let mut counts = BTreeMap::<&str, usize>::new();
    for one in all {
        *counts.entry(one).or_default() += 1;
    }
    let word = |(name, count): (&str, usize)| match count {
        1 => name.to_owned(),
        _ => format!("{count} {name}"),
    };
    let words: Vec<String> = counts.into_iter().map(word).collect();
    words.join(", ")
}
