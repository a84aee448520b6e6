//! From logits to a token.

use crate::fault::mix;

/// The likeliest id at temperature 0, else one drawn by its share; the same for the same seed and number.
pub(crate) fn sample(logits: &[f32], temperature: f32, seed: u64, number: u32) -> u32 {
    let (best, most) =
        logits
            .iter()
            .enumerate()
            .fold((0, f32::NEG_INFINITY), |best, (at, value)| {
                if *value > best.1 { (at, *value) } else { best }
            });
    let id = if temperature > 0.0 {
        draw(logits, temperature, most, mix(seed ^ u64::from(number)))
    } else {
        best
    };
    u32::try_from(id).unwrap_or(0)
}

fn draw(logits: &[f32], temperature: f32, most: f32, bits: u64) -> usize {
    let share = |value: f32| ((value - most) / temperature).exp();
    let total: f32 = logits.iter().map(|value| share(*value)).sum();
    let mut left = (bits >> 40) as f32 / (1u32 << 24) as f32 * total;
    for (at, value) in logits.iter().enumerate() {
        left -= share(*value);
        if left < 0.0 {
            return at;
        }
    }
    logits.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperature_zero_takes_the_likeliest_and_others_draw_by_share() {
        let logits = [0.0, 2.0f32.ln(), f32::NEG_INFINITY];
        assert_eq!(sample(&logits, 0.0, 1, 1), 1);
        let drawn: Vec<u32> = (0..3000)
            .map(|number| sample(&logits, 1.0, 9, number))
            .collect();
        let ones = drawn.iter().filter(|id| **id == 1).count();
        assert!((1_850..2_150).contains(&ones), "{ones}");
        assert!(!drawn.contains(&2));
    }
}
