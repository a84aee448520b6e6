//! What a matrix of server settings comes to: the figure of each, which is best and how certainly, and what each parameter does.

use std::collections::BTreeMap;

use bench_metrics::{
    CompareOptions, Comparison, Estimate, FEWEST_BLOCKS, LEVEL, compare_estimates, compare_runs,
    compare_runs_in_turns, linear_fit, mean_of_runs, settle,
};
use bench_schema::{
    Benchmark, CellRecord, Direction, Interval, Metric, RunRecord, TrustReason, TrustVerdict, Unit,
};
use serde::{Deserialize, Serialize};

use crate::compare::{ComparisonVerdict, Quantity, geometric_mean};
use crate::search::capacity_of;
use crate::view;

/// One setting of the server as it was measured.
#[derive(Clone, Debug)]
pub struct MeasuredSetting<'a> {
    /// The value of each parameter.
    pub values: BTreeMap<String, String>,
    /// Its runs, each with the round that it belongs to; those of a round have the same plan.
    pub runs: Vec<(u32, &'a RunRecord)>,
    /// Why it could not be measured, each time that it could not.
    pub failures: Vec<String>,
}

/// What a matrix of server settings came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerMatrix {
    /// What the settings are compared by: `output tokens/s at the best level`.
    pub figure: String,
    /// Unit of that figure.
    pub unit: Unit,
    /// Which way is better.
    pub direction: Direction,
    /// Every setting, in the order in which they were given.
    pub settings: Vec<SettingRow>,
    /// What each value of each parameter does, against the first that was given.
    pub effects: Vec<ParameterEffect>,
    /// Which of `settings` has the best figure; absent where none has one that can be believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<usize>,
    /// Chance of a false alarm over all settings together, and over all effects together.
    pub alpha: f64,
    /// What a setting that was measured again and again in between shows of a drift; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<BaselineDrift>,
}

/// A setting that was measured again and again between the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BaselineDrift {
    /// The value of each parameter.
    pub values: BTreeMap<String, String>,
    /// Its figure each time, in order.
    pub figures: Vec<f64>,
    /// By how much a line through their logarithms changes from the first to the last, a share; absent below three.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<f64>,
    /// Its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
}

/// A setting with its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettingRow {
    /// The value of each parameter.
    pub values: BTreeMap<String, String>,
    /// Runs that were measured.
    pub runs: usize,
    /// The figure, the mean of its runs; absent where a run has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Its interval: over runs, of a single one its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// P95 of TTFT, ITL and E2E beside the figure, nanoseconds, the mean of its runs; absent for figures of several cells.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub p95: BTreeMap<Metric, f64>,
    /// Why it has no figure although it was measured, where a search says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How it stands against the best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against_best: Option<Against>,
    /// Whether no other setting has both a better figure and a lower P95 of E2E.
    #[serde(default)]
    pub on_front: bool,
    /// The worst verdict on its runs.
    pub trust: TrustVerdict,
    /// The reasons that its runs have, the gravest of each kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<TrustReason>,
    /// Why it could not be measured, each time that it could not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

/// A difference, a share of what it is held against.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// The change.
    pub relative: f64,
    /// Its interval, before the correction for their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// What it comes to, after that correction.
    pub verdict: ComparisonVerdict,
}

/// What one value of a parameter does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParameterEffect {
    /// The parameter.
    pub parameter: String,
    /// The value that was given first.
    pub from: String,
    /// This one.
    pub to: String,
    /// Pairs of runs behind it, alike but for the parameter.
    pub pairs: usize,
    /// The change of the figure, on average over the other parameters (geometric mean).
    pub change: Against,
    /// The least and the most that it changes with the other parameters held; absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<(f64, f64)>,
}

impl SettingRow {
    /// `max_num_seqs=64, tp=2`.
    pub fn name(&self) -> String {
        name_of(&self.values)
    }
}

impl BaselineDrift {
    /// `max_num_seqs=64, tp=2`.
    pub fn name(&self) -> String {
        name_of(&self.values)
    }
}

fn name_of(values: &BTreeMap<String, String>) -> String {
    let parts = values.iter().map(|(name, value)| format!("{name}={value}"));
    parts.collect::<Vec<_>>().join(", ")
}

