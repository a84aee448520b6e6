//! The grid of `bench-latency`: short cells of equal requests, one at a time and one cell after the other.

use bench_insight::{CellSamples, analyse_run, findings};
use bench_metrics::{CellContext, summarise_cell};
use bench_schema::{
    Cause, Exchange, Fact, Factor, Finding, Known, Outcome, RequestRecord, RunRecord, SloVerdict,
    TokenSource, Usage,
};

use super::sim::{Ms, bare, events_at, stamp, template};

/// Name and tokens of the prompts.
const PROMPTS: [(&str, u64); 3] = [("short", 5), ("medium", 19), ("long", 106)];

/// A request: when it is sent, which of all it is, which of its cell, its prompt's tokens.
struct Asked {
    at: Ms,
    number: usize,
    prompt: u64,
}

/// Time to the first token and from one to the next.
type Serves = fn(&Asked) -> (Ms, Ms);

fn answered(id: usize, asked: &Asked, tokens: u64, (first, each): (Ms, Ms)) -> RequestRecord {
    let mut wire = Exchange::nothing(Outcome::Completed);
    wire.sent = Some(stamp(asked.at));
    wire.status = Some(200);
    wire.events = events_at((0..tokens).map(|i| stamp(asked.at + first + i as f64 * each)));
    wire.closed = wire.events.last();
    wire.usage = Some(Usage {
        prompt_tokens: Some(asked.prompt),
        completion_tokens: Some(tokens),
        cached_tokens: None,
        reasoning_tokens: None,
    });
    RequestRecord {
        due: stamp(asked.at),
        dispatched: Some(stamp(asked.at)),
        asked_output_tokens: Some(tokens),
        output_tokens: Some(tokens),
        token_source: TokenSource::Usage,
        ..RequestRecord::bare(id as u64, "c", wire)
    }
}

/// So many requests of each prompt and answer length.
fn grid(outputs: &[u64], repeats: usize, serves: Serves) -> (RunRecord, Vec<CellSamples>) {
    grid_of([outputs; 3], repeats, serves)
}

/// The same with other answers for each prompt.
fn grid_of(outputs: [&[u64]; 3], repeats: usize, serves: Serves) -> (RunRecord, Vec<CellSamples>) {
    let mut run = template();
    let mut samples = Vec::new();
    let (mut at, mut number) = (0.0, 0);
    for ((name, prompt), outputs) in PROMPTS.into_iter().zip(outputs) {
        for &tokens in outputs {
            let records: Vec<RequestRecord> = (0..repeats)
                .map(|i| {
                    let asked = Asked { at, number, prompt };
                    let times = serves(&asked);
                    let mut record = answered(i, &asked, tokens, times);
                    record.cell = format!("{name}-x-{tokens}");
                    at += times.0 + times.1 * (tokens - 1) as f64 + 1.0;
                    number += 1;
                    record
                })
                .collect();
            let id = format!("{name}-x-{tokens}");
            let mut cell = bare(&id, repeats);
            cell.factors = [
                ("prompt".to_owned(), Factor::from(name)),
                ("output_tokens".to_owned(), Factor::Number(tokens as f64)),
            ]
            .into();
            summarise_cell(&records, CellContext::new(cell.load.clone())).fill(&mut cell);
            samples.push(CellSamples::of(&id, &records));
            run.cells.push(cell);
        }
    }
    run.analysis = analyse_run(&run, &samples);
    (run, samples)
}

fn said(outputs: &[u64], repeats: usize, serves: Serves) -> Vec<Finding> {
    let (run, samples) = grid(outputs, repeats, serves);
    findings(&run, &samples)
}

fn of_length(all: &[Finding]) -> Option<&Finding> {
    all.iter().find(|f| f.code == Fact::PromptLength.into())
}

/// A draw that is the same for the same request: from -1 to 1.
fn noise(number: usize) -> f64 {
    let x = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((x >> 11) as f64 / (1_u64 << 53) as f64).mul_add(2.0, -1.0)
}

/// Steady within half a percent, and a prompt token costs next to nothing.
fn calm(asked: &Asked) -> (Ms, Ms) {
    let pace = 1.0 + 0.005 * noise(asked.number);
    ((15.0 + 0.06 * asked.prompt as f64) * pace, 7.0 * pace)
}

/// The same, but two of the eight answers of the shortest prompt take four times as long, and two others.
fn four_slow(asked: &Asked) -> (Ms, Ms) {
    let (first, each) = calm(asked);
    let times = if [3, 9, 14, 20].contains(&asked.number) {
        4.0
    } else {
        1.0
    };
    (first * times, each * times)
}

