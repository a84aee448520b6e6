//! Weights of one linear map, as floats or as bytes, and its application to several inputs at once.
#![expect(
    unsafe_code,
    clippy::inline_always,
    reason = "code that is compiled for AVX2 needs the check that the processor has it, and what it calls has to be compiled with it"
)]

use rayon::prelude::{IndexedParallelIterator as _, ParallelIterator as _, ParallelSliceMut as _};

use crate::config::Weights;

/// Rows that one task computes at least: less is not worth handing over.
const ROWS_PER_TASK: usize = 32;

/// A matrix of `rows` outputs by `width` inputs, one row after the other.
#[derive(Debug)]
pub(crate) struct Matrix {
    values: Values,
    width: usize,
}

#[derive(Debug)]
enum Values {
    F32(Vec<f32>),
    /// Bytes and the scale of each row.
    Int8(Vec<i8>, Vec<f32>),
}

impl Matrix {
    /// Takes rows of `width` floats, and keeps them in the way that is asked for.
    pub(crate) fn new(rows: Vec<f32>, width: usize, weights: Weights) -> Self {
        let values = match weights {
            Weights::F32 => Values::F32(rows),
            Weights::Int8 => quantise(&rows, width),
        };
        Self { values, width }
    }

    pub(crate) fn rows(&self) -> usize {
        match &self.values {
            Values::F32(values) => values.len() / self.width,
            Values::Int8(_, scales) => scales.len(),
        }
    }

    /// Row `at`, as floats.
    pub(crate) fn row(&self, at: usize, out: &mut [f32]) {
        let range = at * self.width..(at + 1) * self.width;
        match &self.values {
            Values::F32(values) => out.copy_from_slice(&values[range]),
            Values::Int8(values, scales) => {
                for (out, value) in out.iter_mut().zip(&values[range]) {
                    *out = f32::from(*value) * scales[at];
                }
            }
        }
    }

    /// Applies it to every input: `inputs` holds some of `width` values each, the result as many of `rows` values each.
    pub(crate) fn apply(&self, inputs: &[f32]) -> Vec<f32> {
        let (count, rows) = (inputs.len() / self.width, self.rows());
        if count == 0 {
            return Vec::new();
        }
        let mut by_row = vec![0.0; rows * count];
        let tasks = rayon::current_num_threads() * 4;
        let each = rows.div_ceil(tasks).next_multiple_of(ROWS_PER_TASK);
        by_row
            .par_chunks_mut((each * count).max(1))
            .enumerate()
            .for_each(|(task, out)| {
                self.apply_rows(task * each, inputs, count, out);
            });
        if count == 1 {
            by_row
        } else {
            transpose(&by_row, count)
        }
    }

    fn apply_rows(&self, first: usize, inputs: &[f32], count: usize, out: &mut [f32]) {
        let range = first * self.width..(first + out.len() / count) * self.width;
        match &self.values {
            Values::F32(values) => products(&values[range], inputs, self.width, out),
            Values::Int8(values, scales) => {
                products(&values[range], inputs, self.width, out);
                for (out, scale) in out.chunks_exact_mut(count).zip(&scales[first..]) {
                    for value in out {
                        *value *= scale;
                    }
                }
            }
        }
    }
}

/// Rows of `count` values become columns.
fn transpose(by_row: &[f32], count: usize) -> Vec<f32> {
    let rows = by_row.len() / count;
    let mut out = vec![0.0; by_row.len()];
    for (at, row) in by_row.chunks_exact(count).enumerate() {
        for (input, value) in row.iter().enumerate() {
            out[input * rows + at] = *value;
        }
    }
    out
}

/// Each row by the largest of its values: −127…127.
fn quantise(rows: &[f32], width: usize) -> Values {
    let mut bytes = Vec::with_capacity(rows.len());
    let mut scales = Vec::with_capacity(rows.len() / width);
    for row in rows.chunks_exact(width) {
        let largest = row.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };
        scales.push(scale);
        #[expect(clippy::cast_possible_truncation, reason = "within ±127 by the scale")]
        bytes.extend(row.iter().map(|value| (value / scale).round() as i8));
    }
    Values::Int8(bytes, scales)
}

