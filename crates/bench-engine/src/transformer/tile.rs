//! The inner loop: dot products of a few rows of weights with a few inputs at a time.
//!
//! The compiler's own vectorisation of the plain loop is several times slower once there are four inputs, and the engine's
//! batching would then not pay; so this one module uses AVX2 and FMA by name where the processor has them. Each product
//! is summed in the same order whatever else is in the tile, so a batch gives bit for bit what its sequences alone give.
#![expect(
    unsafe_code,
    reason = "vector loads take pointers, and calling an AVX2 function needs the check that `has_avx2` makes"
)]

/// Rows of weights of either kind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rows<'a> {
    F32(&'a [f32]),
    Int8(&'a [i8]),
}

/// For each row of `rows` and each input, their dot product: `out[row * inputs + input]`.
///
/// `rows` holds rows of `width` values, `inputs` holds inputs of `width` values, `out` one place for each pair; what does
/// not fit together is left out.
pub(crate) fn products(rows: Rows<'_>, inputs: &[f32], width: usize, out: &mut [f32]) {
    let count = inputs.len() / width.max(1);
    if count == 0 {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the processor has AVX2 and FMA.
        unsafe {
            match rows {
                Rows::F32(rows) => avx2::run(rows, inputs, width, count, out),
                Rows::Int8(rows) => avx2::run(rows, inputs, width, count, out),
            }
        }
        return;
    }
    plain(rows, inputs, width, count, out);
}

/// The same without vector instructions.
pub(crate) fn plain(rows: Rows<'_>, inputs: &[f32], width: usize, count: usize, out: &mut [f32]) {
    match rows {
        Rows::F32(rows) => {
            for (row, out) in rows.chunks_exact(width).zip(out.chunks_exact_mut(count)) {
                for (input, out) in inputs.chunks_exact(width).zip(out) {
                    *out = row.iter().zip(input).map(|(w, x)| w * x).sum();
                }
            }
        }
        Rows::Int8(rows) => {
            for (row, out) in rows.chunks_exact(width).zip(out.chunks_exact_mut(count)) {
                for (input, out) in inputs.chunks_exact(width).zip(out) {
                    *out = row.iter().zip(input).map(|(w, x)| f32::from(*w) * x).sum();
                }
            }
        }
    }
}

/// One dot product.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut out = [0.0];
    let width = a.len().min(b.len());
    products(Rows::F32(&a[..width]), &b[..width], width, &mut out);
    out[0]
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    // The standard library remembers the answer.
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_loadl_epi64, _mm_movehl_ps,
        _mm_shuffle_ps, _mm256_castps256_ps128, _mm256_cvtepi8_epi32, _mm256_cvtepi32_ps,
        _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_setzero_ps,
    };

    /// Rows that are computed against one input after the other, so that they stay in the cache.
    const BLOCK: usize = 32;

    /// A weight that can be loaded eight at a time.
    pub(super) trait Weight: Copy {
        /// # Safety
        /// Needs AVX2, and eight values at `at`.
        unsafe fn eight(at: *const Self) -> __m256;
        fn one(self) -> f32;
    }

    impl Weight for f32 {
        #[inline]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn eight(at: *const Self) -> __m256 {
            // SAFETY: the caller has eight values there; the load needs no alignment.
            unsafe { _mm256_loadu_ps(at) }
        }
        fn one(self) -> f32 {
            self
        }
    }

    impl Weight for i8 {
        #[inline]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn eight(at: *const Self) -> __m256 {
            // SAFETY: the caller has eight values, eight bytes, there; the load needs no alignment.
            unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(at.cast()))) }
        }
        fn one(self) -> f32 {
            f32::from(self)
        }
    }

    /// All rows against all inputs.
    ///
    /// # Safety
    /// Needs AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn run<W: Weight>(
        rows: &[W],
        inputs: &[f32],
        width: usize,
        count: usize,
        out: &mut [f32],
    ) {
        for (rows, out) in rows
            .chunks(BLOCK * width)
            .zip(out.chunks_mut(BLOCK * count))
        {
            let mut at = 0;
            while at < count {
                let left = count - at;
                // SAFETY: AVX2 and FMA are there, says the caller.
                unsafe {
                    match left {
                        4.. => down::<W, 4, 4>(rows, inputs, width, (at, count), out),
                        2..4 => down::<W, 4, 2>(rows, inputs, width, (at, count), out),
                        _ => down::<W, 8, 1>(rows, inputs, width, (at, count), out),
                    }
                }
                at += match left {
                    4.. => 4,
                    2..4 => 2,
                    _ => 1,
                };
            }
        }
    }

    /// A block of rows, `R` at a time, against `T` inputs from the `at`-th of `count` on.
    ///
    /// # Safety
    /// Needs AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn down<W: Weight, const R: usize, const T: usize>(
        rows: &[W],
        inputs: &[f32],
        width: usize,
        (at, count): (usize, usize),
        out: &mut [f32],
    ) {
        let x: [&[f32]; T] =
            std::array::from_fn(|t| &inputs[(at + t) * width..(at + t + 1) * width]);
        let whole = rows.len() / width / R * R;
        for row in (0..whole).step_by(R) {
            let w: [&[W]; R] =
                std::array::from_fn(|r| &rows[(row + r) * width..(row + r + 1) * width]);
            // SAFETY: AVX2 and FMA are there, says the caller; all slices have the same width.
            let sums = unsafe { tile(w, x, width) };
            for (r, sums) in sums.iter().enumerate() {
                out[(row + r) * count + at..][..T].copy_from_slice(sums);
            }
        }
        for row in whole..rows.len() / width {
            // SAFETY: as above.
            let sums = unsafe { tile([&rows[row * width..(row + 1) * width]], x, width) };
            out[row * count + at..][..T].copy_from_slice(&sums[0]);
        }
    }

    /// `R` rows against `T` inputs.
    ///
    /// # Safety
    /// Needs AVX2 and FMA, and slices of `width` values.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn tile<W: Weight, const R: usize, const T: usize>(
        w: [&[W]; R],
        x: [&[f32]; T],
        width: usize,
    ) -> [[f32; T]; R] {
        let mut sums = [[_mm256_setzero_ps(); T]; R];
        let eights = width / 8 * 8;
        for k in (0..eights).step_by(8) {
            // SAFETY: `k + 8 <= width`, the length of every slice.
            let xs: [__m256; T] =
                std::array::from_fn(|t| unsafe { _mm256_loadu_ps(x[t].as_ptr().add(k)) });
            for r in 0..R {
                // SAFETY: as above.
                let weight = unsafe { W::eight(w[r].as_ptr().add(k)) };
                for t in 0..T {
                    sums[r][t] = _mm256_fmadd_ps(weight, xs[t], sums[r][t]);
                }
            }
        }
        std::array::from_fn(|r| {
            std::array::from_fn(|t| {
                let rest = w[r][eights..]
                    .iter()
                    .zip(&x[t][eights..])
                    .map(|(w, x)| w.one() * x);
                across(sums[r][t]) + rest.sum::<f32>()
            })
        })
    }

    /// The sum of the eight lanes.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn across(v: __m256) -> f32 {
        let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_pair_gives_the_same_bits_alone_and_in_any_tile() {
        let width = 77;
        let value = |at: usize| ((at * 7919) % 1000) as f32 / 500.0 - 1.0;
        let rows: Vec<f32> = (0..37 * width).map(value).collect();
        let inputs: Vec<f32> = (0..7 * width).map(|at| value(at + 13)).collect();
        let mut together = vec![0.0; 37 * 7];
        products(Rows::F32(&rows), &inputs, width, &mut together);
        for row in 0..37 {
            for input in 0..7 {
                let alone = dot(
                    &rows[row * width..][..width],
                    &inputs[input * width..][..width],
                );
                assert_eq!(alone.to_bits(), together[row * 7 + input].to_bits());
            }
        }
    }

    proptest! {
        #[test]
        fn vector_and_plain_products_agree(
            width in 1usize..100,
            rows in 1usize..40,
            count in 1usize..9,
            seed in any::<u32>(),
        ) {
            let int = |at: usize| i16::try_from(crate::fault::mix(at as u64 ^ u64::from(seed)) % 255).unwrap() - 127;
            let value = |at: usize| f32::from(int(at));
            let ints: Vec<i16> = (0..rows * width).map(int).collect();
            let floats: Vec<f32> = ints.iter().map(|i| f32::from(*i)).collect();
            let bytes: Vec<i8> = ints.iter().map(|i| i8::try_from(*i).unwrap()).collect();
            let inputs: Vec<f32> = (0..count * width).map(|at| value(at + 1_000_000) / 100.0).collect();
            let mut fast = vec![0.0; rows * count];
            let mut slow = vec![0.0; rows * count];
            for weights in [Rows::F32(&floats), Rows::Int8(&bytes)] {
                products(weights, &inputs, width, &mut fast);
                plain(weights, &inputs, width, count, &mut slow);
                for (fast, slow) in fast.iter().zip(&slow) {
                    prop_assert!((fast - slow).abs() <= 0.02 + slow.abs() * 1e-4, "{fast} {slow}");
                }
            }
        }
    }
}
