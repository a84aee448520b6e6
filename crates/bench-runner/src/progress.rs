//! Live progress on stderr: what runs, how far, how fast; nothing where nobody watches.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bench_schema::RequestRecord;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::redact::Secrets;

/// Counters that the recorder moves and the bar shows.
#[derive(Debug, Default)]
pub(crate) struct ProgressCounters {
    started: AtomicU64,
    ended: AtomicU64,
    without_answer: AtomicU64,
    events: AtomicU64,
    /// Sum and number of TTFTs, in microseconds, for a running mean.
    ttft_us: AtomicU64,
    ttft_n: AtomicU64,
}

impl ProgressCounters {
    pub(crate) fn reset(&self) {
        for counter in [
            &self.started,
            &self.ended,
            &self.without_answer,
            &self.events,
            &self.ttft_us,
            &self.ttft_n,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// A request begins.
    pub(crate) fn started(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    /// A request is over.
    pub(crate) fn ended(&self, record: &RequestRecord) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        let events = &record.wire.events;
        self.events
            .fetch_add(u64::try_from(events.len()).unwrap_or(0), Ordering::Relaxed);
        if !record.wire.outcome.is_completed() {
            self.without_answer.fetch_add(1, Ordering::Relaxed);
        }
        if let (Some(first), Some(sent)) = (events.first(), record.wire.sent) {
            let us = u64::try_from((first - sent).get() / 1000).unwrap_or(0);
            self.ttft_us.fetch_add(us, Ordering::Relaxed);
            self.ttft_n.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn line(&self, seconds: f64) -> String {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (ended, failed) = (get(&self.ended), get(&self.without_answer));
        let in_flight = get(&self.started).saturating_sub(ended);
        let per_s = |count: u64| {
            if seconds > 0.0 {
                count as f64 / seconds
            } else {
                0.0
            }
        };
        let (rate, chunks) = (per_s(ended), per_s(get(&self.events)));
        let mut line = format!("{in_flight} in flight · {rate:.1} req/s · {chunks:.0} chunks/s");
        let answered = get(&self.ttft_n);
        let ttft = (answered > 0).then(|| {
            let mean_ms = get(&self.ttft_us) as f64 / 1e3 / answered as f64;
            format!(" · TTFT {mean_ms:.0} ms")
        });
        let trouble = (failed > 0).then(|| format!(" · {failed} without answer"));
        line.extend(ttft.into_iter().chain(trouble));
        line
    }
}

/// The progress display of a run, and what it has to say meanwhile. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    secrets: Secrets,
    bar: ProgressBar,
    counters: Arc<ProgressCounters>,
}

impl Progress {
    /// A display that draws only if `wanted` and stderr is a terminal.
    pub(crate) fn new(wanted: bool, secrets: Secrets) -> Self {
        let draw = wanted && std::io::stderr().is_terminal();
        let target = if draw {
            ProgressDrawTarget::stderr_with_hz(5)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        // Before the first phase there is nothing to show a bar of.
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        Self {
            secrets,
            bar,
            counters: Arc::new(ProgressCounters::default()),
        }
    }

    /// The counters behind it.
    pub(crate) fn counters(&self) -> Arc<ProgressCounters> {
        Arc::clone(&self.counters)
    }

    /// A new phase begins: its name and, where known, how many requests it has.
    pub(crate) fn begin(&self, name: &str, requests: Option<u64>) {
        self.counters.reset();
        // One line whatever the terminal's width: what does not fit of the counters is cut.
        let template = if requests.is_some() {
            "{prefix} [{bar:12}] {pos}/{len} {elapsed} (ETA {eta}) {wide_msg}"
        } else {
            "{prefix} {spinner} {elapsed} {wide_msg}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style.progress_chars("=> "));
        }
        self.bar.reset();
        self.bar.set_prefix(self.secrets.hidden(name));
        match requests {
            Some(requests) => self.bar.set_length(requests),
            None => self.bar.unset_length(),
        }
    }

    /// Draw the counters as they stand.
    pub(crate) fn tick(&self) {
        let seconds = self.bar.elapsed().as_secs_f64();
        self.bar
            .set_position(self.counters.ended.load(Ordering::Relaxed));
        self.bar.set_message(self.counters.line(seconds));
    }

    /// How often [`Progress::tick`] is worth calling.
    pub(crate) const EVERY: Duration = Duration::from_millis(200);

    /// A line that stays, above the bar; on stderr even where the bar is hidden.
    pub(crate) fn note(&self, line: &str) {
        self.bar.suspend(|| self.secrets.note(line));
    }

    /// Take the display away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_shows_only_what_has_happened() {
        let counters = ProgressCounters::default();
        counters.started.store(3, Ordering::Relaxed);
        counters.ended.store(1, Ordering::Relaxed);
        assert_eq!(counters.line(2.0), "2 in flight · 0.5 req/s · 0 chunks/s");
        counters.ttft_us.store(5_000, Ordering::Relaxed);
        counters.ttft_n.store(1, Ordering::Relaxed);
        counters.without_answer.store(1, Ordering::Relaxed);
        assert!(
            counters
                .line(2.0)
                .ends_with("· TTFT 5 ms · 1 without answer")
        );
    }
}
