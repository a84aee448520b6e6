//! Where randomness comes from: one seed, and a stream of its own for each purpose.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

/// The seed of a run. Streams are derived from it by name, so that a draw added in one place moves no other.
///
/// ```
/// use bench_workload::{Draw, Seed};
/// let mut one = Draw::new(Seed::new(7).stream("arrivals", "c8"));
/// let mut two = Draw::new(Seed::new(7).stream("arrivals", "c8"));
/// assert_eq!(one.below(1_000), two.below(1_000));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seed(u64);

/// Draws by documented methods over a `ChaCha8` stream.
///
/// The methods are this crate's own, because those of libraries may change in a minor version, and the transcendental
/// functions are those of the `libm` crate, because a platform's own differ in the last bit: the same seed gives the
/// same plan on every machine.
#[derive(Clone, Debug)]
pub struct Draw {
    rng: ChaCha8Rng,
}

/// A family of independent streams, one for each index: random access to the randomness of a request.
#[derive(Clone, Debug)]
pub struct Streams {
    base: ChaCha8Rng,
}

impl Seed {
    /// From a number.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The stream of one purpose in one cell. Its key is SHA-256 of the seed, the purpose and the cell.
    pub fn stream(self, purpose: &str, cell: &str) -> ChaCha8Rng {
        let mut key = Sha256::new();
        key.update(b"bench-workload 1");
        key.update(self.0.to_le_bytes());
        for part in [purpose, cell] {
            key.update((part.len() as u64).to_le_bytes());
            key.update(part.as_bytes());
        }
        ChaCha8Rng::from_seed(key.finalize().into())
    }

    /// Streams of one purpose in one cell, one for each index.
    pub fn streams(self, purpose: &str, cell: &str) -> Streams {
        Streams {
            base: self.stream(purpose, cell),
        }
    }
}

impl Streams {
    /// The stream of this index.
    pub fn at(&self, index: u64) -> Draw {
        let mut rng = self.base.clone();
        rng.set_stream(index);
        rng.set_word_pos(0);
        Draw { rng }
    }
}

impl Draw {
    /// Over this stream.
    pub fn new(rng: ChaCha8Rng) -> Self {
        Self { rng }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// Uniform in the open interval (0, 1): the middle of one of 2^53 equal parts.
    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / 9_007_199_254_740_992.0
    }

    /// A whole number below `n` by Lemire's multiplication; 0 where `n` is 0. Its bias is below `n` / 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// An index below `n`; 32 random bits, for picking one of few many times. Its bias is below `n` / 2^32.
    pub(crate) fn pick(&mut self, n: usize) -> usize {
        let product = u64::from(self.rng.next_u32()) * (n as u64);
        usize::try_from(product >> 32).unwrap_or(0)
    }

    /// A whole number in `low..=high`; `low` where `high` is below it.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// Exponential with mean 1, by inversion: `−ln u`.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(self.uniform())
    }

    /// Standard normal, by inversion of its distribution function.
    pub fn normal(&mut self) -> f64 {
        crate::normal::quantile(self.uniform())
    }

    /// Gamma with this shape and scale 1, by Marsaglia and Tsang (2000); below shape 1 their boost by `u^(1/shape)`.
    ///
    /// 0 where the shape is not positive.
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape.is_nan() || shape <= 0.0 {
            return 0.0;
        }
        if shape < 1.0 {
            let boost = libm::pow(self.uniform(), 1.0 / shape);
            return self.gamma(shape + 1.0) * boost;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / libm::sqrt(9.0 * d);
        loop {
            let x = self.normal();
            let v = 1.0 + c * x;
            if v <= 0.0 {
                continue;
            }
            let v = v * v * v;
            if libm::log(self.uniform()) < 0.5 * x * x + d - d * v + d * libm::log(v) {
                return d * v;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_other_purposes_cells_and_indices_differ() {
        let seed = Seed::new(1);
        let mut firsts: Vec<u64> = [("a", "x"), ("a", "y"), ("b", "x"), ("ax", "")]
            .into_iter()
            .map(|(purpose, cell)| Draw::new(seed.stream(purpose, cell)).bits())
            .collect();
        firsts.extend((0..4).map(|index| seed.streams("c", "x").at(index).bits()));
        firsts.push(Draw::new(Seed::new(2).stream("a", "x")).bits());
        let distinct: std::collections::BTreeSet<u64> = firsts.iter().copied().collect();
        assert_eq!(distinct.len(), firsts.len());
    }

    #[test]
    fn draws_below_a_number_stay_below_it_and_reach_every_value() {
        let mut draw = Draw::new(Seed::new(3).stream("test", ""));
        let mut seen = [0_u32; 7];
        for _ in 0..7_000 {
            seen[usize::try_from(draw.below(7)).unwrap()] += 1;
        }
        assert!(seen.iter().all(|n| (800..1_200).contains(n)), "{seen:?}");
        assert_eq!(draw.below(0), 0);
        assert_eq!(draw.between(5, 5), 5);
    }
}
