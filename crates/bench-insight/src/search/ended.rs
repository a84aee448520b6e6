//! Why a search ended, in words, and what to do next.

use bench_metrics::{Budget, Stage};
use bench_schema::{CellRecord, Counts, FailureKind, SearchEnd, Slo, counted};

use super::stages::{away, is_plainly_missed, patience};
use super::{IN_A_ROW, SearchAsked, amount};
use crate::text;

impl SearchAsked {
    /// What ends the search whatever its stages say.
    pub(super) fn over(&self, slos: &[Slo], cells: &[CellRecord]) -> Option<String> {
        self.without_value(slos, cells)
            .or_else(|| self.silent(cells))
    }

    /// That the server answered nothing in one stage after the other, or was away in them.
    fn silent(&self, cells: &[CellRecord]) -> Option<String> {
        /// Stages in a row in which it was away for a while.
        const AWAY: usize = 4;
        let all: Vec<&CellRecord> = self.loads(cells).map(|(_, cell)| cell).collect();
        let ends_with = |n: usize| all.get(all.len().checked_sub(n)?..);
        let is_silent = |cell: &CellRecord| {
            let counts = &cell.counts;
            counts.planned > 0 && counts.lost() >= counts.planned
        };
        let is_away = |cell: &CellRecord| is_silent(cell) || away(cell).is_some();
        let silent = ends_with(IN_A_ROW).filter(|last| last.iter().all(|cell| is_silent(cell)));
        let away = || ends_with(AWAY).filter(|last| last.iter().all(|cell| is_away(cell)));
        let last = silent.or_else(away)?;
        let sum = |of: fn(&Counts) -> u64| last.iter().map(|cell| of(&cell.counts)).sum::<u64>();
        let (planned, failed) = (sum(|counts| counts.planned), sum(Counts::lost));
        let requests = counted(planned, "request");
        let how = match planned - failed {
            0 => format!("it answered none of the last {requests}"),
            _ => format!("{failed} of the last {requests} failed"),
        };
        Some(format!("the server failed meanwhile: {how}; see its log"))
    }

    /// That no request of a whole stage has what an objective limits: no load can miss it, and the search would go on to any.
    fn without_value(&self, slos: &[Slo], cells: &[CellRecord]) -> Option<String> {
        let fewest = self.fewest(slos) as u64;
        let whole = cells.iter().filter(|cell| cell.counts.planned >= fewest);
        let mut outcomes = whole.flat_map(|cell| &cell.slos);
        let none = outcomes.find(|o| o.vacuous > 0 && crate::is_unmeasured(o))?;
        Some(format!(
            "no request has {}, so no load can miss the objective {} and no capacity within it can be found; remove that objective",
            none.slo.metric.title(),
            crate::findings::objective_name(none),
        ))
    }

    pub(super) fn why(
        &self,
        why: SearchEnd,
        bounds: Option<(f64, f64)>,
        slos: &[Slo],
        cells: &[CellRecord],
    ) -> Option<String> {
        match why {
            SearchEnd::Precise => self.only_waits(slos, cells),
            SearchEnd::ClientLimit | SearchEnd::Ended => None,
            SearchEnd::Budget => {
                let used_up = || self.used_up(bounds, slos, cells);
                let spent = || self.spent(&self.stages(cells));
                let waits = self.only_waits(slos, cells);
                Some(waits.map_or_else(used_up, |how| format!("{}; {how}", spent())))
            }
            SearchEnd::MissedAlone => self.missed_alone(cells),
            SearchEnd::NeverMissed => Some("no tested load misses an objective: set stricter ones with `--slo`".to_owned()),
            SearchEnd::Unsteady => Some(
                "similar loads gave different results, by more than chance: the server's speed changes over time; see the charts over time, and search again when it is stable".to_owned(),
            ),
            SearchEnd::NotMonotone => self.not_monotone(slos, cells),
        }
    }

    /// That no rate missed an objective, since what is too much waits and no objective limits that: more of the budget changes nothing.
    fn only_waits(&self, slos: &[Slo], cells: &[CellRecord]) -> Option<String> {
        let stages = self.stages(cells);
        let behind = stages.iter().filter(|stage| stage.served.is_some());
        let behind = behind.map(|stage| stage.load).reduce(f64::min)?;
        self.search(slos, cells)?.only_waits(&stages).then(|| {
            format!(
                "no rate missed the objectives, which limit no wait: the capacity is where answers fall behind the requests, as at {}, and those wait for their first token; to limit that too, add an objective such as `--slo p95:ttft=1s`",
                self.amount(behind)
            )
        })
    }