// The parts of a layer that are not matrices.

/// A norm: of mean and variance with a bias (GPT-2), or of the root mean square without (Llama).
#[derive(Debug)]
pub(crate) struct Norm {
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Option<Vec<f32>>,
    pub(crate) eps: f32,
}

impl Norm {
    /// Normalises each input of the weight's width.
    pub(crate) fn apply(&self, inputs: &[f32]) -> Vec<f32> {
        let width = self.weight.len();
        let mut out = inputs.to_vec();
        for row in out.chunks_exact_mut(width) {
            let mean = if self.bias.is_some() {
                row.iter().sum::<f32>() / width as f32
            } else {
                0.0
            };
            let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / width as f32;
            let scale = (variance + self.eps).sqrt().recip();
            for (x, weight) in row.iter_mut().zip(&self.weight) {
                *x = (*x - mean) * scale * weight;
            }
            if let Some(bias) = &self.bias {
                add(row, bias);
            }
        }
        out
    }
}

/// A matrix with a bias or without.
#[derive(Debug)]
pub(crate) struct Linear {
    pub(crate) matrix: Matrix,
    pub(crate) bias: Option<Vec<f32>>,
}

impl Linear {
    pub(crate) fn apply(&self, inputs: &[f32]) -> Vec<f32> {
        let mut out = self.matrix.apply(inputs);
        if let Some(bias) = &self.bias {
            out.chunks_exact_mut(bias.len())
                .for_each(|row| add(row, bias));
        }
        out
    }
}

/// `to += what`.
pub(crate) fn add(to: &mut [f32], what: &[f32]) {
    to.iter_mut().zip(what).for_each(|(to, what)| *to += what);
}

/// GPT-2's GELU, by tanh.
pub(crate) fn gelu(values: &mut [f32]) {
    const ROOT: f32 = 0.797_884_6; // √(2/π)
    for x in values {
        *x *= 0.5 * (1.0 + (ROOT * (*x + 0.044_715 * *x * *x * *x)).tanh());
    }
}

/// `SwiGLU`: each input holds a gate and, after it, what it gates.
pub(crate) fn swiglu(inputs: &[f32], half: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(inputs.len() / 2);
    for row in inputs.chunks_exact(2 * half) {
        let (gate, up) = row.split_at(half);
        out.extend(
            gate.iter()
                .zip(up)
                .map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up),
        );
    }
    out
}

/// Turns each head of a query or key by the angles of its position: halves of a head are the two coordinates.
pub(crate) fn rope(heads: &mut [f32], size: usize, position: usize, theta: f32) {
    let half = size / 2;
    for at in 0..half {
        // In double precision: at position 4000 a float's angle is off by a ten-thousandth.
        let angle = position as f64 * f64::from(theta).powf(-2.0 * at as f64 / size as f64);
        let (sin, cos) = angle.sin_cos();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the activations are floats"
        )]
        let (sin, cos) = (sin as f32, cos as f32);
        for head in heads.chunks_exact_mut(size) {
            let (a, b) = (head[at], head[at + half]);
            head[at] = a * cos - b * sin;
            head[at + half] = b * cos + a * sin;
        }
    }
}

// The inner loop: dot products of a few rows of weights with a few inputs at a time.
//
// Sums are kept in eight lanes, which the compiler turns into vectors; where the processor has AVX2 and FMA, the same code is compiled for
// them. Each product is summed in the same order whatever else is in the tile, so a batch gives bit for bit what its sequences alone give.

/// Sums that are kept apart until the end of a row.
const LANES: usize = 8;
/// Rows that are computed against one input after the other, so that they stay in the cache.
const BLOCK: usize = 32;

/// A weight of either kind.
pub(crate) trait Weight: Copy {
    fn value(self) -> f32;
}

impl Weight for f32 {
    #[inline(always)]
    fn value(self) -> f32 {
        self
    }
}

impl Weight for i8 {
    #[inline(always)]
    fn value(self) -> f32 {
        f32::from(self)
    }
}

