//! Newline-delimited JSON: one document a line.

use super::SseError;

/// Splits bytes, cut anywhere, into lines; blank ones are dropped, a CR before the LF too.
#[derive(Debug)]
pub(crate) struct LineSplitter {
    limit: usize,
    line: Vec<u8>,
}

impl LineSplitter {
    /// A splitter for one stream; `limit` is the longest line in bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
        }
    }

    /// Hands each line that these bytes complete to `sink`, with the offset just past it.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        sink: &mut dyn FnMut(&[u8], usize),
    ) -> Result<(), SseError> {
        let mut from = 0;
        for end in memchr::memchr_iter(b'\n', bytes) {
            let rest = bytes.get(from..end).unwrap_or_default();
            from = end + 1;
            self.check(rest.len())?;
            if self.line.is_empty() {
                give(rest, from, sink);
            } else {
                self.line.extend_from_slice(rest);
                give(&self.line, from, sink);
                self.line.clear();
            }
        }
        let rest = bytes.get(from..).unwrap_or_default();
        self.check(rest.len())?;
        self.line.extend_from_slice(rest);
        Ok(())
    }

    /// What came after the last line end, if anything.
    pub(crate) fn end(&mut self, sink: &mut dyn FnMut(&[u8], usize)) {
        give(&std::mem::take(&mut self.line), 0, sink);
    }

    fn check(&self, more: usize) -> Result<(), SseError> {
        if self.line.len() + more > self.limit {
            return Err(SseError::TooLarge { limit: self.limit });
        }
        Ok(())
    }
}

fn give(line: &[u8], end: usize, sink: &mut dyn FnMut(&[u8], usize)) {
    let line = line.trim_ascii();
    if !line.is_empty() {
        sink(line, end);
    }
}
