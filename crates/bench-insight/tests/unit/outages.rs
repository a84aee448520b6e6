use super::*;

const MS: f64 = 1e6;

fn at(ms: f64) -> Stamp {
    Stamp::EPOCH + Nanos::from_f64(ms * MS)
}

/// An answer of 2 s whose tokens stood still then, for so long.
fn answer(stalls: &[(f64, f64)]) -> RequestSample {
    RequestSample {
        end: at(2000.0),
        ttft: Some(10.0 * MS),
        stalls: stalls
            .iter()
            .map(|(from, ms)| (at(*from), ms * MS))
            .collect(),
        ..RequestSample::default()
    }
}

fn longest(answers: &[RequestSample]) -> f64 {
    let found = standstills(answers.iter(), Stamp::EPOCH, 0.9);
    found.iter().map(|all| all.length / MS).fold(0.0, f64::max)
}

#[test]
fn long_steps_with_tokens_between_them_are_no_common_stop() {
    // each gets its token a little after the one before
    let steps = |i: u32| {
        let late = 0.01 * f64::from(i);
        let step = |k: u32| (500.0 + 80.0 * f64::from(k) + late, 80.0);
        answer(&(0..4).map(step).collect::<Vec<_>>())
    };
    let answers: Vec<RequestSample> = (0..12).map(steps).collect();
    assert!((79.0..81.0).contains(&longest(&answers)));
    let stop = |i: u32| answer(&[(500.0 + 0.01 * f64::from(i), 320.0)]);
    let answers: Vec<RequestSample> = (0..12).map(stop).collect();
    assert!((319.0..321.0).contains(&longest(&answers)));
}

#[test]
fn an_outage_is_over_with_the_first_answer_that_comes_whenever_that_was_sent() {
    let lost = |due: f64| LostSample {
        repeat: 0,
        due: at(due),
        end: at(due + 5.0),
        sent: false,
        how: Lost::Failed(Stage::Connect, FailureKind::Refused),
        status: None,
        endpoint: 0,
    };
    let failed: Vec<LostSample> = (0..20)
        .map(|i| lost(3000.0 + 100.0 * f64::from(i)))
        .collect();
    let until = |answers: &[(f64, f64)]| {
        let answers = answers.iter().copied();
        let answers = answers.map(|(sent, end)| (at(sent), at(end)));
        let found = stretch_of_failures(answers, failed.iter(), at(0.0)).unwrap();
        assert_eq!(found.failed, 20);
        found.until
    };
    let ms = |ms| Some(Nanos::from_millis(ms));
    // one that was sent before the last of them failed comes when no more is sent
    assert_eq!(until(&[(0.0, 900.0), (2950.0, 6000.0)]), ms(6000));
    assert_eq!(
        until(&[(0.0, 900.0), (2950.0, 6000.0), (5500.0, 6500.0)]),
        ms(5500)
    );
    assert_eq!(
        until(&[(0.0, 900.0), (2950.0, 5400.0), (5500.0, 6500.0)]),
        ms(5400)
    );
    assert_eq!(until(&[(0.0, 900.0)]), None);
}

/// Every second request fails at once, and answers take 3 s: in the first 3 s no answer ends, and none is missing.
#[test]
fn the_time_before_the_first_answer_is_no_outage_of_a_server_that_fails_by_chance() {
    let (mut answers, mut failed) = (Vec::new(), Vec::new());
    for i in 0..60_u32 {
        let due = 250.0 * f64::from(i);
        if i % 2 == 0 {
            failed.push(LostSample {
                repeat: 0,
                due: at(due),
                end: at(due + 5.0),
                sent: true,
                how: Lost::Failed(Stage::Headers, FailureKind::Reset),
                status: None,
                endpoint: 0,
            });
        } else {
            answers.push((at(due), at(due + 3000.0)));
        }
    }
    let found = stretch_of_failures(answers.iter().copied(), failed.iter(), at(0.0));
    assert_eq!(found, None);
}

/// The first of two endpoints answers all the time, but for 600 ms; the second refuses from 2 to 6 s.
#[test]
fn an_outage_of_one_of_two_endpoints_is_its_own_whatever_the_other_does_for_a_moment() {
    let away = 2000.0..6000.0;
    let (mut requests, mut lost) = (Vec::new(), Vec::new());
    for i in 0..100_u32 {
        let due = 100.0 * f64::from(i);
        let refuses = i % 2 == 1 && away.contains(&due);
        let by_chance = i % 2 == 0 && (3900.0..4500.0).contains(&due);
        if refuses {
            lost.push(LostSample {
                repeat: 0,
                due: at(due),
                end: at(due),
                sent: false,
                how: Lost::Failed(Stage::Connect, FailureKind::Refused),
                status: None,
                endpoint: 1,
            });
        } else if !by_chance {
            requests.push(RequestSample {
                due: at(due),
                start: at(due),
                end: at(due + 50.0),
                endpoint: i % 2,
                ..RequestSample::default()
            });
        }
    }
    let samples = CellSamples {
        requests,
        lost,
        ..CellSamples::default()
    };
    let told = samples.outage().unwrap();
    let ms = Nanos::from_millis;
    assert!(told.of_one_endpoint);
    assert_eq!((told.from, told.until), (ms(2100), Some(ms(6100))));
    assert_eq!(told.failed, 20);
}

