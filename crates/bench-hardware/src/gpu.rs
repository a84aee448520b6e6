//! GPUs through NVML, whose library is looked for when the program runs: a host without one builds and runs all the same.

mod device;
mod inventory;
mod links;

use std::path::{Path, PathBuf};

use bench_schema::{Reading, ReadingSource, Stamp};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

use crate::host::SLOW;
use crate::reading::{Draft, Named};
use crate::sampler::Source;

pub(crate) use inventory::inventory;

/// Reads every GPU that NVML shows.
pub(crate) struct GpuSource {
    file: Option<PathBuf>,
    state: State,
    last_slow: Option<Stamp>,
    named: Named,
}

enum State {
    /// Initialising the driver's library takes up to a second, so that it is left to the sampler's thread.
    NotTried,
    /// Not to be looked for, and why.
    LeftOut(String),
    Absent,
    Open {
        nvml: Box<Nvml>,
        gpus: u32,
    },
}

impl GpuSource {
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        Self {
            file,
            state: State::NotTried,
            last_slow: None,
            named: Named::default(),
        }
    }

    /// Reads nothing, and says why once: the GPUs of this host are not those that serve.
    pub(crate) fn left_out(why: String) -> Self {
        Self {
            state: State::LeftOut(why),
            ..Self::new(None)
        }
    }

    /// Open the library, or say why there is nothing to read.
    fn open(&mut self) -> Result<(), String> {
        if let State::LeftOut(why) = &mut self.state {
            let why = std::mem::take(why);
            self.state = State::Absent;
            return Err(why);
        }
        let opened = open(self.file.as_deref()).and_then(|nvml| {
            let gpus = nvml.device_count().map_err(|e| reason(&e))?;
            Ok((nvml, gpus))
        });
        match opened {
            Ok((_, 0)) => {
                self.state = State::Absent;
                Err("NVML finds no GPU".to_owned())
            }
            Ok((nvml, gpus)) => {
                let nvml = Box::new(nvml);
                self.state = State::Open { nvml, gpus };
                Ok(())
            }
            Err(why) => {
                self.state = State::Absent;
                Err(why)
            }
        }
    }
}

/// Load and initialise the library: the one named, or the driver's.
fn open(library: Option<&Path>) -> Result<Nvml, String> {
    let opened = match library {
        Some(path) => Nvml::builder().lib_path(path.as_os_str()).init(),
        None => Nvml::init(),
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
        if matches!(self.state, State::NotTried | State::LeftOut(_)) {
            let from = now();
            if let Err(why) = self.open() {
                let mut draft = Draft::new(ReadingSource::Gpu, "", from, &mut self.named);
                draft.unknown("gpu", why);
                draft.finish(now()).into_iter().for_each(&mut *emit);
            }
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