/// For each row of `rows` and each input, their dot product: `out[row * inputs + input]`.
///
/// `rows` holds rows of `width` values, `inputs` holds inputs of `width` values, `out` one place for each pair; what does
/// not fit together is left out.
pub(crate) fn products<W: Weight>(rows: &[W], inputs: &[f32], width: usize, out: &mut [f32]) {
    if inputs.len() < width.max(1) {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the processor has AVX2 and FMA.
        unsafe { fused(rows, inputs, width, out) }
        return;
    }
    run::<W, false>(rows, inputs, width, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn fused<W: Weight>(rows: &[W], inputs: &[f32], width: usize, out: &mut [f32]) {
    run::<W, true>(rows, inputs, width, out);
}

/// All rows against all inputs, a block of rows and a few inputs at a time.
#[inline(always)]
pub(super) fn run<W: Weight, const FMA: bool>(
    rows: &[W],
    inputs: &[f32],
    width: usize,
    out: &mut [f32],
) {
    let count = inputs.len() / width;
    for (rows, out) in rows
        .chunks(BLOCK * width)
        .zip(out.chunks_mut(BLOCK * count))
    {
        let mut at = 0;
        while at < count {
            let inputs = &inputs[at * width..];
            at += match count - at {
                4.. => down::<W, FMA, 4, 4>(rows, inputs, width, &mut out[at..], count),
                2.. => down::<W, FMA, 4, 2>(rows, inputs, width, &mut out[at..], count),
                _ => down::<W, FMA, 8, 1>(rows, inputs, width, &mut out[at..], count),
            };
        }
    }
}

/// A block of rows, `R` at a time, against the first `T` inputs; those that remain one at a time. Gives `T`.
#[inline(always)]
fn down<W: Weight, const FMA: bool, const R: usize, const T: usize>(
    rows: &[W],
    inputs: &[f32],
    width: usize,
    out: &mut [f32],
    count: usize,
) -> usize {
    let x: [&[f32]; T] = std::array::from_fn(|t| &inputs[t * width..][..width]);
    let whole = rows.len() / width / R * R;
    for at in (0..whole).step_by(R) {
        let w: [&[W]; R] = std::array::from_fn(|r| &rows[(at + r) * width..][..width]);
        for (r, sums) in tile::<W, FMA, R, T>(w, x).iter().enumerate() {
            out[(at + r) * count..][..T].copy_from_slice(sums);
        }
    }
    for at in whole..rows.len() / width {
        let [sums] = tile::<W, FMA, 1, T>([&rows[at * width..][..width]], x);
        out[at * count..][..T].copy_from_slice(&sums);
    }
    T
}

/// `R` rows against `T` inputs, all of the same width.
#[inline(always)]
fn tile<W: Weight, const FMA: bool, const R: usize, const T: usize>(
    w: [&[W]; R],
    x: [&[f32]; T],
) -> [[f32; T]; R] {
    let mut sums = [[[0.0_f32; LANES]; T]; R];
    let w = w.map(<[W]>::as_chunks::<LANES>);
    let x = x.map(<[f32]>::as_chunks::<LANES>);
    for k in 0..x[0].0.len() {
        for r in 0..R {
            let weights = w[r].0[k].map(W::value);
            for t in 0..T {
                for lane in 0..LANES {
                    let (weight, value, sum) =
                        (weights[lane], x[t].0[k][lane], &mut sums[r][t][lane]);
                    *sum = if FMA {
                        weight.mul_add(value, *sum)
                    } else {
                        weight * value + *sum
                    };
                }
            }
        }
    }
    std::array::from_fn(|r| {
        std::array::from_fn(|t| {
            let rest = w[r].1.iter().zip(x[t].1).map(|(w, x)| w.value() * x);
            sums[r][t].iter().sum::<f32>() + rest.sum::<f32>()
        })
    })
}

/// One dot product.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut out = [0.0];
    let width = a.len().min(b.len());
    products(&a[..width], &b[..width], width, &mut out);
    out[0]
}
