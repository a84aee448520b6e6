//! The grid of `bench-latency`: short cells of equal requests, one at a time and one cell after the other.

use bench_insight::{CellSamples, Conclusion, analyse_run, conclude_run, findings};
use bench_metrics::{CellContext, summarise_cell};
use bench_schema::{
    Cause, Exchange, Fact, Factor, FailureKind, Finding, Known, Outcome, RequestRecord, RunRecord,
    SloVerdict, Stage, TargetOutcome, TokenSource, Usage,
};
use serde_json::json;

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

/// When each token comes, from when the request was sent.
fn evenly((first, each): (Ms, Ms), tokens: u64) -> Vec<Ms> {
    (0..tokens).map(|i| first + i as f64 * each).collect()
}

fn answered(asked: &Asked, events: &[Ms]) -> RequestRecord {
    let tokens = events.len() as u64;
    let mut wire = Exchange::nothing(Outcome::Completed);
    wire.sent = Some(stamp(asked.at));
    wire.status = Some(200);
    wire.events = events_at(events.iter().map(|after| stamp(asked.at + after)));
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
        ..RequestRecord::bare(0, "c", wire)
    }
}

/// So many requests of each prompt and answer length.
fn grid(outputs: &[u64], repeats: usize, serves: Serves) -> (RunRecord, Vec<CellSamples>) {
    grid_of([outputs; 3], repeats, |asked, tokens| {
        answered(asked, &evenly(serves(asked), tokens))
    })
}

