//! The arithmetic that exports share: numpy's, for both tools lean on it.

use bench_metrics::{Histogram, Layout, Sample};
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

/// Values that are kept one by one; of more a histogram is kept, exact to a thousandth.
const EXACT: usize = 4 << 20;

/// Mean, population standard deviation (`numpy.std`'s default) and percentiles of values that come one by one.
#[derive(Default)]
pub(super) struct Figures {
    exact: Vec<f64>,
    coarse: Option<Histogram>,
    pub(super) n: u64,
    pub(super) mean: f64,
    squares: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Figures {
    pub(super) fn push(&mut self, value: f64) {
        self.n += 1;
        let off = value - self.mean;
        self.mean += off / self.n as f64;
        self.squares += off * (value - self.mean);
        self.min = if self.n == 1 {
            value
        } else {
            self.min.min(value)
        };
        self.max = if self.n == 1 {
            value
        } else {
            self.max.max(value)
        };
        match &mut self.coarse {
            Some(coarse) => coarse.record(billionths(value)),
            None => self.exact.push(value),
        }
        if self.exact.len() > EXACT {
            let mut coarse = Histogram::new(Layout::with_bits(9));
            for value in std::mem::take(&mut self.exact) {
                coarse.record(billionths(value));
            }
            self.coarse = Some(coarse);
        }
    }

    pub(super) fn std(&self) -> f64 {
        if self.n > 0 {
            (self.squares / self.n as f64).sqrt()
        } else {
            0.0
        }
    }

    /// The quantiles; 0 without values.
    pub(super) fn quantiles(self, at: &[f64]) -> Vec<f64> {
        let exact = Sample::new(self.exact).ok();
        let one = |&q: &f64| match (&exact, &self.coarse) {
            (_, Some(coarse)) => coarse.quantile(q).unwrap_or(0.0) / 1e9,
            (Some(exact), None) => exact.quantile(q),
            (None, None) => 0.0,
        };
        at.iter().map(one).collect()
    }
}

fn billionths(value: f64) -> u64 {
    u64::try_from(Nanos::from_secs_f64(value).get()).unwrap_or(0)
}

/// What both tools take from one request, in seconds.
pub(super) struct Times {
    /// Where that tool's latency begins: just before the connection is asked for, once the prompt exists.
    pub(super) start: Stamp,
    pub(super) ttft: Option<f64>,
    /// Start to last content event.
    pub(super) latency: Option<f64>,
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
            output_tokens: record.output_tokens.unwrap_or(events),
            input_tokens: record
                .input_tokens()
                .or(record.prompt.asked_tokens)
                .unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_values_have_the_figures_of_a_few_of_them_to_a_thousandth() {
        let mut figures = Figures::default();
        for i in 0..=EXACT {
            figures.push(0.01 + 1e-5 * (i % 1000) as f64);
        }
        assert!(figures.coarse.is_some() && figures.exact.is_empty());
        let near = |got: f64, want: f64| assert!((got / want - 1.0).abs() < 2e-3, "{got} {want}");
        near(figures.mean, 0.014_995);
        near(figures.std(), 1e-5 * (999_999.0_f64 / 12.0).sqrt());
        near(figures.max, 0.019_99);
        let quantiles = figures.quantiles(&[0.5, 0.99]);
        near(quantiles[0], 0.014_995);
        near(quantiles[1], 0.019_895);
    }
}
