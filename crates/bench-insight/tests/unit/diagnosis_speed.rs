use super::super::fit::solve;
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

fn point(from: f64, value: f64, beside: f64) -> Point {
    Point {
        cell: 0,
        request: 0,
        from,
        to: from + 0.9,
        value,
        of_it: 1.0,
        taken: 1.0,
        beside,
        gaps: 20.0,
        once: 1.0 / 20.0,
        prompt: 60.0,
        prompts: 0.0,
        firsts: 0.0,
        undisturbed: true,
    }
}

/// A request each second, that takes 100 times what a server makes of the time and of how many are beside it; noise of a part of that.
fn served(n: usize, noise: f64, seed: u64, takes: impl Fn(f64) -> (f64, f64)) -> Series {
    let served = |(i, off): (usize, f64)| {
        let from = i as f64;
        let (slow, beside) = takes(from / n as f64);
        let value = 100.0 * slow * (1.0 + 0.2 * beside) * (noise * off).exp();
        point(from, value, beside)
    };
    let points = normals(seed).take(n).enumerate().map(served).collect();
    let mut series = Series::of(points, of_tokens, plain_tokens, 1).unwrap();
    series.plain = None;
    series
}

fn shape(series: &Series) -> Option<Shape> {
    Some(series.change(LEFT)?.shape)
}

#[test]
fn a_server_of_one_speed_has_no_change_whatever_noise_there_is() {
    for noise in [0.01, 0.05, 0.3] {
        let told = |seed: &u64| shape(&served(60, noise, *seed, |_| (1.0, 0.0))).is_some();
        let alarms = (1..=20).filter(told).count();
        assert_eq!(alarms, 0, "{noise}");
    }
}

#[test]
fn a_step_is_found_where_it_is_and_with_its_size() {
    for (noise, factor, at) in [(0.02, 1.5, 0.3), (0.05, 0.6, 0.7), (0.1, 2.0, 0.5)] {
        let slow = |part: f64| if part < at { 1.0 } else { factor };
        let series = served(60, noise, 3, |part| (slow(part), 0.0));
        let found = series.change(LEFT).unwrap();
        let Shape::Levels(times) = &found.shape else {
            panic!("{found:?}");
        };
        assert!(
            times.len() == 1 && (series.part(times[0]) - at).abs() < 0.05,
            "{times:?}"
        );
        assert!(
            (found.logs[0].exp() / factor - 1.0).abs() < 0.05,
            "{found:?}"
        );
    }
}

#[test]
fn a_speed_that_moves_slowly_is_no_step() {
    let line = |part: f64| (1.0 + 0.8 * part, 0.0);
    assert!(matches!(
        shape(&served(60, 0.02, 4, line)),
        Some(Shape::Line | Shape::Decay(_))
    ));
    let warms = |part: f64| (1.0 + 0.5 * (1.0 - (-part / 0.15).exp()), 0.0);
    assert!(matches!(
        shape(&served(60, 0.02, 4, warms)),
        Some(Shape::Decay(_))
    ));
}

#[test]
fn a_start_of_a_few_of_many_requests_is_seen_and_one_after_which_little_moves_is_one() {
    let short = |part: f64| if part < 0.01 { 3.0 } else { 1.0 };
    let with_bump = |part: f64| match part {
        ..0.1 => 2.0,
        0.6..0.7 => 1.25,
        _ => 1.0,
    };
    let back = |part: f64| if (0.1..0.6).contains(&part) { 1.0 } else { 2.0 };
    let starts = |n: usize, slow: fn(f64) -> f64| {
        let series = served(n, 0.02, 7, |part| (slow(part), 0.0));
        series.begins_slowly(&series.change(LEFT).unwrap())
    };
    let neighbour = |part: f64| if (0.2..0.7).contains(&part) { 1.0 } else { 1.6 };
    assert!(!starts(120, neighbour));
    assert!(starts(2000, short));
    assert!(starts(120, with_bump));
    assert!(!starts(120, back));
}

