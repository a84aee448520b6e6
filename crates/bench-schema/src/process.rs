//! What all programs of this workspace do alike as processes: a result goes to standard output, and a limit on file sizes is an error.

use std::io::{self, ErrorKind, Write as _};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Writes a result to standard output. A closed pipe (`| head`) is the reader's choice. (An output that was closed before the start is
/// `/dev/null` by then, which nobody can tell from one that was asked for.)
///
/// # Errors
/// Everything else for which nobody gets it, such as a full disk.
pub fn print_result(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Makes what is beyond a limit on file sizes (`ulimit -f`) an error of the write, as a full disk is; the system's own way, which stays where it
/// takes no handler, is to end the program.
pub fn outlive_file_limits() {
    let noted = Arc::<AtomicBool>::default();
    let _registered = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, noted);
}
