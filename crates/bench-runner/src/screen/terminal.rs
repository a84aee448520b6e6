//! The terminal while a screen covers it: taken and given back, whatever happens, and the keys that are pressed.

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Stderr};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Frame;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Pause,
    Help,
    Quit,
    /// A key like any other while the terminal is raw.
    CtrlC,
}

/// The terminal, taken. Dropping it gives it back.
pub(super) struct Terminal {
    inner: ratatui::Terminal<CrosstermBackend<BufWriter<Stderr>>>,
    tty: File,
    taken: Arc<AtomicBool>,
}

impl Terminal {
    /// Take the terminal that this program was started on.
    ///
    /// # Errors
    /// Where there is none, or where others have it: a program in the background that takes it is stopped by the kernel.
    pub(super) fn raise() -> io::Result<Self> {
        let tty = File::open("/dev/tty")?;
        if tcgetpgrp(&tty)? != getpgrp() {
            return Err(io::Error::other("in the background"));
        }
        let taken = Arc::new(AtomicBool::new(true));
        let (before, at_panic) = (panic::take_hook(), Arc::clone(&taken));
        panic::set_hook(Box::new(move |info| {
            give_back(&at_panic);
            before(info);
        }));
        let raised = || {
            enable_raw_mode()?;
            execute!(io::stderr(), EnterAlternateScreen)?;
            ratatui::Terminal::new(CrosstermBackend::new(BufWriter::new(io::stderr())))
        };
        let inner = raised().inspect_err(|_| give_back(&taken))?;
        Ok(Self { inner, tty, taken })
    }

    /// The keys that were pressed since this was last asked.
    pub(super) fn keys(&mut self) -> Vec<Key> {
        let mut pressed = [0; 64];
        let mut asked = [PollFd::new(&self.tty, PollFlags::IN)];
        let now = Timespec::default();
        if !matches!(poll(&mut asked, Some(&now)), Ok(1..)) {
            return Vec::new();
        }
        let read = self.tty.read(&mut pressed).unwrap_or(0);
        keys(pressed.get(..read).unwrap_or_default())
    }

    /// Draw once.
    ///
    /// # Errors
    /// Where the terminal is gone, or was given back by a panic anywhere.
    pub(super) fn draw(&mut self, frame: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if !self.taken.load(Ordering::Relaxed) {
            return Err(io::Error::other("given back"));
        }
        self.inner.draw(frame).map(drop)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back(&self.taken);
    }
}

fn give_back(taken: &AtomicBool) {
    if taken.swap(false, Ordering::Relaxed) {
        // one that is gone needs nothing
        execute!(io::stderr(), LeaveAlternateScreen, Show).ok();
        disable_raw_mode().ok();
    }
}

/// What these bytes ask for. Keys that send several, such as arrows, ask for nothing.
fn keys(bytes: &[u8]) -> Vec<Key> {
    const ESCAPE: u8 = 0x1b;
    const CTRL_C: u8 = 3;
    let plain = bytes.split(|byte| *byte == ESCAPE).next();
    let key = |byte: &u8| match byte {
        b'p' => Some(Key::Pause),
        b'?' => Some(Key::Help),
        b'q' => Some(Key::Quit),
        &CTRL_C => Some(Key::CtrlC),
        _ => None,
    };
    plain.unwrap_or_default().iter().filter_map(key).collect()
}

#[cfg(test)]
#[path = "../../tests/unit/screen_terminal.rs"]
mod tests;
