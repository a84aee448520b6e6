//! What servers call things, and what this project calls them.
//!
//! Only series with a name here are stored, under that name; a page of vLLM has a thousand others. Counters end in `_total`;
//! a histogram `x` is stored as `x.sum`, `x.count` and, cumulatively, `x.le.<bound>`. Times are seconds, shares are 0 to 1.

use std::collections::{BTreeMap, BTreeSet};

use nvml_wrapper::bitmasks::device::ThrottleReasons;

use crate::exposition::{Page, Sample};
use crate::gpu::throttles;

/// What samples say of one server, of one GPU, or of one MIG instance.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// By this project's names, in its units.
    pub(crate) values: BTreeMap<String, f64>,
    /// What there is a series for, and no number.
    pub(crate) blank: BTreeSet<String>,
}

/// What is taken of the samples of one name, which have different labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    /// Parts of a whole: engines, finish reasons.
    Sum,
    /// The fullest of several.
    Max,
    /// Buckets, sum and count.
    Histogram,
}

/// One metric of one kind of server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// Name on the page, without `_bucket`, `_sum`, `_count` for a histogram.
    pub(crate) metric: &'static str,
    /// Only samples with this label; a label that is absent is an empty one, as Prometheus has it.
    pub(crate) with: Option<(&'static str, &'static str)>,
    /// Name in readings.
    pub(crate) name: &'static str,
    pub(crate) take: Take,
    /// What a value is multiplied by to be in this project's unit.
    pub(crate) scale: f64,
}

/// What is known of the pages of inference servers.
const TABLE: &str = include_str!("names/servers.txt");

/// The rules for them, one list for all.
pub(crate) fn server_rules() -> Vec<Rule> {
    TABLE.lines().filter_map(Rule::read_from).collect()
}

/// The values of `page` under this project's names. Of several rules for one name the first that finds something wins, so that a
/// metric that is shown under its old and its new name counts once.
pub(crate) fn canonical(page: &Page, rules: &[Rule]) -> BTreeMap<String, f64> {
    let mut by_name: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    for sample in &page.samples {
        by_name.entry(&sample.name).or_default().push(sample);
    }
    let mut values = BTreeMap::new();
    let mut found: Vec<&str> = Vec::new();
    for rule in rules {
        if found.contains(&rule.name) {
            continue;
        }
        let taken = rule.read(&by_name);
        if !taken.is_empty() {
            found.push(rule.name);
            values.extend(taken);
        }
    }
    values
}

impl Rule {
    /// A line of the table; `None` of one without a rule.
    fn read_from(line: &'static str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let take = match words.next()? {
            "sum" => Take::Sum,
            "max" => Take::Max,
            "histogram" => Take::Histogram,
            _ => return None,
        };
        let (metric, name) = (words.next()?, words.next()?);
        let (mut with, mut scale) = (None, 1.0);
        for word in words {
            match word.strip_prefix('×') {
                Some(factor) => scale = factor.parse().ok()?,
                None => with = Some(word.split_once('=')?),
            }
        }
        Some(Self {
            metric,
            with,
            name,
            take,
            scale,
        })
    }

    fn read(&self, page: &BTreeMap<&str, Vec<&Sample>>) -> Vec<(String, f64)> {
        if self.take == Take::Histogram {
            return self.read_histogram(page);
        }
        let value = combined(self.samples(page, self.metric), self.take);
        let named = value.map(|value| (self.name.to_owned(), value * self.scale));
        // a share beyond all there is was no share
        let fits = |named: &(String, f64)| {
            named.1.is_finite() && (!named.0.ends_with("_share") || named.1 <= 1.01)
        };
        named.into_iter().filter(fits).collect()
    }

    fn samples<'a>(
        &self,
        page: &'a BTreeMap<&str, Vec<&Sample>>,
        metric: &str,
    ) -> impl Iterator<Item = &'a Sample> {
        let with = self.with;
        let all = page.get(metric).into_iter().flatten().copied();
        let only_entries = metric.starts_with("nv_inference_") && all.clone().any(is_entry);
        all.filter(move |sample| {
            with.is_none_or(|(label, value)| sample.label(label).unwrap_or_default() == value)
                && is_first_rank(sample)
                && (!only_entries || is_entry(sample))
        })
    }

    fn read_histogram(&self, page: &BTreeMap<&str, Vec<&Sample>>) -> Vec<(String, f64)> {
        let part = |suffix: &str| {
            let metric = format!("{}{suffix}", self.metric);
            combined(self.samples(page, &metric), Take::Sum)
        };
        let (Some(sum), Some(count)) = (part("_sum"), part("_count")) else {
            return Vec::new();
        };
        let mut values = vec![
            (format!("{}.sum", self.name), sum * self.scale),
            (format!("{}.count", self.name), count),
        ];
        let mut buckets: BTreeMap<String, f64> = BTreeMap::new();
        let metric = format!("{}_bucket", self.metric);
        for sample in self.samples(page, &metric) {
            let Some(bound) = sample.label("le").and_then(|le| le.parse::<f64>().ok()) else {
                continue;
            };
            if is_possible(sample.value) {
                let key = bucket_name(self.name, bound * self.scale);
                *buckets.entry(key).or_default() += sample.value;
            }
        }
        values.extend(buckets);
        values
    }
}

