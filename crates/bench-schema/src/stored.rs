//! How results are stored: nothing is said twice, a line for each thing that one looks for, and no digits that mean nothing. In memory they are plain.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::ser::Formatter;

use crate::text::printable_json;
use crate::{Distribution, Metric, Quantile, ReadingSource, ResourceSummary, SeriesKey, Unit};

/// Distributions by metric; one that is another's to the last figure names it.
pub(crate) mod metrics {
    use super::{
        BTreeMap, Deserialize, Deserializer, Distribution, Metric, Quantile, Serializer, Stored,
    };

    /// Metrics that are the same values where nothing sets them apart: each event one token, no queue told.
    const TWINS: [(Metric, Metric); 2] =
        [(Metric::Icl, Metric::Itl), (Metric::Prefill, Metric::Ttft)];

    pub(crate) fn serialize<S: Serializer>(
        metrics: &BTreeMap<Metric, Distribution>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let twin = |metric: Metric, own: &Distribution| {
            let (_, other) = TWINS.into_iter().find(|(one, _)| *one == metric)?;
            (metrics.get(&other)? == own).then_some(other)
        };
        to.collect_map(metrics.iter().map(|(metric, own)| {
            let stored = match twin(*metric, own) {
                Some(other) => Stored::SameAs(other),
                None => Stored::Own(Box::new(unmarked(own))),
            };
            (metric, stored)
        }))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<Metric, Distribution>, D::Error> {
        let stored = BTreeMap::<Metric, Stored>::deserialize(from)?;
        let mut metrics = BTreeMap::new();
        let mut same = Vec::new();
        for (metric, stored) in stored {
            match stored {
                Stored::Own(own) => drop(metrics.insert(metric, marked(*own))),
                Stored::SameAs(other) => same.push((metric, other)),
            }
        }
        for (metric, other) in same {
            let own: Option<Distribution> = metrics.get(&other).cloned();
            metrics.extend(own.map(|own| (metric, own)));
        }
        Ok(metrics)
    }

    /// Without the marks that the number of values tells.
    fn unmarked(own: &Distribution) -> Distribution {
        let mut stored = own.clone();
        let few = |q: f64| (own.n as f64) < Quantile::values_needed(q);
        for quantile in stored.quantiles.iter_mut().filter(|at| few(at.q)) {
            quantile.few_samples = false;
        }
        stored
    }

    /// With them.
    fn marked(mut own: Distribution) -> Distribution {
        for quantile in &mut own.quantiles {
            quantile.few_samples |= (own.n as f64) < Quantile::values_needed(quantile.q);
        }
        own
    }
}

/// A distribution as it is stored.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Stored {
    /// The name of the metric whose values these are too. Since 2.0.
    SameAs(Metric),
    /// Its own.
    Own(Box<Distribution>),
}

/// Series by their source.
pub(crate) mod resources {
    use super::{
        Deserialize, Deserializer, ResourceSummary, Serialize, Serializer, SourceSummary,
        StoredResource,
    };

    pub(crate) fn serialize<S: Serializer>(
        resources: &Vec<ResourceSummary>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let mut sources: Vec<SourceSummary> = Vec::new();
        for resource in resources {
            let key = &resource.series;
            let own = |s: &SourceSummary| s.source == key.source && s.instance == key.instance;
            let known = sources.iter().position(own).unwrap_or_else(|| {
                sources.push(SourceSummary::new(key));
                sources.len() - 1
            });
            if let Some(source) = sources.get_mut(known) {
                source.series.insert(key.name.clone(), resource.into());
            }
        }
        sources.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<ResourceSummary>, D::Error> {
        let mut resources = Vec::new();
        for stored in Vec::<StoredResource>::deserialize(from)? {
            match stored {
                StoredResource::Source(source) => resources.extend(source.resources()),
                StoredResource::Series(resource) => resources.push(resource),
            }
        }
        Ok(resources)
    }
}

/// What one source told.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub(crate) struct SourceSummary {
    /// Who was asked.
    source: ReadingSource,
    /// Which one of them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    instance: String,
    /// Its series by name.
    series: BTreeMap<String, SeriesSummary>,
}

/// One series over the cell's window.
#[serde_with::skip_serializing_none]
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
struct SeriesSummary {
    /// Unit of the values here; absent for a plain number.
    #[serde(default = "count", skip_serializing_if = "is_count")]
    unit: Unit,
    /// Readings in the window.
    n: u64,
    /// Time-weighted mean, or the mean rate of a counter.
    mean: f64,
    /// Smallest; absent where it is the mean.
    min: Option<f64>,
    /// Largest; absent where it is the mean.
    peak: Option<f64>,
    /// Increase of a counter over the window; absent for a gauge.
    increase: Option<f64>,
}

