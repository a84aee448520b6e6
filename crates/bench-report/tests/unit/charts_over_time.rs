use super::*;

fn labels(parts: &Parts, value: fn(f64) -> f64) -> String {
    let every = (0..parts.count).step_by(parts.labelled as usize);
    let words = every.map(|i| value(parts.at(i as f64)).to_string());
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn labels_of_a_heat_map_are_round() {
    let seconds = Parts::linear(2.1, 57.3, COLUMNS, 10);
    assert_eq!(labels(&seconds, |at| at), "0 10 20 30 40 50");
    let latencies = Parts::linear(641.0, 1143.0, ROWS, 5);
    assert_eq!(labels(&latencies, |at| at), "600 700 800 900 1000 1100");
    let wide = Parts::of_ratios(93.0, 5202.0);
    let wide = labels(&wide, |at| 100.0 * at.exp2());
    assert_eq!(wide, "50 100 200 400 800 1600 3200");
}

#[test]
fn every_value_lies_in_its_part_of_a_heat_map() {
    for (low, high) in [(0.0, 1.0), (2.1, 57.3), (0.31, 0.32), (999.0, 86_400.0)] {
        let parts = Parts::linear(low, high, COLUMNS, 10);
        assert!(parts.count <= 71, "{low} to {high}: {}", parts.count);
        for i in 0..=100 {
            let value = low + (high - low) * f64::from(i) / 100.0;
            let part = parts.index(value) as f64;
            let slack = parts.width * 1e-6;
            let within = parts.at(part) - slack..=parts.at(part + 1.0) + slack;
            assert!(within.contains(&value), "{value}: {within:?}");
        }
    }
}
