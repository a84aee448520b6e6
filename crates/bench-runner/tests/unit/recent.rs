use bench_schema::{Exchange, FailureKind, Stage as Place};

use super::*;

fn at(ms: i64) -> Stamp {
    Stamp::EPOCH + Nanos::from_millis(ms)
}

fn ended(recent: &mut Recent, outcome: Outcome, tokens: u64) {
    let record = RequestRecord {
        output_tokens: Some(tokens),
        ..RequestRecord::bare(0, "c", Exchange::nothing(outcome))
    };
    recent.ended(&record);
}

#[test]
fn rates_and_quantiles_are_of_the_latest_whole_seconds() {
    let mut recent = Recent::default();
    recent.roll(at(0), 5);
    ended(&mut recent, Outcome::Completed, 30);
    recent.latencies(Metric::Ttft, &[2e6]);
    assert_eq!(recent.rates(), None, "no second is over");
    recent.roll(at(500), 7);
    recent.roll(at(2000), 9);
    let rates = recent.rates().unwrap();
    assert_eq!(
        (rates.taken_up, rates.ended, rates.tokens),
        (2.0, 0.5, 15.0)
    );
    let (p50, _) = recent.quantiles(Metric::Ttft).unwrap();
    assert!((p50 / 2e6 - 1.0).abs() < 0.02, "{p50}");
    assert_eq!(recent.quantiles(Metric::Itl), None);
    // they leave with the tenth second after theirs, and stay in the curve
    for second in 3..=2 + i64::try_from(LATEST).unwrap() {
        recent.roll(at(1000 * second), 9);
    }
    assert_eq!(recent.quantiles(Metric::Ttft), None);
    assert!(recent.rates().unwrap().ended <= 0.0);
    let [ttft, itl] = recent.curves();
    assert_eq!(ttft.iter().flatten().count(), 1);
    assert_eq!(itl, vec![None; 1 + LATEST]);
}

#[test]
fn rates_are_of_the_time_since_load_began() {
    let mut recent = Recent::default();
    // the first request, and a server that takes five seconds to be found
    for second in 0..=5 {
        recent.roll(at(1000 * second), 1);
    }
    recent.begin(Stage {
        began: at(5500),
        over_before: 1,
        ..Stage::default()
    });
    recent.roll(at(6000), 21);
    assert_eq!(recent.rates(), None, "no second of load is over");
    recent.roll(at(7500), 81);
    assert_eq!(recent.rates().map(|rates| rates.taken_up), Some(40.0));
    // a later phase goes on from there
    recent.begin(Stage {
        began: at(7500),
        over_before: 50,
        ..Stage::default()
    });
    recent.roll(at(9500), 161);
    assert_eq!(recent.rates().map(|rates| rates.taken_up), Some(40.0));
}

#[test]
fn what_is_kept_is_bounded() {
    let mut recent = Recent::default();
    for second in 0..=1000 {
        recent.roll(at(1000 * second), 0);
    }
    assert_eq!(
        (recent.whole.len(), recent.curves[0].len()),
        (LATEST, CURVE)
    );
}

#[test]
fn failures_are_told_by_kind_and_place() {
    let mut recent = Recent::default();
    for _ in 0..2 {
        let failed = Outcome::Failed {
            stage: Place::Connect,
            failure: FailureKind::Refused,
            message: String::new(),
        };
        ended(&mut recent, failed, 0);
    }
    assert_eq!(recent.failures[&("refused", "connect")], 2);
    assert_eq!(recent.outcomes["failed"], 2);
}

#[test]
fn a_reading_is_told_while_it_is_fresh() {
    let mut recent = Recent::default();
    let reading = |name: &str| Reading {
        from: at(0),
        to: at(0),
        source: ReadingSource::ServerMetrics,
        instance: "a".to_owned(),
        values: [(name.to_owned(), 3.0)].into(),
        unknown: BTreeMap::new(),
    };
    recent.reading(&reading("preemptions_total"));
    let told = |recent: &Recent, now| recent.told(ReadingSource::ServerMetrics, now).len();
    assert_eq!(told(&recent, at(1)), 0, "it is not shown");
    recent.reading(&reading("waiting"));
    assert_eq!(told(&recent, at(1)), 1);
    assert_eq!(told(&recent, at(60_000)), 0);
}
