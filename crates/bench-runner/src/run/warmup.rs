//! What goes before a measurement: the same load, for a while.

use bench_schema::{ArrivalKind, Load, Nanos};

use crate::Cell;
use crate::config::{Amount, LoadSettings};

/// Requests that warm a closed loop up, where nothing is said: at least these, and a conversation for each slot.
const FEWEST: u64 = 2;
/// Time that an open loop is warmed up, where nothing is said: most answers have ended by then.
const OPEN: Nanos = Nanos::from_secs(2);

/// A load that is not measured yet.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WarmUp {
    pub(super) load: Load,
    pub(super) requests: Option<u64>,
    pub(super) length: Option<Nanos>,
    /// Whether it ends before the measurement begins.
    pub(super) drains: bool,
}

impl WarmUp {
    /// What `cell` is to be warmed up with, if at all.
    pub(super) fn of(cell: &Cell, settings: &LoadSettings) -> Option<Self> {
        let amount = cell.warmup.unwrap_or(if cell.load.is_open() {
            Amount::Time(OPEN)
        } else {
            Amount::Count(FEWEST)
        });
        if matches!(amount, Amount::Count(0) | Amount::Time(Nanos::ZERO)) {
            return None;
        }
        let drains = settings.warmup_drain;
        Some(match &cell.load {
            Load::Closed {
                concurrency,
                think_time,
                ramp,
            } => Self {
                // that of a ramp is at its peak, so that every connection has carried a request; its beginning is another load
                load: Load::Closed {
                    concurrency: *concurrency,
                    think_time: *think_time,
                    ramp: None,
                },
                drains: drains || ramp.is_some(),
                ..closed(amount, *concurrency, settings.ramp_up)
            },
            Load::Open { .. } if drains => Self {
                drains,
                ..closed(amount, 1, None)
            },
            open @ Load::Open { .. } => steady(open, amount),
        })
    }
}

/// The plan has a conversation for each slot, so that every connection has carried a request before it counts. Slots that begin one after
/// the other have all begun.
fn closed(amount: Amount, concurrency: u32, ramp_up: Option<Nanos>) -> WarmUp {
    let ramp_up = ramp_up.unwrap_or(Nanos::ZERO);
    let (requests, length) = match amount {
        Amount::Time(time) => (None, Some(time.max(ramp_up))),
        Amount::Count(_) if ramp_up > Nanos::ZERO => (None, Some(ramp_up)),
        Amount::Count(count) => (Some(count), None),
    };
    WarmUp {
        load: Load::closed(concurrency),
        requests,
        length,
        drains: false,
    }
}

/// The rate at which the measurement begins, by the same process.
fn steady(open: &Load, amount: Amount) -> WarmUp {
    let (rate, arrival) = match open {
        Load::Open {
            rate_per_s,
            arrival,
            ..
        } => match arrival {
            ArrivalKind::Ramp { from_per_s, .. } => (*from_per_s, ArrivalKind::Poisson),
            ArrivalKind::Steps { rates_per_s } => (
                rates_per_s.first().copied().unwrap_or(*rate_per_s),
                ArrivalKind::Poisson,
            ),
            ArrivalKind::Users { users, every } => {
                (f64::from(*users) / every.as_secs_f64(), arrival.clone())
            }
            _ => (*rate_per_s, arrival.clone()),
        },
        Load::Closed { .. } => (1.0, ArrivalKind::Poisson),
    };
    let paced_by_a_file = matches!(
        arrival,
        ArrivalKind::Series { .. } | ArrivalKind::Trace { .. }
    );
    let (requests, length) = match amount {
        Amount::Time(time) => (None, Some(time)),
        Amount::Count(count) if paced_by_a_file => (Some(count), None),
        Amount::Count(count) => (Some(count), Some(Nanos::from_secs_f64(count as f64 / rate))),
    };
    let mut load = open.clone();
    if let Load::Open {
        rate_per_s,
        arrival: process,
        ..
    } = &mut load
    {
        (*rate_per_s, *process) = (rate, arrival);
    }
    WarmUp {
        load,
        requests,
        // without an instant at which the measurement can go on, it waits
        drains: length.is_none(),
        length,
    }
}

#[cfg(test)]
mod tests {
    use bench_schema::Benchmark;

    use super::*;
    use crate::config::for_tests;

    fn of(load: Load, warmup: Option<Amount>, more: &[&str]) -> Option<WarmUp> {
        let settings = for_tests(Benchmark::Throughput, more);
        let cell = Cell {
            id: "c".to_owned(),
            label: "c".to_owned(),
            factors: std::collections::BTreeMap::new(),
            load,
            stop: bench_schema::StopRule::default(),
            repeats: 1,
            warmup,
            ask: crate::Ask {
                dataset: bench_workload::DatasetSpec::Mixed,
                input: None,
                output: None,
            },
        };
        WarmUp::of(&cell, &settings.load)
    }

    fn open(arrival: ArrivalKind) -> Load {
        Load::Open {
            rate_per_s: 50.0,
            arrival,
            in_flight_cap: Some(9),
        }
    }

    #[test]
    fn a_closed_loop_is_warmed_by_its_own_slots_which_go_on() {
        let warm = of(Load::closed(8), None, &[]).unwrap();
        assert_eq!(
            (warm.load, warm.requests, warm.length, warm.drains),
            (Load::closed(8), Some(2), None, false)
        );
        assert_eq!(of(Load::closed(8), Some(Amount::Count(0)), &[]), None);
        let drained = of(Load::closed(1), None, &["--warmup-drain"]).unwrap();
        assert!(drained.drains && drained.requests == Some(2));
    }

    #[test]
    fn slots_that_begin_one_after_the_other_have_all_begun_when_it_is_over() {
        let warm = of(
            Load::closed(8),
            Some(Amount::Count(4)),
            &["--ramp-up", "3s"],
        )
        .unwrap();
        assert_eq!(
            (warm.requests, warm.length),
            (None, Some(Nanos::from_secs(3)))
        );
    }

    #[test]
    fn an_open_loop_is_warmed_at_its_own_rate_by_its_own_process() {
        let warm = of(open(ArrivalKind::Constant), None, &[]).unwrap();
        assert_eq!(warm.load, open(ArrivalKind::Constant));
        assert_eq!(
            (warm.requests, warm.length),
            (None, Some(Nanos::from_secs(2)))
        );
        assert!(!warm.drains);
        let counted = of(open(ArrivalKind::Poisson), Some(Amount::Count(100)), &[]).unwrap();
        assert_eq!(
            (counted.requests, counted.length),
            (Some(100), Some(Nanos::from_secs(2)))
        );
        let old = of(open(ArrivalKind::Poisson), None, &["--warmup-drain"]).unwrap();
        assert!(old.drains && old.load == Load::closed(1));
    }

    #[test]
    fn a_rate_that_moves_is_warmed_up_where_it_begins() {
        let ramp = ArrivalKind::Ramp {
            from_per_s: 4.0,
            to_per_s: 90.0,
        };
        let warm = of(open(ramp), Some(Amount::Count(8)), &[]).unwrap();
        let Load::Open {
            rate_per_s,
            arrival,
            in_flight_cap,
        } = warm.load
        else {
            panic!("it is open");
        };
        assert_eq!(
            (rate_per_s.to_bits(), arrival),
            (4.0_f64.to_bits(), ArrivalKind::Poisson)
        );
        assert_eq!(
            (in_flight_cap, warm.length),
            (Some(9), Some(Nanos::from_secs(2)))
        );
    }
}
