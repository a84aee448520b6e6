//! Who listens on a port: `/proc/net/tcp`, `/proc/net/tcp6`, `/proc/<pid>/fd`.

use std::collections::BTreeSet;
use std::path::Path;

/// State of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// The lowest process id that has a socket listening on `port`: the parent, where several share it.
///
/// # Errors
/// Why nobody was found: nobody listens there, or the process belongs to somebody else.
pub(crate) fn listener(proc: &Path, port: u16) -> Result<u32, String> {
    let mut inodes = BTreeSet::new();
    for table in ["net/tcp", "net/tcp6"] {
        // Hosts without IPv6 have no tcp6.
        if let Ok(text) = std::fs::read_to_string(proc.join(table)) {
            inodes.extend(listening(&text, port));
        }
    }
    if inodes.is_empty() {
        return Err(format!("nobody listens on port {port} of this host"));
    }
    let wanted: BTreeSet<String> = inodes.iter().map(|i| format!("socket:[{i}]")).collect();
    processes(proc)
        .find(|&pid| has_descriptor(&proc.join(pid.to_string()).join("fd"), &wanted))
        .ok_or_else(|| {
            format!("the process that listens on port {port} is not visible; run as the same user or give its id")
        })
}

fn listening(table: &str, port: u16) -> impl Iterator<Item = u64> + '_ {
    table.lines().skip(1).filter_map(move |line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, _, state) = (fields.next()?, fields.next()?, fields.next()?);
        let (_, hex) = local.rsplit_once(':')?;
        let wanted = state == LISTEN && u16::from_str_radix(hex, 16) == Ok(port);
        if wanted {
            fields.nth(5)?.parse().ok()
        } else {
            None
        }
    })
}

fn processes(proc: &Path) -> impl Iterator<Item = u32> + use<> {
    let mut pids: Vec<u32> = std::fs::read_dir(proc)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    pids.into_iter()
}

fn has_descriptor(directory: &Path, wanted: &BTreeSet<String>) -> bool {
    std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .any(|link| link.to_str().is_some_and(|link| wanted.contains(link)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listening_sockets_on_the_port_are_found() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1678 1 0 100 0 0 10 0\n   \
             1: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 1700 1 0 20 4 30 10 -1\n   \
             2: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1701 1 0 100 0 0 10 0\n";
        assert_eq!(listening(table, 8080).collect::<Vec<_>>(), [1678]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_found_by_the_port_it_listens_on() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        assert_eq!(listener(Path::new("/proc"), port), Ok(std::process::id()));
        drop(socket);
    }
}