    /// That more load was met after less was missed: the server changed in between.
    pub(super) fn met_after_missed(&self, slos: &[Slo], cells: &[CellRecord]) -> Option<String> {
        let search = self.search(slos, cells)?;
        let [missed, met] = search.met_after_missed(&self.stages(cells))?;
        let measured = cells.iter().filter(|cell| cell.windows.whole.is_some());
        let measured: Vec<&CellRecord> = measured.collect();
        let stage = |place: usize| {
            let cell = measured.get(place)?;
            Some((self.amount(self.load_of(cell)?), &*cell.id))
        };
        let ((low, before), (high, after)) = stage(missed).zip(stage(met))?;
        Some(format!(
            "the server changed during the search: {high} met the objectives (stage {after}) after {low} had missed one (stage {before}); search again when it is stable, warm and of one size"
        ))
    }

    /// What is said where the budget ended it.
    fn used_up(&self, bounds: Option<(f64, f64)>, slos: &[Slo], cells: &[CellRecord]) -> String {
        let (search, stages) = (self.search(slos, cells), self.stages(cells));
        let spent = self.spent(&stages);
        if let Some((low, high)) = bounds {
            let is_one = self.closed && low.floor() >= high.floor();
            let more = "; a larger `--budget` gives a narrower interval";
            return spent.to_owned() + if is_one { "" } else { more };
        }
        let low = search
            .as_ref()
            .filter(|search| search.is_missed_low(&stages));
        if let Some((at, _)) = low.and_then(|_| self.missed_low(cells)) {
            return format!(
                "an objective is missed already {at}, where requests hardly queue, and {spent} before higher loads were tried: relax the objectives with `--slo`, or use a larger `--budget`"
            );
        }
        let searching = self.searching(slos, 1.0);
        if self.loads(cells).next().is_none() {
            return format!(
                "the budget is too small for a stage, which takes {} requests or more: use a larger `--budget`, or an objective for a smaller share",
                searching.fewest()
            );
        }
        let sides = search.map_or([None; 2], |search| search.sides(&stages));
        let is_between = self.loads(cells).any(
            |(load, _)| matches!(sides, [Some(met), Some(missed)] if met < load && load < missed),
        );
        let known = match sides.map(|load| load.map(|load| self.amount(load))) {
            [Some(met), Some(missed)] => format!(
                "too few of its stages were long and near the capacity: all of them up to {met} met the objectives, one at {missed} missed one{}",
                if is_between {
                    ", and those between are not alike"
                } else {
                    ""
                }
            ),
            [Some(met), None] => format!("no load missed an objective, up to {met}"),
            [None, Some(missed)] => {
                format!("no load met the objectives, and the lowest that missed one is {missed}")
            }
            [None, None] => "no load clearly met or missed the objectives".to_owned(),
        };
        let is_both = sides.iter().all(Option::is_some);
        if let Some(failing) = (!is_both).then(|| self.failing(cells)).flatten() {
            return format!(
                "{spent} when {known}: {failing}; check the server's log, then search again with a larger `--budget`"
            );
        }
        let patience = patience(slos);
        let lasts = (!self.closed && patience >= 0.5)
            .then(|| format!(" and {} or more", text::time(4e9 * patience)));
        format!(
            "{spent} when {known}: use a larger `--budget`; near the capacity a stage takes {} requests or more{}",
            searching.least_near(),
            lasts.unwrap_or_default()
        )
    }

