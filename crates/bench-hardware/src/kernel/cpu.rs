//! `/proc/stat`: CPU time by kind, of the machine and of each core.

/// CPU time since boot, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CpuTimes {
    /// `user + nice`; guests are within.
    pub(crate) user: f64,
    /// `system + irq + softirq`.
    pub(crate) system: f64,
    pub(crate) idle: f64,
    pub(crate) iowait: f64,
    /// Time that the hypervisor gave to others while this machine had work.
    pub(crate) steal: f64,
}

impl CpuTimes {
    /// Time that was worked.
    pub(crate) fn busy(&self) -> f64 {
        self.user + self.system
    }
}

/// Times of the whole machine and, in order, of each core; `per_s` is the kernel's ticks in a second.
pub(crate) fn parse(text: &str, per_s: f64) -> Option<(CpuTimes, Vec<(u32, CpuTimes)>)> {
    let mut lines = text.lines();
    let whole = times(lines.next()?.strip_prefix("cpu ")?, per_s)?;
    let cores = lines
        .map_while(|line| {
            let (number, rest) = line.strip_prefix("cpu")?.split_once(' ')?;
            Some((number.parse().ok()?, times(rest, per_s)?))
        })
        .collect();
    Some((whole, cores))
}

fn times(fields: &str, per_s: f64) -> Option<CpuTimes> {
    let mut ticks = fields
        .split_ascii_whitespace()
        .map(|field| field.parse::<u64>().ok().map(|t| t as f64 / per_s));
    let mut next = || ticks.next().flatten();
    let (user, nice, system, idle) = (next()?, next()?, next()?, next()?);
    // Kernels before 2.6.11 lack the later ones; nothing that old is measured, but zero there is the truth.
    let (iowait, irq, softirq) = (next()?, next()?, next()?);
    Some(CpuTimes {
        user: user + nice,
        system: system + irq + softirq,
        idle,
        iowait,
        steal: next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  7952 10 3586 245345 312 3 87 8 0 0\n\
                        cpu0 2784 10 1113 124606 39 3 14 1 0 0\n\
                        cpu1 5168 0 2473 120739 273 0 73 7 0 0\n\
                        intr 3 1 2\nctxt 99\n";

    #[test]
    fn times_are_seconds_of_the_machine_and_of_each_core() {
        let (whole, cores) = parse(STAT, 100.0).unwrap();
        // user 79.52 + nice 0.10; system 35.86 + irq 0.03 + softirq 0.87
        assert!((whole.user - 79.62).abs() < 1e-9 && (whole.system - 36.76).abs() < 1e-9);
        assert!((whole.steal - 0.08).abs() < 1e-9);
        assert_eq!(cores.iter().map(|c| c.0).collect::<Vec<_>>(), [0, 1]);
        let sum: f64 = cores.iter().map(|c| c.1.busy()).sum();
        assert!((sum - whole.busy()).abs() < 1e-9);
    }

    #[test]
    fn another_format_is_not_taken_for_zero() {
        assert_eq!(parse("", 100.0), None);
        assert_eq!(parse("cpu  1 2 3\n", 100.0), None);
        assert_eq!(parse("cpu  a b c d e f g h\n", 100.0), None);
    }
}
