//! Where the body of an HTTP/1.1 answer ends (RFC 9112, section 6).

use std::ops::Range;

use hyper::Version;
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderName, TRANSFER_ENCODING};
use hyper::http::response::Parts;

/// What is still to come of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// So many bytes.
    Length(u64),
    Chunks(Chunks),
    /// Whatever comes until the connection ends.
    Rest,
}

/// What the bytes at hand begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Bytes of the body, at this place.
    Piece(Range<usize>),
    End,
    /// Nothing of the body, nor its end.
    Nothing,
}

/// A place in a chunked body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chunks {
    at: ChunkState,
    /// The size of the chunk as far as it is known; within its data, the bytes left.
    left: u64,
    has_digits: bool,
    /// Bytes of extensions and trailers so far, which mean nothing here.
    ignored: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChunkState {
    #[default]
    Size,
    /// After a size.
    Blank,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// The beginning of a line after the last chunk.
    Trailer,
    TrailerName,
    TrailerValue,
    EndLf,
}

/// Bytes of extensions and trailers that a body may have.
const MOST_IGNORED: usize = 16 << 10;

/// The values of a header that is a list, over all its lines.
pub(super) fn listed(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(name).into_iter();
    // What is no text is none of the words that anybody looks for.
    let lines = lines.map(|line| line.to_str().unwrap_or("?"));
    lines.flat_map(|line| line.split(',').map(str::trim))
}

impl Body {
    /// The body that follows this head, in answer to `GET` or `POST`.
    pub(super) fn after(head: &Parts) -> Result<Self, String> {
        if matches!(head.status.as_u16(), 101 | 204 | 304) {
            return Ok(Self::Length(0));
        }
        if let Some(coding) = listed(&head.headers, TRANSFER_ENCODING).last() {
            return match head.version {
                Version::HTTP_10 => Err("transfer-encoding in HTTP/1.0".to_owned()),
                _ if coding.eq_ignore_ascii_case("chunked") => Ok(Self::Chunks(Chunks::default())),
                _ => Ok(Self::Rest),
            };
        }
        let mut known = None;
        for text in listed(&head.headers, CONTENT_LENGTH) {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            let length = text.parse::<u64>().ok().filter(|_| digits);
            if length.is_none() || known.is_some_and(|known| Some(known) != length) {
                return Err(format!("a content-length of `{text}`"));
            }
            known = length;
        }
        Ok(known.map_or(Self::Rest, Self::Length))
    }

    /// What `bytes`, which come next, begin with, and how many of them that takes.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Result<(usize, Part), String> {
        match self {
            Self::Length(0) => Ok((0, Part::End)),
            Self::Length(left) => Ok(piece(left, bytes, 0)),
            Self::Rest => {
                let mut endless = u64::MAX;
                Ok(piece(&mut endless, bytes, 0))
            }
            Self::Chunks(chunks) => chunks.next(bytes),
        }
    }
}

/// As much as there is of `left` bytes from `at` on.
fn piece(left: &mut u64, bytes: &[u8], at: usize) -> (usize, Part) {
    let most = usize::try_from(*left).unwrap_or(usize::MAX);
    let len = most.min(bytes.len() - at);
    *left -= len as u64;
    let part = if len == 0 {
        Part::Nothing
    } else {
        Part::Piece(at..at + len)
    };
    (at + len, part)
}

impl Chunks {
    fn next(&mut self, bytes: &[u8]) -> Result<(usize, Part), String> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.at == ChunkState::Data {
                let found = piece(&mut self.left, bytes, at);
                if self.left == 0 {
                    self.at = ChunkState::DataCr;
                }
                return Ok(found);
            }
            at += 1;
            let place = self.after(byte);
            self.at = place.ok_or("invalid chunk")?;
            if self.at == ChunkState::Data && self.left == 0 {
                self.at = ChunkState::Trailer;
            } else if self.at == ChunkState::EndLf && byte == b'\n' {
                return Ok((at, Part::End));
            }
        }
        Ok((at, Part::Nothing))
    }

    /// The place after one byte that is no data; `None` where it is out of place.
    fn after(&mut self, byte: u8) -> Option<ChunkState> {
        if let ChunkState::Extension | ChunkState::TrailerName | ChunkState::TrailerValue = self.at
        {
            self.ignored += 1;
            if self.ignored > MOST_IGNORED {
                return None;
            }
        }
        Some(match (self.at, byte) {
            (ChunkState::Size | ChunkState::Blank | ChunkState::Extension, b'\r')
                if self.has_digits =>
            {
                ChunkState::SizeLf
            }
            (ChunkState::Size | ChunkState::Blank, b' ' | b'\t') if self.has_digits => {
                ChunkState::Blank
            }
            (ChunkState::Size | ChunkState::Blank, b';') if self.has_digits => {
                ChunkState::Extension
            }
            (ChunkState::Size, _) => {
                let digit = char::from(byte).to_digit(16)?;
                self.left = self.left.checked_mul(16)?.checked_add(digit.into())?;
                self.has_digits = true;
                ChunkState::Size
            }
            (ChunkState::Extension, byte) if byte != b'\n' => ChunkState::Extension,
            (ChunkState::SizeLf, b'\n') => {
                self.has_digits = false;
                ChunkState::Data
            }
            (ChunkState::DataCr, b'\r') => ChunkState::DataLf,
            (ChunkState::DataLf, b'\n') => ChunkState::Size,
            (ChunkState::Trailer, b'\r') | (ChunkState::EndLf, b'\n') => ChunkState::EndLf,
            (ChunkState::Trailer | ChunkState::TrailerName, _) if is_of_a_name(byte) => {
                ChunkState::TrailerName
            }
            (ChunkState::TrailerValue, b'\n') => ChunkState::Trailer,
            (ChunkState::TrailerName, b':')
            | (ChunkState::TrailerValue, b'\t' | b'\r' | b' '..) => ChunkState::TrailerValue,
            _ => return None,
        })
    }
}

/// Whether a field's name may have it.
fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
#[path = "../../tests/unit/body.rs"]
mod tests;
