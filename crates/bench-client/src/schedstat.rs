//! What the scheduler did to this thread.

use bench_schema::Nanos;

/// CPU time of a thread, and the time in which it could have run but did not.
///
/// The second is how a client finds out that it was kept off the core: a server that spins in `sched_yield` can do so without the
/// client ever looking busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedStat {
    /// Time spent running, since the thread began.
    pub cpu: Nanos,
    /// Time spent runnable and waiting for a core, since the thread began.
    pub run_queue_wait: Nanos,
}

/// The calling thread's counters, from `/proc/thread-self/schedstat`; absent where the kernel does not keep them.
pub fn thread_schedstat() -> Option<SchedStat> {
    parse(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

fn parse(line: &str) -> Option<SchedStat> {
    let mut fields = line.split_ascii_whitespace().map(str::parse::<i64>);
    Some(SchedStat {
        cpu: Nanos::new(fields.next()?.ok()?),
        run_queue_wait: Nanos::new(fields.next()?.ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_fields_are_run_time_and_wait() {
        let stat = parse("171309852 4120773 1215\n").unwrap();
        assert_eq!(stat.cpu, Nanos::new(171_309_852));
        assert_eq!(stat.run_queue_wait, Nanos::new(4_120_773));
        assert_eq!(parse(""), None);
        assert_eq!(parse("12"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn cpu_time_of_this_thread_grows_with_work() {
        let Some(before) = thread_schedstat() else {
            return;
        };
        let mut x = 1_u64;
        let after = loop {
            for i in 0..100_000_u64 {
                x = std::hint::black_box(x.wrapping_mul(31).wrapping_add(i));
            }
            let now = thread_schedstat().unwrap();
            if now.cpu > before.cpu {
                break now;
            }
        };
        assert!(after.run_queue_wait >= before.run_queue_wait);
    }
}
