//! What all programs of this workspace do alike as processes: a result goes to standard output, and a limit on file sizes is an error.
#![expect(
    unsafe_code,
    reason = "signal dispositions and code before `main` have no safe interface"
)]

use std::io::{self, ErrorKind, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether standard output was closed when the process began. Before `main` the standard library opens `/dev/null` in its place, and whatever is written there
/// is lost without an error: it has to be looked at earlier.
static CLOSED: AtomicBool = AtomicBool::new(false);

#[used]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
static BEFORE_MAIN: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: asks for the flags of a descriptor, which may be closed.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// Writes a result to standard output. A closed pipe (`| head`) is the reader's choice.
///
/// # Errors
/// Everything else for which nobody gets it: a full disk, or an output that was closed when the process began.
pub fn print_result(text: &str) -> io::Result<()> {
    if CLOSED.load(Ordering::Relaxed) {
        return Err(io::Error::other("it is closed"));
    }
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Makes what is beyond a limit on file sizes (`ulimit -f`) an error of the write, as a full disk is; the system's own way is to end the program.
pub fn outlive_file_limits() {
    // SAFETY: no handler is installed, the signal is ignored.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
