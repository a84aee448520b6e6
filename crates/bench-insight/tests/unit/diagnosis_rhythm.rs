use super::*;

#[test]
fn a_sawtooth_foretells_itself_at_its_own_period_only() {
    let points: Vec<(f64, f64)> = (0..240)
        .map(|i| f64::from(i) / 10.0)
        .map(|at| (at, 1.0 + (at % 6.0) / 6.0))
        .collect();
    assert!(foretold(&points, 6.0) > 0.9);
    assert!(foretold(&points, 3.0) < 0.3 && foretold(&points, 7.3) < 0.3);
    let drift: Vec<(f64, f64)> = points.iter().map(|p| (p.0, 1.0 + p.0 / 24.0)).collect();
    assert!(foretold(&drift, 6.0) < 0.5);
}
