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
