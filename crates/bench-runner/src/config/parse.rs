//! The small languages of single values.

use bench_schema::Nanos;

/// A duration: `250ms`, `1.5s`, `2m`, `1h`, `800us`; a bare `0` is none.
///
/// # Errors
/// What is wrong, with examples.
pub(crate) fn duration(text: &str) -> Result<Nanos, String> {
    let text = text.trim();
    if text == "0" {
        return Ok(Nanos::ZERO);
    }
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("must be a duration such as 250ms, 30s or 5m (got `{text}`)");
    let seconds_per_unit = match unit.trim() {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "" => {
            return Err(format!(
                "needs a unit (got `{text}`): write `{text}s` for seconds or `{text}ms` for milliseconds"
            ));
        }
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Ok(Nanos::from_secs_f64(number * seconds_per_unit))
}

/// A duration longer than nothing.
///
/// # Errors
/// As [`duration`], and for zero.
pub(crate) fn positive_duration(text: &str) -> Result<Nanos, String> {
    let parsed = duration(text)?;
    if parsed > Nanos::ZERO {
        Ok(parsed)
    } else {
        Err(format!("must be longer than 0 (got `{text}`)"))
    }
}

/// A whole number within bounds.
///
/// # Errors
/// The bound, and what was given.
pub(crate) fn whole<T>(text: &str, low: T, high: T) -> Result<T, String>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display + Copy,
{
    let bound = || format!("must be a whole number from {low} to {high} (got `{text}`)");
    let value: T = text.trim().replace('_', "").parse().map_err(|_| bound())?;
    if value < low || value > high {
        Err(bound())
    } else {
        Ok(value)
    }
}

/// A number within bounds, both ends included.
///
/// # Errors
/// The bound, and what was given.
pub(crate) fn number(text: &str, low: f64, high: f64) -> Result<f64, String> {
    let bound = || format!("must be a number from {low} to {high} (got `{text}`)");
    let value: f64 = text.trim().parse().map_err(|_| bound())?;
    if (low..=high).contains(&value) {
        Ok(value)
    } else {
        Err(bound())
    }
}

/// A rate: a number greater than 0.
///
/// # Errors
/// The bound, and what was given; `inf`, which other tools take, is explained.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    if text.trim() == "inf" {
        return Err("`inf` is a closed loop: leave `rate` out and set `concurrency`".to_owned());
    }
    let value: f64 = text
        .trim()
        .parse()
        .map_err(|_| format!("must be a number of requests per second (got `{text}`)"))?;
    if value > 0.0 && value <= 1e6 {
        Ok(value)
    } else {
        Err(format!(
            "must be greater than 0 and at most 1000000 (got {text})"
        ))
    }
}

/// `name=value`.
///
/// # Errors
/// The form that is wanted.
pub(crate) fn pair(text: &str, separator: char) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(separator)
        .ok_or_else(|| format!("must be written NAME{separator}VALUE (got `{text}`)"))?;
    let name = name.trim();
    if name.is_empty() {
        Err(format!("has no name before `{separator}` (got `{text}`)"))
    } else {
        Ok((name.to_owned(), value.trim().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_take_units_and_explain_their_absence() {
        assert_eq!(duration("250ms"), Ok(Nanos::from_millis(250)));
        assert_eq!(duration("1.5s"), Ok(Nanos::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Nanos::from_secs(120)));
        assert_eq!(
            duration("30").unwrap_err(),
            "needs a unit (got `30`): write `30s` for seconds or `30ms` for milliseconds"
        );
        assert!(duration("fast").unwrap_err().contains("250ms"));
        assert!(
            positive_duration("0s")
                .unwrap_err()
                .contains("longer than 0")
        );
    }

    #[test]
    fn bounds_are_named_with_what_was_given() {
        assert_eq!(
            whole::<u32>("0", 1, 10).unwrap_err(),
            "must be a whole number from 1 to 10 (got `0`)"
        );
        assert!(rate("0").unwrap_err().contains("greater than 0"));
        assert!(rate("inf").unwrap_err().contains("closed loop"));
    }
}
