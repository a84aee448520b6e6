//! The inner loop: dot products of a few rows of weights with a few inputs at a time.
//!
//! The compiler's own vectorisation of the plain loop is several times slower once there are four inputs, and the engine's
//! batching would then not pay; so this one module uses AVX2 and FMA by name where the processor has them. Bytes are widened
//! to floats once for a whole batch. Each product is summed in the same order whatever else is in the tile, so a batch gives
//! bit for bit what its sequences alone give.
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

/// Rows of bytes that are widened to floats at a time: with a width of some hundreds they stay in the first cache.
const WIDENED: usize = 16;

/// For each row of `rows` and each input, their dot product: `out[row * inputs + input]`.
///
/// `rows` holds rows of `width` values, `inputs` holds inputs of `width` values, `out` one place for each pair; what does
/// not fit together is left out.
pub(crate) fn products(rows: Rows<'_>, inputs: &[f32], width: usize, out: &mut [f32]) {
    let count = inputs.len() / width.max(1);
    if count == 0 {
        return;
    }
    match rows {
        Rows::F32(rows) => floats(rows, inputs, width, count, out),
        Rows::Int8(rows) => {
            // Once for all inputs: that is what a batch saves.
            let mut block = vec![0.0; (WIDENED * width).min(rows.len())];
            for (rows, out) in rows
                .chunks(WIDENED * width)
                .zip(out.chunks_mut(WIDENED * count))
            {
                let block = &mut block[..rows.len()];
                widen(rows, block);
                floats(block, inputs, width, count, out);
            }
        }
    }
}

/// Bytes as floats.
fn widen(bytes: &[i8], out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the processor has AVX2 and FMA.
        unsafe { avx2::widen(bytes, out) };
        return;
    }
    plainly_widen(bytes, out);
}

#[expect(
    clippy::inline_always,
    reason = "only inside a function that may use wider instructions is it compiled with them"
)]
#[inline(always)]
fn plainly_widen(bytes: &[i8], out: &mut [f32]) {
    for (out, value) in out.iter_mut().zip(bytes) {
        *out = f32::from(*value);
    }
}

fn floats(rows: &[f32], inputs: &[f32], width: usize, count: usize, out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the processor has AVX2 and FMA.
        unsafe { avx2::run(rows, inputs, width, count, out) };
        return;
    }
    plain(rows, inputs, width, count, out);
}

/// The same without vector instructions.
fn plain(rows: &[f32], inputs: &[f32], width: usize, count: usize, out: &mut [f32]) {
    for (row, out) in rows.chunks_exact(width).zip(out.chunks_exact_mut(count)) {
        for (input, out) in inputs.chunks_exact(width).zip(out) {
            *out = row.iter().zip(input).map(|(w, x)| w * x).sum();
        }
    }
}

/// Adds to `out` each row of `rows` times its share; rows are as wide as `out`, and those without a share are left out.
pub(crate) fn weighted(rows: &[f32], shares: &[f32], out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the processor has AVX2 and FMA.
        unsafe { avx2::weighted(rows, shares, out) };
        return;
    }
    plainly_weighted(rows, shares, out);
}

#[expect(
    clippy::inline_always,
    reason = "only inside a function that may use wider instructions is it compiled with them"
)]
#[inline(always)]
fn plainly_weighted(rows: &[f32], shares: &[f32], out: &mut [f32]) {
    for (row, share) in rows.chunks_exact(out.len().max(1)).zip(shares) {
        for (out, value) in out.iter_mut().zip(row) {
            *out += share * value;
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    // The standard library remembers the answer.
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_movehl_ps, _mm_shuffle_ps,
        _mm256_castps256_ps128, _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
        _mm256_setzero_ps,
    };

    /// Rows that are computed against one input after the other, so that they stay in the cache.
    const BLOCK: usize = 32;

    /// Bytes as floats.
    ///
    /// # Safety
    /// Needs AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn widen(bytes: &[i8], out: &mut [f32]) {
        super::plainly_widen(bytes, out);
    }

    /// All rows against all inputs.
    ///
    /// # Safety
    /// Needs AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn run(
        rows: &[f32],
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
                        4.. => down::<2, 4>(rows, inputs, width, (at, count), out),
                        2..4 => down::<4, 2>(rows, inputs, width, (at, count), out),
                        _ => down::<8, 1>(rows, inputs, width, (at, count), out),
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
    unsafe fn down<const R: usize, const T: usize>(
        rows: &[f32],
        inputs: &[f32],
        width: usize,
        (at, count): (usize, usize),
        out: &mut [f32],
    ) {
        let inputs = &inputs[at * width..(at + T) * width];
        let all = rows.len() / width;
        for row in (0..all / R * R).step_by(R) {
            let rows = &rows[row * width..(row + R) * width];
            // SAFETY: AVX2 and FMA are there, says the caller; both slices are whole rows of this width.
            let sums = unsafe { tile::<R, T>(rows, inputs, width) };
            for (r, sums) in sums.iter().enumerate() {
                out[(row + r) * count + at..][..T].copy_from_slice(sums);
            }
        }
        for row in all / R * R..all {
            let rows = &rows[row * width..(row + 1) * width];
            // SAFETY: as above.
            let sums = unsafe { tile::<1, T>(rows, inputs, width) };
            out[row * count + at..][..T].copy_from_slice(&sums[0]);
        }
    }

    /// `R` rows against `T` inputs; a function of its own, or its sums would not stay in registers.
    ///
    /// # Safety
    /// Needs AVX2 and FMA, `R * width` weights and `T * width` inputs.
    #[inline(never)]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn tile<const R: usize, const T: usize>(
        w: &[f32],
        x: &[f32],
        width: usize,
    ) -> [[f32; T]; R] {
        let mut sums = [[_mm256_setzero_ps(); T]; R];
        let eights = width / 8 * 8;
        // Plain loops: a closure that is handed to a function without these instructions is called, not inlined.
        for k in (0..eights).step_by(8) {
            let mut xs = [_mm256_setzero_ps(); T];
            for (t, values) in xs.iter_mut().enumerate() {
                // SAFETY: `k + 8 <= width`, and `x` holds `T` rows of it.
                *values = unsafe { _mm256_loadu_ps(x.as_ptr().add(t * width + k)) };
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                // SAFETY: the same for the `R` rows of `w`.
                let weight = unsafe { _mm256_loadu_ps(w.as_ptr().add(r * width + k)) };
                for (sum, values) in sums.iter_mut().zip(xs) {
                    *sum = _mm256_fmadd_ps(weight, values, *sum);
                }
            }
        }
        let mut out = [[0.0; T]; R];
        for r in 0..R {
            for t in 0..T {
                let mut rest = 0.0;
                for k in eights..width {
                    rest += w[r * width + k] * x[t * width + k];
                }
                out[r][t] = across(sums[r][t]) + rest;
            }
        }
        out
    }

    /// Adds each row times its share to `out`.
    ///
    /// # Safety
    /// Needs AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn weighted(rows: &[f32], shares: &[f32], out: &mut [f32]) {
        super::plainly_weighted(rows, shares, out);
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
#[path = "../../tests/unit/transformer_tile.rs"]
mod tests;
