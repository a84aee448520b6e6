//! Live progress on stderr: what runs, how far, how fast; nothing where nobody watches.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bench_schema::RequestRecord;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;

use crate::redact::Secrets;

/// What the workers count while a run goes, from its beginning.
#[derive(Debug, Default)]
pub(crate) struct ProgressCounters {
    started: AtomicU64,
    over: Mutex<Counted>,
}

/// What was counted of requests that are over, since the run began or between two instants.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    ended: u64,
    without_answer: u64,
    events: u64,
    /// Sum and number of TTFTs, in microseconds, for a running mean.
    ttft_us: u64,
    ttft_n: u64,
}

impl ProgressCounters {
    /// A request begins.
    pub(crate) fn started(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    /// A request is over.
    pub(crate) fn ended(&self, record: &RequestRecord) {
        let (wire, mut over) = (&record.wire, self.over.lock());
        over.ended += 1;
        over.without_answer += u64::from(!wire.outcome.is_completed());
        over.events += wire.events.len() as u64;
        if let (Some(first), Some(sent)) = (wire.events.first(), wire.sent) {
            over.ttft_us += u64::try_from((first - sent).get() / 1000).unwrap_or(0);
            over.ttft_n += 1;
        }
    }

    /// Requests that were taken up since the run began.
    pub(crate) fn taken_up(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Requests that are over since the run began.
    pub(crate) fn over(&self) -> u64 {
        self.counted().ended
    }

    /// Requests in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        let over = self.over();
        self.taken_up().saturating_sub(over)
    }

    fn counted(&self) -> Counted {
        *self.over.lock()
    }
}

impl Counted {
    fn since(self, before: Self) -> Self {
        Self {
            ended: self.ended.saturating_sub(before.ended),
            without_answer: self.without_answer.saturating_sub(before.without_answer),
            events: self.events.saturating_sub(before.events),
            ttft_us: self.ttft_us.saturating_sub(before.ttft_us),
            ttft_n: self.ttft_n.saturating_sub(before.ttft_n),
        }
    }

    fn line(self, in_flight: u64, seconds: f64) -> String {
        let per_s = |count: u64| {
            if seconds > 0.0 {
                count as f64 / seconds
            } else {
                0.0
            }
        };
        let (rate, chunks) = (per_s(self.ended), per_s(self.events));
        let mut line = format!("{in_flight} in flight · {rate:.1} req/s · {chunks:.0} chunks/s");
        let ttft = (self.ttft_n > 0).then(|| {
            let mean_ms = self.ttft_us as f64 / 1e3 / self.ttft_n as f64;
            format!(" · TTFT {mean_ms:.0} ms")
        });
        let failed = self.without_answer;
        let trouble = (failed > 0).then(|| format!(" · {failed} without response"));
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
    /// What they were when the phase began.
    before: Arc<Mutex<Counted>>,
    /// What was said while a screen covers the terminal; absent while none does.
    held: Arc<Mutex<Option<Vec<String>>>>,
}

impl Progress {
    /// A display that draws only if `wanted` and stderr is a terminal.
    pub(crate) fn new(wanted: bool, secrets: Secrets) -> Self {
        let draw = wanted && io::stderr().is_terminal();
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
            counters: Arc::default(),
            before: Arc::default(),
            held: Arc::default(),
        }
    }

    /// Whether somebody watches.
    pub(crate) fn is_drawn(&self) -> bool {
        !self.bar.is_hidden()
    }

    pub(crate) fn counters(&self) -> Arc<ProgressCounters> {
        Arc::clone(&self.counters)
    }

    /// A new phase begins: its name and, where known, how many requests it has.
    pub(crate) fn begin(&self, name: &str, requests: Option<u64>) {
        *self.before.lock() = self.counters.counted();
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
        let counted = self.counters.counted().since(*self.before.lock());
        self.bar.set_position(counted.ended);
        let in_flight = self.counters.in_flight();
        self.bar.set_message(counted.line(in_flight, seconds));
    }

    /// How often [`Progress::tick`] is worth calling.
    pub(crate) const EVERY: Duration = Duration::from_millis(200);

    /// A line that stays, above the bar; on stderr even where the bar is hidden.
    pub(crate) fn note(&self, line: &str) {
        match &mut *self.held.lock() {
            Some(held) => held.push(self.secrets.hidden(line)),
            None => self.bar.suspend(|| self.secrets.note(line)),
        }
    }

    /// Take the display away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Let a screen cover the terminal, where `take` gets it: the line is taken away before, or it would be there after the screen. What is to be said is kept
    /// until [`Progress::uncovered`].
    ///
    /// # Errors
    /// Those of `take`; then the line goes on.
    pub(crate) fn cover<T>(&self, take: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let taken = self.bar.suspend(take)?;
        self.bar.finish_and_clear();
        self.bar.set_draw_target(ProgressDrawTarget::hidden());
        self.held.lock().get_or_insert_default();
        Ok(taken)
    }

    /// The screen is gone: say what was kept. The line does not come back.
    pub(crate) fn uncovered(&self) {
        let held = self.held.lock().take();
        held.iter().flatten().for_each(|line| self.note(line));
    }

    /// The last `most` lines that are kept.
    pub(crate) fn kept(&self, most: usize) -> Vec<String> {
        let held = self.held.lock();
        let lines = held.iter().flatten().rev().take(most).cloned();
        let mut lines: Vec<String> = lines.collect();
        lines.reverse();
        lines
    }
}

#[cfg(test)]
#[path = "../tests/unit/progress.rs"]
mod tests;
