//! Answers that are none: error statuses, redirects, pages of another kind.

use bench_schema::{Nanos, Stamp};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, LOCATION, RETRY_AFTER};
use hyper::http::response::Parts;

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
        let shown: String = page.trim().chars().take(PAGE_CHARS).collect();
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
            "HTTP {status}, to {}; redirects are not followed, give the URL itself",
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
            "the body is compressed ({coding}), which was not asked for"
        ));
    }
    let media = text(CONTENT_TYPE)?.trim();
    media
        .get(..9)
        .is_some_and(|kind| kind.eq_ignore_ascii_case("text/html"))
        .then(|| {
            format!("an HTML page came instead of an answer ({media}); is this the API's URL?")
        })
}