/// Tensor-parallel ranks repeat the same request, data-parallel ones do not.
fn is_first_rank(sample: &Sample) -> bool {
    ["tp_rank", "pp_rank"]
        .iter()
        .all(|label| sample.label(label).is_none_or(|rank| rank == "0"))
}

/// Triton counts a request for the ensemble that it entered by, and again for each of the ensemble's members.
fn is_entry(sample: &Sample) -> bool {
    matches!(sample.label("model"), Some("ensemble" | "tensorrt_llm_bls"))
}

/// Counts, times and shares are numbers of at least 0.
fn is_possible(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

/// The largest of all possible values, or their sum; `None` of none.
fn combined<'a>(samples: impl Iterator<Item = &'a Sample>, how: Take) -> Option<f64> {
    samples
        .map(|sample| sample.value)
        .filter(|value| is_possible(*value))
        .reduce(|a, b| match how {
            Take::Max => a.max(b),
            Take::Sum | Take::Histogram => a + b,
        })
}

/// The name of a bucket: `ttft_s.le.0.25`, `ttft_s.le.inf`. Bounds are rounded to twelve digits, so that a scaled one has one name.
pub(crate) fn bucket_name(histogram: &str, bound: f64) -> String {
    let rounded: f64 = format!("{bound:.11e}").parse().unwrap_or(bound);
    format!("{histogram}.le.{rounded}")
}

// What a page says of the server itself and does not change while it runs: its cache, its limits, its GPUs.

/// The facts of the first page that had any sample: they do not change, so that later pages are not looked through again.
#[derive(Default)]
pub(crate) struct Facts(Option<BTreeMap<String, String>>);

impl Facts {
    /// Look at a page, if none has been looked at.
    pub(crate) fn learn(&mut self, samples: &[Sample]) {
        if self.0.is_none() && !samples.is_empty() {
            self.0 = Some(facts(samples));
        }
    }

    /// What was found, by name.
    pub(crate) fn known(&self) -> BTreeMap<String, String> {
        self.0.clone().unwrap_or_default()
    }
}

/// The facts of a page, by name; of several engines the first one's.
fn facts(samples: &[Sample]) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut add = |name: &str, value: &str| {
        // Python's word for an option that was not set
        if !value.is_empty() && value != "None" {
            facts.entry(name.to_owned()).or_insert(value.to_owned());
        }
    };
    let lines = TABLE.lines().map(str::split_whitespace);
    let told: BTreeMap<&str, _> = lines
        .filter_map(|mut words| {
            let kind = words
                .next()
                .filter(|kind| ["labels", "value"].contains(kind))?;
            Some((words.next()?, (kind, words)))
        })
        .collect();
    for sample in samples {
        let Some((kind, names)) = told.get(sample.name.as_str()) else {
            continue;
        };
        for name in names.clone() {
            if *kind == "labels" {
                add(name, sample.label(name).unwrap_or_default());
            } else if sample.value.is_finite() {
                add(name, &sample.value.to_string());
            }
        }
    }
    gpus(samples, &mut add);
    facts
}

/// `gpus`: how many of which model an exporter shows; `gpu_driver`.
fn gpus(samples: &[Sample], add: &mut impl FnMut(&str, &str)) {
    let cards: BTreeSet<(&str, &str, &str)> = samples
        .iter()
        .filter_map(|sample| {
            let model = sample.label("modelName")?;
            Some((model, host(sample).unwrap_or_default(), number(sample)?))
        })
        .collect();
    let mut models: BTreeMap<&str, usize> = BTreeMap::new();
    for (model, _, _) in &cards {
        *models.entry(model).or_default() += 1;
    }
    let shown: Vec<String> = models.iter().map(|(m, n)| format!("{n} × {m}")).collect();
    add("gpus", &shown.join(", "));
    let drivers = samples
        .iter()
        .filter_map(|s| s.label("DCGM_FI_DRIVER_VERSION"));
    let drivers: BTreeSet<&str> = drivers.collect();
    let drivers: Vec<&str> = drivers.into_iter().collect();
    add("gpu_driver", &drivers.join(", "));
}

// The metrics of NVIDIA's DCGM exporter and of Triton, per GPU, under the same names as NVML's.

/// Field, name, factor.
fn fields() -> impl Iterator<Item = (&'static str, &'static str, f64)> {
    let lines = include_str!("names/dcgm.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.next()?, words.next()?.parse().ok()?))
        })
}

/// The reasons for a lower clock, older and newer name: a mask whose bits are NVML's.
const REASONS: [&str; 2] = [
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
];