    /// Whether nothing of the budget is left, or too little for a stage.
    fn spent(&self, stages: &[Stage]) -> &'static str {
        /// Of it, what is next to all.
        const NEARLY: f64 = 0.95;
        let part = match self.budget {
            Budget::Requests(most) => {
                stages.iter().map(|stage| stage.cost as f64).sum::<f64>() / most as f64
            }
            Budget::Seconds(most) => stages.iter().map(|stage| stage.seconds).sum::<f64>() / most,
        };
        if part >= NEARLY {
            "the budget is used up"
        } else {
            "what is left of the budget is too little for another stage"
        }
    }

    /// That whatever missed an objective had failed.
    fn failing(&self, cells: &[CellRecord]) -> Option<String> {
        let told = self.loads(cells).map(|(_, cell)| cell);
        let missed = told.filter(|cell| {
            self.client_limit(cell).is_none() && !Self::missed_by(cell, 0.0).is_empty()
        });
        let missed: Vec<&CellRecord> = missed.collect();
        let is_failure = |cell: &&CellRecord| Self::is_missed_by_failures(cell);
        (!missed.is_empty() && missed.iter().all(is_failure)).then(|| {
            let lost: u64 = missed.iter().map(|cell| cell.counts.lost()).sum();
            let planned: u64 = missed.iter().map(|cell| cell.counts.planned).sum();
            let planned = counted(planned, "request");
            format!("what missed an objective were {lost} of {planned} that failed")
        })
    }

    fn amount(&self, load: f64) -> String {
        amount(load, self.closed)
    }

    /// What is missed where hardly anything waits: by requests sent one at a time, else by the stage of the lowest load that missed it plainly; and how.
    fn missed_low<'a>(&self, cells: &'a [CellRecord]) -> Option<(String, &'a CellRecord)> {
        if self.is_missed_alone(cells) {
            return Some(("by requests sent one at a time".to_owned(), cells.first()?));
        }
        let tells =
            |cell: &CellRecord| is_plainly_missed(cell) && self.client_limit(cell).is_none();
        let tell = self.loads(cells).filter(|(_, cell)| tells(cell));
        let (load, cell) = tell.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((format!("at {}", self.amount(load)), cell))
    }

    fn missed_alone(&self, cells: &[CellRecord]) -> Option<String> {
        let (at, cell) = self.missed_low(cells)?;
        let (planned, lost) = (cell.counts.planned, cell.counts.lost());
        if Self::is_missed_by_failures(cell) {
            return Some(format!(
                "missed already {at}, where requests hardly queue, because {lost} of {} failed: check the server's log",
                counted(planned, "request")
            ));
        }
        let missed = Self::missed_by(cell, 0.0).into_iter();
        let missed: Vec<String> = missed.map(crate::findings::objective_name).collect();
        let most = self.loads(cells).map(|(load, _)| load).reduce(f64::max);
        let tried =
            most.map(|most| format!(", and at every load tried, up to {}", self.amount(most)));
        Some(format!(
            "missed already {at}, where requests hardly queue{}: {}; relax the objectives with `--slo`, or use shorter requests",
            tried.unwrap_or_default(),
            text::list(&missed)
        ))
    }

    /// Where the objectives are missed, and that more load meets them.
    fn not_monotone(&self, slos: &[Slo], cells: &[CellRecord]) -> Option<String> {
        let (search, stages) = (self.search(slos, cells)?, self.stages(cells));
        let is_low = search.is_missed_low(&stages);
        let (missed, met, is_met) = if is_low {
            let told = search.not_missed(&stages);
            let is_met = told.iter().any(|(.., is_met)| *is_met);
            let met = told.into_iter().filter(|(.., own)| *own || !is_met);
            (
                self.missed_low(cells)?.0,
                met.map(|(load, ..)| load).collect(),
                is_met,
            )
        } else {
            let (low, high) = search.upside_down(&stages)?;
            (format!("at {}", self.amount(low)), vec![high], true)
        };
        let (low, high) = (met.first()?, met.last()?);
        let met = if low < high {
            format!("from {} to {}", self.amount(*low), self.amount(*high))
        } else {
            format!("at {}", self.amount(*low))
        };
        let or = if is_low {
            "there is no single capacity"
        } else {
            "either there is no single capacity or the server changed between the two"
        };
        Some(format!(
            "an objective is missed {missed} and {} {met}, so {or}; measure several loads with `--{}`",
            if is_met { "met" } else { "may be met" },
            self.factor()
        ))
    }
}

/// What ended the last cell that ended early: the client, where it could open no more connections.
pub(super) fn failed_meanwhile(cells: &[CellRecord]) -> Option<String> {
    let told = |cell: &CellRecord| {
        let who = match cell.ended_by {
            Some(FailureKind::ClientResources) => "client",
            _ => "server",
        };
        let early = cell.ended_early.as_ref()?;
        Some(format!("the {who} failed meanwhile: {early}"))
    };
    cells.iter().rev().find_map(told)
}