#[test]
fn a_start_of_fewer_requests_than_a_level_holds_ends_at_its_moment_all_the_same() {
    let start = |part: f64| (if part < 0.08 { 3.0 } else { 1.0 }, 0.0);
    let mut series = served(120, 0.02, 7, start);
    series.least = 24;
    let fades = series.change(LEFT).unwrap();
    assert!(matches!(fades.shape, Shape::Decay(_)), "{fades:?}");
    let ends = series.or_at_a_moment(fades);
    let told = series.movement(&ends, Cause::ColdStart);
    let told = |figure: Known| told.iter().find(|f| f.0 == figure).unwrap().1;
    assert!((told(Known::At) / series.lasted - 0.08).abs() < 0.01);
    assert!((told(Known::LevelBefore) / told(Known::LevelAfter) / 3.0 - 1.0).abs() < 0.05);
    // one that fades is told as such
    let warms = |part: f64| (1.0 + 2.0 * (-part / 0.1).exp(), 0.0);
    let series = served(120, 0.02, 7, warms);
    let fades = series.or_at_a_moment(series.change(LEFT).unwrap());
    assert!(matches!(fades.shape, Shape::Decay(_)), "{fades:?}");
}

#[test]
fn what_load_explains_is_no_change_and_a_step_is_one_though_more_are_beside_it() {
    // more and more, as where a queue grows, and several levels of a sweep
    let loads: [fn(f64) -> f64; 2] = [|part| 10.0 * part, |part| (4.0 * part).floor() * 3.0];
    for load in loads {
        let calm = served(80, 0.02, 5, |part| (1.0, load(part)));
        assert_eq!(shape(&calm), None);
        let slow = |part: f64| if part < 0.4 { 1.0 } else { 1.8 };
        let found = served(80, 0.02, 5, |part| (slow(part), load(part)))
            .change(LEFT)
            .unwrap();
        assert!((found.logs[0].exp() / 1.8 - 1.0).abs() < 0.05, "{found:?}");
    }
    // a step between two levels of a sweep may be the load's
    let both = |part: f64| if part < 0.5 { (1.0, 1.0) } else { (1.8, 4.0) };
    assert_eq!(shape(&served(80, 0.02, 5, both)), None);
    // but not where fewer are beside it then
    let both = |part: f64| if part < 0.5 { (1.0, 4.0) } else { (2.5, 1.0) };
    assert!(shape(&served(80, 0.02, 5, both)).is_some());
}

/// Three cells, one after another, of more and more at once, that take what a server makes of the time and of how many are beside.
fn of_sweep(noise: f64, takes: impl Fn(f64, f64) -> f64) -> Series {
    let cells = [(0_u32, 0.0, 16_u32), (1, 1.0, 24), (2, 3.0, 40)];
    let mut off = normals(13);
    let mut points = Vec::new();
    for (cell, beside, n) in cells {
        let from = 100.0 * f64::from(cell);
        for i in 0..n {
            let at = from + 100.0 * f64::from(i) / f64::from(n);
            let value = takes(at / 300.0, beside) * (noise * off.next().unwrap()).exp();
            points.push(Point {
                cell: usize::try_from(cell).unwrap(),
                ..point(at, value, beside)
            });
        }
    }
    let mut series = Series::of(points, of_tokens, plain_tokens, 4).unwrap();
    series.several = true;
    series
}

#[test]
fn what_moves_within_each_cell_of_a_sweep_is_not_its_load() {
    let drifts = of_sweep(0.1, |part, _| 8.0 * (1.0 + part));
    let found = drifts.change(LEFT).unwrap();
    assert!(
        matches!(found.shape, Shape::Line | Shape::Decay(_)),
        "{found:?}"
    );
    let (low, high) = ends(&found.slow);
    assert!((1.6..2.4).contains(&(high / low)), "{found:?}");
    for noise in [0.02, 0.1] {
        let loaded = of_sweep(noise, |_, beside| 8.0 * (1.0 + beside / 3.0));
        assert_eq!(shape(&loaded), None);
    }
}

