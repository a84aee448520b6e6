//! Times of traces.

use bench_schema::Nanos;

/// Times as offsets from the first, never decreasing.
#[derive(Default)]
pub(super) struct Since {
    first: Option<Nanos>,
    last: Nanos,
}

impl Since {
    /// The offset of this time; `None` where it lies before the one before it.
    pub(super) fn offset(&mut self, at: Nanos) -> Option<Nanos> {
        let offset = at - *self.first.get_or_insert(at);
        if offset < self.last {
            return None;
        }
        self.last = offset;
        Some(offset)
    }
}

/// Seconds (`12.5`) or a date and time (`2025-03-01 09:30:15.1234567`, with or without `T`, `Z` or an offset).
pub(super) fn parse(text: &str) -> Option<Nanos> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return seconds.is_finite().then(|| Nanos::from_secs_f64(seconds));
    }
    let (date, time) = text.split_once([' ', 'T'])?;
    let mut date = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let (time, offset_s) = zone(time)?;
    let mut time = time.splitn(3, ':');
    let (hour, minute): (i64, i64) = (time.next()?.parse().ok()?, time.next()?.parse().ok()?);
    let (second, fraction) = fraction(time.next()?)?;
    let in_range = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    if !in_range {
        return None;
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset_s;
    Some(Nanos::from_secs(seconds) + Nanos::new(fraction))
}

/// Cuts `Z` or `+hh:mm` from the end; the offset in seconds.
fn zone(time: &str) -> Option<(&str, i64)> {
    if let Some(time) = time.strip_suffix('Z') {
        return Some((time, 0));
    }
    let Some(at) = time.rfind(['+', '-']) else {
        return Some((time, 0));
    };
    let (clock, offset) = time.split_at(at);
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let seconds = hours.parse::<i64>().ok()? * 3_600 + minutes.parse::<i64>().ok()? * 60;
    Some((clock, sign * seconds))
}

/// Whole seconds and nanoseconds; digits beyond nine are dropped.
fn fraction(text: &str) -> Option<(i64, i64)> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if !part.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut ns: String = part.chars().take(9).collect();
    while ns.len() < 9 {
        ns.push('0');
    }
    Some((whole.parse().ok()?, ns.parse().ok()?))
}

/// Days from 1970-01-01, in the Gregorian calendar (years that begin in March, so that the leap day is the last).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_the_seconds_that_date_prints() {
        // `date -u -d '2025-03-01 09:30:15' +%s` and so on
        for (text, ns) in [
            ("2025-03-01 09:30:15.1234567", 1_740_821_415_123_456_700),
            ("2024-02-29T00:00:00Z", 1_709_164_800_000_000_000),
            (
                "2024-05-10 00:00:00.009930+02:00",
                1_715_292_000_009_930_000,
            ),
            ("1970-01-01 00:00:00", 0),
            ("12.5", 12_500_000_000),
        ] {
            assert_eq!(parse(text), Some(Nanos::new(ns)), "{text}");
        }
        for text in ["", "yesterday", "2025-13-01 00:00:00", "2025-03-01", "nan"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
