//! GPUs through NVML, whose library is looked for when the program runs: a host without one builds and runs all the same.

mod links;

use std::collections::BTreeMap;

use bench_schema::ReadingSource;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, PcieUtilCounter, TemperatureSensor};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id;
use nvml_wrapper::{Device, Nvml};

use crate::config::Gpus;
use crate::reading::{Draft, Round};
use crate::sampler::Source;

/// Reads every GPU that NVML shows.
pub(crate) struct GpuSource {
    state: State,
}

enum State {
    /// Initialising the driver's library takes up to a second, so that it is left to the sampler's thread.
    NotTried(Gpus),
    Absent,
    Open {
        nvml: Box<Nvml>,
        gpus: u32,
    },
}

impl GpuSource {
    pub(crate) fn new(gpus: Gpus) -> Self {
        Self {
            state: State::NotTried(gpus),
        }
    }
}

impl State {
    /// Open the library, or say why there is nothing to read.
    fn open(gpus: &Gpus) -> Result<Self, String> {
        let nvml = Box::new(open(gpus)?);
        match nvml.device_count() {
            Ok(0) => Err("NVML finds no GPU".to_owned()),
            Ok(gpus) => Ok(Self::Open { nvml, gpus }),
            Err(error) => Err(reason(&error)),
        }
    }
}

/// Load and initialise the library: the one named, or the driver's.
fn open(gpus: &Gpus) -> Result<Nvml, String> {
    let opened = match gpus {
        Gpus::LeftOut(why) => return Err(why.clone()),
        Gpus::Read { library: None } => Nvml::init(),
        Gpus::Read {
            library: Some(path),
        } => Nvml::builder().lib_path(path.as_os_str()).init(),
    };
    opened.map_err(|error| match error {
        NvmlError::LibloadingError(why) => format!("no NVML library: {why}"),
        other => reason(&other),
    })
}

/// NVML's error in its own words, without the address of a symbol or the length of a buffer.
fn reason(error: &NvmlError) -> String {
    match error {
        NvmlError::FailedToLoadSymbol(_) => {
            "the driver's library does not have this function".to_owned()
        }
        other => format!("NVML: {other}"),
    }
}

impl Source for GpuSource {
    fn source(&self) -> ReadingSource {
        ReadingSource::Gpu
    }

    fn read(&mut self, round: &mut Round<'_>) {
        if let State::NotTried(gpus) = &self.state {
            let from = (round.now)();
            self.state = State::open(gpus).unwrap_or_else(|why| {
                round.hand_on(ReadingSource::Gpu, "", (from, None), |draft| {
                    draft.unknown("gpu", why);
                });
                State::Absent
            });
        }
        let State::Open { nvml, gpus } = &self.state else {
            return;
        };
        let whole = round.whole;
        for index in 0..*gpus {
            let from = (round.now)();
            let instance = index.to_string();
            let gpu = nvml.device_by_index(index);
            round.hand_on(
                ReadingSource::Gpu,
                &instance,
                (from, None),
                |draft| match &gpu {
                    Ok(gpu) => {
                        read_fast(gpu, draft);
                        if whole {
                            read_slow(gpu, draft);
                        }
                    }
                    Err(error) => draft.unknown("gpu", reason(error)),
                },
            );
            if let Ok(gpu) = gpu.as_ref()
                && whole
            {
                read_instances(gpu, &instance, round);
            }
        }
    }
}

// One GPU: each counter by itself, because a card may lack any of them.

const MHZ: f64 = 1e6;
const KIB: f64 = 1024.0;

/// Why clocks are held down, and the name of the series that is 1 while they are.
const THROTTLES: &[(ThrottleReasons, &str)] = &[
    (ThrottleReasons::SW_POWER_CAP, "throttle_power_cap"),
    (ThrottleReasons::HW_SLOWDOWN, "throttle_hardware"),
    (
        ThrottleReasons::SW_THERMAL_SLOWDOWN,
        "throttle_thermal_software",
    ),
    (
        ThrottleReasons::HW_THERMAL_SLOWDOWN,
        "throttle_thermal_hardware",
    ),
    (
        ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN,
        "throttle_power_brake",
    ),
    (ThrottleReasons::SYNC_BOOST, "throttle_sync_boost"),
    (
        ThrottleReasons::APPLICATIONS_CLOCKS_SETTING,
        "throttle_clocks_setting",
    ),
];

/// Processes of one GPU that are listed.
const MAX_PROCESSES: usize = 32;