impl ServerMatrix {
    /// One sentence: which is best, of how many others that is certain, and which do not count.
    pub fn summary(&self) -> String {
        let Some(best) = self.best.and_then(|best| self.settings.get(best)) else {
            return "no setting has a trustworthy result".to_owned();
        };
        let is_held = |row: &&SettingRow, verdict| {
            (row.against_best).is_some_and(|held| held.verdict == verdict)
        };
        let held = self
            .settings
            .iter()
            .filter(|row| row.against_best.is_some());
        let (others, doubted): (Vec<_>, Vec<_>) =
            held.partition(|row| row.trust != TrustVerdict::Untrusted);
        let (worse, alike): (Vec<_>, Vec<_>) =
            (others.iter().copied()).partition(|row| is_held(row, ComparisonVerdict::Worse));
        let names = |rows: &[&SettingRow]| {
            let names: Vec<String> = rows.iter().map(|row| row.name()).collect();
            crate::text::list(&names)
        };
        let certainly = match (others.len(), worse.len()) {
            (0, _) => "no other setting can be compared with it".to_owned(),
            (1, 1) => "better than the other".to_owned(),
            (1, 0) => format!("not significantly better than {}", names(&alike)),
            (n, 0) => format!("not significantly better than any of the {n} others"),
            (n, certain) if n == certain => format!("better than each of the {n} others"),
            (n, certain) => format!(
                "better than {certain} of {n} others, but not significantly better than {}",
                names(&alike)
            ),
        };
        let (ahead, rest): (Vec<_>, Vec<_>) =
            (doubted.into_iter()).partition(|row| is_held(row, ComparisonVerdict::Better));
        let left_out = [
            (ahead, "measured better, but untrusted: measure again"),
            (rest, "left out, because untrusted"),
        ];
        let left_out = left_out.into_iter().filter(|(rows, _)| !rows.is_empty());
        let left_out = left_out.map(|(rows, why)| format!("; {} {why}", names(&rows)));
        let left_out: String = left_out.collect();
        format!(
            "{} has the best {}: {certainly}{left_out}",
            best.name(),
            self.figure
        )
    }
}

/// What the settings are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    CapacityRate,
    CapacityInFlight,
    OutputTokensPerS,
    RequestsPerS,
    E2e,
}

impl Figure {
    /// What runs like this one are about.
    fn of(run: &RunRecord) -> Self {
        let closed = run.cells.iter().all(|cell| !cell.load.is_open());
        match &run.analysis.capacity {
            Some(found) if found.factor == "rate" => Self::CapacityRate,
            Some(_) => Self::CapacityInFlight,
            None if run.experiment != Benchmark::Throughput || !closed => Self::E2e,
            None if run
                .cells
                .iter()
                .any(|cell| view::tokens_per_s(cell).is_some()) =>
            {
                Self::OutputTokensPerS
            }
            None => Self::RequestsPerS,
        }
    }

    fn words(self) -> (&'static str, Unit, Direction) {
        match self {
            Self::CapacityRate => ("capacity", Unit::RequestsPerS, Direction::Higher),
            Self::CapacityInFlight => ("capacity in flight", Unit::Count, Direction::Higher),
            Self::OutputTokensPerS => (
                "output tokens/s at the best level",
                Unit::TokensPerS,
                Direction::Higher,
            ),
            Self::RequestsPerS => (
                "requests/s at the best level",
                Unit::RequestsPerS,
                Direction::Higher,
            ),
            Self::E2e => (
                "E2E p50 (geometric mean of the cells)",
                Unit::Ns,
                Direction::Lower,
            ),
        }
    }

    /// The figure of a run, with the cell that it is of where it is of one.
    fn in_run(self, run: &RunRecord) -> Option<(Estimate, Option<&CellRecord>)> {
        let best = |quantity: Quantity| {
            let told = run.cells.iter();
            let told = told.filter_map(|cell| Some((quantity.headline(cell)?, Some(cell))));
            told.max_by(|a, b| a.0.value.total_cmp(&b.0.value))
        };
        match self {
            Self::CapacityRate | Self::CapacityInFlight => {
                Some((capacity_of(run.analysis.capacity.as_ref()?)?, None))
            }
            Self::OutputTokensPerS => best(Quantity::OutputTokensPerS),
            Self::RequestsPerS => best(Quantity::RequestsPerS),
            Self::E2e => {
                if run.cells.len() == 1 {
                    return best(Quantity::Quantile(Metric::E2e, 0.5));
                }
                let medians = run.cells.iter();
                let medians = medians.map(|cell| view::quantile(cell, Metric::E2e, 0.5));
                let medians: Vec<f64> = medians.collect::<Option<_>>()?;
                let value = geometric_mean(&medians)?;
                Some((Estimate::unbounded(value, LEVEL), None))
            }
        }
    }
}

