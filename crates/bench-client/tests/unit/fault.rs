//! Errors of the system in the words of a result.

use super::*;

fn of_errno(errno: rustix::io::Errno) -> Fault {
    Fault::io(Stage::Connect, &errno.into(), "h:1")
}

#[test]
fn running_out_of_descriptors_or_ports_is_the_clients_own_trouble_with_advice() {
    let files = of_errno(rustix::io::Errno::MFILE);
    assert_eq!(files.kind, FailureKind::ClientResources);
    assert!(files.message.contains("ulimit -n"), "{}", files.message);
    let ports = of_errno(rustix::io::Errno::ADDRNOTAVAIL);
    assert_eq!(ports.kind, FailureKind::ClientResources);
    assert!(ports.message.contains("ip_local_port_range"));
}

#[test]
fn socket_errors_have_their_own_kinds() {
    use rustix::io::Errno;
    for (errno, kind) in [
        (Errno::CONNREFUSED, FailureKind::Refused),
        (Errno::CONNRESET, FailureKind::Reset),
        (Errno::PIPE, FailureKind::Closed),
        (Errno::HOSTUNREACH, FailureKind::Unreachable),
        (Errno::TIMEDOUT, FailureKind::Unreachable),
        (Errno::NOENT, FailureKind::Refused),
        (Errno::INVAL, FailureKind::Other),
    ] {
        let fault = of_errno(errno);
        assert_eq!(fault.kind, kind, "{errno:?}");
        assert!(!fault.message.contains("os error"), "{}", fault.message);
    }
}
