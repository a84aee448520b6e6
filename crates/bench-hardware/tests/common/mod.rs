//! What the tests share: the run's clock, and a sampler that runs until it has said enough.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "only tests use it, and they should fail where it fails"
)]

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bench_hardware::{Fetch, Gpus, Sampler, SamplerConfig, SamplerReport};
use bench_schema::{Nanos, Reading, Stamp};

/// A clock that starts now.
#[expect(clippy::disallowed_methods, reason = "the tests' clock")]
pub(crate) fn clock() -> impl Fn() -> Stamp + Send + Sync + 'static {
    let epoch = std::time::Instant::now();
    move || Stamp::EPOCH + Nanos::from_duration(epoch.elapsed())
}

/// The defaults without GPUs: this machine's are not what these tests are about.
pub(crate) fn without_gpus() -> SamplerConfig {
    SamplerConfig {
        gpus: Gpus::LeftOut("not asked for".to_owned()),
        ..SamplerConfig::default()
    }
}

/// Run a sampler until `enough` says so of the readings so far (or half a minute is over, which fails).
pub(crate) fn sample(
    config: &SamplerConfig,
    fetch: Arc<dyn Fetch>,
    enough: impl Fn(&[Reading]) -> bool,
) -> (Vec<Reading>, SamplerReport) {
    let (tell, told): (_, Receiver<()>) = channel();
    let readings = Arc::new(Mutex::new(Vec::new()));
    let sink = readings.clone();
    let keep = move |reading| {
        sink.lock().unwrap().push(reading);
        tell.send(()).ok();
    };
    let sampler = Sampler::start(config, clock(), fetch, keep).unwrap();
    while !enough(&readings.lock().unwrap()) {
        match told.recv_timeout(Duration::from_secs(30)) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                panic!("not enough within 30 s: {:#?}", readings.lock().unwrap())
            }
        }
    }
    let report = sampler.stop();
    let readings = std::mem::take(&mut *readings.lock().unwrap());
    (readings, report)
}
