//! JSON values out of a file, one at a time: the elements of one big array, or one value per line.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::{Lines, bytes};
use crate::WorkloadError;
use crate::bounded::{Rows, row_error};

/// Values of a file, whichever way it holds them.
pub(super) enum Values {
    Lines(Lines),
    Array(Elements),
}

impl Values {
    /// Looks at the first byte: `[` begins an array, everything else is lines.
    pub(super) fn open(path: &Path) -> Result<Self, WorkloadError> {
        let mut elements = Elements::open(path)?;
        if elements.skip_to_value()? == Some(b'[') {
            elements.from.consume(1);
            return Ok(Self::Array(elements));
        }
        Ok(Self::Lines(Lines::open(path)?))
    }

    /// The next value; `None` at the end.
    pub(super) fn next_value<T: DeserializeOwned>(&mut self) -> Result<Option<T>, WorkloadError> {
        match self {
            Self::Lines(lines) => {
                let Some(line) = lines.next_line()? else {
                    return Ok(None);
                };
                let value = serde_json::from_str(line);
                value.map(Some).map_err(|cause| lines.bad(short(&cause)))
            }
            Self::Array(elements) => {
                if !elements.next_element()? {
                    return Ok(None);
                }
                let value = serde_json::from_slice(&elements.buffer);
                value.map(Some).map_err(|cause| elements.bad(short(&cause)))
            }
        }
    }

    /// That the value just read is wrong.
    pub(super) fn bad(&self, why: impl Into<String>) -> WorkloadError {
        match self {
            Self::Lines(lines) => lines.bad(why),
            Self::Array(elements) => elements.bad(why),
        }
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Lines(lines) => lines.path(),
            Self::Array(elements) => &elements.path,
        }
    }
}

/// What serde says, without its position: that counts from the start of the value, not of the file.
fn short(cause: &serde_json::Error) -> String {
    let text = cause.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    format!("it is not JSON of the expected shape: {what}")
}

/// The elements of an array, cut out by counting brackets; nothing but the current element is in memory.
pub(super) struct Elements {
    path: PathBuf,
    from: Rows,
    /// Lines begun so far, and the one on which the current element begins.
    line: u64,
    begins: u64,
    buffer: Vec<u8>,
    over: bool,
}

impl Elements {
    fn open(path: &Path) -> Result<Self, WorkloadError> {
        Ok(Self {
            path: path.to_owned(),
            from: bytes(path)?,
            line: 1,
            begins: 1,
            buffer: Vec::new(),
            over: false,
        })
    }

    fn bad(&self, why: impl Into<String>) -> WorkloadError {
        WorkloadError::BadLine {
            path: self.path.clone(),
            line: self.begins,
            why: why.into(),
        }
    }

    /// The next byte, left where it is.
    fn peek(&mut self) -> Result<Option<u8>, WorkloadError> {
        let path = &self.path;
        let bytes = self
            .from
            .fill_buf()
            .map_err(|cause| row_error(path, cause))?;
        Ok(bytes.first().copied())
    }

    fn take(&mut self) -> Result<Option<u8>, WorkloadError> {
        let byte = self.peek()?;
        if byte.is_some() {
            self.from.consume(1);
        }
        self.line += u64::from(byte == Some(b'\n'));
        Ok(byte)
    }

    /// Passes blanks, commas and a byte order mark.
    fn skip_to_value(&mut self) -> Result<Option<u8>, WorkloadError> {
        loop {
            match self.peek()? {
                Some(b' ' | b'\t' | b'\r' | b'\n' | b',' | 0xef | 0xbb | 0xbf) => {
                    self.take()?;
                }
                other => return Ok(other),
            }
        }
    }

    /// Reads one element into the buffer; false at the end of the array.
    fn next_element(&mut self) -> Result<bool, WorkloadError> {
        self.buffer.clear();
        self.from.begin_row();
        if self.over {
            return Ok(false);
        }
        let first = self.skip_to_value()?;
        self.begins = self.line;
        if first == Some(b']') {
            self.over = true;
            return Ok(false);
        }
        let (mut depth, mut in_string, mut escaped) = (0_u32, false, false);
        loop {
            let Some(byte) = self.peek()? else {
                self.over = true;
                return Err(self.bad("the file ends inside this element"));
            };
            if depth == 0 && !in_string && matches!(byte, b',' | b']') {
                return Ok(true); // a bare value: what ends it belongs to the array
            }
            self.take()?;
            self.buffer.push(byte);
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 && !in_string && matches!(byte, b'}' | b']') {
                return Ok(true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn values(text: &str) -> Vec<Result<Value, String>> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.json");
        std::fs::write(&file, text).unwrap();
        let mut values = Values::open(&file).unwrap();
        let mut found = Vec::new();
        while let Some(value) = values
            .next_value::<Value>()
            .map_err(|e| e.to_string())
            .transpose()
        {
            found.push(value);
        }
        found
    }

    #[test]
    fn the_elements_of_an_array_are_cut_where_they_end() {
        let text = "\u{feff}[ {\"a\": \"]},{\\\"\"} ,\n[1, [2]], 3,\n \"x,y\" ]\n";
        let found: Vec<Value> = values(text).into_iter().map(Result::unwrap).collect();
        assert_eq!(
            found,
            [
                json!({"a": "]},{\""}),
                json!([1, [2]]),
                json!(3),
                json!("x,y")
            ]
        );
    }

    #[test]
    fn a_bad_element_is_named_by_its_line_and_the_next_ones_are_read() {
        let found = values("[{\"a\": 1},\n{\"a\" 2},\n{\"a\": 3}]");
        assert!(
            found[1].as_ref().unwrap_err().contains("x.json:2"),
            "{found:?}"
        );
        assert_eq!(found[2], Ok(json!({"a": 3})));
    }

    #[test]
    fn an_array_that_is_cut_off_is_an_error_after_its_whole_elements() {
        let found = values("[{\"a\": 1},\n{\"a\": ");
        assert_eq!(found.len(), 2);
        assert!(found[1].as_ref().unwrap_err().contains("ends inside"));
    }
}
