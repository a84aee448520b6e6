//! What a page says of the server itself and does not change while it runs: its cache, its limits, its GPUs.

use std::collections::{BTreeMap, BTreeSet};

use super::dcgm;
use crate::exposition::Sample;

/// Metrics that are there for their labels, and the labels that tell how the server was started. The facts have the server's own
/// words, which are those of its flags.
const LABELS: &[(&str, &[&str])] = &[
    (
        "vllm:cache_config_info",
        &[
            "block_size",
            "cache_dtype",
            "enable_prefix_caching",
            "gpu_memory_utilization",
            "kv_cache_size_tokens",
            "num_gpu_blocks",
        ],
    ),
    (
        "trtllm_model_config_info",
        &["dtype", "gpu_type", "max_model_len", "quantization"],
    ),
    (
        "trtllm_parallel_config_info",
        &[
            "tensor_parallel_size",
            "pipeline_parallel_size",
            "expert_parallel_size",
            "context_parallel_size",
        ],
    ),
    (
        "trtllm_kv_cache_config_info",
        &[
            "cache_dtype",
            "enable_block_reuse",
            "free_gpu_memory_fraction",
        ],
    ),
];

/// Gauges that never change, and their names as facts.
const VALUES: &[(&str, &str)] = &[
    ("sglang:max_total_num_tokens", "max_total_num_tokens"),
    ("sglang:page_size", "page_size"),
    ("sglang:context_len", "context_len"),
    ("trtllm_max_batch_size_static", "max_batch_size"),
    ("tgi_batch_max_total_tokens", "max_batch_total_tokens"),
];

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
    for sample in samples {
        let metric = |(metric, _): &&(&str, _)| *metric == sample.name;
        for label in LABELS.iter().find(metric).map_or(&[][..], |(_, l)| l) {
            add(label, sample.label(label).unwrap_or_default());
        }
        if let Some((_, name)) = VALUES.iter().find(|(metric, _)| *metric == sample.name)
            && sample.value.is_finite()
        {
            add(name, &sample.value.to_string());
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
            Some((
                model,
                dcgm::host(sample).unwrap_or_default(),
                dcgm::number(sample)?,
            ))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::Page;

    fn of(page: &str) -> BTreeMap<String, String> {
        facts(&Page::parse(page.as_bytes()).unwrap().samples)
    }

    #[test]
    fn a_server_tells_how_it_was_started_in_its_own_words() {
        let vllm = of(
            "vllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\",engine=\"0\",gpu_memory_utilization=\"0.9\",\
                       num_gpu_blocks=\"None\"} 1\nvllm:cache_config_info{block_size=\"32\",engine=\"1\"} 1\n",
        );
        let expected = [
            ("block_size", "16"),
            ("cache_dtype", "auto"),
            ("gpu_memory_utilization", "0.9"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(vllm, expected.into());
        let sglang =
            of("sglang:max_total_num_tokens{tp_rank=\"0\"} 2048.0\nsglang:page_size NaN\n");
        assert_eq!(sglang["max_total_num_tokens"], "2048");
        assert!(!sglang.contains_key("page_size"));
    }

    #[test]
    fn an_exporter_tells_which_gpus_there_are_once_each() {
        let facts = of(
            "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",modelName=\"NVIDIA L4\",Hostname=\"a\",DCGM_FI_DRIVER_VERSION=\"550.1\"} 1\n\
             DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",modelName=\"NVIDIA L4\",Hostname=\"a\",DCGM_FI_DRIVER_VERSION=\"550.1\"} 1\n\
             DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",modelName=\"NVIDIA L4\",Hostname=\"b\",DCGM_FI_DRIVER_VERSION=\"550.1\"} 1\n\
             DCGM_FI_DEV_GPU_UTIL{gpu=\"1\",modelName=\"NVIDIA A30\",Hostname=\"b\"} 1\n",
        );
        assert_eq!(facts["gpus"], "1 × NVIDIA A30, 2 × NVIDIA L4");
        assert_eq!(facts["gpu_driver"], "550.1");
    }
}