#[test]
fn a_step_late_in_a_cell_is_all_of_what_the_next_cell_takes_longer() {
    let step = of_sweep(0.03, |part, _| if part < 0.6 { 9.0 } else { 21.0 });
    let found = step.change(LEFT).unwrap();
    assert!(
        matches!(&found.shape, Shape::Levels(times) if times.len() == 1),
        "{found:?}"
    );
    assert!(
        (found.logs[0].exp() / (21.0 / 9.0) - 1.0).abs() < 0.1,
        "{found:?}"
    );
}

#[test]
fn a_speed_that_comes_and_goes_has_several_levels() {
    let slow = |part: f64| {
        if (5.0 * part).floor().rem_euclid(2.0) > 0.0 {
            2.0
        } else {
            1.0
        }
    };
    let found = served(100, 0.05, 6, |part| (slow(part), 0.0))
        .change(LEFT)
        .unwrap();
    assert!(
        matches!(&found.shape, Shape::Levels(times) if times.len() == 4),
        "{found:?}"
    );
}

/// Answers that take longer are more at once: of arrivals that do not change that is no load.
#[test]
fn how_many_are_at_once_follows_from_a_speed_that_moves_and_does_not_explain_it() {
    let slow = |part: f64| if part < 0.4 { 1.0 } else { 1.8 };
    let follows = |part: f64, i: f64| (4.0 * slow(part) * (1.0 + 0.2 * (7.0 * i).sin())).round();
    let served_by = |own: &dyn Fn(f64, f64) -> f64| {
        let mut i = 0.0;
        let points = normals(11).take(120).map(|off| {
            i += 1.0;
            let beside = follows(i / 120.0, i);
            point(
                i,
                100.0 * own(i / 120.0, beside) * (0.1 * off).exp(),
                beside,
            )
        });
        Series::of(points.collect(), of_tokens, plain_tokens, 1).unwrap()
    };
    let moved = served_by(&|part, _| slow(part));
    assert!(matches!(shape(&moved), Some(Shape::Levels(times)) if times.len() == 1));
    assert_eq!(shape(&served_by(&|_, beside| beside / 4.0)), None);
}

/// As above, of a hosted server whose requests differ by a fifth and become slower and slower for a while.
#[test]
fn requests_that_do_not_touch_each_other_show_a_server_that_becomes_slower_whatever_they_differ_by()
{
    let told = |seed: &u64| {
        let mut last = [1.0; 6];
        let points = normals(*seed).take(120).enumerate().map(|(i, off)| {
            let slow = 1.0 + ((i as f64 / 120.0 - 0.15) / 0.4).clamp(0.0, 1.0);
            let took = slow * (0.19 * off).exp();
            let beside = last.iter().sum::<f64>() / 1.5;
            last.rotate_left(1);
            last[5] = took;
            point(i as f64, 100.0 * took, beside)
        });
        let series = Series::of(points.collect(), of_tokens, plain_tokens, 1).unwrap();
        shape(&series).is_some()
    };
    let told = (1..=20).filter(told).count();
    assert!(told >= 16, "{told}");
}

