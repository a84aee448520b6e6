//! One number for what was asked, whoever asked which part of it.

use std::fmt;
use std::ops::AddAssign;
use std::str::FromStr;

use crate::SchemaError;

/// The sum, modulo 2^256, of the SHA-256 digests of planned requests.
///
/// A sum does not depend on the order in which requests were taken up, and the sum of the hashes of a plan's shards is the hash of the
/// whole plan. Nothing planned is 0. Written as 64 hexadecimal digits, the most significant first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlanHash {
    /// Least significant first.
    limbs: [u64; 4],
}

impl PlanHash {
    /// From the 32 bytes of a digest, read as a number, most significant first.
    pub fn of_digest(digest: [u8; 32]) -> Self {
        let mut limbs = [0; 4];
        let (chunks, _) = digest.as_chunks::<8>();
        for (limb, chunk) in limbs.iter_mut().rev().zip(chunks) {
            *limb = u64::from_be_bytes(*chunk);
        }
        Self { limbs }
    }
}

impl AddAssign for PlanHash {
    fn add_assign(&mut self, other: Self) {
        let mut carry = false;
        for (limb, more) in self.limbs.iter_mut().zip(other.limbs) {
            let (sum, over) = limb.overflowing_add(more);
            let (sum, over_again) = sum.overflowing_add(u64::from(carry));
            *limb = sum;
            carry = over || over_again;
        }
    }
}

impl fmt::Display for PlanHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut limbs = self.limbs.iter().rev();
        limbs.try_for_each(|limb| write!(f, "{limb:016x}"))
    }
}

impl FromStr for PlanHash {
    type Err = SchemaError;

    fn from_str(text: &str) -> Result<Self, SchemaError> {
        let wrong = || SchemaError::PlanHash(text.to_owned());
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut limbs = [0; 4];
        for (index, limb) in limbs.iter_mut().rev().enumerate() {
            let digits = text.get(16 * index..16 * index + 16).ok_or_else(wrong)?;
            *limb = u64::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Self { limbs })
    }
}
