//! What went wrong on the wire, in the schema's words.

use std::io;

use bench_schema::{FailureKind, Nanos, Outcome, Stage, Stamp};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, LOCATION, RETRY_AFTER};
use hyper::http::response::Parts;

use crate::protocol::{CUT, shortened};
use crate::socket::ReadLog;
use crate::transfer::Break;

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
            FailureKind::Refused => format!("nothing is listening at {peer} (connection refused)"),
            FailureKind::Reset => format!("{peer} reset the connection"),
            FailureKind::Closed => format!("{peer} closed the connection"),
            FailureKind::Unreachable => format!("{peer} is unreachable: {}", short(error)),
            FailureKind::ClientResources => format!(
                "this machine lacks resources for a connection to {peer}: {}{}",
                short(error),
                advice(error)
            ),
            _ => format!("{peer}: {}", short(error)),
        };
        Self::new(stage, kind, message)
    }

    pub(crate) fn tls(error: &io::Error, peer: &str) -> Self {
        let rustls = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let why = match rustls {
            Some(rustls::Error::InvalidMessage(_)) => {
                format!("{peer} does not use TLS on this port; should the URL be http://?")
            }
            Some(rustls::Error::InvalidCertificate(problem)) => format!(
                "the certificate of {peer} is not accepted ({}); set another authority with --ca, or accept any certificate with --insecure",
                plainly(problem)
            ),
            Some(other) => format!("{peer}: {other}"),
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                format!("{peer} closed the connection during the TLS handshake")
            }
            None => return Self::io(Stage::Tls, error, peer),
        };
        Self::new(Stage::Tls, FailureKind::Tls, why)
    }

    /// What broke an exchange whose socket kept `log`.
    pub(crate) fn broken(stage: Stage, broken: Break, log: &ReadLog, peer: &str) -> Self {
        if let Some(io) = log.fault() {
            return match io.kind() {
                io::ErrorKind::InvalidData => {
                    Self::new(stage, FailureKind::Tls, format!("{peer}: {}", short(&io)))
                }
                _ => Self::io(stage, &io, peer),
            };
        }
        let (kind, why) = match broken {
            Break::Closed => {
                let why = "closed the connection before the response was complete";
                (FailureKind::Closed, format!("{peer} {why}"))
            }
            Break::NotTaken => {
                let why = "closed the connection before it took the request up (GOAWAY)";
                (FailureKind::Closed, format!("{peer} {why}"))
            }
            Break::TooLarge => {
                let why = format!(
                    "the response head of {peer} is too large (more than 100 headers, or more bytes than the client reads), or its content-length is"
                );
                (FailureKind::TooLarge, why)
            }
            Break::NotHttp(why) => (FailureKind::Http, not_http(&why, log, peer)),
            Break::Rules(why) => (FailureKind::Http, format!("{peer}: {why}")),
        };
        Self::new(stage, kind, why)
    }

    pub(crate) fn into_outcome(self) -> Outcome {
        Outcome::Failed {
            stage: self.stage,
            failure: self.kind,
            message: self.message,
        }
    }
}

fn not_http(why: &str, log: &ReadLog, peer: &str) -> String {
    match log.opening() {
        // A TLS alert or handshake record.
        Some([0x15 | 0x16, 0x03, ..]) => {
            format!("{peer} responds with TLS; should the URL be https://?")
        }
        Some([0, 0, _, 4, ..]) => {
            format!("{peer} responds in HTTP/2 to an HTTP/1.1 request")
        }
        Some(opening) => format!(
            "{peer} does not respond in HTTP ({why}); its first bytes: {:?}",
            String::from_utf8_lossy(&opening)
        ),
        None => format!("{peer} does not respond in HTTP: {why}"),
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
            "; all local ports are in use: reuse connections, or widen net.ipv4.ip_local_port_range"
        }
        _ => "",
    }
}

/// The system's words without `(os error N)`.
fn short(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// What is wrong with a certificate; of what people run into with one they made themselves, in words.
fn plainly(problem: &rustls::CertificateError) -> String {
    let name = format!("{problem:?}");
    if name.contains("CaUsedAsEndEntity") {
        "it is a CA certificate (CA:TRUE), which servers must not use".to_owned()
    } else {
        name
    }
}

// Answers that are none: error statuses, redirects, pages of another kind.

/// Bytes of an error page that are read so that its connection can be used again, and how long that may take.
const MOST_BYTES: usize = 64 << 10;
const MOST_TIME: Nanos = Nanos::from_secs(1);

/// Bytes of an error page that are kept for its message, and characters that are shown.
const PAGE_BYTES: usize = 1200;
const PAGE_CHARS: usize = 300;

/// An answer that is none: its status, and the beginning of its body.
#[derive(Debug)]
pub(crate) struct ErrorBody {
    message: String,
    page: Vec<u8>,
    bytes: usize,
    /// When the rest of the page is no longer waited for.
    pub(crate) give_up: Stamp,
}

impl ErrorBody {
    pub(crate) fn new(head: &Parts, now: Stamp) -> Self {
        Self {
            message: status_message(head),
            page: Vec::new(),
            bytes: 0,
            give_up: now + MOST_TIME,
        }
    }

    /// The next bytes of the page, of which only the beginning is kept. Whether it is still worth reading on.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        let room = PAGE_BYTES.saturating_sub(self.page.len());
        self.page.extend(bytes.iter().take(room));
        self.bytes = self.bytes.saturating_add(bytes.len());
        self.bytes <= MOST_BYTES
    }

    pub(crate) fn into_message(self) -> String {
        let page = String::from_utf8_lossy(&self.page);
        let mut shown = shortened(page.trim(), PAGE_CHARS);
        if self.bytes > self.page.len() && !shown.ends_with(CUT) {
            shown.push_str(CUT);
        }
        if shown.is_empty() {
            self.message
        } else {
            format!("{}: {shown}", self.message)
        }
    }
}

fn status_message(head: &Parts) -> String {
    let status = head.status;
    match head.headers.get(LOCATION) {
        Some(to) if status.is_redirection() => format!(
            "HTTP {status}, to {}; redirects are not followed, use the final URL",
            String::from_utf8_lossy(to.as_bytes())
        ),
        _ => format!("HTTP {status}"),
    }
}

/// How long the server asks to wait, in whole seconds; a date is not understood, for the two clocks need not agree.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Nanos> {
    let seconds: u32 = headers
        .get(RETRY_AFTER)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()?;
    Some(Nanos::from_secs(i64::from(seconds)))
}

/// Why a successful response cannot be an answer of any protocol.
pub(crate) fn unusable_content(headers: &HeaderMap) -> Option<String> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(coding) = text(CONTENT_ENCODING)
        && !coding.eq_ignore_ascii_case("identity")
    {
        return Some(format!(
            "the body is compressed ({coding}), which was not requested"
        ));
    }
    let media = text(CONTENT_TYPE)?.trim();
    media
        .get(..9)
        .is_some_and(|kind| kind.eq_ignore_ascii_case("text/html"))
        .then(|| {
            format!("the server returned an HTML page instead of an API response ({media}); check the URL")
        })
}

#[cfg(test)]
#[path = "../tests/unit/fault.rs"]
mod tests;
