use super::*;

#[test]
fn being_below_the_median_together_is_the_arc_sine() {
    for rho in [0.1, 0.5, 0.9] {
        let exact = 2.0 / std::f64::consts::PI * f64::asin(rho);
        assert!((together(0.5, rho) - exact).abs() < 1e-9);
    }
    // Two values that are one are below together, always.
    assert!((together(0.95, 1.0) - 1.0).abs() < 0.01);
    assert!(together(0.99, 0.5) < together(0.9, 0.5));
}

#[test]
fn what_is_seen_away_from_the_median_is_told_for_it() {
    for rho in [0.0, 0.3, 0.9] {
        let at = |q: f64| Memory {
            rho: together(q, rho),
            n: 1e3,
        };
        assert!((at(0.77).seen_at(0.77).rho - at(0.5).rho).abs() < 1e-6);
        assert!((at(0.5).seen_at(0.5).rho - at(0.5).rho).abs() < 1e-6);
    }
}

#[test]
fn a_mean_of_alike_neighbours_is_worth_fewer() {
    let memory = Memory { rho: 0.5, n: 1e6 };
    assert!((memory.of_mean() - 3.0).abs() < 0.01);
    assert!((Memory { rho: 0.0, n: 50.0 }.of_mean() - 1.0).abs() < 1e-12);
}

#[test]
fn what_chance_makes_of_neighbours_is_no_memory() {
    let alternating: Vec<f64> = (0..50)
        .map(|i| if i % 2 == 0 { 1.0 } else { -1.0 })
        .collect();
    assert!((Memory::of(alternating.iter()).of_mean() - 1.0).abs() < 1e-12);
    assert!((Memory::of([0.0_f64; 0].iter()).of_mean() - 1.0).abs() < 1e-12);
    assert!((Memory::of([0.0; 9].iter()).of_share(0.9) - 1.0).abs() < 1e-12);
}
