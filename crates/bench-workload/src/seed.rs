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
    /// The next random bits, where they are not those of the stream: a number that is spread evenly over requests.
    even: Option<u64>,
}

/// A family of streams, one for each index: random access to the randomness of a request.
#[derive(Clone, Debug)]
pub struct Streams {
    base: ChaCha8Rng,
    /// The order of the strata of each hundred, where the first numbers of a hundred are spread evenly.
    order: Option<ChaCha8Rng>,
}

/// Requests whose first numbers are spread evenly: of each so many, each has another of as many equal parts of the whole range. In a sweep each level has a
/// multiple of it, so that all levels have the same distribution of lengths.
pub const STRATA: u64 = 100;

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

    /// Streams of one purpose in one cell, one for each index, independent of each other.
    pub fn streams(self, purpose: &str, cell: &str) -> Streams {
        Streams {
            base: self.stream(purpose, cell),
            order: None,
        }
    }

    /// The same, but the first numbers of each [`STRATA`] streams are spread evenly, in random order.
    pub(crate) fn even_streams(self, purpose: &str, cell: &str) -> Streams {
        Streams {
            order: Some(self.stream(&format!("order of {purpose}"), cell)),
            ..self.streams(purpose, cell)
        }
    }
}

impl Streams {
    /// The stream of this index.
    pub fn at(&self, index: u64) -> Draw {
        let mut draw = Draw::numbered(&self.base, index);
        if let Some(order) = &self.order {
            let within = (u128::from(stratum(order, index)) << 64) | u128::from(draw.bits());
            draw.even = u64::try_from(within / u128::from(STRATA)).ok();
        }
        draw
    }
}

/// Which part of the range is this index's.
fn stratum(order: &ChaCha8Rng, index: u64) -> u64 {
    let mut all: Vec<u64> = (0..STRATA).collect();
    Draw::numbered(order, index / STRATA).shuffle(&mut all);
    let at = usize::try_from(index % STRATA).ok();
    at.and_then(|at| all.get(at).copied()).unwrap_or_default()
}

impl Draw {
    /// Over this stream.
    pub fn new(rng: ChaCha8Rng) -> Self {
        Self { rng, even: None }
    }

    /// Over the stream of this number.
    fn numbered(base: &ChaCha8Rng, number: u64) -> Self {
        let mut rng = base.clone();
        rng.set_stream(number);
        rng.set_word_pos(0);
        Self::new(rng)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.even.take().unwrap_or_else(|| self.rng.next_u64())
    }

    /// Whether the next number is one that is spread evenly over requests.
    pub(crate) fn is_even(&self) -> bool {
        self.even.is_some()
    }

    /// Makes this number, in [0, 1), the next one: what is left of an even one that made a choice.
    pub(crate) fn put_back(&mut self, rest: f64) {
        let parts = bench_schema::whole(rest * 9_007_199_254_740_992.0);
        self.even = Some(parts.min((1 << 53) - 1) << 11);
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

    /// Every order of these is as likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).unwrap_or(last);
            items.swap(last, other);
        }
    }

    /// Exponential with mean 1, by inversion: `−ln u`.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(self.uniform())
    }

    /// Standard normal, by inversion of its distribution function.
    pub fn normal(&mut self) -> f64 {
        quantile(self.uniform())
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

// The quantile function of the normal distribution, to about 16 digits.

/// `x` with `Φ(x) = p`, for `p` in (0, 1). Wichura's algorithm AS 241 (PPND16), Applied Statistics 37 (1988).
pub(crate) fn quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * ratio(r, &CENTRE);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    let r = libm::sqrt(-libm::log(tail));
    let x = if r <= 5.0 {
        ratio(r - 1.6, &MIDDLE)
    } else {
        ratio(r - 5.0, &FAR)
    };
    if q < 0.0 { -x } else { x }
}

/// Coefficients of a quotient of two polynomials, from the constant up.
struct Quotient {
    top: [f64; 8],
    bottom: [f64; 8],
}

fn ratio(r: f64, of: &Quotient) -> f64 {
    let horner = |terms: &[f64; 8]| terms.iter().rev().fold(0.0, |sum, term| sum * r + term);
    horner(&of.top) / horner(&of.bottom)
}

const CENTRE: Quotient = Quotient {
    top: [
        3.387_132_872_796_366_5,
        133.141_667_891_784_38,
        1_971.590_950_306_551_3,
        13_731.693_765_509_46,
        45_921.953_931_549_87,
        67_265.770_927_008_7,
        33_430.575_583_588_13,
        2_509.080_928_730_122_7,
    ],
    bottom: [
        1.0,
        42.313_330_701_600_91,
        687.187_007_492_057_9,
        5_394.196_021_424_751,
        21_213.794_301_586_597,
        39_307.895_800_092_71,
        28_729.085_735_721_943,
        5_226.495_278_852_854,
    ],
};

const MIDDLE: Quotient = Quotient {
    top: [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        0.241_780_725_177_450_6,
        0.022_723_844_989_269_184,
        7.745_450_142_783_414e-4,
    ],
    bottom: [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        0.689_767_334_985_1,
        0.148_103_976_427_480_08,
        0.015_198_666_563_616_457,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ],
};

const FAR: Quotient = Quotient {
    top: [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        0.296_560_571_828_504_87,
        0.026_532_189_526_576_124,
        0.001_242_660_947_388_078_4,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288_1e-7,
    ],
    bottom: [
        1.0,
        0.599_832_206_555_888,
        0.136_929_880_922_735_8,
        0.014_875_361_290_850_615,
        7.868_691_311_456_133e-4,
        1.846_318_317_510_054_8e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_8e-15,
    ],
};

#[cfg(test)]
#[path = "../tests/unit/seed_normal.rs"]
mod normal_tests;