/// Before 2.0 each series stood alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredResource {
    Source(SourceSummary),
    Series(ResourceSummary),
}

pub(crate) fn count() -> Unit {
    Unit::Count
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
pub(crate) fn is_count(unit: &Unit) -> bool {
    *unit == Unit::Count
}

impl SourceSummary {
    fn new(key: &SeriesKey) -> Self {
        Self {
            source: key.source,
            instance: key.instance.clone(),
            series: BTreeMap::new(),
        }
    }

    fn resources(self) -> impl Iterator<Item = ResourceSummary> {
        let (source, instance) = (self.source, self.instance);
        self.series
            .into_iter()
            .map(move |(name, series)| ResourceSummary {
                series: SeriesKey {
                    source,
                    instance: instance.clone(),
                    name,
                },
                unit: series.unit,
                n: series.n,
                mean: series.mean,
                min: series.min.unwrap_or(series.mean),
                peak: series.peak.unwrap_or(series.mean),
                increase: series.increase,
            })
    }
}

impl From<&ResourceSummary> for SeriesSummary {
    fn from(resource: &ResourceSummary) -> Self {
        let mean = as_stored(resource.mean);
        let unless_mean = |x: f64| (as_stored(x).total_cmp(&mean).is_ne()).then_some(x);
        Self {
            unit: resource.unit,
            n: resource.n,
            mean: resource.mean,
            min: unless_mean(resource.min),
            peak: unless_mean(resource.peak),
            increase: resource.increase,
        }
    }
}

/// Lists and objects are broken into lines down to this depth: a metric or a series of a cell is one line.
const LINES: usize = 4;
/// From here on a number is rounded to a whole one.
const WHOLE: f64 = 1e7;

/// A number as it is read again once it was stored: whoever makes another figure of one that is stored makes it of this.
#[must_use]
pub fn as_stored(value: f64) -> f64 {
    if value.abs() >= WHOLE {
        return value.round_ties_even();
    }
    format!("{value:.6e}").parse().unwrap_or(value)
}

/// A value as it stands in `run.json`: fractions have seven figures, which is more than anything measured has, and whole numbers no fraction;
/// [hidden characters](crate::is_hidden) are escaped.
///
/// # Errors
/// Where the value is no JSON (a map whose keys are no texts).
pub fn to_json(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(
        &mut bytes,
        Lines::default(),
    ))?;
    bytes.push(b'\n');
    let text = String::from_utf8(bytes).map_err(serde::ser::Error::custom)?;
    Ok(printable_json(text))
}

#[derive(Default)]
struct Lines {
    depth: usize,
    filled: bool,
}

impl Lines {
    fn begin(&mut self, out: &mut (impl Write + ?Sized), bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        out.write_all(bracket)
    }

    fn end(&mut self, out: &mut (impl Write + ?Sized), bracket: &[u8]) -> io::Result<()> {
        self.depth = self.depth.saturating_sub(1);
        if self.filled && self.depth < LINES {
            self.line(out)?;
        }
        self.filled = true;
        out.write_all(bracket)
    }

    fn item(&mut self, out: &mut (impl Write + ?Sized), first: bool) -> io::Result<()> {
        self.filled = true;
        if !first {
            out.write_all(b",")?;
        }
        if self.depth <= LINES {
            self.line(out)?;
        }
        Ok(())
    }

    fn line(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        out.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| out.write_all(b" "))
    }
}

impl Formatter for Lines {
    fn begin_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"[")
    }

    fn end_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"]")
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.item(out, first)
    }

    fn begin_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"{")
    }

    fn end_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"}")
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.item(out, first)
    }

    fn write_f64<W: Write + ?Sized>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        // the shortest text of the nearest number with seven figures
        let stored = as_stored(value);
        if stored.fract().abs() < f64::MIN_POSITIVE {
            write!(out, "{stored:.0}")
        } else {
            write!(out, "{stored:?}")
        }
    }
}

/// File name under `docs/schema/` and schema of each file of a run directory: `run.json`, a line of `requests.jsonl`, a line of
/// `hardware.jsonl`.
#[cfg(feature = "json-schema")]
pub fn json_schemas() -> [(&'static str, schemars::Schema); 3] {
    [
        ("run.schema.json", schemars::schema_for!(crate::RunRecord)),
        (
            "request.schema.json",
            schemars::schema_for!(crate::RequestRecord),
        ),
        ("reading.schema.json", schemars::schema_for!(crate::Reading)),
    ]
}
