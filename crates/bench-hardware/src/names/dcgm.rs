//! The metrics of NVIDIA's DCGM exporter, per GPU, under the same names as NVML's.

use std::collections::{BTreeMap, BTreeSet};

use crate::exposition::Page;

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
];

const MIB: f64 = 1_048_576.0;

/// From here on a number is DCGM's way to say "blank", "not found", "not supported" or "no permission".
/// (64-bit integers; floating point begins at 2^47, which no real reading reaches but energy, and that only after centuries.)
const BLANK: f64 = 140_737_488_355_328.0;

/// Blank 32-bit integers: sixteen values up to 2^31 − 1.
const BLANK_32: std::ops::RangeInclusive<f64> = 2_147_483_632.0..=2_147_483_647.0;

/// Which GPU a sample is of, or which instance within it: its number in the exporter, then host and MIG instance where there are several.
pub(crate) fn by_gpu(page: &Page) -> BTreeMap<String, (BTreeMap<String, f64>, BTreeSet<String>)> {
    let mut gpus: BTreeMap<String, (BTreeMap<String, f64>, BTreeSet<String>)> = BTreeMap::new();
    for sample in &page.samples {
        let field = FIELDS.iter().find(|(field, _, _)| *field == sample.name);
        let Some(&(_, name, factor)) = field else {
            continue;
        };
        let Some(gpu) = sample.label("gpu") else {
            continue;
        };
        let whole_card = matches!(name, "energy_j_total" | "power_w" | "power_limit_w");
        let instance = match sample.label("GPU_I_ID").filter(|id| !id.is_empty()) {
            // A card's power is repeated for each of its MIG instances: it is the card's, once.
            Some(id) if !whole_card => format!("{gpu}/mig{id}"),
            _ => gpu.to_owned(),
        };
        let (values, blank) = gpus.entry(instance).or_default();
        let is_blank =
            sample.value >= BLANK || (name != "energy_j_total" && BLANK_32.contains(&sample.value));
        if is_blank || !sample.value.is_finite() {
            blank.insert(name.to_owned());
        } else {
            values.insert(name.to_owned(), sample.value * factor);
        }
    }
    gpus
}
