use super::*;

/// Standard normal values from a xorshift generator.
fn normals(seed: u64) -> impl Iterator<Item = f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut uniform = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    std::iter::repeat_with(move || {
        let (a, b) = (uniform().max(1e-12), uniform());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    })
    .skip(20)
}

/// Lognormal values (σ 0.3) whose neighbours are correlated by `rho`, ten a second.
fn series(seed: u64, rho: f64, n: usize) -> Vec<(f64, f64)> {
    let mut state = 0.0_f64;
    let innovation = (1.0 - rho * rho).sqrt();
    normals(seed)
        .take(n)
        .enumerate()
        .map(|(i, e)| {
            state = rho * state + innovation * e;
            (i as f64 / 10.0, 50.0 * (0.3 * state).exp())
        })
        .collect()
}

fn alarms(rho: f64, n: usize) -> usize {
    (1..=100)
        .filter(|seed| !of(&series(*seed, rho, n)).is_empty())
        .count()
}

#[test]
fn one_level_with_noise_or_memory_is_rarely_called_two() {
    // Of 100 series each: independent, and correlated as behind a queue.
    assert!(alarms(0.0, 300) <= 2);
    assert!(alarms(0.5, 300) <= 4);
    assert!(alarms(0.8, 300) <= 8);
}

#[test]
fn a_small_step_is_found_where_requests_hardly_differ_and_not_where_they_do() {
    let found = |sigma: f64, factor: f64| {
        let at = |(i, e): (usize, f64)| {
            let level = if i < 90 { 1.0 } else { factor };
            (i as f64 / 10.0, level * (sigma * e).exp())
        };
        let is_found = |seed: &u64| {
            let points: Vec<(f64, f64)> = normals(*seed).take(180).enumerate().map(at).collect();
            of(&points).len() == 2
        };
        (1..=50).filter(is_found).count()
    };
    assert!(found(0.02, 1.15) >= 48 && found(0.02, 1.2) >= 48);
    assert!(found(0.02, 1.05) == 0 && found(0.3, 1.15) <= 2);
}

#[test]
fn a_level_that_doubles_is_found_in_noise_with_memory() {
    let found = (1..=50)
        .filter(|seed| {
            let mut points = series(*seed, 0.5, 300);
            points.iter_mut().skip(150).for_each(|p| p.1 *= 2.0);
            let spans = of(&points);
            spans.len() == 2 && (spans[0].to - 15.0).abs() < 3.0
        })
        .count();
    assert!(found >= 40, "{found} of 50");
}
