//! GPUs through NVML, whose library is looked for when the program runs: a host without one builds and runs all the same.

mod device;
mod links;

use std::collections::BTreeMap;

use bench_schema::{Reading, ReadingSource, Stamp};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

use crate::config::Gpus;
use crate::host::SLOW;
use crate::reading::{Draft, Named};
use crate::sampler::Source;

pub(crate) use device::throttles;

/// Reads every GPU that NVML shows.
pub(crate) struct GpuSource {
    state: State,
    last_slow: Option<Stamp>,
    named: Named,
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
            last_slow: None,
            named: Named::default(),
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
        NvmlError::FailedToLoadSymbol(_) => "this driver's library has no such function".to_owned(),
        other => format!("NVML: {other}"),
    }
}

impl Source for GpuSource {
    fn name(&self) -> &'static str {
        "gpu"
    }

    fn read(&mut self, now: &dyn Fn() -> Stamp, emit: &mut dyn FnMut(Reading)) {
        if let State::NotTried(gpus) = &self.state {
            let from = now();
            self.state = State::open(gpus).unwrap_or_else(|why| {
                let mut draft = Draft::new(ReadingSource::Gpu, "", from, &mut self.named);
                draft.unknown("gpu", why);
                draft.finish(now()).into_iter().for_each(&mut *emit);
                State::Absent
            });
        }
        let State::Open { nvml, gpus } = &self.state else {
            return;
        };
        let slow = self.last_slow.is_none_or(|last| now() - last >= SLOW);
        if slow {
            self.last_slow = Some(now());
        }
        for index in 0..*gpus {
            let from = now();
            let instance = index.to_string();
            match nvml.device_by_index(index) {
                Ok(gpu) => {
                    let mut draft =
                        Draft::new(ReadingSource::Gpu, &instance, from, &mut self.named);
                    device::read_fast(&gpu, &mut draft);
                    if slow {
                        device::read_slow(&gpu, &mut draft);
                    }
                    draft.finish(now()).into_iter().for_each(&mut *emit);
                    if slow {
                        device::read_instances(&gpu, &instance, &mut self.named, now, emit);
                    }
                }
                Err(error) => {
                    let mut draft =
                        Draft::new(ReadingSource::Gpu, &instance, from, &mut self.named);
                    draft.unknown("gpu", reason(&error));
                    draft.finish(now()).into_iter().for_each(&mut *emit);
                }
            }
        }
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
