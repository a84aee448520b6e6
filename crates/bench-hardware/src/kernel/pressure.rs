//! `/proc/pressure/*`: time in which something waited for a resource (PSI).

/// Seconds since boot in which some task waited, and in which all did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pressure {
    pub(crate) some: f64,
    /// Absent for the CPU on older kernels.
    pub(crate) full: Option<f64>,
}

/// Parse one file of `/proc/pressure`, or a cgroup's `cpu.pressure`.
pub(crate) fn parse(text: &str) -> Option<Pressure> {
    let total = |kind: &str| {
        let line = text.lines().find(|line| line.starts_with(kind))?;
        let us: u64 = line
            .split_ascii_whitespace()
            .find_map(|field| field.strip_prefix("total="))?
            .parse()
            .ok()?;
        Some(us as f64 / 1e6)
    };
    Some(Pressure {
        some: total("some ")?,
        full: total("full "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_seconds_and_full_may_be_absent() {
        let both = "some avg10=18.77 avg60=4.47 avg300=1.33 total=9540138\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        let read = parse(both).unwrap();
        assert!((read.some - 9.540_138).abs() < 1e-9);
        assert_eq!(read.full, Some(0.0));
        let some = parse("some avg10=0 avg60=0 avg300=0 total=5\n").unwrap();
        assert_eq!(some.full, None);
        assert_eq!(parse("nothing"), None);
    }
}
