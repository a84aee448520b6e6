//! What went wrong on the wire, in the schema's words.

use std::error::Error as _;
use std::io;

use bench_schema::{FailureKind, Outcome, Stage};

use crate::socket::ReadLog;

/// A failure of the server or the network: data for the result, not an error of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) stage: Stage,
    pub(crate) kind: FailureKind,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(stage: Stage, kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            stage,
            kind,
            message: message.into(),
        }
    }

    /// An error of a system call on the way to or on a connection with `peer`.
    pub(crate) fn io(stage: Stage, error: &io::Error, peer: &str) -> Self {
        let kind = kind_of(error);
        let message = match kind {
            FailureKind::Refused => format!("nobody listens at {peer} (connection refused)"),
            FailureKind::Reset => format!("{peer} reset the connection"),
            FailureKind::Closed => format!("{peer} closed the connection"),
            FailureKind::Unreachable => format!("there is no way to {peer}: {}", short(error)),
            FailureKind::ClientResources => format!(
                "this machine has run out of something for a connection to {peer}: {}{}",
                short(error),
                advice(error)
            ),
            _ => format!("{peer}: {}", short(error)),
        };
        Self::new(stage, kind, message)
    }

    /// An error of the TLS handshake.
    pub(crate) fn tls(error: &io::Error, peer: &str) -> Self {
        let rustls = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match rustls {
            Some(rustls::Error::InvalidMessage(_)) => Self::new(
                Stage::Tls,
                FailureKind::Tls,
                format!("{peer} does not speak TLS on this port; is the URL meant to be http://?"),
            ),
            Some(rustls::Error::InvalidCertificate(problem)) => Self::new(
                Stage::Tls,
                FailureKind::Tls,
                format!(
                    "{peer} shows a certificate that is not accepted ({}); --ca names another authority, --insecure accepts any",
                    plainly(problem)
                ),
            ),
            Some(other) => Self::new(Stage::Tls, FailureKind::Tls, format!("{peer}: {other}")),
            None if error.kind() == io::ErrorKind::UnexpectedEof => Self::new(
                Stage::Tls,
                FailureKind::Tls,
                format!("{peer} closed the connection during the TLS handshake"),
            ),
            None => Self::io(Stage::Tls, error, peer),
        }
    }

    /// What hyper says of an exchange whose socket kept `log`.
    pub(crate) fn hyper(stage: Stage, error: &hyper::Error, log: &ReadLog, peer: &str) -> Self {
        if let Some(io) = log.fault() {
            return match io.kind() {
                io::ErrorKind::InvalidData => {
                    Self::new(stage, FailureKind::Tls, format!("{peer}: {}", short(&io)))
                }
                _ => Self::io(stage, &io, peer),
            };
        }
        if error.is_parse_too_large() {
            return Self::new(
                stage,
                FailureKind::TooLarge,
                format!("the response head of {peer} is larger than the client's limit"),
            );
        }
        if error.is_parse() {
            return Self::new(stage, FailureKind::Http, not_http(error, log, peer));
        }
        let cut = error.is_incomplete_message()
            || error.is_canceled()
            || error.is_closed()
            || (log.ended().is_some() && error.is_body_write_aborted());
        if cut || log.ended().is_some() {
            return Self::new(
                stage,
                FailureKind::Closed,
                format!("{peer} closed the connection before the answer was complete"),
            );
        }
        Self::new(
            stage,
            FailureKind::Http,
            format!("{peer}: {}", chain(error)),
        )
    }

    pub(crate) fn into_outcome(self) -> Outcome {
        Outcome::Failed {
            stage: self.stage,
            failure: self.kind,
            message: self.message,
        }
    }
}

fn not_http(error: &hyper::Error, log: &ReadLog, peer: &str) -> String {
    match log.opening() {
        // A TLS alert or handshake record.
        Some([0x15 | 0x16, 0x03, ..]) => {
            format!("{peer} answers in TLS; is the URL meant to be https://?")
        }
        Some([0, 0, _, 4, ..]) => {
            format!("{peer} answers in HTTP/2 although HTTP/1.1 was spoken")
        }
        Some(opening) => format!(
            "{peer} does not answer in HTTP ({}); its first bytes: {:?}",
            chain(error),
            String::from_utf8_lossy(&opening)
        ),
        None => format!("{peer} does not answer in HTTP: {}", chain(error)),
    }
}

fn kind_of(error: &io::Error) -> FailureKind {
    use rustix::io::Errno;
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE | Errno::NFILE | Errno::ADDRNOTAVAIL | Errno::NOBUFS | Errno::NOMEM) => {
            return FailureKind::ClientResources;
        }
        Some(Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::HOSTDOWN) => {
            return FailureKind::Unreachable;
        }
        _ => {}
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => FailureKind::Refused,
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => FailureKind::Reset,
        io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => FailureKind::Closed,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            FailureKind::Unreachable
        }
        // The kernel gave up on the peer: retransmissions or a connect without an answer.
        io::ErrorKind::TimedOut => FailureKind::Unreachable,
        _ => FailureKind::Other,
    }
}

fn advice(error: &io::Error) -> &'static str {
    use rustix::io::Errno;
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => "; raise the limit on open files (ulimit -n)",
        Some(Errno::ADDRNOTAVAIL) => {
            "; all local ports are taken: reuse connections, or widen net.ipv4.ip_local_port_range"
        }
        _ => "",
    }
}

/// The system's words without `(os error N)`.
fn short(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// An error and its causes on one line.
pub(crate) fn chain(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// What is wrong with a certificate; of what people run into with one they made themselves, in words.
fn plainly(problem: &rustls::CertificateError) -> String {
    let name = format!("{problem:?}");
    if name.contains("CaUsedAsEndEntity") {
        "it is an authority's own, CA:TRUE, which no server may show".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
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
}
