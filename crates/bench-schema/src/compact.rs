//! How the long lists of a cell are stored: nothing is said twice. In memory they are plain.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min: Option<f64>,
    /// Largest; absent where it is the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    peak: Option<f64>,
    /// Increase of a counter over the window; absent for a gauge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
        let unless_mean = |x: f64| (x.total_cmp(&resource.mean).is_ne()).then_some(x);
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{GroupRecord, HardwareSummary, Metric};

    #[test]
    fn series_are_stored_by_source_and_those_of_older_files_are_read() {
        let old = json!({"resources": [
            {"series": {"source": "host", "name": "cpu_busy_s_total"}, "unit": "count", "n": 3, "mean": 1.5, "min": 1.0, "peak": 2.0, "increase": 4.5},
            {"series": {"source": "host", "name": "memory_total_bytes"}, "unit": "bytes", "n": 1, "mean": 8.0, "min": 8.0, "peak": 8.0},
            {"series": {"source": "gpu", "instance": "0", "name": "power_w"}, "unit": "watts", "n": 2, "mean": 70.0, "min": 60.0, "peak": 80.0},
        ], "derived": {"running_peak": {"value": 3.0, "unit": "count"}}});
        let read: HardwareSummary = serde_json::from_value(old).unwrap();
        let stored = serde_json::to_value(&read).unwrap();
        assert_eq!(
            stored,
            json!({"resources": [
                {"source": "host", "series": {
                    "cpu_busy_s_total": {"n": 3, "mean": 1.5, "min": 1.0, "peak": 2.0, "increase": 4.5},
                    "memory_total_bytes": {"unit": "bytes", "n": 1, "mean": 8.0},
                }},
                {"source": "gpu", "instance": "0", "series": {"power_w": {"unit": "watts", "n": 2, "mean": 70.0, "min": 60.0, "peak": 80.0}}},
            ], "derived": {"running_peak": {"value": 3.0}}})
        );
        let again: HardwareSummary = serde_json::from_value(stored).unwrap();
        assert_eq!(again, read);
    }

    #[test]
    fn a_metric_that_is_another_one_to_the_last_figure_is_stored_once() {
        let one = json!({"unit": "ns", "n": 1, "mean": 5.0, "min": 5.0, "max": 5.0, "quantiles": [{"q": 0.5, "value": 5.0}]});
        let mut other = one.clone();
        other["mean"] = json!(6.0);
        let group = |prefill: &Value| {
            json!({"by": "turn", "name": "0", "counts": {"planned": 1, "completed": 1, "failed": 0, "timed_out": 0,
            "truncated": 0, "cancelled": 0, "unsent": 0, "warmup": 0, "retried": 0, "backed_off": 0, "replaced_connections": 0},
            "metrics": {"ttft": one, "icl": one, "itl": one, "prefill": prefill}})
        };
        for (prefill, icl) in [(&other, "itl"), (&json!("ttft"), "itl")] {
            let read: GroupRecord = serde_json::from_value(group(prefill)).unwrap();
            assert_eq!(read.metrics.len(), 4);
            assert_eq!(read.metrics[&Metric::Icl], read.metrics[&Metric::Itl]);
            let stored = serde_json::to_value(&read).unwrap();
            assert_eq!(stored["metrics"]["icl"], icl);
            assert_eq!(&stored["metrics"]["prefill"], prefill);
            assert_eq!(stored["metrics"]["itl"], one);
        }
    }
}
