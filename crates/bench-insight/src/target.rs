//! Targets: `--target "output_tokens_per_s>=20, failed==0, c8:ttft.p95<=200ms, any:requests_per_s>1"`.
//!
//! ```text
//! target   = [ scope ":" ] quantity operator limit
//! scope    = cell id | "any" | name "=" level { "+" name "=" level }     factors of a cell, or one group label (use_case=code)
//! quantity = rate | count | figure | metric "." statistic
//! operator = ">=" | ">" | "<=" | "<" | "==" | "!="
//! limit    = number [ "ns" | "us" | "µs" | "ms" | "s" | "%" ]
//! ```
//!
//! `p95:ttft=200ms`, as objectives are written, is read as `ttft.p95<=200ms`.

mod parse;
mod quantity;

use std::collections::{BTreeMap, BTreeSet};

use bench_metrics::{LEVEL, Threshold};
use bench_schema::{
    CapacityRecord, CellRecord, Factor, GroupRecord, Interval, Metric, RunRecord, SearchEnd, Slo,
    SloOutcome, SloVerdict, TargetOutcome, Unit,
};

use crate::{InsightError, text};
use parse::Operator;
pub(crate) use parse::limit;
use quantity::{Known, Measured, Quantity, Statistic, Subject};

/// One target, understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    text: String,
    scope: Scope,
    quantity: Quantity,
    operator: Operator,
    /// In the quantity's unit.
    limit: f64,
}

/// Which cells a target is about.
#[derive(Clone, Debug, PartialEq)]
enum Scope {
    /// It has to hold in every cell.
    Every,
    /// It has to hold in one at least: the best cell decides.
    Any,
    /// The cell of this id.
    Cell(String),
    /// Every cell, or group within one, with these levels and labels.
    Where(Vec<(String, String)>),
}

/// A cell before it is measured, as far as targets name it.
#[derive(Clone, Copy, Debug)]
pub struct PlannedCell<'a> {
    /// As in [`CellRecord::id`].
    pub id: &'a str,
    /// As in [`CellRecord::factors`].
    pub factors: &'a BTreeMap<String, Factor>,
    /// Whether its load is an open loop, whose latencies are told from `due` as well.
    pub open: bool,
}

/// The quantiles that targets limit, judged by the single requests of each cell: one rule for them and for objectives.
pub type Judged = BTreeMap<String, Vec<(Threshold, SloOutcome)>>;

/// A target in one cell.
struct Line {
    cell: String,
    measured: Option<Measured>,
    verdict: SloVerdict,
    /// Of a quantile: how its limit came out.
    judged: Option<SloOutcome>,
}

impl Target {
    /// Reads one target.
    ///
    /// # Errors
    /// [`InsightError::BadTarget`], naming the part that is wrong and what is known.
    pub fn parse(text: &str) -> Result<Self, InsightError> {
        parse::gate(text)
    }

    /// Reads targets; a text may hold several, separated by commas.
    ///
    /// # Errors
    /// [`InsightError::BadTarget`] for the first one that cannot be read.
    pub fn parse_all<S: AsRef<str>>(texts: &[S]) -> Result<Vec<Self>, InsightError> {
        let texts = texts.iter().flat_map(|text| text.as_ref().split(','));
        let texts = texts.map(str::trim).filter(|text| !text.is_empty());
        texts.map(Self::parse).collect()
    }

    /// Of a quantile: what it limits in a cell, where it is about that cell.
    pub(crate) fn threshold(&self, cell: &CellRecord) -> Option<Threshold> {
        let group = match &self.scope {
            Scope::Cell(id) if cell.id != *id => return None,
            Scope::Where(selector) => {
                let is_factor = |(name, _): &&(String, String)| cell.factors.contains_key(name);
                let mut labels = selector.iter().filter(|pair| !is_factor(pair));
                labels.next().cloned()
            }
            _ => None,
        };
        let slo = self.limited()?;
        Some(Threshold { slo, group })
    }

    /// A quantile with its limit, as an objective.
    fn limited(&self) -> Option<Slo> {
        let (metric, q) = self.quantile()?;
        Some(Slo {
            metric,
            q,
            limit: self.limit,
            use_case: None,
        })
    }

    /// The quantile of a metric that it rests on, if it rests on one: something the user asked to know well.
    pub fn quantile(&self) -> Option<(Metric, f64)> {
        match self.quantity {
            Quantity::Metric(metric, Statistic::Quantile(q)) => Some((metric, q)),
            _ => None,
        }
    }

