use super::*;

#[test]
fn of_a_few_prompts_all_may_be_late_and_others_tell_what_they_take() {
    let kind = |tokens: f64, ttft: f64, n: usize| Quick::of(&vec![(tokens, ttft); n]).unwrap();
    let all = [
        kind(100.0, 20.0, 30),
        kind(400.0, 3000.0, 2),
        kind(1000.0, 60.0, 10),
    ];
    let takes = |own: usize, tokens: f64| all[own].beside(tokens, all.iter());
    // no longer than longer ones, or than as many tokens of shorter ones
    let about = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(about(takes(1, 400.0), 60.0));
    assert!(about(takes(1, 250.0), 50.0));
    // of many the quick quarter is not late
    assert!(about(takes(2, 1000.0), 60.0));
}
