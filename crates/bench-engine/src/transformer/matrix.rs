//! Weights of one linear map, as floats or as bytes, and its application to several inputs at once.

use rayon::prelude::{IndexedParallelIterator as _, ParallelIterator as _, ParallelSliceMut as _};

use crate::config::Weights;
use crate::transformer::tile::{Rows, products};

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
            Values::F32(values) => products(Rows::F32(&values[range]), inputs, self.width, out),
            Values::Int8(values, scales) => {
                products(Rows::Int8(&values[range]), inputs, self.width, out);
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