/// The same with other answers for each prompt, and whatever is made of each request.
fn grid_of(
    outputs: [&[u64]; 3],
    repeats: usize,
    answer: impl Fn(&Asked, u64) -> RequestRecord,
) -> (RunRecord, Vec<CellSamples>) {
    let mut run = template();
    let mut samples = Vec::new();
    let (mut at, mut number) = (0.0, 0);
    for ((name, prompt), outputs) in PROMPTS.into_iter().zip(outputs) {
        for &tokens in outputs {
            let records: Vec<RequestRecord> = (0..repeats)
                .map(|i| {
                    let asked = Asked { at, number, prompt };
                    let mut record = answer(&asked, tokens);
                    record.id = i as u64;
                    record.cell = format!("{name}-x-{tokens}");
                    at += record
                        .wire
                        .events
                        .last()
                        .map_or(0.0, |last| (last - stamp(asked.at)).as_millis_f64())
                        + 1.0;
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

/// The first cell and two requests of the second: as well the prompt could be slow, but for the rest of the second cell.
#[test]
fn a_slow_start_that_ends_in_the_second_cell_is_no_quick_stretch() {
    let serves: Serves = |asked| {
        let (first, each) = calm(asked);
        let pace = match asked.number {
            0..=12 => 2.4,
            13 => 1.35,
            _ => 1.0,
        };
        (first * pace, each * pace)
    };
    let all = said(&[12, 30], 12, serves);
    assert_eq!(causes(&all), [Cause::ColdStart]);
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

/// As while a cache grows: from the first token to the last its time doubles.
#[test]
fn times_that_bend_with_the_answer_are_no_line() {
    let of_answers = |bend: f64| {
        let (run, samples) = grid_of([&[8, 32, 64]; 3], 10, |asked, tokens| {
            let (first, each) = calm(asked);
            let at = |i: f64| first + each * i + bend * i * i / 2.0;
            let events: Vec<Ms> = (0..tokens).map(|i| at(i as f64)).collect();
            answered(asked, &events)
        });
        let all = findings(&run, &samples);
        let told = all.iter().find(|f| f.code == Fact::OutputLength.into());
        told.and_then(|f| f.figure(&Known::TimePerOutputToken.into()))
    };
    let each = of_answers(0.0).unwrap();
    assert!((6.9e6..7.1e6).contains(&each), "{each}");
    assert_eq!(of_answers(0.1), None);
}

fn refused() -> Outcome {
    Outcome::Failed {
        stage: Stage::Headers,
        failure: FailureKind::Status,
        message: "HTTP 503".to_owned(),
    }
}

/// What a run of these requests, one after the other, says of a target.
fn target(
    asked: &serde_json::Value,
    requests: usize,
    answer: impl Fn(&Asked) -> RequestRecord,
) -> TargetOutcome {
    let mut run = template();
    run.config = asked.clone();
    run.cells = vec![bare("c1", requests)];
    let mut conclusion = Conclusion::new(&run).unwrap();
    for number in 0..requests {
        let at = 400.0 * number as f64;
        let mut record = answer(&Asked {
            at,
            number,
            prompt: 19,
        });
        record.id = number as u64;
        "c1".clone_into(&mut record.cell);
        conclusion.push(&record);
    }
    let concluded = conclusion.finish(&mut run);
    conclude_run(&mut run, concluded.evidence).unwrap();
    run.targets.remove(0)
}

#[test]
fn a_target_says_how_many_values_decide_and_so_many_do() {
    let asked = json!({"target": "c1:ttft.p95<=25ms"});
    let outcome = |n| target(&asked, n, |asked| answered(asked, &evenly(calm(asked), 16)));
    let few = outcome(26);
    assert_eq!(few.verdict, Some(SloVerdict::CannotTell));
    assert_eq!(
        few.note.unwrap(),
        "100 % of the values in c1 are within the limit (95 % interval 87–100 %), and 95 % are needed; about 73 requests in total would decide"
    );
    assert_eq!(outcome(72).verdict, Some(SloVerdict::CannotTell));
    assert_eq!(outcome(73).verdict, Some(SloVerdict::Pass));
}

/// Where all are within, the interval narrows with their number, not with its root.
#[test]
fn a_share_that_is_asked_for_says_how_many_requests_decide_and_so_many_do() {
    let asked = json!({"slo": ["e2e=900ms"], "target": "attainment>=95%"});
    let outcome = |n| target(&asked, n, |asked| answered(asked, &evenly(calm(asked), 16)));
    let note = outcome(40).note.unwrap();
    assert!(
        note.ends_with("; about 73 requests in total would decide"),
        "{note}"
    );
    assert_eq!(outcome(72).verdict, Some(SloVerdict::CannotTell));
    assert_eq!(outcome(74).verdict, Some(SloVerdict::Pass));
}

/// 186 of 200 within show no 90 %, whether a target or an objective asks; the interval of the P90 of those that were answered lay below the limit.
#[test]
fn a_target_says_what_an_objective_with_its_limit_says() {
    let outcome = |asked, lost_of_15: usize| {
        target(&asked, 200, |asked| {
            let mut record = answered(asked, &evenly(calm(asked), 16));
            if (asked.number * 7) % 15 < lost_of_15 {
                record.wire = Exchange::nothing(refused());
                record.wire.sent = Some(stamp(asked.at));
                record.wire.closed = Some(stamp(asked.at + 5.0));
            }
            record
        })
    };
    for (lost, verdict) in [
        (0, SloVerdict::Pass),
        (1, SloVerdict::CannotTell),
        (4, SloVerdict::Fail),
    ] {
        let alone = outcome(json!({"target": "e2e.p90<=300ms"}), lost);
        let beside = outcome(
            json!({"target": "e2e.p90<=300ms", "slo": "p90:e2e=300ms"}),
            lost,
        );
        assert_eq!((alone.verdict, &alone), (Some(verdict), &beside), "{lost}");
        let above = outcome(json!({"target": "e2e.p90>300ms"}), lost);
        assert_eq!(
            above.verdict == Some(SloVerdict::CannotTell),
            lost == 1,
            "{above:?}"
        );
        assert_eq!(above.met, lost == 4, "{above:?}");
    }
}

/// A lost request is no late one, and has no speed.
#[test]
fn a_target_on_what_nobody_waits_for_is_about_requests_that_have_it() {
    let outcome = |text: &str| {
        target(&json!({"target": text}), 200, |asked| {
            let mut record = answered(asked, &evenly(calm(asked), 16));
            if asked.number.is_multiple_of(3) {
                record.wire = Exchange::nothing(refused());
            }
            record
        })
    };
    for text in [
        "lateness.p95<=5ms",
        "tokens_per_s_user.p50>=1",
        "input_tokens.p95<=19",
    ] {
        assert!(outcome(text).met, "{text}: {:?}", outcome(text));
    }
    assert!(!outcome("tokens_per_s_user.p50>=1000000").met);
}

#[test]
fn a_target_on_a_group_is_about_its_requests() {
    let outcome = |text: &str| {
        target(&json!({"target": text}), 200, |asked| {
            let slow = asked.number.is_multiple_of(2);
            let (first, each) = calm(asked);
            let first = if slow { first + 100.0 } else { first };
            let mut record = answered(asked, &evenly((first, each), 16));
            record.use_case = Some(if slow { "mail" } else { "chat" }.to_owned());
            record.wire.connection.endpoint = u32::from(slow);
            record
        })
    };
    for (text, met) in [
        ("use_case=chat:ttft.p95<=25ms", true),
        ("use_case=mail:ttft.p95<=25ms", false),
        ("endpoint=http://a:ttft.p95<=25ms", true),
        ("endpoint=http://b:ttft.p95<=25ms", false),
        ("ttft.p95<=25ms", false),
    ] {
        let outcome = outcome(text);
        let verdict = if met {
            SloVerdict::Pass
        } else {
            SloVerdict::Fail
        };
        assert_eq!(outcome.verdict, Some(verdict), "{text}: {outcome:?}");
    }
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
    let (run, samples) = grid_of(outputs, 5, |asked, tokens| {
        answered(asked, &evenly(serves(asked), tokens))
    });
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

fn of_cause(all: &[Finding], cause: Cause) -> &Finding {
    all.iter().find(|f| f.cause() == Some(cause)).unwrap()
}

fn figure(finding: &Finding, known: Known) -> f64 {
    finding.figure(&known.into()).unwrap()
}

/// Times of the calm server, so many times as long at some times.
fn at_times(asked: &Asked, times: f64) -> (Ms, Ms) {
    let (first, each) = calm(asked);
    (first * times, each * times)
}

#[test]
fn prompts_whose_later_tokens_take_longer_are_prefill() {
    // 5, 19 and 106 tokens: 20, 28 and 287 ms
    let serves: Serves = |asked| {
        let prompt = asked.prompt as f64;
        (20.0 + 0.024 * prompt * prompt, 6.0)
    };
    let all = said(&[12], 12, serves);
    assert_eq!(causes(&all), [Cause::Prefill]);
    // what does not grow with the prompt may be the way to the server
    let all = said(&[12], 12, |_| (200.0, 6.0));
    assert_eq!(causes(&all), [Cause::WaitingOrPrefill]);
}

#[test]
fn a_level_that_jumps_inside_a_cell_of_a_grid_is_a_step() {
    // 16.3 s in all; the jump comes inside a cell of ten
    let serves: Serves = |asked| at_times(asked, if asked.at >= 9e3 { 1.8 } else { 1.0 });
    let all = said(&[8, 32, 64], 10, serves);
    assert_eq!(causes(&all), [Cause::Step]);
    let step = of_cause(&all, Cause::Step);
    assert!(
        (figure(step, Known::At) / 1e6 - 9e3).abs() < 600.0,
        "{step:?}"
    );
    let times = figure(step, Known::LevelAfter) / figure(step, Known::LevelBefore);
    assert!((times - 1.8).abs() < 0.05, "{times}");
    assert!(of_length(&all).is_none(), "{:?}", of_length(&all));
    assert!(step.severity > 0.05, "{}", step.severity);
}

#[test]
fn a_level_that_moves_between_two_cells_of_a_grid_is_a_step() {
    // after the first answer length, or the second, of the second prompt
    for (cell, times) in [(4, 1.8), (5, 1.5), (4, 0.6)] {
        let (run, samples) = grid_of([&[8, 32, 64]; 3], 10, |asked, tokens| {
            let times = if asked.number >= 10 * cell {
                times
            } else {
                1.0
            };
            answered(asked, &evenly(at_times(asked, times), tokens))
        });
        let all = findings(&run, &samples);
        assert_eq!(causes(&all), [Cause::Step], "{cell} {times}");
        let step = of_cause(&all, Cause::Step);
        let told = figure(step, Known::LevelAfter) / figure(step, Known::LevelBefore);
        assert!((told - times).abs() < 0.05, "{told}");
    }
}

/// A prompt of which each token makes those of the answer slow for a while would explain it as well, in all cells but the first.
#[test]
fn a_level_that_rises_in_the_last_cell_of_a_small_grid_is_no_slow_start() {
    let (run, samples) = grid_of([&[30, 60], &[], &[30, 60]], 9, |asked, tokens| {
        let times = if asked.number >= 27 { 1.97 } else { 1.0 };
        answered(asked, &evenly(at_times(asked, times), tokens))
    });
    let all = findings(&run, &samples);
    assert_eq!(causes(&all), [Cause::Step]);
    let step = of_cause(&all, Cause::Step);
    let told = figure(step, Known::LevelAfter) / figure(step, Known::LevelBefore);
    assert!((told - 1.97).abs() < 0.05, "{told}");
}

#[test]
fn a_slow_start_that_fades_over_the_first_cell_of_a_grid_is_one() {
    let serves: Serves = |asked| at_times(asked, 1.0 + 2.0 * (-asked.at / 1500.0).exp());
    let all = said(&[22, 44], 6, serves);
    assert_eq!(causes(&all), [Cause::ColdStart]);
}

#[test]
fn a_level_that_goes_and_comes_back_over_a_grid_is_told_with_its_length() {
    let serves: Serves = |asked| {
        let slow = (7e3..14e3).contains(&asked.at);
        at_times(asked, if slow { 1.8 } else { 1.0 })
    };
    let all = said(&[8, 32, 64], 10, serves);
    assert_eq!(causes(&all), [Cause::Step]);
    let lasted = figure(of_cause(&all, Cause::Step), Known::Lasted) / 1e6;
    assert!((lasted - 7e3).abs() < 900.0, "{lasted}");
}

#[test]
fn the_first_seconds_of_a_grid_that_are_slow_are_a_slow_start() {
    // all of the first cell and a part of the second
    let serves: Serves = |asked| at_times(asked, if asked.at < 4e3 { 2.5 } else { 1.0 });
    let all = said(&[8, 32, 64], 10, serves);
    assert_eq!(causes(&all), [Cause::ColdStart]);
    let start = of_cause(&all, Cause::ColdStart);
    assert!(
        (figure(start, Known::At) / 1e6 - 4e3).abs() < 700.0,
        "{start:?}"
    );
}

/// The last but one of a cell of fourteen takes eight times as long.
#[test]
fn a_stop_that_one_request_met_moves_no_level_of_a_grid() {
    for stray in [26, 27, 40] {
        let all = grid_of([&[15, 40]; 3], 14, |asked, tokens| {
            let times = if asked.number == stray { 8.0 } else { 1.0 };
            answered(asked, &evenly(at_times(asked, times), tokens))
        });
        let found = causes(&findings(&all.0, &all.1));
        assert!(
            !found.contains(&Cause::Step) && !found.contains(&Cause::Drift),
            "{stray} {found:?}"
        );
    }
}

#[test]
fn times_that_alternate_over_a_grid_are_a_step_with_its_changes() {
    let serves: Serves = |asked| {
        let slow = (asked.at / 2.5e3).floor().rem_euclid(2.0) == 0.0;
        at_times(asked, if slow { 1.7 } else { 1.0 })
    };
    let all = said(&[8, 32, 64], 10, serves);
    assert_eq!(causes(&all), [Cause::Step]);
    let changes = figure(of_cause(&all, Cause::Step), Known::Changes);
    assert!((7.0..14.0).contains(&changes), "{changes}");
}

#[test]
fn requests_that_are_slow_by_chance_move_no_level() {
    for (part, times) in [(0.08, 4.0), (0.2, 2.0), (0.35, 1.6)] {
        for seed in 0..40 {
            let (run, samples) = grid_of([&[8, 32, 64]; 3], 10, |asked, tokens| {
                let slow = noise(asked.number + 1000 * seed) < 2.0 * part - 1.0;
                let times = at_times(asked, if slow { times } else { 1.0 });
                answered(asked, &evenly(times, tokens))
            });
            let named = causes(&findings(&run, &samples));
            let level = [Cause::Step, Cause::Drift];
            assert!(
                !level.iter().any(|cause| named.contains(cause)),
                "{part} {seed}: {named:?}"
            );
        }
    }
}

#[test]
fn tokens_that_take_longer_after_long_prompts_move_no_level() {
    for (each, later) in [(0.02, 0.0), (0.05, 0.0), (0.02, 0.02), (0.0, 0.03)] {
        let (run, samples) = grid_of([&[8, 32, 64]; 3], 10, |asked, tokens| {
            let (first, gap) = calm(asked);
            let gap = gap * (1.0 + each * asked.prompt as f64 + later * tokens as f64);
            answered(asked, &evenly((first, gap), tokens))
        });
        let named = causes(&findings(&run, &samples));
        assert!(
            !named
                .iter()
                .any(|c| [Cause::Step, Cause::ColdStart, Cause::Drift].contains(c)),
            "{named:?}"
        );
    }
}

#[test]
fn stops_that_come_evenly_over_a_grid_are_periodic() {
    // 300 ms every 2 s
    let (run, samples) = grid_of([&[8, 32, 64]; 3], 10, |asked, tokens| {
        let (first, each) = calm(asked);
        let mut at = asked.at;
        let mut events = Vec::new();
        for i in 0..tokens {
            at += if i == 0 { first } else { each };
            let into = at.rem_euclid(2e3);
            if into < 300.0 {
                at += 300.0 - into;
            }
            events.push(at - asked.at);
        }
        answered(asked, &events)
    });
    let all = findings(&run, &samples);
    assert_eq!(causes(&all), [Cause::PeriodicStall]);
    let period = figure(of_cause(&all, Cause::PeriodicStall), Known::StallPeriod) / 1e6;
    assert!((period - 2e3).abs() < 50.0, "{period}");
}

#[test]
fn what_two_cells_lost_is_told_though_each_lost_one() {
    let (run, samples) = grid_of([&[8, 32, 64]; 3], 10, |asked, tokens| {
        let mut record = answered(asked, &evenly(calm(asked), tokens));
        if [14, 56].contains(&asked.number) {
            record.wire.outcome = Outcome::Truncated {
                message: "no end".to_owned(),
            };
        }
        record
    });
    let all = findings(&run, &samples);
    assert_eq!(causes(&all), [Cause::Failing]);
    let lost = of_cause(&all, Cause::Failing);
    assert!((figure(lost, Known::Failed) - 2.0).abs() < 1e-9);
    assert!(
        (lost.severity - 2.0 / 90.0).abs() < 1e-9,
        "{}",
        lost.severity
    );
}

fn repeated(serves: Serves) -> Vec<Finding> {
    repeats_of(24, serves)
}

/// Three repeats of so many requests, one second apart; what each request takes.
fn repeats_of(each: usize, serves: Serves) -> Vec<Finding> {
    let mut run = template();
    let mut records = Vec::new();
    let mut at = 0.0;
    for number in 0..3 * each {
        let asked = Asked {
            at,
            number,
            prompt: 40,
        };
        let mut record = answered(&asked, &evenly(serves(&asked), 20));
        record.id = (number % each) as u64;
        record.repeat = u32::try_from(number / each).unwrap();
        let last = record.wire.events.last().unwrap();
        at = (last - stamp(0.0)).as_millis_f64() + 1.0;
        if number % each == each - 1 {
            at += 1000.0;
        }
        records.push(record);
    }
    let mut cell = bare("c", records.len());
    cell.repeats = 3;
    summarise_cell(&records, CellContext::new(cell.load.clone())).fill(&mut cell);
    let samples = vec![CellSamples::of("c", &records)];
    run.cells.push(cell);
    run.analysis = analyse_run(&run, &samples);
    findings(&run, &samples)
}

#[test]
fn a_step_between_two_repeats_of_a_cell_is_told() {
    let all = repeated(|asked| at_times(asked, if asked.number < 24 { 1.0 } else { 1.8 }));
    let step = of_cause(&all, Cause::Step);
    assert!((figure(step, Known::LevelAfter) / figure(step, Known::LevelBefore) - 1.8).abs() < 0.1);
    // after the first repeat, of 24 answers of some 150 ms
    let at = figure(step, Known::At) / 1e9;
    assert!((3.5..5.5).contains(&at), "{at}");
}

#[test]
fn repeats_of_one_speed_are_healthy() {
    let all = repeated(calm);
    assert_eq!(causes(&all), [Cause::Healthy]);
}

/// Two replicas in turn behind one address, of which one is slower: eight answers in each of three repeats.
#[test]
fn every_second_request_of_a_few_in_each_repeat_is_slow() {
    let all = repeats_of(8, |asked| {
        at_times(
            asked,
            if asked.number.is_multiple_of(2) {
                1.8
            } else {
                1.0
            },
        )
    });
    assert_eq!(causes(&all), [Cause::SlowRequests]);
    let told = of_cause(&all, Cause::SlowRequests);
    assert!((figure(told, Known::SlowShare) - 0.5).abs() < 0.01);
    assert_eq!(causes(&repeats_of(8, calm)), [Cause::Healthy]);
}

#[test]
fn slow_requests_of_one_repeat_cost_a_third_over_three() {
    let slow: Serves = |asked| {
        let is_slow = asked.number >= 48 && asked.number % 6 == 1;
        at_times(asked, if is_slow { 4.0 } else { 1.0 })
    };
    let all = repeated(slow);
    let told = of_cause(&all, Cause::SlowRequests);
    // four of 24 take 3 more: 12 of 36 in one repeat
    assert!(
        (told.severity / 0.111 - 1.0).abs() < 0.2,
        "{}",
        told.severity
    );
}

/// Ten requests a second, three times five seconds, with 1.5 s between.
fn offered(serves: impl Fn(&Asked) -> Vec<Ms>) -> Vec<Finding> {
    let mut run = template();
    let mut records = Vec::new();
    for number in 0..150 {
        let repeat = number / 50;
        let at = 100.0 * number as f64 + 1500.0 * repeat as f64;
        let asked = Asked {
            at,
            number,
            prompt: 40,
        };
        let mut record = answered(&asked, &serves(&asked));
        record.id = number as u64 % 50;
        record.repeat = u32::try_from(repeat).unwrap();
        records.push(record);
    }
    let mut cell = bare("c", records.len());
    cell.repeats = 3;
    cell.load = bench_schema::Load::Open {
        rate_per_s: Some(10.0),
        arrival: bench_schema::ArrivalKind::Constant,
        in_flight_cap: None,
    };
    cell.headline = bench_schema::Origin::Due;
    cell.plan.requested_rate_per_s = Some(10.0);
    cell.plan.offered_rate_per_s = Some(10.0);
    summarise_cell(&records, CellContext::new(cell.load.clone())).fill(&mut cell);
    let samples = vec![CellSamples::of("c", &records)];
    run.cells.push(cell);
    run.analysis = analyse_run(&run, &samples);
    findings(&run, &samples)
}

#[test]
fn who_answers_all_twice_as_slowly_from_one_moment_on_is_not_overloaded() {
    // every answer takes 0.45 s, and 1 s from the tenth second on
    let found = causes(&offered(|asked| {
        let slow = if asked.number < 107 { 1.0 } else { 2.2 };
        let pace = slow * (1.0 + 0.05 * noise(asked.number));
        evenly((150.0 * pace, 15.0 * pace), 20)
    }));
    assert!(!found.contains(&Cause::Overload), "{found:?}");
}

#[test]
fn a_stop_that_the_first_requests_of_a_later_repeat_meet_is_no_start() {
    // the second repeat begins at 6.5 s, and nothing moves until 7.7 s
    let all = offered(|asked| {
        let late = (7700.0 - asked.at).max(0.0);
        let late = if asked.at > 6000.0 { late } else { 0.0 };
        evenly((15.0 + late, 9.0 + 0.3 * noise(asked.number)), 20)
    });
    assert_eq!(causes(&all), [Cause::Frozen]);
    let at = figure(of_cause(&all, Cause::Frozen), Known::At) / 1e9;
    assert!((at - 6.5).abs() < 0.01, "{at}");
}
