//! The live screen (`--live`): a view of the counters, four times a second at most. It measures nothing, and no result is made of it.
//!
//! `model` takes plain data from the counters, `view` lays it out, `terminal` has the terminal and its keys.

mod model;
mod terminal;
mod view;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bench_client::Clock;
use bench_schema::Nanos;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::config::Live;
use crate::live_metrics::LiveMetrics;
use crate::progress::Progress;
use crate::recorder::Recorder;
use crate::stop;

use model::Model;
use terminal::{Key, Terminal};
use view::Look;

const EVERY: Duration = Duration::from_millis(250);
/// A run that lasts longer has a screen by itself.
const LONG: Nanos = Nanos::from_secs(20);

/// What is looked at.
pub(crate) struct Watched {
    /// What runs and against what, without secrets.
    pub(crate) title: String,
    /// How long each cell lasts, where its plan says so; absent where a search chooses them one by one.
    pub(crate) cells: Option<Vec<Option<Nanos>>>,
    pub(crate) live: Arc<LiveMetrics>,
    pub(crate) progress: Progress,
    pub(crate) recorder: Recorder,
    pub(crate) clock: Clock,
}

/// A screen that is up or will be, until this is dropped: then the terminal is as it was, with what was said meanwhile.
pub(crate) struct Screen {
    terminal: Rc<RefCell<Option<Terminal>>>,
    progress: Progress,
    _drawing: JoinSet<()>,
}

impl Screen {
    /// Begin to count seconds, and to draw, at once or when the run has lasted a while. What it returns beside tells which key is to end the run.
    pub(crate) fn start(watched: Watched, wanted: Live) -> (Self, mpsc::Receiver<&'static str>) {
        let known: Option<Nanos> = watched.cells.iter().flatten().copied().sum();
        let at_once = wanted == Live::Yes || known.is_some_and(|known| known > LONG);
        let after = if at_once { Nanos::ZERO } else { LONG };
        // who presses more often than it is heard is heard all the same
        let (ending, keys) = mpsc::channel(4);
        let terminal = Rc::default();
        let progress = watched.progress.clone();
        let mut drawing = JoinSet::new();
        drawing.spawn_local(draw(watched, after, Rc::clone(&terminal), ending));
        let screen = Self {
            terminal,
            progress,
            _drawing: drawing,
        };
        (screen, keys)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.terminal.take().is_some() {
            self.progress.uncovered();
        }
    }
}

async fn draw(
    watched: Watched,
    after: Nanos,
    place: Rc<RefCell<Option<Terminal>>>,
    ending: mpsc::Sender<&'static str>,
) {
    let began = watched.clock.now();
    let mut look = Look::of_the_terminal();
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let counters = watched.progress.counters();
    loop {
        ticks.tick().await;
        let now = watched.clock.now();
        watched.live.recent().roll(now, counters.taken_up());
        if now - began < after {
            continue;
        }
        let mut place = place.borrow_mut();
        if place.is_none() {
            // where the terminal is not ours the line goes on
            let Ok(terminal) = watched.progress.cover(Terminal::raise) else {
                return;
            };
            *place = Some(terminal);
        }
        let Some(terminal) = place.as_mut() else {
            return;
        };
        let keys = terminal.keys();
        for key in &keys {
            match key {
                Key::Pause => look.paused = !look.paused,
                Key::Help => look.help = !look.help,
                Key::Quit => drop(ending.try_send(stop::Q)),
                Key::CtrlC => drop(ending.try_send(stop::CTRL_C)),
            }
            // what becomes of it is to be seen
            look.paused &= !matches!(key, Key::Quit | Key::CtrlC);
        }
        if look.paused && keys.is_empty() {
            continue;
        }
        let model = Model::new(&watched, &watched.live.recent(), began, now);
        if terminal
            .draw(|frame| view::draw(frame, &model, look))
            .is_err()
        {
            // it is gone, or a panic took it down
            place.take();
            watched.progress.uncovered();
            return;
        }
    }
}