/// Two closed loops, one after the other: each answer of 60 tokens takes its own time, and as much more for each first token of another that comes meanwhile.
/// A server may be slower from one moment on, in both.
fn of_loops(seed: u64, spread: f64, cost: f64, slow: impl Fn(f64) -> f64) -> Series {
    const LASTS: f64 = 9e9;
    let mut off = normals(seed);
    let mut points = Vec::new();
    for (cell, slots) in [2_usize, 8].into_iter().enumerate() {
        let begin = cell as f64 * 1.1 * LASTS;
        // (first, what is left of its own time, first tokens that it met) of each slot's answer
        let mut next = |at: f64| 4e8 * slow(at) * (spread * off.next().unwrap()).exp();
        let mut under_way: Vec<_> = (0..slots)
            .map(|i| (begin, next(begin) * (i + 1) as f64 / slots as f64, 0.0))
            .collect();
        let (mut at, mut whole) = (begin, 0);
        while at < begin + LASTS {
            let over = under_way
                .iter()
                .enumerate()
                .min_by(|a, b| a.1.1.total_cmp(&b.1.1));
            let (i, (from, left, firsts)) = over.map(|(i, own)| (i, *own)).unwrap();
            at += left;
            whole += 1;
            if whole > slots {
                points.push(Point {
                    cell,
                    to: at,
                    of_it: at - from,
                    taken: at - from,
                    gaps: 60.0,
                    once: 1.0 / 60.0,
                    firsts,
                    prompts: 256.0 * firsts,
                    ..point(from, (at - from) / 60.0, slots as f64)
                });
            }
            at += cost * slow(at);
            for other in &mut under_way {
                *other = (other.0, other.1 - left, other.2 + 1.0);
            }
            under_way[i] = (at, next(at), 0.0);
        }
    }
    let mut series = Series::of(points, of_tokens, plain_tokens, 8).unwrap();
    series.several = true;
    series.slots = vec![2.0, 8.0];
    series
}

/// As where each answer's words are guessed ahead, some well and some badly: who takes longer meets more of the others' first tokens.
#[test]
fn answers_that_differ_in_speed_by_themselves_are_no_other_speed_at_another_load() {
    for (spread, cost) in [(0.02, 2e7), (0.1, 0.0), (0.1, 2e7), (0.3, 2e7)] {
        let series = (1..=8).map(|seed| of_loops(seed, spread, cost, |_| 1.0));
        let told = series.filter_map(|series| shape(&series)).count();
        assert_eq!(told, 0, "{spread} {cost}");
    }
}

#[test]
fn a_step_is_found_beside_prompts_that_hold_up_answers() {
    for seed in 1..=4 {
        let slow = |at: f64| if at < 13e9 { 1.0 } else { 1.6 };
        let found = of_loops(seed, 0.03, 3e7, slow).change(LEFT).unwrap();
        let Shape::Levels(times) = &found.shape else {
            panic!("{found:?}");
        };
        let step = times.iter().zip(&found.logs);
        let step = step
            .min_by(|a, b| (a.0 - 13e9).abs().total_cmp(&(b.0 - 13e9).abs()))
            .unwrap();
        assert!((step.0 - 13e9).abs() < 5e8, "{found:?}");
        assert!((step.1.exp() / 1.6 - 1.0).abs() < 0.1, "{found:?}");
    }
}

#[test]
fn least_squares_have_no_negative_part_where_none_may_be() {
    let ones = vec![1.0; 4];
    let rises = vec![0.0, 1.0, 2.0, 3.0];
    let falls = [4.0, 3.0, 2.0, 1.0];
    assert_eq!(solve(&[ones.clone(), rises.clone()], 0, &falls), [2.5, 0.0]);
    let free = solve(&[ones.clone(), rises], 1, &falls);
    assert!((free[0] - 4.0).abs() < 1e-9 && (free[1] + 1.0).abs() < 1e-9);
    // one that says the same as another is left out
    assert_eq!(solve(&[ones.clone(), ones], 0, &[2.0; 4]), [2.0, 0.0]);
}

#[test]
fn steps_in_one_direction_are_one_rise() {
    assert_eq!(series::swings(&[1.0]), 0);
    assert_eq!(series::swings(&[1.0, 1.2, 1.5]), 1);
    assert_eq!(series::swings(&[1.0, 1.4, 1.5, 1.2, 1.0]), 2);
    assert_eq!(series::swings(&[1.0, 2.0, 1.0, 2.0]), 3);
    // what returns a little on the way up is no fall
    assert_eq!(series::swings(&[1.0, 1.5, 1.45, 2.0]), 1);
}