fn number(value: u32) -> f64 {
    f64::from(value)
}

fn set(draft: &mut Draft<'_>, name: &str, read: Result<f64, NvmlError>) {
    draft.set_or_say(name, read.map_err(|error| reason(&error)));
}

/// Each reason that a clock may be held down for, by name: 1 where it is one of `reasons`, else 0.
pub(crate) fn throttles(reasons: ThrottleReasons) -> impl Iterator<Item = (&'static str, f64)> {
    THROTTLES
        .iter()
        .map(move |&(flag, name)| (name, f64::from(u8::from(reasons.contains(flag)))))
}

/// What moves: utilisation, memory, power, energy, the SM clock and what holds it down.
fn read_fast(gpu: &Device<'_>, draft: &mut Draft<'_>) {
    let rates = gpu.utilization_rates().map_err(|error| reason(&error));
    draft.set_all(
        ["utilisation_share", "memory_utilisation_share"],
        rates.map(|rates| [rates.gpu, rates.memory].map(|rate| Some(number(rate) / 100.0))),
    );
    read_memory(gpu, draft);
    set(
        draft,
        "power_w",
        gpu.power_usage().map(|mw| number(mw) / 1e3),
    );
    let energy = gpu.total_energy_consumption();
    set(draft, "energy_j_total", energy.map(|mj| mj as f64 / 1e3));
    let clock = gpu.clock_info(Clock::SM);
    set(draft, "sm_clock_hz", clock.map(|mhz| number(mhz) * MHZ));
    match gpu.current_throttle_reasons() {
        Ok(reasons) => {
            for (name, holds) in throttles(reasons) {
                draft.set(name, holds);
            }
        }
        Err(error) => draft.unknown("throttle_power_cap", reason(&error)),
    }
}

fn read_memory(gpu: &Device<'_>, draft: &mut Draft<'_>) {
    let memory = gpu.memory_info().map_err(|error| reason(&error));
    draft.set_all(
        ["memory_used_bytes", "memory_total_bytes"],
        memory.map(|memory| [memory.used, memory.total].map(|bytes| Some(bytes as f64))),
    );
}

/// What changes slowly or is dear to ask for.
fn read_slow(gpu: &Device<'_>, draft: &mut Draft<'_>) {
    let temperature = gpu.temperature(TemperatureSensor::Gpu);
    set(draft, "temperature_celsius", temperature.map(number));
    let clock = gpu.clock_info(Clock::Memory);
    set(draft, "memory_clock_hz", clock.map(|mhz| number(mhz) * MHZ));
    let limit = gpu.enforced_power_limit();
    set(draft, "power_limit_w", limit.map(|mw| number(mw) / 1e3));
    read_links(gpu, draft);
    read_processes(gpu, draft);
}

/// PCIe and NVLink. Where the driver has byte counters they are read; else NVML measures PCIe itself, over 20 ms of waiting.
fn read_links(gpu: &Device<'_>, draft: &mut Draft<'_>) {
    let sent = field(gpu, field_id::NVML_FI_DEV_PCIE_COUNT_TX_BYTES);
    let received = field(gpu, field_id::NVML_FI_DEV_PCIE_COUNT_RX_BYTES);
    if let (Ok(sent), Ok(received)) = (sent, received) {
        draft.set("pcie_tx_bytes_total", sent);
        draft.set("pcie_rx_bytes_total", received);
    } else {
        for (way, name) in [
            (PcieUtilCounter::Send, "pcie_tx_bytes_per_s"),
            (PcieUtilCounter::Receive, "pcie_rx_bytes_per_s"),
        ] {
            let rate = gpu.pcie_throughput(way);
            set(draft, name, rate.map(|kib_per_s| number(kib_per_s) * KIB));
        }
    }
    links::read(gpu, draft);
}

/// One field value of the card itself.
fn field(gpu: &Device<'_>, id: u32) -> Result<f64, String> {
    let mut samples = gpu
        .field_values_for(&[FieldId(id)])
        .map_err(|e| reason(&e))?;
    let sample = samples
        .pop()
        .ok_or_else(|| "NVML: no response".to_owned())?;
    let value = sample.and_then(|s| s.value).map_err(|e| reason(&e))?;
    Ok(figure(&value))
}

fn figure(value: &SampleValue) -> f64 {
    match *value {
        SampleValue::F64(v) => v,
        SampleValue::U32(v) => number(v),
        SampleValue::U64(v) => v as f64,
        SampleValue::I64(v) => v as f64,
    }
}

