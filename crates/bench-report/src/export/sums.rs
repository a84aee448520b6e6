//! The arithmetic that exports share: numpy's, for both tools lean on it.

use bench_metrics::Sample;
use bench_schema::{Nanos, RequestRecord, Stamp};

/// Just before the connection was asked for. What this client did before that (making the prompt, being late) is none of the server's, and
/// not in the other tools' figures either.
fn start(record: &RequestRecord) -> Stamp {
    let wire = &record.wire;
    let set_up = [
        wire.connection.resolve,
        wire.connection.connect,
        wire.connection.tls,
    ];
    let taken_up = record.dispatched.unwrap_or(record.due);
    let asked_for = wire.connected.map(|ready| {
        let set_up: Nanos = set_up.into_iter().flatten().sum();
        ready - set_up
    });
    asked_for.map_or(taken_up, |at| at.max(taken_up))
}

/// Mean, population standard deviation (`numpy.std`'s default) and a sample to take percentiles of.
pub(super) struct Summary {
    pub(super) mean: f64,
    pub(super) std: f64,
    pub(super) sample: Sample,
}

impl Summary {
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let sample = Sample::of(values)?;
        let mean = sample.mean();
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64;
        Some(Self {
            mean,
            std: variance.sqrt(),
            sample,
        })
    }
}

/// What both tools take from one request, in seconds.
pub(super) struct Times {
    /// Where that tool's latency begins: just before the connection is asked for, once the prompt exists.
    pub(super) start: Stamp,
    pub(super) ttft: Option<f64>,
    /// Start to last content event.
    pub(super) latency: Option<f64>,
    pub(super) itl: Vec<f64>,
    /// The server's count, else that of the content events.
    pub(super) output_tokens: u64,
    pub(super) input_tokens: u64,
}

impl Times {
    pub(super) fn of(record: &RequestRecord) -> Self {
        let wire = &record.wire;
        let start = start(record);
        let events = wire.events.len() as u64;
        Self {
            start,
            ttft: wire.events.first().map(|at| (at - start).as_secs_f64()),
            latency: wire.events.last().map(|at| (at - start).as_secs_f64()),
            itl: wire.events.gaps().map(Nanos::as_secs_f64).collect(),
            output_tokens: record.output_tokens.unwrap_or(events),
            input_tokens: record
                .input_tokens()
                .or(record.prompt.asked_tokens)
                .unwrap_or(0),
        }
    }
}
