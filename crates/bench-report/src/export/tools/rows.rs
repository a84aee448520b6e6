//! The requests of a cell in the spill: a row of fixed length for each, before its gaps and texts.

use std::io::{self, Read, Seek, SeekFrom};

use bench_schema::{Nanos, Stamp};
use serde_json::Value;

use super::Figures;

/// One request, without its gaps and texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Where both tools' latencies begin.
    pub(super) start: Stamp,
    pub(super) due: Stamp,
    pub(super) completed: bool,
    /// First and last content event of a whole answer.
    pub(super) events: Option<(Stamp, Stamp)>,
    pub(super) input: u64,
    /// The server's count, else that of the content events.
    pub(super) output: u64,
    /// Where its gaps, its text and its error begin in the spill, one after another, and how long they are.
    pub(super) place: u64,
    pub(super) gaps: u64,
    pub(super) text: u64,
    pub(super) error: u64,
}

/// The rows of a cell, one after another in the spill, in the order of sending.
pub(super) struct Rows<'s, S> {
    pub(super) spill: &'s mut S,
    pub(super) from: u64,
    pub(super) n: usize,
}

/// Rows that are in memory at once.
pub(super) const BATCH: usize = 1024;

impl<S: Read + Seek> Rows<'_, S> {
    /// Hands each row over, with the spill that its gaps and texts are in.
    pub(super) fn each(
        &mut self,
        mut take: impl FnMut(&mut S, &Row) -> io::Result<()>,
    ) -> io::Result<()> {
        for at in (0..self.n).step_by(BATCH) {
            let place = self.from + (at * Row::SIZE) as u64;
            let length = (BATCH.min(self.n - at) * Row::SIZE) as u64;
            let kept = fetch(self.spill, place, length)?;
            for row in kept.as_chunks().0 {
                take(self.spill, &Row::of_bytes(row))?;
            }
        }
        Ok(())
    }

    /// The figures of a value of the completed requests.
    pub(super) fn figures(&mut self, of: impl Fn(&Row) -> Option<f64>) -> io::Result<Figures> {
        let mut figures = Figures::default();
        self.each(|_, row| {
            if let Some(value) = of(row).filter(|_| row.completed) {
                figures.push(value);
            }
            Ok(())
        })?;
        Ok(figures)
    }
}

impl Row {
    /// Bytes of a row in the spill.
    pub(super) const SIZE: usize = 11 * size_of::<u64>();

    pub(super) fn to_bytes(self) -> [u8; Self::SIZE] {
        let ns = |at: Stamp| at.get().cast_unsigned();
        let (first, last) = self.events.unwrap_or_default();
        let words = [
            ns(self.start),
            ns(self.due),
            u64::from(self.completed) + u64::from(self.events.is_some()),
            ns(first),
            ns(last),
            self.input,
            self.output,
            self.place,
            self.gaps,
            self.text,
            self.error,
        ];
        let mut bytes = [0; Self::SIZE];
        for (word, own) in words.iter().zip(bytes.as_chunks_mut().0) {
            *own = word.to_le_bytes();
        }
        bytes
    }

    fn of_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let mut words = bytes.as_chunks().0.iter().copied().map(u64::from_le_bytes);
        let mut next = || words.next().unwrap_or_default();
        let at = |word: u64| Stamp::new(word.cast_signed());
        let (start, due, known) = (at(next()), at(next()), next());
        let events = (at(next()), at(next()));
        Self {
            start,
            due,
            completed: known > 0,
            events: Some(events).filter(|_| known > 1),
            input: next(),
            output: next(),
            place: next(),
            gaps: next(),
            text: next(),
            error: next(),
        }
    }

    /// Start to first content event, seconds.
    pub(super) fn ttft(&self) -> Option<f64> {
        self.events
            .map(|(first, _)| (first - self.start).as_secs_f64())
    }

    /// Start to last content event, seconds.
    pub(super) fn latency(&self) -> Option<f64> {
        self.events
            .map(|(_, last)| (last - self.start).as_secs_f64())
    }

    /// Decode time over the tokens after the first, of answers of two tokens and more.
    pub(super) fn per_token(&self) -> Option<f64> {
        let decode = self.latency().unwrap_or(0.0) - self.ttft().unwrap_or(0.0);
        (self.output > 1).then(|| decode / (self.output - 1) as f64)
    }

    /// Its gaps in seconds.
    pub(super) fn gaps(&self, spill: &mut (impl Read + Seek)) -> io::Result<Vec<f64>> {
        let kept = fetch(spill, self.place, self.gaps * GAP)?;
        let gaps = kept.as_chunks().0.iter().copied().map(i64::from_le_bytes);
        Ok(gaps.map(|gap| Nanos::new(gap).as_secs_f64()).collect())
    }

    pub(super) fn text(&self, spill: &mut (impl Read + Seek)) -> io::Result<Value> {
        self.words(spill, 0, self.text)
    }

    pub(super) fn error(&self, spill: &mut (impl Read + Seek)) -> io::Result<Value> {
        self.words(spill, self.text, self.error)
    }

    fn words(&self, spill: &mut (impl Read + Seek), from: u64, length: u64) -> io::Result<Value> {
        let kept = fetch(spill, self.place + self.gaps * GAP + from, length)?;
        Ok(String::from_utf8_lossy(&kept).into_owned().into())
    }
}

/// Bytes of a gap in the spill.
const GAP: u64 = size_of::<i64>() as u64;

/// What was kept at a place of the spill.
pub(super) fn fetch(
    spill: &mut (impl Read + Seek),
    place: u64,
    length: u64,
) -> io::Result<Vec<u8>> {
    let mut kept = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    if length > 0 {
        spill.seek(SeekFrom::Start(place))?;
        spill.read_exact(&mut kept)?;
    }
    Ok(kept)
}