fn read_processes(gpu: &Device<'_>, draft: &mut Draft<'_>) {
    match gpu.running_compute_processes() {
        Ok(processes) => {
            draft.set("processes", processes.len() as f64);
            for process in processes.iter().take(MAX_PROCESSES) {
                let name = format!("process.{}.memory_bytes", process.pid);
                match process.used_gpu_memory {
                    UsedGpuMemory::Used(bytes) => draft.set(&name, bytes as f64),
                    UsedGpuMemory::Unavailable => draft.unknown(&name, "NVML does not report it"),
                }
            }
        }
        Err(error) => draft.unknown("processes", reason(&error)),
    }
    // The newest sample of each process; NVML keeps those of the last seconds.
    match gpu.process_utilization_stats(None) {
        Ok(mut samples) => {
            samples.sort_by_key(|sample| sample.timestamp);
            for sample in samples.iter().rev().take(MAX_PROCESSES).rev() {
                let name = format!("process.{}.sm_share", sample.pid);
                draft.set(&name, number(sample.sm_util) / 100.0);
            }
        }
        // NVML says "not found" where no process has used the GPU lately.
        Err(NvmlError::NotFound) => {}
        Err(error) => draft.unknown("process.sm_share", reason(&error)),
    }
}

/// The MIG instances of a GPU that is divided: their memory; NVML tells no utilisation of them.
fn read_instances(gpu: &Device<'_>, parent: &str, round: &mut Round<'_>) {
    // A card that cannot be divided says so here; that is nothing to report.
    if !gpu.mig_mode().is_ok_and(|mode| mode.current == 1) {
        return;
    }
    for index in 0..gpu.mig_device_count().unwrap_or(0) {
        let from = (round.now)();
        let Ok(instance) = gpu.mig_device_by_index(index) else {
            continue;
        };
        let name = format!("{parent}/mig{index}");
        round.hand_on(ReadingSource::Gpu, &name, (from, None), |draft| {
            read_memory(&instance, draft);
            draft.unknown("utilisation_share", "NVML reports none for a MIG instance");
        });
    }
}

// What GPUs there are: facts that do not change while a run lasts.

/// Facts by name (`gpu.driver`, `gpu.0.model`, …), and what is not known, with why.
pub(crate) fn inventory(gpus: &Gpus) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let (mut facts, mut unknown) = (BTreeMap::new(), BTreeMap::new());
    let nvml = match open(gpus) {
        Ok(nvml) => nvml,
        Err(why) => {
            unknown.insert("gpu".to_owned(), why);
            return (facts, unknown);
        }
    };
    let mut say = |name: String, fact: Result<String, NvmlError>| match fact {
        Ok(fact) => {
            facts.insert(name, fact);
        }
        Err(error) => {
            unknown.insert(name, reason(&error));
        }
    };
    say("gpu.driver".to_owned(), nvml.sys_driver_version());
    say("gpu.nvml".to_owned(), nvml.sys_nvml_version());
    let cuda = nvml.sys_cuda_driver_version().map(|version| {
        let major = nvml_wrapper::cuda_driver_version_major(version);
        let minor = nvml_wrapper::cuda_driver_version_minor(version);
        format!("{major}.{minor}")
    });
    say("gpu.cuda".to_owned(), cuda);
    let count = nvml.device_count();
    let gpus = count.as_ref().copied().unwrap_or(0);
    say("gpu.count".to_owned(), count.map(|n| n.to_string()));
    for index in 0..gpus {
        let named = |what: &str| format!("gpu.{index}.{what}");
        let gpu = match nvml.device_by_index(index) {
            Ok(gpu) => gpu,
            Err(error) => {
                say(named("model"), Err(error));
                continue;
            }
        };
        say(named("model"), gpu.name());
        say(named("uuid"), gpu.uuid());
        let memory = gpu.memory_info().map(|memory| memory.total.to_string());
        say(named("memory_bytes"), memory);
        let capability = gpu.cuda_compute_capability();
        say(
            named("compute_capability"),
            capability.map(|c| format!("{}.{}", c.major, c.minor)),
        );
        let limit = gpu.enforced_power_limit();
        say(
            named("power_limit_w"),
            limit.map(|mw| (f64::from(mw) / 1e3).to_string()),
        );
        if let Ok(mode) = gpu.mig_mode() {
            let mig = if mode.current == 1 { "on" } else { "off" };
            say(named("mig"), Ok(mig.to_owned()));
        }
    }
    (facts, unknown)
}
