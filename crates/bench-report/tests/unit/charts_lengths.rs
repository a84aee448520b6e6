use super::*;

/// Twelve requests of each length, `slope` ms for each token, and as far from the line as `scatter`.
fn title(slope: f64, scatter: f64) -> String {
    let points = (0_u32..60).map(|i| {
        let x = f64::from(i % 5 * 10 + 10);
        let off = [1.0, -0.5, 0.25, -1.0, 0.25][(i / 5 % 5) as usize];
        (x, 100.0 + slope * x + scatter * off)
    });
    let fit = linear_fit(&points.collect::<Vec<_>>(), LEVEL).unwrap();
    followed(["E2E", "answer"], "Each output token adds 1 ms", &fit, "")
}

#[test]
fn a_slope_that_is_known_is_told_however_far_requests_lie_from_it() {
    insta::assert_snapshot!(title(1.0, 5.0), @"Each output token adds 1 ms to E2E (R² 0.94)");
    insta::assert_snapshot!(title(1.0, 45.0), @"Each output token adds 1 ms, but the answer length explains little of E2E (R² 0.17)");
    insta::assert_snapshot!(title(0.0, 45.0), @"The answer length explains little of E2E (R² 0)");
}
