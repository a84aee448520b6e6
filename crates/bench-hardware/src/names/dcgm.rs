//! The metrics of NVIDIA's DCGM exporter and of Triton, per GPU, under the same names as NVML's.

use std::collections::{BTreeMap, BTreeSet};

use super::Part;
use crate::exposition::Sample;

/// Field, name, factor.
const FIELDS: &[(&str, &str, f64)] = &[
    ("DCGM_FI_DEV_GPU_UTIL", "utilisation_share", 0.01),
    (
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "memory_utilisation_share",
        0.01,
    ),
    ("DCGM_FI_DEV_FB_USED", "memory_used_bytes", MIB),
    ("DCGM_FI_DEV_FB_FREE", "memory_free_bytes", MIB),
    ("DCGM_FI_DEV_FB_RESERVED", "memory_reserved_bytes", MIB),
    ("DCGM_FI_DEV_FB_TOTAL", "memory_total_bytes", MIB),
    ("DCGM_FI_DEV_POWER_USAGE", "power_w", 1.0),
    ("DCGM_FI_DEV_POWER_MGMT_LIMIT", "power_limit_w", 1.0),
    (
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "energy_j_total",
        1e-3,
    ),
    ("DCGM_FI_DEV_GPU_TEMP", "temperature_celsius", 1.0),
    ("DCGM_FI_DEV_MEMORY_TEMP", "memory_temperature_celsius", 1.0),
    ("DCGM_FI_DEV_SM_CLOCK", "sm_clock_hz", 1e6),
    ("DCGM_FI_DEV_MEM_CLOCK", "memory_clock_hz", 1e6),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "engine_active_share", 1.0),
    ("DCGM_FI_PROF_SM_ACTIVE", "sm_active_share", 1.0),
    ("DCGM_FI_PROF_SM_OCCUPANCY", "sm_occupancy_share", 1.0),
    (
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "tensor_active_share",
        1.0,
    ),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "dram_active_share", 1.0),
    ("DCGM_FI_PROF_PCIE_TX_BYTES", "pcie_tx_bytes_per_s", 1.0),
    ("DCGM_FI_PROF_PCIE_RX_BYTES", "pcie_rx_bytes_per_s", 1.0),
    ("DCGM_FI_PROF_NVLINK_TX_BYTES", "nvlink_tx_bytes_per_s", 1.0),
    ("DCGM_FI_PROF_NVLINK_RX_BYTES", "nvlink_rx_bytes_per_s", 1.0),
    // Triton asks DCGM itself
    ("nv_gpu_utilization", "utilisation_share", 1.0),
    ("nv_gpu_memory_used_bytes", "memory_used_bytes", 1.0),
    ("nv_gpu_memory_total_bytes", "memory_total_bytes", 1.0),
    ("nv_gpu_power_usage", "power_w", 1.0),
    ("nv_gpu_power_limit", "power_limit_w", 1.0),
    ("nv_energy_consumption", "energy_j_total", 1.0),
];

const MIB: f64 = 1_048_576.0;

/// From here on a number is DCGM's way to say "blank", "not found", "not supported" or "no permission".
/// (64-bit integers; floating point begins at 2^47, which no real reading reaches but energy, and that only after centuries.)
const BLANK: f64 = 140_737_488_355_328.0;

/// Blank 32-bit integers: sixteen values up to 2^31 − 1.
const BLANK_32: std::ops::RangeInclusive<f64> = 2_147_483_632.0..=2_147_483_647.0;

/// The samples of each GPU: by its number in the exporter, `host:number` where the samples are of several hosts, and
/// `number/migN` for an instance within it.
pub(crate) fn by_gpu(samples: &[Sample]) -> BTreeMap<String, Part> {
    // A row of one link is not the card's.
    let of_card = |sample: &Sample| sample.label("nvlink").is_none();
    let known = |sample: &Sample| {
        let mut fields = FIELDS.iter();
        fields.find(|(field, _, _)| *field == sample.name && of_card(sample))
    };
    let hosts: BTreeSet<&str> = samples
        .iter()
        .filter(|sample| known(sample).is_some())
        .filter_map(host)
        .collect();
    let mut gpus: BTreeMap<String, Part> = BTreeMap::new();
    for sample in samples {
        let (Some(&(_, name, factor)), Some(number)) = (known(sample), number(sample)) else {
            continue;
        };
        let card = match host(sample) {
            Some(host) if hosts.len() > 1 => format!("{host}:{number}"),
            _ => number.to_owned(),
        };
        let whole_card = matches!(name, "energy_j_total" | "power_w" | "power_limit_w");
        let instance = match sample.label("GPU_I_ID").filter(|id| !id.is_empty()) {
            // A card's power is repeated for each of its MIG instances: it is the card's, once.
            Some(id) if !whole_card => format!("{card}/mig{id}"),
            _ => card,
        };
        let gpu = gpus.entry(instance).or_default();
        let is_blank =
            sample.value >= BLANK || (name != "energy_j_total" && BLANK_32.contains(&sample.value));
        if is_blank || !sample.value.is_finite() {
            gpu.blank.insert(name.to_owned());
        } else {
            gpu.values.insert(name.to_owned(), sample.value * factor);
        }
    }
    gpus
}

/// Which GPU of its host a sample is of: its number, or for Triton its identifier.
pub(super) fn number(sample: &Sample) -> Option<&str> {
    sample.label("gpu").or_else(|| sample.label("gpu_uuid"))
}

/// Which host a sample is of, by the exporter's own label (older and newer spelling), else by the one that a Prometheus server adds.
pub(super) fn host(sample: &Sample) -> Option<&str> {
    let labels = ["Hostname", "hostname", "instance"];
    let mut hosts = labels.iter().filter_map(|label| sample.label(label));
    hosts.find(|host| !host.is_empty())
}

/// A query for every series that [`by_gpu`] knows, of the GPUs that `matchers` choose; all, where these are empty.
pub(crate) fn query(matchers: &str) -> String {
    let fields: Vec<&str> = FIELDS.iter().map(|(field, _, _)| *field).collect();
    let fields = fields.join("|");
    let matchers = matchers
        .trim()
        .trim_start_matches('{')
        .trim_end_matches('}');
    let comma = if matchers.is_empty() { "" } else { "," };
    format!("{{__name__=~\"{fields}\"{comma}{matchers}}}")
}
