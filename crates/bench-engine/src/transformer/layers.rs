//! The parts of a layer that are not matrices.

use super::matrix::Matrix;

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