/// The figures of a setting's runs, by round.
type Figures = BTreeMap<u32, Estimate>;

/// What the settings come to: each one's figure, the best, and what each parameter does.
///
/// The figure is the capacity where one was searched; output tokens/s (or requests/s, where tokens are unknown) at the level that has the most of them for closed loops of
/// the throughput benchmark; else the median E2E. Runs of a round are pairs; four pairs and more are compared as such, two runs and more of a side as groups, single
/// ones by their own intervals. Settings with untrusted runs are shown, and never called best. A setting that lacks a figure in one of its runs has none.
/// Verdicts against the best are corrected for every two settings (Bonferroni), because the best is picked by its figure; those of effects for their number (Holm), of a single parameter as those of
/// settings.
///
/// `None` where nothing was measured.
pub fn server_matrix(
    measured: &[MeasuredSetting<'_>],
    options: &CompareOptions,
) -> Option<ServerMatrix> {
    let (_, first) = measured.iter().find_map(|setting| setting.runs.first())?;
    let figure = Figure::of(first);
    let (name, unit, direction) = figure.words();
    let figures: Vec<Figures> = measured
        .iter()
        .map(|setting| figures_of(setting, figure))
        .collect();
    let mut settings: Vec<SettingRow> = measured
        .iter()
        .zip(&figures)
        .map(|(setting, figures)| row(setting, figures, figure))
        .collect();
    let believed = settings.iter().enumerate();
    let believed = believed.filter(|(_, row)| row.trust != TrustVerdict::Untrusted);
    let best = believed
        .filter_map(|(i, row)| Some((i, direction.for_the_worse(row.value?)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(i, _)| i);
    if let Some(base) = best.and_then(|best| figures.get(best)) {
        let others = figures.iter().enumerate().filter(|(i, _)| Some(*i) != best);
        let held = others.filter_map(|(i, own)| Some((i, held(base, own, direction, options)?)));
        for (place, mut held) in held {
            held.adjusted_p = of_every_two(held.p, &figures);
            if let Some(row) = settings.get_mut(place) {
                row.against_best = against(&held, options);
            }
        }
    }
    mark_front(&mut settings, direction);
    let effects = effects(measured, &figures, direction, options);
    Some(ServerMatrix {
        figure: name.to_owned(),
        unit,
        direction,
        settings,
        effects,
        best,
        alpha: options.alpha,
        baseline: None,
    })
}

impl ServerMatrix {
    /// With what the runs of its baseline show of a drift.
    #[must_use]
    pub fn with_baseline(mut self, baseline: &MeasuredSetting<'_>) -> Self {
        let Some((_, first)) = baseline.runs.first() else {
            return self;
        };
        let figures = figures_of(baseline, Figure::of(first));
        let figures: Vec<f64> = figures.values().map(|told| told.value).collect();
        let points = figures.iter().enumerate();
        let points: Vec<(f64, f64)> = points.map(|(i, value)| (i as f64, value.ln())).collect();
        let all = points.len().saturating_sub(1) as f64;
        let slope = linear_fit(&points, LEVEL).map(|line| line.slope);
        let over_all = |slope: f64| (slope * all).exp_m1();
        let interval = slope.and_then(|slope| {
            let (low, high) = slope.bounds()?;
            view::interval(&Estimate::bounded(
                over_all(slope.value),
                over_all(low),
                over_all(high),
                LEVEL,
            ))
        });
        self.baseline = Some(BaselineDrift {
            values: baseline.values.clone(),
            figures,
            change: slope.map(|slope| over_all(slope.value)),
            interval,
        });
        self
    }
}

fn figures_of(setting: &MeasuredSetting<'_>, figure: Figure) -> Figures {
    let of = |(round, run): &(u32, &RunRecord)| Some((*round, figure.in_run(run)?.0));
    let all: Option<Figures> = setting.runs.iter().map(of).collect();
    all.unwrap_or_default()
}

fn row(setting: &MeasuredSetting<'_>, figures: &Figures, figure: Figure) -> SettingRow {
    let values: Vec<f64> = figures.values().map(|told| told.value).collect();
    let told = match figures.values().collect::<Vec<_>>().as_slice() {
        [one] => Some(**one),
        _ => mean_of_runs(&values),
    };
    let runs = setting.runs.iter();
    let cells: Vec<&CellRecord> = runs
        .clone()
        .filter_map(|(_, run)| figure.in_run(run)?.1)
        .collect();
    let p95 = [Metric::Ttft, Metric::Itl, Metric::E2e].into_iter();
    let p95 = p95.filter_map(|metric| {
        let values = cells.iter().map(|cell| view::quantile(cell, metric, 0.95));
        let values: Vec<f64> = values.collect::<Option<_>>()?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (!values.is_empty()).then_some((metric, mean))
    });
    let worst = runs.clone().map(|(_, run)| run.trust.verdict).max();
    let mut reasons: Vec<TrustReason> = runs
        .flat_map(|(_, run)| run.trust.reasons.iter().cloned())
        .collect();
    reasons.sort_by(|a, b| a.code.cmp(&b.code).then(b.verdict.cmp(&a.verdict)));
    reasons.dedup_by(|later, first| later.code == first.code);
    let mut searched = setting.runs.iter().filter_map(|(_, run)| {
        let found = run.analysis.capacity.as_ref()?;
        let why = found.why.clone().filter(|_| found.value.is_none())?;
        let between = found.low.zip(found.high);
        let known = between.map(|(low, high)| {
            let [low, high] = [low, high].map(crate::text::number);
            format!("it is between {low} and {high}; ")
        });
        Some(known.unwrap_or_default() + &why)
    });
    let why = told.is_none().then(|| searched.next_back()).flatten();
    SettingRow {
        values: setting.values.clone(),
        why,
        runs: setting.runs.len(),
        value: told.map(|told| told.value),
        // rates and times are not negative, which the t interval of two runs does not know
        interval: told
            .and_then(|told| view::interval(&told))
            .map(|i| Interval {
                low: i.low.max(0.0),
                ..i
            }),
        p95: p95.collect(),
        against_best: None,
        on_front: false,
        trust: worst.unwrap_or(TrustVerdict::Trusted),
        reasons,
        failures: setting.failures.clone(),
    }
}

/// Two settings, or the same setting but for one parameter.
fn held(
    base: &Figures,
    new: &Figures,
    direction: Direction,
    options: &CompareOptions,
) -> Option<Comparison> {
    let (a, b): (Vec<f64>, Vec<f64>) = common(base, new).unzip();
    if a.len() >= FEWEST_BLOCKS {
        return compare_runs_in_turns(&a, &b, direction, options);
    }
    let values = |figures: &Figures| figures.values().map(|told| told.value).collect::<Vec<_>>();
    compare_runs(&values(base), &values(new), direction, options).or_else(|| {
        let (a, b) = (base.values().next()?, new.values().next()?);
        Some(compare_estimates(a, b, direction, options))
    })
}

/// What a comparison comes to, under its corrected p-value.
fn against(held: &Comparison, options: &CompareOptions) -> Option<Against> {
    let relative = held.relative()?;
    Some(Against {
        relative: relative.value,
        interval: view::interval(&relative),
        verdict: held.verdict(options)?,
    })
}

/// Those than which no other has both a better figure and a lower P95 of E2E.
fn mark_front(settings: &mut [SettingRow], direction: Direction) {
    let worse = |value: Option<f64>| direction.for_the_worse(value?);
    let point = |row: &SettingRow| Some((worse(row.value)?, *row.p95.get(&Metric::E2e)?));
    let points: Vec<_> = settings.iter().map(point).collect();
    for (row, own) in settings.iter_mut().zip(&points) {
        let Some((figure, e2e)) = *own else { continue };
        let mut others = points.iter().flatten();
        row.on_front = !others
            .any(|&(other, time)| other <= figure && time <= e2e && (other < figure || time < e2e));
    }
}

/// Each value of each parameter against the first one, over settings that are alike otherwise.
fn effects(
    measured: &[MeasuredSetting<'_>],
    figures: &[Figures],
    direction: Direction,
    options: &CompareOptions,
) -> Vec<ParameterEffect> {
    let mut found = Vec::new();
    for (parameter, values) in parameters(measured) {
        let Some((from, others)) = values.split_first() else {
            continue;
        };
        for to in others {
            let pairs = pairs(measured, figures, &parameter, (from, to));
            if let Some(held) = effect(&pairs, direction, options) {
                found.push((
                    parameter.clone(),
                    (*from).clone(),
                    (*to).clone(),
                    pairs,
                    held,
                ));
            }
        }
    }
    let mut family: Vec<Comparison> = found.iter().map(|effect| effect.4).collect();
    let varied = parameters(measured).into_values();
    if varied.filter(|values| values.len() > 1).count() == 1 {
        // these are two settings, and the table of settings says the same of them
        for held in &mut family {
            held.adjusted_p = of_every_two(held.p, figures);
        }
    } else {
        settle(&mut family);
    }
    let effects = found.into_iter().zip(family);
    effects
        .filter_map(|((parameter, from, to, pairs, _), held)| {
            let ratio = |(a, b): &(Figures, Figures)| ratio(a, b);
            let ratios: Vec<f64> = pairs.iter().filter_map(ratio).collect();
            let least = ratios.iter().copied().reduce(f64::min);
            let range = least.zip(ratios.iter().copied().reduce(f64::max));
            Some(ParameterEffect {
                parameter,
                from,
                to,
                pairs: pairs.iter().map(|(a, b)| common(a, b).count()).sum(),
                change: against(&held, options)?,
                range: range
                    .filter(|_| ratios.len() > 1)
                    .map(|(least, most)| (least - 1.0, most - 1.0)),
            })
        })
        .collect()
}

/// A p-value corrected for every two settings that could have been these two, because the best was picked among all.
fn of_every_two(p: f64, figures: &[Figures]) -> f64 {
    let many = figures.iter().filter(|own| !own.is_empty()).count() as f64;
    (p * many * (many - 1.0) / 2.0).min(1.0)
}

/// The parameters with their values, in the order in which they come.
fn parameters(measured: &[MeasuredSetting<'_>]) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in measured.iter().flat_map(|setting| &setting.values) {
        let values = all.entry(name.clone()).or_default();
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    all
}

/// The figures of settings that are alike but for the parameter: those of the one value, and of the other.
fn pairs(
    measured: &[MeasuredSetting<'_>],
    figures: &[Figures],
    parameter: &str,
    (from, to): (&String, &String),
) -> Vec<(Figures, Figures)> {
    let of = |wanted: &BTreeMap<String, String>| {
        let mut all = measured.iter().zip(figures);
        all.find_map(|(setting, own)| (setting.values == *wanted).then(|| own.clone()))
    };
    let bases = measured.iter().zip(figures);
    let bases = bases.filter(|(setting, _)| setting.values.get(parameter) == Some(from));
    let pairs = bases.filter_map(|(setting, base)| {
        let mut changed = setting.values.clone();
        changed.insert(parameter.to_owned(), to.clone());
        Some((base.clone(), of(&changed)?))
    });
    pairs
        .filter(|(a, b)| common(a, b).next().is_some())
        .collect()
}

/// The rounds that both have.
fn both<'a>(a: &'a Figures, b: &'a Figures) -> impl Iterator<Item = (Estimate, Estimate)> + 'a {
    let all = a.iter();
    all.filter_map(|(round, a)| Some((*a, *b.get(round)?)))
}

fn common<'a>(a: &'a Figures, b: &'a Figures) -> impl Iterator<Item = (f64, f64)> + 'a {
    both(a, b).map(|(a, b)| (a.value, b.value))
}

fn ratio(a: &Figures, b: &Figures) -> Option<f64> {
    geometric_mean(&common(a, b).map(|(a, b)| b / a).collect::<Vec<_>>())
}

fn effect(
    pairs: &[(Figures, Figures)],
    direction: Direction,
    options: &CompareOptions,
) -> Option<Comparison> {
    if let [(base, new)] = pairs {
        return held(base, new, direction, options);
    }
    let all = pairs.iter().flat_map(|(a, b)| both(a, b));
    let (a, b): (Vec<Estimate>, Vec<Estimate>) = all.unzip();
    let values = |all: &[Estimate]| all.iter().map(|told| told.value).collect::<Vec<_>>();
    let told = compare_runs_in_turns(&values(&a), &values(&b), direction, options);
    told.or_else(|| {
        // too few to see how they scatter: what their own intervals say, as of single settings
        let mean = |of: &dyn Fn(&Estimate) -> Option<f64>, all: &[Estimate]| {
            geometric_mean(&all.iter().map(of).collect::<Option<Vec<_>>>()?)
        };
        let together = |all: &[Estimate]| {
            Some(Estimate {
                value: mean(&|told| Some(told.value), all)?,
                low: mean(&|told| told.low, all),
                high: mean(&|told| told.high, all),
                level: LEVEL,
            })
        };
        let (a, b) = (together(&a)?, together(&b)?);
        Some(compare_estimates(&a, &b, direction, options))
    })
}