    /// The metric that it is about, if it is about one.
    pub fn metric(&self) -> Option<Metric> {
        match self.quantity {
            Quantity::Metric(metric, _) => Some(metric),
            _ => None,
        }
    }

    /// The level of a factor, or the name of a group, that its scope asks for.
    pub fn level(&self, name: &str) -> Option<&str> {
        let Scope::Where(selector) = &self.scope else {
            return None;
        };
        let asked = selector.iter().find(|(known, _)| known == name);
        asked.map(|(_, level)| level.as_str())
    }

    /// Whether only a run with objectives can have its quantity.
    pub fn needs_objectives(&self) -> bool {
        self.quantity.needs_objectives()
    }

    /// What is wrong with it and what could be asked, where nothing that these cells will measure can meet it: no cell has that id or these levels, the
    /// scope names what is neither a factor nor a label, or groups do not have the figure.
    pub fn misplaced(&self, cells: &[PlannedCell<'_>]) -> Option<(String, String)> {
        let (message, help) = match &self.scope {
            Scope::Every | Scope::Any => return None,
            Scope::Cell(id) => {
                if cells.iter().any(|cell| cell.id == *id) {
                    return None;
                }
                let ids: Vec<&str> = cells.iter().map(|cell| cell.id).collect();
                (
                    format!("there is no cell `{id}`"),
                    format!("the cells are {}", ids.join(", ")),
                )
            }
            Scope::Where(selector) => self.misplaced_in(selector, cells)?,
        };
        Some((format!("`{}`: {message}", self.text), help))
    }

    fn misplaced_in(
        &self,
        selector: &[(String, String)],
        cells: &[PlannedCell<'_>],
    ) -> Option<(String, String)> {
        let factors: BTreeMap<&str, BTreeSet<String>> = levels(cells);
        let is_factor = |(name, _): &&(String, String)| factors.contains_key(name.as_str());
        let (levels, labels): (Vec<_>, Vec<_>) = selector.iter().partition(is_factor);
        let is_label = |name: &str| GroupRecord::LABELS.contains(&name);
        if let Some((name, _)) = labels.iter().find(|(name, _)| !is_label(name)) {
            let known: Vec<&str> = factors.keys().copied().chain(GroupRecord::LABELS).collect();
            return Some((
                format!("there is no factor or label `{name}`"),
                format!("known names: {}", known.join(", ")),
            ));
        }
        if let [(one, _), (other, _), ..] = labels.as_slice() {
            return Some((
                format!("a target can select by one label only, not by {one} and {other}"),
                "write one target per label".to_owned(),
            ));
        }
        let has = |cell: &PlannedCell<'_>, (name, wanted): &(String, String)| {
            cell.factors.get(name).is_some_and(|own| same(own, wanted))
        };
        let meant = cells
            .iter()
            .filter(|cell| levels.iter().all(|level| has(cell, level)));
        let meant: Vec<_> = meant.collect();
        if meant.is_empty() {
            let asked = levels.iter().map(|(name, level)| format!("{name}={level}"));
            let there = levels.iter().filter_map(|(name, _)| {
                let own: Vec<&str> = factors
                    .get(name.as_str())?
                    .iter()
                    .map(String::as_str)
                    .collect();
                Some(format!("{name} {}", own.join(", ")))
            });
            return Some((
                format!(
                    "there is no cell with {}",
                    asked.collect::<Vec<_>>().join(" and ")
                ),
                format!("cells have {}", there.collect::<Vec<_>>().join("; ")),
            ));
        }
        let (label, _) = labels.first()?;
        let open = meant.iter().any(|cell| cell.open);
        (!self.quantity.is_told_of_groups(open)).then(|| {
            (
                format!("this quantity does not exist per {label}"),
                format!(
                    "per label there is {}; for other quantities, leave the label out",
                    quantity::names_of_groups(open)
                ),
            )
        })
    }

    /// How it came out.
    ///
    /// It is met where it holds in every cell that it is about, and the worst of them decides; with `any:` the best one does. A
    /// count is about the sum over those cells. An estimate holds when its whole interval does: where the interval straddles
    /// the limit, or there is none, or nothing was measured, nobody can tell, and the target is not met. `failed` counts every
    /// request that was sent and got no whole answer for reasons of its own: failed, timed out and truncated together. A
    /// latency's quantile counts failures as +∞.
    fn outcome(&self, cells: &[CellRecord], judged: &Judged) -> TargetOutcome {
        let subjects: Vec<(String, Subject<'_>)> =
            cells.iter().flat_map(|cell| self.subjects(cell)).collect();
        let mut lines: Vec<Line> = subjects
            .iter()
            .map(|(id, subject)| match self.quantile() {
                Some(_) => self.line_of_judged(id, subject, judged),
                None => self.line(id, self.quantity.of(subject)),
            })
            .collect();
        if self.quantity.is_count() && lines.len() > 1 {
            // A count is a promise about the whole run, not about each of its cells.
            let values = lines.iter().filter_map(|line| line.measured);
            let sum = values.map(|measured| measured.value).sum();
            let total = Measured {
                value: sum,
                known: Known::Exactly,
            };
            lines = vec![self.line("", Some(total))];
        }
        let badness = |line: &Line| match line.verdict {
            SloVerdict::Pass => 0,
            SloVerdict::CannotTell => 1,
            SloVerdict::Fail => 2,
        };
        lines.sort_by(|a, b| {
            badness(b)
                .cmp(&badness(a))
                .then(self.excess(b).total_cmp(&self.excess(a)))
        });
        let holding = lines
            .iter()
            .filter(|l| l.verdict == SloVerdict::Pass)
            .count();
        let deciding = match self.scope {
            Scope::Any => lines.last(),
            _ => lines.first(),
        };
        let verdict = deciding.map_or(SloVerdict::CannotTell, |line| line.verdict);
        let measured = deciding.and_then(|line| line.measured);
        TargetOutcome {
            target: self.text.clone(),
            measured: measured.map(|m| m.value).filter(|x| x.is_finite()),
            interval: measured.and_then(|m| m.interval()),
            cell: deciding
                .map(|line| line.cell.clone())
                .filter(|cell| !cell.is_empty()),
            met: verdict == SloVerdict::Pass,
            verdict: Some(verdict),
            note: match (deciding, verdict) {
                (None, _) => Some("it matches no cell; `--dry-run` lists the cells".to_owned()),
                (_, SloVerdict::Pass) => None,
                (Some(_), SloVerdict::Fail) => {
                    (lines.len() > 1).then(|| format!("met in {holding} of {} cells", lines.len()))
                }
                (Some(line), SloVerdict::CannotTell) => Some(self.what_would_decide(line)),
            },
        }
    }

    /// Whether it is about what a search found, and not about cells.
    pub fn is_of_capacity(&self) -> bool {
        self.quantity == Quantity::Capacity
    }

    /// The same of the capacity that a search found, where this is about that.
    fn outcome_of(&self, found: Option<&CapacityRecord>) -> Option<TargetOutcome> {
        if self.quantity != Quantity::Capacity {
            return None;
        }
        let (low, high) = found.map_or((None, None), |found| (found.low, found.high));
        let none = found.is_some_and(|found| found.stopped == SearchEnd::MissedAlone);
        // a bound that is absent is as far as can be; where there is no capacity it is 0
        let ends = match (low, high) {
            (None, None) if none => (0.0, 0.0),
            _ => (low.unwrap_or(0.0), high.unwrap_or(f64::INFINITY)),
        };
        let verdict = self.between(ends);
        let said = match (verdict, found) {
            (SloVerdict::Pass, _) => None,
            (_, None) => Some("there was no capacity search; add --find-capacity".to_owned()),
            (SloVerdict::CannotTell, Some(found)) if low.is_some() && high.is_some() => {
                let next = match (found.stopped, &found.why) {
                    (SearchEnd::Precise, _) => "use a narrower `--precision`",
                    (SearchEnd::Budget, _) | (_, None) => "use a larger `--budget`",
                    (_, Some(why)) => why,
                };
                Some(format!(
                    "the interval of the capacity contains the limit; {next}"
                ))
            }
            (_, Some(found)) => found.why.clone(),
        };
        Some(TargetOutcome {
            target: self.text.clone(),
            measured: found.and_then(|found| found.value),
            interval: low.zip(high).map(|(low, high)| Interval {
                low,
                high,
                confidence: LEVEL,
            }),
            cell: None,
            met: verdict == SloVerdict::Pass,
            verdict: Some(verdict),
            note: said,
        })
    }

    fn line(&self, cell: &str, measured: Option<Measured>) -> Line {
        Line {
            cell: cell.to_owned(),
            measured,
            verdict: measured.map_or(SloVerdict::CannotTell, |m| self.judge(&m)),
            judged: None,
        }
    }

    /// Of a quantile, the share of values within its limit decides: of single requests, or, of a stored record alone, as far as its quantiles tell.
    fn line_of_judged(&self, cell: &str, of: &Subject<'_>, all: &Judged) -> Line {
        let own = all.get(cell).into_iter().flatten();
        let limited = self.limited();
        let is_it = |(threshold, _): &&(Threshold, SloOutcome)| {
            let group = threshold.group.as_ref();
            let group = group.map(|(by, name)| (by.as_str(), name.as_str()));
            Some(&threshold.slo) == limited.as_ref() && group == of.group()
        };
        let by_requests = own
            .into_iter()
            .find(is_it)
            .map(|(_, outcome)| outcome.clone());
        let by_requests = by_requests.filter(|_| self.quantity.is_told_of(of));
        let judged = by_requests.or_else(|| quantity::stored_outcome(of, &limited?));
        let measured = judged
            .as_ref()
            .and_then(|of_it| Measured::of_judged(of_it, of.counts().planned));
        let line = self.line(cell, measured);
        let by_share = judged.as_ref().filter(|_| self.operator.has_sides());
        Line {
            verdict: by_share.map_or(line.verdict, |of_it| self.of_share(of_it.verdict)),
            judged,
            ..line
        }
    }

    /// What the share of values within the limit says of it.
    fn of_share(&self, within: SloVerdict) -> SloVerdict {
        match within {
            SloVerdict::Pass if !self.operator.wants_less() => SloVerdict::Fail,
            SloVerdict::Fail if !self.operator.wants_less() => SloVerdict::Pass,
            within => within,
        }
    }

    fn judge(&self, measured: &Measured) -> SloVerdict {
        let exact = measured.known == Known::Exactly || !self.operator.has_sides();
        let ends = match measured.interval() {
            _ if exact => (measured.value, measured.value),
            Some(i) => (i.low.min(measured.value), i.high.max(measured.value)),
            None => return SloVerdict::CannotTell,
        };
        self.between(ends)
    }

    /// Where the truth lies between these ends.
    fn between(&self, (low, high): (f64, f64)) -> SloVerdict {
        let holds = |value| self.operator.holds(value, self.limit);
        match (holds(low), holds(high)) {
            (true, true) => SloVerdict::Pass,
            (false, false) => SloVerdict::Fail,
            _ => SloVerdict::CannotTell,
        }
    }

    /// How far a line is on the wrong side of the limit, or near it: the largest is the worst.
    fn excess(&self, line: &Line) -> f64 {
        let value = line.measured.map_or(f64::INFINITY, |m| m.value);
        if self.operator.wants_less() {
            value
        } else {
            -value
        }
    }

    fn shown(&self, value: f64) -> String {
        match self.quantity.unit() {
            Unit::Ns => text::time(value),
            Unit::Ratio => text::percent(value),
            _ => text::number(value),
        }
    }

    /// The same of a quantile, which the share of values within the limit decides.
    fn share_to_decide(&self, line: &Line, judged: &SloOutcome) -> Option<String> {
        let share = judged.within?;
        let interval = bench_metrics::share_interval(&share);
        let straddles = format!(
            "{} of the values in {} are within the limit (95 % interval {}), and {} are needed",
            text::percent(share.value),
            line.cell,
            text::span(interval.low, interval.high, text::percent),
            text::percent(judged.slo.q),
        );
        let Known::Estimate { n, .. } = line.measured?.known else {
            return Some(straddles);
        };
        let needed = bench_metrics::values_to_decide(share.value, judged.slo.q);
        Some(
            match needed.map(|needed| (needed / share.effective).max(1.0)) {
                Some(times) => format!("{straddles}; {}", self.quantity.would_decide(n, times)),
                None => {
                    format!("{straddles}; the share lies on it, so more requests will not decide")
                }
            },
        )
    }

    /// Why nobody can tell, and what it takes to know.
    fn what_would_decide(&self, line: &Line) -> String {
        let Some(measured) = line.measured else {
            return format!("not measured in {}", line.cell);
        };
        let by_share = |of: &SloOutcome| self.share_to_decide(line, of);
        if let Some(said) = line.judged.as_ref().and_then(by_share) {
            return said;
        }
        let Some(interval) = measured.interval() else {
            return format!(
                "{} was too short for an interval; measure at least four times as long",
                line.cell
            );
        };
        let straddles = format!(
            "the 95 % interval in {}, {}, contains the limit",
            line.cell,
            text::span(interval.low, interval.high, |x| self.shown(x)),
        );
        let of_a_share = self.quantity.needs_objectives() && self.quantity.unit() == Unit::Ratio;
        let factor = if of_a_share {
            crate::findings::times_of_a_share(measured.value, &interval, self.limit)
        } else {
            times_as_much(measured.value, &interval, self.limit)
        };
        let Some(factor) = factor else {
            return format!(
                "{straddles}; the value lies on the limit, so more requests will not decide"
            );
        };
        match measured.known {
            Known::Estimate { n, .. } => {
                format!("{straddles}; {}", self.quantity.would_decide(n, factor))
            }
            Known::OverTime { seconds, .. } => format!(
                "{straddles}; a measurement of about {} would decide",
                text::time(seconds * factor * 1e9)
            ),
            Known::Exactly => straddles,
        }
    }
}

impl Measured {
    fn interval(&self) -> Option<Interval> {
        match self.known {
            Known::Exactly => None,
            Known::Estimate { interval, .. } | Known::OverTime { interval, .. } => interval,
        }
    }
}

/// How many times as much data it takes for an interval to leave a limit: its arm shrinks with the root of their number. `None` where
/// the value lies on the limit, or so near that it would take more than ten thousand times as much.
pub(crate) fn times_as_much(value: f64, interval: &Interval, limit: f64) -> Option<f64> {
    let arm = if limit > value {
        interval.high - value
    } else {
        value - interval.low
    };
    let factor = (arm / (limit - value)).powi(2);
    (factor.is_finite() && factor < 1e4).then_some(factor.max(1.0))
}

/// How each target came out in a run whose analysis is made, in the order given.
pub fn targets(asked: &[Target], run: &RunRecord, judged: &Judged) -> Vec<TargetOutcome> {
    let found = run.analysis.capacity.as_ref();
    let outcome = |target: &Target| {
        let of_search = target.outcome_of(found);
        of_search.unwrap_or_else(|| target.outcome(&run.cells, judged))
    };
    asked.iter().map(outcome).collect()
}

impl Target {
    fn subjects<'a>(&self, cell: &'a CellRecord) -> Vec<(String, Subject<'a>)> {
        match &self.scope {
            Scope::Where(selector) => subjects(cell, selector),
            Scope::Cell(id) if cell.id != *id => Vec::new(),
            _ => vec![(cell.id.clone(), Subject::Cell(cell))],
        }
    }
}

/// The parts of a cell that the selector means: the cell, one of its groups, or nothing.
fn subjects<'a>(cell: &'a CellRecord, selector: &[(String, String)]) -> Vec<(String, Subject<'a>)> {
    let matches_factor =
        |(name, wanted): &(String, String)| cell.factors.get(name).is_some_and(|f| same(f, wanted));
    let (factors, labels): (Vec<_>, Vec<_>) = selector.iter().partition(|(name, _)| {
        cell.factors.contains_key(name.as_str()) || !cell.groups.iter().any(|g| g.by == *name)
    });
    if !factors.into_iter().all(matches_factor) {
        return Vec::new();
    }
    match labels.as_slice() {
        [] => vec![(cell.id.clone(), Subject::Cell(cell))],
        [(by, name)] => cell
            .groups
            .iter()
            .filter(|group| group.by == *by && group.name == *name)
            .map(|group| (cell.id.clone(), Subject::Group(cell, group)))
            .collect(),
        _ => Vec::new(),
    }
}

/// The factors of all cells with their levels as text.
fn levels<'a>(cells: &[PlannedCell<'a>]) -> BTreeMap<&'a str, BTreeSet<String>> {
    let mut all = BTreeMap::<&str, BTreeSet<String>>::new();
    for (name, level) in cells.iter().flat_map(|cell| cell.factors) {
        all.entry(name).or_default().insert(level.to_string());
    }
    all
}

fn same(factor: &Factor, wanted: &str) -> bool {
    match (factor.as_number(), wanted.parse::<f64>()) {
        (Some(level), Ok(asked)) => (level - asked).abs() <= 1e-9 * level.abs().max(1.0),
        _ => factor.to_string() == wanted,
    }
}
