//! CPU time that a virtual machine's host gave to others: a run in which it gave much away is no healthy run, whatever its label says.

/// Share of the machine's CPU time from which on a run is disturbed.
const MOST: f64 = 0.04;

/// CPU time since the machine started, in ticks: stolen, and all.
pub(super) type Ticks = Option<(u64, u64)>;

/// As the kernel tells it now; nothing where there is no such file.
pub(super) fn now() -> Ticks {
    ticks(&std::fs::read_to_string("/proc/stat").ok()?)
}

fn ticks(stat: &str) -> Ticks {
    let mut words = stat.lines().next()?.split_whitespace();
    if words.next()? != "cpu" {
        return None;
    }
    // user, nice, system, idle, iowait, irq, softirq, steal; a guest's time is in the user's.
    let times: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
    Some((*times.get(7)?, times.iter().sum()))
}

/// Share that was stolen between two readings.
pub(super) fn share(before: Ticks, after: Ticks) -> Option<f64> {
    let ((stolen, all), (stolen_after, all_after)) = (before?, after?);
    let passed = all_after.checked_sub(all).filter(|passed| *passed > 0)?;
    Some(stolen_after.checked_sub(stolen)? as f64 / passed as f64)
}

/// Whether so much was stolen that a label says nothing of the run. What is not known is taken for quiet.
pub(super) fn disturbs(stolen: Option<f64>) -> bool {
    stolen.is_some_and(|share| share > MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stolen_is_a_share_of_all_time_that_passed() {
        let before = ticks("cpu  100 0 100 700 0 0 0 100 0 0\ncpu0 1 2");
        let after = ticks("cpu  110 0 110 770 0 0 0 110 50 0\n");
        assert_eq!(share(before, after), Some(0.1));
        assert!(disturbs(share(before, after)) && !disturbs(Some(0.01)) && !disturbs(None));
        assert_eq!(ticks("intr 1 2 3"), None);
        assert_eq!(share(after, after), None);
    }
}
