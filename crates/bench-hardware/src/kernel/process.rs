//! `/proc/<pid>/stat`, `/proc/<pid>/task/*/schedstat`.

use std::path::Path;

/// One process at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ProcessStat {
    /// CPU seconds in user mode, ended threads included.
    pub(crate) user: f64,
    /// CPU seconds in the kernel.
    pub(crate) system: f64,
    pub(crate) threads: f64,
    /// Resident memory in bytes.
    pub(crate) resident: f64,
    /// When it started, in ticks since boot: tells it from a later process with the same id.
    pub(crate) started: u64,
}

/// What the kernel counts in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelUnits {
    pub(crate) ticks_per_s: f64,
    pub(crate) page_bytes: f64,
}

impl KernelUnits {
    pub(crate) fn of_this_machine() -> Self {
        Self {
            ticks_per_s: rustix::param::clock_ticks_per_second() as f64,
            page_bytes: rustix::param::page_size() as f64,
        }
    }
}

/// Parse `/proc/<pid>/stat`. A process may be called `) R 1 (`, so fields are counted from the last parenthesis.
pub(crate) fn parse(text: &str, units: KernelUnits) -> Option<ProcessStat> {
    let (_, after_name) = text.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    // `state` is field 3 of proc(5) and the first here.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(ProcessStat {
        user: field(14)? as f64 / units.ticks_per_s,
        system: field(15)? as f64 / units.ticks_per_s,
        threads: field(20)? as f64,
        started: field(22)?,
        resident: field(24)? as f64 * units.page_bytes,
    })
}

/// Seconds that the process's living threads were runnable but waited for a CPU. Threads that have ended take theirs with them.
pub(crate) fn run_queue_wait(proc: &Path, pid: u32) -> Result<f64, String> {
    let tasks = proc.join(pid.to_string()).join("task");
    let listed = std::fs::read_dir(&tasks).map_err(|e| format!("the list of its threads: {e}"))?;
    let mut waited = 0.0;
    for task in listed.flatten() {
        // A thread that ends between the list and the read has no file, and no wait that could be known.
        if let Ok(text) = std::fs::read_to_string(task.path().join("schedstat")) {
            waited += schedstat_wait(&text).ok_or_else(|| super::malformed("schedstat"))?;
        }
    }
    Ok(waited)
}

fn schedstat_wait(text: &str) -> Option<f64> {
    let ns: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_whose_name_looks_like_fields_is_read_all_the_same() {
        let line = "10226 (we) R 9 (ird) S 10224 10224 5166 0 -1 4194304 102 0 0 0 250 75 0 0 20 0 7 0 142815 3133440 377 \
                    18446744073709551615 94481954172928";
        let units = KernelUnits {
            ticks_per_s: 100.0,
            page_bytes: 4096.0,
        };
        let stat = parse(line, units).unwrap();
        assert!((stat.user - 2.5).abs() < 1e-9 && (stat.system - 0.75).abs() < 1e-9);
        assert!((stat.resident - 377.0 * 4096.0).abs() < 1e-9 && (stat.threads - 7.0).abs() < 1e-9);
        assert_eq!(stat.started, 142_815);
        assert_eq!(parse("10226 (cat) R 1 2", units), None);
    }

    #[test]
    fn the_wait_is_the_second_field_in_nanoseconds() {
        assert_eq!(schedstat_wait("1103803 2000000000 1"), Some(2.0));
        assert_eq!(schedstat_wait("1103803"), None);
    }
}
