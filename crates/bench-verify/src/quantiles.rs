//! Plain arithmetic over samples: sorted, interpolated between neighbours (type 7), nothing clever.

/// A sample, sorted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample(Vec<f64>);

impl FromIterator<f64> for Sample {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }
}

impl Sample {
    /// `None` of an empty sample.
    pub(crate) fn mean(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.iter().sum::<f64>() / self.0.len() as f64)
    }

    /// The `q`-quantile between order statistics; `None` of an empty sample.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a position in a list, not negative"
    )]
    pub(crate) fn quantile(&self, q: f64) -> Option<f64> {
        let last = self.0.len().checked_sub(1)?;
        let at = q.clamp(0.0, 1.0) * last as f64;
        let low = (at.floor() as usize).min(last);
        let high = (low + 1).min(last);
        let (below, above) = (self.0.get(low)?, self.0.get(high)?);
        Some(below + (above - below) * (at - low as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_type_7() {
        // numpy.quantile([1, 2, 4, 8], [0, 0.5, 0.99, 1]) = [1, 3, 7.88, 8]
        let sample: Sample = [8.0, 1.0, 4.0, 2.0].into_iter().collect();
        let at = |q| sample.quantile(q).unwrap();
        assert!((at(0.0) - 1.0).abs() < 1e-12 && (at(0.5) - 3.0).abs() < 1e-12);
        assert!((at(0.99) - 7.88).abs() < 1e-12 && (at(1.0) - 8.0).abs() < 1e-12);
        assert!((sample.mean().unwrap() - 3.75).abs() < 1e-12);
        assert_eq!(Sample::default().quantile(0.5), None);
    }
}