/// From here on a number is DCGM's way to say "blank", "not found", "not supported" or "no permission".
/// (64-bit integers; floating point begins at 2^47, which no real reading reaches but energy, and that only after centuries.)
const BLANK: f64 = 140_737_488_355_328.0;

/// Blank 32-bit integers: sixteen values up to 2^31 − 1.
const BLANK_32: std::ops::RangeInclusive<f64> = 2_147_483_632.0..=2_147_483_647.0;

/// What a sample tells.
#[derive(Clone, Copy)]
enum Field {
    /// A figure under this name, times a factor.
    Figure(&'static str, f64),
    /// The mask of reasons for a lower clock.
    Reasons,
}

impl Field {
    fn of(sample: &Sample, figures: &BTreeMap<&str, (&'static str, f64)>) -> Option<Self> {
        if sample.label("nvlink").is_some() {
            return None; // a row of one link is not the card's
        }
        if REASONS.contains(&sample.name.as_str()) {
            return Some(Self::Reasons);
        }
        let &(name, factor) = figures.get(sample.name.as_str())?;
        Some(Self::Figure(name, factor))
    }

    /// A card's power is repeated for each of its MIG instances: it is the card's, once.
    fn is_of_whole_card(self) -> bool {
        let names = ["energy_j_total", "power_w", "power_limit_w"];
        matches!(self, Self::Figure(name, _) if names.contains(&name))
    }

    /// Store `value`, or that it is none.
    fn put(self, value: f64, part: &mut Part) {
        let is_energy = matches!(self, Self::Figure("energy_j_total", _));
        let is_blank = value >= BLANK || (!is_energy && BLANK_32.contains(&value));
        match self {
            Self::Figure(name, _) if is_blank || !value.is_finite() => {
                part.blank.insert(name.to_owned());
            }
            Self::Figure(name, factor) => {
                part.values.insert(name.to_owned(), value * factor);
            }
            Self::Reasons => {
                let mask = Some(value).filter(|_| !is_blank).and_then(whole);
                let reasons = mask.map(ThrottleReasons::from_bits_truncate);
                let held = reasons.into_iter().flat_map(throttles);
                part.values
                    .extend(held.map(|(name, holds)| (name.to_owned(), holds)));
            }
        }
    }
}

/// A mask that is printed as a number.
fn whole(value: f64) -> Option<u64> {
    let bits = 0.0..f64::from(u32::MAX);
    (bits.contains(&value) && value.fract() == 0.0).then(|| bench_schema::whole(value))
}

/// The samples of each GPU: by its number in the exporter, `host:number` where the samples are of several hosts, and
/// `number/migN` for an instance within it.
pub(crate) fn dcgm_by_gpu(samples: &[Sample]) -> BTreeMap<String, Part> {
    let figures = fields().map(|(field, name, factor)| (field, (name, factor)));
    let figures = figures.collect();
    let known = samples.iter();
    let known = known.filter_map(|s| Some((Field::of(s, &figures)?, number(s)?, s)));
    let known: Vec<(Field, &str, &Sample)> = known.collect();
    let hosts: BTreeSet<&str> = known.iter().filter_map(|(_, _, s)| host(s)).collect();
    let mut gpus: BTreeMap<String, Part> = BTreeMap::new();
    for (field, number, sample) in known {
        let card = match host(sample) {
            Some(host) if hosts.len() > 1 => format!("{host}:{number}"),
            _ => number.to_owned(),
        };
        let instance = match sample.label("GPU_I_ID").filter(|id| !id.is_empty()) {
            Some(id) if !field.is_of_whole_card() => format!("{card}/mig{id}"),
            _ => card,
        };
        field.put(sample.value, gpus.entry(instance).or_default());
    }
    gpus
}

/// Which GPU of its host a sample is of: its number, or for Triton its identifier.
fn number(sample: &Sample) -> Option<&str> {
    sample.label("gpu").or_else(|| sample.label("gpu_uuid"))
}

/// Which host a sample is of, by the exporter's own label (older and newer spelling), else by the one that a Prometheus server adds.
fn host(sample: &Sample) -> Option<&str> {
    let labels = ["Hostname", "hostname", "instance"];
    let mut hosts = labels.iter().filter_map(|label| sample.label(label));
    hosts.find(|host| !host.is_empty())
}

/// A query for every series that [`dcgm_by_gpu`] knows, of the GPUs that `matchers` choose; all, where these are empty.
pub(crate) fn dcgm_query(matchers: &str) -> String {
    let figures = fields().map(|(field, _, _)| field);
    let fields: Vec<&str> = figures.chain(REASONS).collect();
    let fields = fields.join("|");
    let matchers = matchers
        .trim()
        .trim_start_matches('{')
        .trim_end_matches('}');
    let comma = if matchers.is_empty() { "" } else { "," };
    format!("{{__name__=~\"{fields}\"{comma}{matchers}}}")
}

#[cfg(test)]
#[path = "../tests/unit/names.rs"]
mod tests;