#[test]
fn requests_that_find_nobody_else_are_told_from_those_that_wait_beside_them() {
    let request = |start: f64, end: f64, ttft: f64| RequestSample {
        start: at(start),
        end: at(end),
        ttft: Some(ttft),
        ..RequestSample::default()
    };
    let mut all: Vec<RequestSample> = Vec::new();
    for i in 0..5 {
        let from = 1000.0 * f64::from(i);
        all.push(request(from, from + 500.0, 1.0));
        all.push(request(from + 100.0, from + 600.0, 2.0));
    }
    assert_eq!(ttft_alone(all.iter()), Some(vec![1.0; 5]));
    assert_eq!(ttft_alone(all.iter().take(8)), None);
}

/// Two of three users are served at a time, in answers of 1 s of which each waits for half of one; from 4.2 s to 5.2 s the server stands still.
#[test]
fn a_stop_of_all_is_told_though_somebody_always_waits() {
    let stop = (4200.0, 1000.0);
    let late = |ms: f64| if ms > stop.0 { ms + stop.1 } else { ms };
    let answer = |i: u32| {
        let due = 500.0 * f64::from(i);
        let (first, end) = (late(due + 510.0), late(due + 1500.0));
        let held = (due + 510.0..due + 1500.0).contains(&stop.0);
        RequestSample {
            due: at(late(due)),
            start: at(late(due)),
            end: at(end),
            ttft: Some((first - late(due)) * MS),
            output_tokens: Some(100),
            input_tokens: Some(60),
            events: 100,
            stalls: held
                .then(|| (at(stop.0), stop.1 * MS))
                .into_iter()
                .collect(),
            ..RequestSample::default()
        }
    };
    let samples = CellSamples {
        requests: (0..40).map(answer).collect(),
        ..CellSamples::default()
    };
    let told = samples.stall();
    let wanted = Stall {
        from: Nanos::from_millis(4200),
        length: Nanos::from_millis(1000),
        of_one_endpoint: false,
    };
    assert_eq!(told, Some(wanted));
}

/// An answer of 12 tokens, the first after 20 ms: the server stands still in a stretch, and all that it is asked meanwhile waits.
fn of_a_server_that_stands(due: f64, still: (f64, f64)) -> RequestSample {
    let late = |ms: f64| {
        if (still.0..still.1).contains(&ms) {
            still.1
        } else {
            ms
        }
    };
    let first = late(due + 20.0);
    RequestSample {
        due: at(due),
        start: at(due),
        end: at(first + 44.0),
        ttft: Some((first - due) * MS),
        output_tokens: Some(12),
        input_tokens: Some(20),
        events: 12,
        ..RequestSample::default()
    }
}

#[test]
fn a_stop_that_only_first_tokens_meet_is_told_however_many_come_at_once_behind_it() {
    // two a second: seven wait, and all get their first tokens at one moment
    let requests: Vec<_> = (0..40)
        .map(|i| of_a_server_that_stands(500.0 * f64::from(i), (6_600.0, 9_600.0)))
        .collect();
    let told = CellSamples {
        requests,
        ..CellSamples::default()
    }
    .stall();
    // from the first of them on
    let told = told.unwrap();
    assert_eq!(told.from, Nanos::from_millis(7000));
    assert_eq!(told.length, Nanos::from_millis(2600));
}

#[test]
fn a_long_stop_that_a_single_user_meets_is_told_and_a_slow_request_is_none() {
    let stall = |still: (f64, f64)| {
        let mut due = 0.0;
        let requests = (0..120).map(|_| {
            let request = of_a_server_that_stands(due, still);
            due = (request.end - at(0.0)).as_f64() / MS + 1.0;
            request
        });
        let cell = CellSamples {
            requests: requests.collect(),
            ..CellSamples::default()
        };
        cell.stall()
    };
    let length = stall((3_000.0, 5_500.0)).map(|stall| stall.length.as_f64() / MS);
    assert!(
        length.is_some_and(|ms| (2_430.0..=2_520.0).contains(&ms)),
        "{length:?}"
    );
    // 0.3 of some 8 s would be a slow request as well
    assert_eq!(stall((3_000.0, 3_300.0)), None);
}

