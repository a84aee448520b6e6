//! The decoder on the hot path: finds line ends with `memchr`, copies only what a read cut in two.

use super::{SseDecoder, SseError, SseEvent};

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The default decoder. Linear in the bytes fed, whatever the cuts; no copy of an event that lies within one read and has
/// one `data` line.
#[derive(Debug)]
pub struct SseSplitter {
    /// Largest event, and largest line, in bytes.
    limit: usize,
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    /// The `data` lines of the open event, where they could not be borrowed.
    data: Vec<u8>,
    /// Whether the open event has a `data` line in `data` (which may be empty all the same).
    has_data: bool,
    event: String,
    id: String,
    retry: Option<u64>,
    /// The last byte fed was a CR that ended a line: a LF that follows belongs to it.
    after_cr: bool,
    /// Bytes of a byte order mark seen so far; 3 once it can no longer come.
    bom: usize,
}

/// What a line means.
enum Line<'a> {
    Blank,
    Data(&'a [u8]),
    Event(&'a [u8]),
    Id(&'a [u8]),
    Retry(&'a [u8]),
    Ignored,
}

impl SseSplitter {
    /// A decoder for one stream; `limit` is the largest event, and line, in bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            event: String::new(),
            id: String::new(),
            retry: None,
            after_cr: false,
            bom: 0,
        }
    }

    /// The reconnection time that the stream asked for, in milliseconds.
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// Drops a byte order mark at the start of the stream, which may come in pieces; says how many bytes to skip.
    fn skip_bom(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let (Some(expected), Some(byte)) = (BOM.get(self.bom), bytes.get(at)) {
            if byte != expected {
                // It was the beginning of a line after all.
                self.line
                    .extend_from_slice(BOM.get(..self.bom).unwrap_or_default());
                self.bom = BOM.len();
                return 0;
            }
            self.bom += 1;
            at += 1;
        }
        at
    }

    /// One whole line. `held` is the only `data` line of the open event, while it can still be borrowed.
    fn line<'a>(&mut self, line: &'a [u8], held: &mut Option<&'a [u8]>) -> Result<bool, SseError> {
        match classify(line) {
            Line::Blank => return Ok(true),
            Line::Data(value) if !self.has_data && held.is_none() => *held = Some(value),
            Line::Data(value) => {
                self.keep(held.take());
                self.keep(Some(value));
            }
            Line::Event(value) => {
                self.event.clear();
                self.event.push_str(&String::from_utf8_lossy(value));
            }
            Line::Id(value) if !value.contains(&0) => {
                self.id.clear();
                self.id.push_str(&String::from_utf8_lossy(value));
            }
            Line::Retry(value) if value.iter().all(u8::is_ascii_digit) => {
                let text = std::str::from_utf8(value).ok();
                self.retry = text.and_then(|t| t.parse().ok()).or(self.retry);
            }
            Line::Id(_) | Line::Retry(_) | Line::Ignored => {}
        }
        self.check(held.map_or(0, <[u8]>::len))?;
        Ok(false)
    }

    /// Copies a `data` line that cannot stay borrowed.
    fn keep(&mut self, value: Option<&[u8]>) {
        let Some(value) = value else { return };
        if self.has_data {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        self.has_data = true;
    }

    fn check(&self, more: usize) -> Result<(), SseError> {
        if self.line.len() + self.data.len() + more > self.limit {
            return Err(SseError::TooLarge { limit: self.limit });
        }
        Ok(())
    }

    /// The open event is over.
    fn dispatch(&mut self, held: Option<&[u8]>, end: usize, sink: &mut dyn FnMut(SseEvent<'_>)) {
        let kept = self.has_data.then_some(self.data.as_slice());
        if let Some(data) = held.or(kept) {
            sink(SseEvent {
                event: &self.event,
                data,
                id: &self.id,
                end,
                terminated: true,
            });
        }
        self.event.clear();
        self.data.clear();
        self.has_data = false;
    }

    /// A line that began in an earlier read ends with `rest`.
    fn carried_line(&mut self, rest: &[u8]) -> Result<bool, SseError> {
        self.line.extend_from_slice(rest);
        let line = std::mem::take(&mut self.line);
        let mut held = None;
        let blank = self.line(&line, &mut held);
        self.keep(held);
        self.line = line;
        self.line.clear();
        blank
    }
}

impl SseDecoder for SseSplitter {
    fn feed(&mut self, bytes: &[u8], sink: &mut dyn FnMut(SseEvent<'_>)) -> Result<(), SseError> {
        let mut from = self.skip_bom(bytes);
        let mut held = None;
        let mut lf_of_crlf = std::mem::take(&mut self.after_cr).then_some(from);
        if bytes.len() == from {
            self.after_cr = lf_of_crlf.is_some();
            return Ok(());
        }
        for end in memchr::memchr2_iter(b'\n', b'\r', bytes) {
            let is_cr = bytes.get(end) == Some(&b'\r');
            if !is_cr && lf_of_crlf == Some(end) {
                from = end + 1;
                continue;
            }
            lf_of_crlf = is_cr.then_some(end + 1);
            let rest = bytes.get(from..end).unwrap_or_default();
            from = end + 1;
            let blank = if self.line.is_empty() {
                self.line(rest, &mut held)?
            } else {
                self.carried_line(rest)?
            };
            if blank {
                self.dispatch(held.take(), from, sink);
            }
        }
        self.after_cr = lf_of_crlf == Some(bytes.len());
        self.keep(held);
        let rest = bytes.get(from..).unwrap_or_default();
        self.check(rest.len())?;
        self.line.extend_from_slice(rest);
        Ok(())
    }

    fn end(&mut self, sink: &mut dyn FnMut(SseEvent<'_>)) {
        if self.bom < BOM.len() {
            self.line
                .extend_from_slice(BOM.get(..self.bom).unwrap_or_default());
        }
        if !self.line.is_empty() && self.carried_line(&[]).is_err() {
            return;
        }
        if self.has_data {
            let event = SseEvent {
                event: &self.event,
                data: &self.data,
                id: &self.id,
                end: 0,
                terminated: false,
            };
            sink(event);
            self.has_data = false;
        }
    }
}

/// Splits a line into field and value, as the standard's "process the line" does.
fn classify(line: &[u8]) -> Line<'_> {
    if line.is_empty() {
        return Line::Blank;
    }
    let colon = memchr::memchr(b':', line);
    let (name, value) = match colon {
        Some(0) => return Line::Ignored,
        Some(at) => (
            line.get(..at).unwrap_or_default(),
            line.get(at + 1..).unwrap_or_default(),
        ),
        None => (line, [].as_slice()),
    };
    let value = value.strip_prefix(b" ").unwrap_or(value);
    match name {
        b"data" => Line::Data(value),
        b"event" => Line::Event(value),
        b"id" => Line::Id(value),
        b"retry" if !value.is_empty() => Line::Retry(value),
        _ => Line::Ignored,
    }
}
