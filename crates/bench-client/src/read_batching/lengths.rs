//! Lengths of time, counted by size: enough to know a quantile to a quarter.

use std::cell::Cell;

use bench_schema::Nanos;

/// Four classes to each power of two.
const CLASSES: usize = 4 * 64;

/// How many lengths there were of each class.
pub(super) struct Lengths {
    n: Cell<u64>,
    classes: Box<[Cell<u32>; CLASSES]>,
}

impl Default for Lengths {
    fn default() -> Self {
        Self {
            n: Cell::new(0),
            classes: Box::new(std::array::from_fn(|_| Cell::new(0))),
        }
    }
}

impl std::fmt::Debug for Lengths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lengths")
            .field("n", &self.n())
            .finish_non_exhaustive()
    }
}

impl Lengths {
    pub(super) fn n(&self) -> u64 {
        self.n.get()
    }

    /// Negative lengths count as none.
    pub(super) fn count(&self, length: Nanos) {
        if let Some(class) = self.classes.get(class_of(length)) {
            class.set(class.get().saturating_add(1));
        }
        self.n.set(self.n.get() + 1);
    }

    /// The quantile `q`, or up to a quarter less, zero where nothing was counted; begins anew.
    pub(super) fn take_quantile(&self, q: f64) -> Nanos {
        let rank = q * self.n.take() as f64;
        let mut below = 0_u64;
        let mut found = None;
        for (i, class) in self.classes.iter().enumerate() {
            below += u64::from(class.take());
            if found.is_none() && below as f64 > rank {
                found = Some(i);
            }
        }
        Nanos::new(found.map_or(0, shortest_of))
    }
}

/// The class of a length: its power of two, and the two bits below it.
fn class_of(length: Nanos) -> usize {
    let length = u64::try_from(length.get()).unwrap_or(0).max(4);
    let octave = length.ilog2();
    let quarter = (length >> (octave - 2)) & 3;
    usize::try_from(u64::from(octave) * 4 + quarter).unwrap_or(0)
}

/// The shortest length of a class.
fn shortest_of(class: usize) -> i64 {
    let (Ok(octave), Ok(quarter)) = (u32::try_from(class / 4), i64::try_from(class % 4)) else {
        return 0;
    };
    if octave <= 2 && quarter == 0 {
        return 0; // what is shorter than four is counted there
    }
    (4 + quarter)
        .checked_shl(octave.saturating_sub(2).min(60))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_length_is_at_most_a_quarter_above_the_shortest_of_its_class(length in 5_i64..i64::MAX) {
            let shortest = shortest_of(class_of(Nanos::new(length)));
            proptest::prop_assert!(shortest <= length && length - shortest <= length / 4 + 1);
        }
    }

    #[test]
    fn a_quantile_is_taken_once() {
        let lengths = Lengths::default();
        (1..=1000).for_each(|i| lengths.count(Nanos::from_micros(i)));
        lengths.count(Nanos::new(-5));
        assert_eq!(lengths.n(), 1001);
        let p99 = lengths.take_quantile(0.99);
        assert!(
            (Nanos::from_micros(790)..=Nanos::from_micros(990)).contains(&p99),
            "{p99}"
        );
        assert_eq!((lengths.n(), lengths.take_quantile(0.5)), (0, Nanos::ZERO));
    }
}