#[test]
fn what_a_calm_server_takes_for_longer_prompts_is_told() {
    let all = said(&[16, 48], 8, calm);
    let grows = of_length(&all)
        .unwrap()
        .figure(&Known::LatencyPenalty.into());
    assert!(
        grows.is_some_and(|grows| (0.013..0.023).contains(&grows)),
        "{grows:?}"
    );
    assert!(
        all.iter().any(|f| f.cause() == Some(Cause::Healthy)),
        "{all:?}"
    );
}

#[test]
fn e2e_that_differs_by_chance_is_no_effect_of_the_prompt() {
    let serves: Serves = |asked| {
        let pace = 1.0 + 0.02 * noise(asked.number);
        (15.0 * pace, 7.0 * pace)
    };
    let all = said(&[16, 48], 8, serves);
    let effect = of_length(&all).unwrap();
    assert!(
        effect.figure(&Known::LatencyPenalty.into()).is_none(),
        "{effect:?}"
    );
    let most = effect.figure(&Known::High.into());
    assert!(
        most.is_some_and(|most| (0.0..0.05).contains(&most)),
        "{most:?}"
    );
}

#[test]
fn a_few_slow_requests_are_no_effect_of_the_prompt() {
    let all = said(&[16, 48], 8, four_slow);
    let grows = of_length(&all).and_then(|f| f.figure(&Known::LatencyPenalty.into()));
    assert!(grows.is_none_or(|grows| grows < 0.03), "{grows:?}");
    let most = of_length(&all).and_then(|f| f.figure(&Known::High.into()));
    assert!(most.is_none_or(|most| most < 0.1), "{most:?}");
}

#[test]
fn prompts_that_cost_time_are_told_with_what_the_longest_costs() {
    let serves: Serves = |asked| {
        let pace = 1.0 + 0.005 * noise(asked.number);
        ((15.0 + asked.prompt as f64) * pace, 7.0 * pace)
    };
    let all = said(&[16, 48], 8, serves);
    let grows = of_length(&all)
        .unwrap()
        .figure(&Known::LatencyPenalty.into());
    // 344 + 5 ms, 344 + 106 ms
    let truth = 101.0 / 349.0;
    assert!(
        grows.is_some_and(|grows| (grows - truth).abs() < 0.01),
        "{grows:?}"
    );
}

#[test]
fn a_level_that_does_not_follow_the_length_is_not_the_length_s() {
    // From the medium prompt on all take a tenth longer.
    let serves: Serves = |asked| {
        let (first, each) = calm(asked);
        let times = if asked.prompt > 10 { 1.1 } else { 1.0 };
        (first * times, each * times)
    };
    let all = said(&[16, 48], 8, serves);
    assert!(of_length(&all).is_none(), "{:?}", of_length(&all));
}

fn causes(all: &[Finding]) -> Vec<Cause> {
    all.iter().filter_map(Finding::cause).collect()
}

#[test]
fn times_that_rise_while_the_grid_is_measured_are_a_drift_and_no_effect_of_the_prompt() {
    // All times double within 20 s, whatever the prompt.
    let serves: Serves = |asked| {
        let pace = 1.0 + asked.at / 20e3;
        (15.0 * pace, 7.0 * pace)
    };
    let all = said(&[32, 64], 12, serves);
    assert_eq!(causes(&all), [Cause::Drift]);
    assert!(of_length(&all).is_none(), "{:?}", of_length(&all));
    let drift = all
        .iter()
        .find(|f| f.cause() == Some(Cause::Drift))
        .unwrap();
    assert_eq!(drift.cells.len(), 6);
    let level = |figure: Known| drift.figure(&figure.into()).unwrap();
    // 72 requests take 49 s: 3.45 times at the end
    let times = level(Known::LevelAfter) / level(Known::LevelBefore);
    assert!((2.8..3.8).contains(&times), "{times}");
    // enough that trust says so
    assert!(drift.severity > 0.05, "{}", drift.severity);
}

#[test]
fn times_that_fall_are_a_drift_too() {
    let serves: Serves = |asked| {
        let (first, each) = calm(asked);
        let pace = 1.5 - asked.at / 40e3;
        (first * pace, each * pace)
    };
    let all = said(&[16, 48], 8, serves);
    assert_eq!(causes(&all), [Cause::Drift]);
}

#[test]
fn a_drift_too_small_to_be_named_is_no_effect_of_the_prompt() {
    let serves: Serves = |asked| {
        let pace = (1.0 + asked.at / 400e3) * (1.0 + 0.0005 * noise(asked.number));
        (15.0 * pace, 7.0 * pace)
    };
    let all = said(&[16, 48], 8, serves);
    let grows = of_length(&all).and_then(|f| f.figure(&Known::LatencyPenalty.into()));
    assert!(grows.is_none(), "{grows:?}");
}