#[test]
fn requests_that_are_slow_again_and_again_are_no_stops_of_their_only_user() {
    let mut due = 0.0;
    let requests = (0..60).map(|i| {
        let slow = if i % 12 == 5 { 900.0 } else { 0.0 };
        let request = of_a_server_that_stands(due, (due, due + slow));
        due = (request.end - at(0.0)).as_f64() / MS + 1.0;
        request
    });
    let cell = CellSamples {
        requests: requests.collect(),
        ..CellSamples::default()
    };
    assert_eq!(cell.stall(), None);
}

#[test]
fn a_stop_that_only_answers_met_which_were_stopped_on_purpose_is_told() {
    let stopped = |i: u32| RequestSample {
        stalls: [(at(4_000.0), 2_000.0 * MS)].into(),
        end: at(6_010.0),
        ..of_a_server_that_stands(3_900.0 + f64::from(i), (0.0, 0.0))
    };
    let quick = |i: u32| of_a_server_that_stands(60.0 * f64::from(i), (0.0, 0.0));
    let told = CellSamples {
        stopped: (0..60).map(quick).chain((0..6).map(stopped)).collect(),
        ..CellSamples::default()
    }
    .stall();
    assert_eq!(
        told.map(|stall| stall.length),
        Some(Nanos::from_millis(2000))
    );
}

#[test]
fn a_stop_of_one_of_two_endpoints_is_told_where_the_other_goes_on() {
    let never = (0.0, 0.0);
    let stop = |of_first: (f64, f64), of_second: (f64, f64)| {
        let request = |i: u32| {
            let still = [of_first, of_second][i as usize % 2];
            RequestSample {
                endpoint: i % 2,
                ..of_a_server_that_stands(50.0 * f64::from(i), still)
            }
        };
        let cell = CellSamples {
            requests: (0..200).map(request).collect(),
            ..CellSamples::default()
        };
        cell.stall()
            .map(|stop| (stop.length.as_f64() / MS, stop.of_one_endpoint))
    };
    assert_eq!(stop(never, never), None);
    let still = (4_001.0, 7_001.0);
    let (length, of_one) = stop(never, still).unwrap();
    assert!(of_one && (2_900.0..3_001.0).contains(&length), "{length}");
    let (length, of_one) = stop(still, still).unwrap();
    assert!(!of_one && (2_900.0..3_001.0).contains(&length), "{length}");
}

#[test]
fn a_server_at_which_the_warm_up_still_streams_does_not_stand_still() {
    // all measured ones have their first token and wait 1.2 s for a place
    let measured = |i: u32| RequestSample {
        end: at(4000.0),
        start: at(200.0 + f64::from(i)),
        due: at(200.0 + f64::from(i)),
        ..answer(&[(300.0 + f64::from(i), 1200.0)])
    };
    let warm = |stalls: &[(f64, f64)]| RequestSample {
        start: at(-1500.0),
        end: at(1600.0),
        ..answer(stalls)
    };
    let samples = |warm_up: Vec<RequestSample>| CellSamples {
        requests: (0..6).map(measured).collect(),
        warm_up,
        ..CellSamples::default()
    };
    assert!(samples(Vec::new()).stall().is_some());
    assert_eq!(samples(vec![warm(&[]); 4]).stall(), None);
    let stopped = vec![warm(&[(301.0, 1200.0)]); 4];
    assert!(samples(stopped).stall().is_some());
}

/// One in some number waits longer, whatever the others do; from 6 s on nobody gets a first token for 1.4 s, where there is a stop.
fn slow_by_chance(every: u32, stop: bool) -> Option<Stall> {
    let back = 7400.0;
    let answer = |i: u32| {
        let due = 230.0 * f64::from(i);
        let own = if i % every == 3 { 1500.0 } else { 50.0 };
        let held = stop && (6000.0..back).contains(&(due + own));
        let first = if held { back + 50.0 } else { due + own };
        RequestSample {
            due: at(due),
            start: at(due),
            end: at(first + 200.0),
            ttft: Some((first - due) * MS),
            output_tokens: Some(20),
            input_tokens: Some(60),
            events: 20,
            ..RequestSample::default()
        }
    };
    let mut requests: Vec<RequestSample> = (0..40).map(answer).collect();
    // the last are slow, and nobody comes after them
    requests.retain(|r| stop || r.due <= at(230.0 * f64::from(3 + 3 * every)));
    CellSamples {
        requests,
        ..CellSamples::default()
    }
    .stall()
}

#[test]
fn first_tokens_that_are_late_by_themselves_are_no_stop() {
    for every in [5, 7, 9] {
        assert_eq!(slow_by_chance(every, false), None, "one in {every}");
        let stall = slow_by_chance(every, true).unwrap();
        let (from, length) = (stall.from.as_f64() / MS, stall.length.as_f64() / MS);
        assert!(
            (5_800.0..6_200.0).contains(&from) && length > 1_200.0,
            "{from} {length}"
        );
    }
}
