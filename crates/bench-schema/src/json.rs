//! How results are written: a line for each thing that one looks for, and no digits that mean nothing.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Lists and objects are broken into lines down to this depth: a metric or a series of a cell is one line.
const LINES: usize = 4;
/// From here on a number is rounded to a whole one.
const WHOLE: f64 = 1e7;

/// A value as it stands in `run.json`: fractions have seven figures, which is more than anything measured has, and whole numbers no fraction.
///
/// # Errors
/// Where the value is no JSON (a map whose keys are no texts).
pub fn to_json(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(
        &mut bytes,
        Lines::default(),
    ))?;
    bytes.push(b'\n');
    String::from_utf8(bytes).map_err(serde::ser::Error::custom)
}

#[derive(Default)]
struct Lines {
    depth: usize,
    filled: bool,
}

impl Lines {
    fn begin(&mut self, out: &mut (impl Write + ?Sized), bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        out.write_all(bracket)
    }

    fn end(&mut self, out: &mut (impl Write + ?Sized), bracket: &[u8]) -> io::Result<()> {
        self.depth = self.depth.saturating_sub(1);
        if self.filled && self.depth < LINES {
            self.line(out)?;
        }
        self.filled = true;
        out.write_all(bracket)
    }

    fn item(&mut self, out: &mut (impl Write + ?Sized), first: bool) -> io::Result<()> {
        self.filled = true;
        if !first {
            out.write_all(b",")?;
        }
        if self.depth <= LINES {
            self.line(out)?;
        }
        Ok(())
    }

    fn line(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        out.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| out.write_all(b" "))
    }
}

impl Formatter for Lines {
    fn begin_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"[")
    }

    fn end_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"]")
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.item(out, first)
    }

    fn begin_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"{")
    }

    fn end_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"}")
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.item(out, first)
    }

    fn write_f64<W: Write + ?Sized>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        // the shortest text of the nearest number with seven figures
        let rounded = format!("{value:.6e}").parse().unwrap_or(value);
        if value.abs() >= WHOLE || rounded.fract().abs() < f64::MIN_POSITIVE {
            write!(out, "{value:.0}")
        } else {
            write!(out, "{rounded:?}")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_written_is_read_again_to_seven_figures_and_a_metric_is_one_line() {
        let metric = json!({"n": 3, "mean": 18_412_239.686_938_904, "cov": 0.222_745_857_360_392_7, "q": [0.5, 0.9]});
        let run = json!({
            "seed": u64::MAX, "none": {}, "empty": [], "text": "a,b\n", "small": 1.5e-12, "zero": 0.0, "large": 3_600_000_000_123.0,
            "cells": [{"id": "c8", "metrics": {"ttft": metric, "e2e": metric}}],
        });
        let text = to_json(&run).unwrap();
        let again: Value = serde_json::from_str(&text).unwrap();
        let read = &again["cells"][0]["metrics"]["ttft"];
        assert_eq!(read["mean"], json!(18_412_240));
        assert_eq!(read["cov"], json!(0.222_745_9));
        assert_eq!(again["zero"], json!(0));
        assert_eq!(again["large"], json!(3_600_000_000_123_i64));
        for key in ["seed", "none", "empty", "text", "small"] {
            assert_eq!(again[key], run[key], "{key}");
        }
        let lines: Vec<&str> = text.lines().collect();
        let metric = lines.iter().find(|line| line.contains("ttft")).unwrap();
        assert!(
            metric.starts_with("    \"ttft\":{") && metric.contains("\"q\":[0.5,0.9]"),
            "{text}"
        );
        assert!(
            lines.contains(&" \"none\":{},") && text.ends_with("\n}\n"),
            "{text}"
        );
        // and what was read is written in the same way
        assert_eq!(to_json(&again).unwrap(), text);
    }
}
