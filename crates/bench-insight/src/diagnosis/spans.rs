//! Spans of time: how many hold an instant, and what they cover together.

/// How many of some spans hold an instant.
#[derive(Clone, Debug)]
pub(super) struct UnderWay {
    begins: Vec<f64>,
    ends: Vec<f64>,
    /// Of those before each.
    sums: [Vec<f64>; 2],
}

impl UnderWay {
    pub(super) fn of(spans: impl Iterator<Item = (f64, f64)>) -> Self {
        let (mut begins, mut ends): (Vec<f64>, Vec<f64>) = spans.unzip();
        begins.sort_by(f64::total_cmp);
        ends.sort_by(f64::total_cmp);
        let sums = [&begins, &ends].map(|times| {
            let mut sum = 0.0;
            let until = times.iter().map(|time| {
                sum += time;
                sum
            });
            std::iter::once(0.0).chain(until).collect()
        });
        Self { begins, ends, sums }
    }

    pub(super) fn at(&self, at: f64) -> usize {
        let before = |times: &[f64]| times.partition_point(|time| *time <= at);
        before(&self.begins).saturating_sub(before(&self.ends))
    }

    /// How many on average over a stretch.
    pub(super) fn mean(&self, from: f64, to: f64) -> f64 {
        let since = |times: &[f64], sums: &[f64], at: f64| {
            let n = times.partition_point(|time| *time <= at);
            n as f64 * at - sums[n]
        };
        let [begun, ended] = &self.sums;
        let until = |at: f64| since(&self.begins, begun, at) - since(&self.ends, ended, at);
        (until(to) - until(from)) / (to - from)
    }

    /// How many on average over eight instants of a stretch that one of them holds.
    pub(super) fn during(&self, from: f64, to: f64) -> f64 {
        const INSTANTS: u32 = 8;
        let at = |i: u32| from + (to - from) * (f64::from(i) + 0.5) / f64::from(INSTANTS);
        let sum: usize = (0..INSTANTS).map(|i| self.at(at(i)).max(1)).sum();
        sum as f64 / f64::from(INSTANTS)
    }
}

/// The union of spans of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cover {
    /// Apart from each other and in order: from, to, and the length of all before.
    pieces: Vec<(f64, f64, f64)>,
}

impl Cover {
    pub(super) fn of(spans: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut sorted: Vec<(f64, f64)> = spans.into_iter().collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut pieces: Vec<(f64, f64, f64)> = Vec::new();
        for (from, to) in sorted {
            match pieces.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                last => {
                    let before = last.map_or(0.0, |l| l.2 + l.1 - l.0);
                    pieces.push((from, to.max(from), before));
                }
            }
        }
        Self { pieces }
    }

    /// Its length up to an instant.
    fn until(&self, at: f64) -> f64 {
        let begun = self.pieces.partition_point(|piece| piece.0 <= at);
        let last = begun.checked_sub(1).and_then(|i| self.pieces.get(i));
        last.map_or(0.0, |(from, to, before)| before + at.min(*to) - from)
    }

    /// Its length within a stretch of time.
    pub(crate) fn within(&self, from: f64, to: f64) -> f64 {
        (self.until(to) - self.until(from)).max(0.0)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/diagnosis_spans.rs"]
mod tests;
