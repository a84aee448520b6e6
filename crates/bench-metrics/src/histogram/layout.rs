//! Where a value falls: exact below 2^p, then 2^p equal buckets per power of two.

use crate::MetricsError;

/// The precision of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    bits: u32,
}

impl Default for Layout {
    /// 8 bits: relative error at most 1/512 (0.2 %), 117 KB for the full range.
    fn default() -> Self {
        Self { bits: 8 }
    }
}

impl Layout {
    /// With 2^bits buckets per power of two; `bits` is kept within 2…14.
    pub fn with_bits(bits: u32) -> Self {
        Self {
            bits: bits.clamp(2, 14),
        }
    }

    /// Precision bits.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// The largest distance of a value from its bucket's middle, over the value: 2^−(bits+1).
    pub fn relative_error(self) -> f64 {
        (-f64::from(self.bits + 1)).exp2()
    }

    /// Buckets that cover all of u64.
    pub fn buckets(self) -> usize {
        self.bucket(u64::MAX) + 1
    }

    pub(crate) fn bucket(self, value: u64) -> usize {
        let top = (value | 1).ilog2();
        let shift = top.saturating_sub(self.bits);
        let index = (u64::from(shift) << self.bits) + (value >> shift);
        usize::try_from(index).unwrap_or(usize::MAX)
    }

    /// The smallest value of a bucket.
    pub(crate) fn lower(self, bucket: usize) -> u64 {
        let bucket = bucket as u64;
        let shift = (bucket >> self.bits).saturating_sub(1);
        (bucket - (shift << self.bits)) << shift
    }

    /// The largest value of a bucket.
    pub(crate) fn upper(self, bucket: usize) -> u64 {
        let shift = (bucket as u64 >> self.bits).saturating_sub(1);
        self.lower(bucket) + ((1_u64 << shift) - 1)
    }

    pub(crate) fn middle(self, bucket: usize) -> f64 {
        f64::midpoint(self.lower(bucket) as f64, self.upper(bucket) as f64)
    }

    pub(crate) fn same_as(self, other: Self) -> Result<(), MetricsError> {
        if self == other {
            return Ok(());
        }
        Err(MetricsError::DifferentPrecision {
            left: self.bits,
            right: other.bits,
        })
    }
}

#[cfg(test)]
#[path = "../../tests/unit/histogram_layout.rs"]
mod tests;
