//! How much, and when.

use bench_schema::ArrivalKind;

use crate::config::concurrency;
use crate::config::parse;
use crate::config::reader::Reader;
use crate::config::settings::{Amount, LoadSettings};

pub(super) fn load(r: &mut Reader) -> Option<LoadSettings> {
    Some(LoadSettings {
        concurrency: r.list("concurrency", concurrency::concurrency),
        rate: r.list("rate", parse::rate),
        arrival: r.one("arrival", arrival)?,
        think_time: r.one("think_time", parse::duration),
        in_flight_cap: r.one("in_flight_cap", |text| parse::whole(text, 1, 10_000_000)),
        requests: r.one("requests", |text| parse::whole(text, 1, 1_000_000_000)),
        duration: r.one("duration", parse::positive_duration),
        precision: r.list("precision", |text| {
            text.parse::<bench_metrics::Precision>()
                .map(|_| text.to_owned())
                .map_err(|error| error.to_string())
        }),
        warmup: r.one("warmup", amount),
        warmup_drain: r.switch("warmup_drain"),
        ramp_up: r.one("ramp_up", parse::duration),
        repeat: r.one("repeat", |text| parse::whole(text, 1, 1_000_000)),
        cooldown: r.one("cooldown", parse::duration)?,
        cancel_after: r.one("cancel_after", amount),
    })
}

fn amount(text: &str) -> Result<Amount, String> {
    match text.trim().parse::<u64>() {
        Ok(count) => Ok(Amount::Count(count)),
        Err(_) => parse::duration(text)
            .map(Amount::Time)
            .map_err(|_| format!("must be a number or a duration such as 5s (got `{text}`)")),
    }
}

/// `poisson`, `constant`, `gamma:COV`, … as in `docs/workloads.md`.
fn arrival(text: &str) -> Result<ArrivalKind, String> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let parts: Vec<&str> = rest.split(':').filter(|part| !part.is_empty()).collect();
    let known = "poisson, constant, gamma:COV, burst:SIZE, ramp:FROM:TO, steps:A:B:…, series:FILE, trace, trace:SPEED or users:N:EVERY";
    match (kind, parts.as_slice()) {
        ("poisson", []) => Ok(ArrivalKind::Poisson),
        ("constant", []) => Ok(ArrivalKind::Constant),
        ("gamma", [cov]) => Ok(ArrivalKind::Gamma {
            cov: parse::number(cov, 0.01, 100.0)?,
        }),
        ("burst", [size]) => Ok(ArrivalKind::Burst {
            size: parse::whole(size, 1, 1_000_000)?,
        }),
        ("ramp", [from, to]) => Ok(ArrivalKind::Ramp {
            from_per_s: parse::rate(from)?,
            to_per_s: parse::rate(to)?,
        }),
        ("steps", [_, ..]) => Ok(ArrivalKind::Steps {
            rates_per_s: parts
                .iter()
                .map(|part| parse::rate(part))
                .collect::<Result<_, _>>()?,
        }),
        ("series", [_, ..]) => Ok(ArrivalKind::Series {
            file: rest.to_owned(),
        }),
        ("trace", []) => Ok(ArrivalKind::Trace { speed: 1.0 }),
        ("trace", [speed]) => Ok(ArrivalKind::Trace {
            speed: parse::number(speed, 1e-3, 1e6)?,
        }),
        ("users", [users, every]) => Ok(ArrivalKind::Users {
            users: parse::whole(users, 1, 1_000_000)?,
            every: parse::positive_duration(every)?,
        }),
        _ => Err(format!("must be {known} (got `{text}`)")),
    }
}

/// Arrival kinds that say themselves how fast.
pub(crate) fn carries_its_rate(arrival: &ArrivalKind) -> bool {
    matches!(
        arrival,
        ArrivalKind::Ramp { .. }
            | ArrivalKind::Steps { .. }
            | ArrivalKind::Series { .. }
            | ArrivalKind::Trace { .. }
            | ArrivalKind::Users { .. }
    )
}