#[test]
fn a_cold_first_request_of_a_grid_is_a_slow_start() {
    let serves: Serves = |asked| {
        let (first, each) = calm(asked);
        let extra = if asked.number == 0 { 900.0 } else { 0.0 };
        (first + extra, each)
    };
    let all = said(&[16, 48], 8, serves);
    assert_eq!(causes(&all), [Cause::ColdStart]);
    let grows = of_length(&all).and_then(|f| f.figure(&Known::LatencyPenalty.into()));
    assert!(grows.is_none_or(|grows| grows < 0.03), "{grows:?}");
}

#[test]
fn slow_requests_of_short_cells_are_told() {
    let all = said(&[16, 48], 8, four_slow);
    assert_eq!(causes(&all), [Cause::SlowRequests]);
    let slow = all
        .iter()
        .find(|f| f.cause() == Some(Cause::SlowRequests))
        .unwrap();
    assert!(slow.severity > 0.1, "{}", slow.severity);
}

#[test]
fn cells_whose_first_requests_are_slow_each_time_do_not_drift() {
    let serves: Serves = |asked| {
        let (first, each) = calm(asked);
        let extra = if asked.number.is_multiple_of(8) {
            40.0
        } else {
            0.0
        };
        (first + extra, each)
    };
    let all = said(&[16, 48], 8, serves);
    assert!(!causes(&all).contains(&Cause::Drift), "{:?}", causes(&all));
}

#[test]
fn a_target_says_how_many_values_decide_and_so_many_do() {
    let outcome = |repeats: usize| {
        let (run, _) = grid(&[16], repeats, calm);
        let asked = ["short-x-16:ttft.p95<=25ms"];
        bench_insight::targets(&asked, &run).unwrap().remove(0)
    };
    let few = outcome(26);
    assert_eq!(few.verdict, Some(SloVerdict::CannotTell));
    let note = few.note.unwrap();
    assert_eq!(
        note,
        "26 values in short-x-16 are too few to decide; about 73 are needed"
    );
    assert_eq!(outcome(72).verdict, Some(SloVerdict::CannotTell));
    assert_eq!(outcome(73).verdict, Some(SloVerdict::Pass));
}

#[test]
fn what_long_prompts_cost_is_no_time_per_output_token() {
    // 1 ms for a prompt token, 8.25 ms for an output token; long prompts have the long answers.
    let serves: Serves = |asked| (15.0 + asked.prompt as f64, 8.25);
    let outputs: [&[u64]; 3] = [
        &[10, 20, 50, 100],
        &[20, 50, 100, 200],
        &[50, 100, 200, 300],
    ];
    let (run, samples) = grid_of(outputs, 5, serves);
    let all = findings(&run, &samples);
    let of_answers = all.iter().find(|f| f.code == Fact::OutputLength.into());
    let each = of_answers.and_then(|f| f.figure(&Known::TimePerOutputToken.into()));
    assert!(
        each.is_some_and(|each| (each / 1e6 - 8.25).abs() < 0.01),
        "{each:?}"
    );
    let fit = &run.analysis.fits["latency_by_output_tokens"];
    assert!(fit.intervals["b"].low <= 8.25e6 && fit.intervals["b"].high >= 8.25e6 - 1.0);
}

#[test]
fn a_line_through_requests_takes_out_what_their_prompts_cost() {
    // prompts grow with answers, not quite in step
    let requests: Vec<[f64; 3]> = (1..60)
        .map(|i| {
            let (output, input) = (
                10.0 * f64::from(i),
                9.0 * f64::from(i) + f64::from(i % 7) * 40.0,
            );
            [output, input, 12.0 + 8.25 * output + 0.2 * input]
        })
        .collect();
    let line = bench_insight::line_of_answers(&requests).unwrap();
    assert!(
        (line.slope.value - 8.25).abs() < 0.01,
        "{}",
        line.slope.value
    );
    assert!(bench_insight::line_of_answers(&[]).is_none());
}

#[test]
fn first_tokens_that_follow_the_prompt_over_the_cells_are_prefill() {
    // Each cell has prompts of one length, and nobody else asks.
    let serves: Serves = |asked| (10.0 + 20.0 * asked.prompt as f64, 7.0);
    let all = said(&[16], 8, serves);
    assert_eq!(causes(&all), [Cause::Prefill]);
    let found = all
        .iter()
        .find(|f| f.cause() == Some(Cause::Prefill))
        .unwrap();
    let each = found.figure(&Known::TtftPerToken.into()).unwrap();
    assert!((each / 1e6 - 20.0).abs() < 0.5, "{each}");
    // What takes as long whatever the prompt is none.
    let all = said(&[16], 8, |_| (900.0, 7.0));
    assert_eq!(causes(&all), [Cause::WaitingOrPrefill]);
}
