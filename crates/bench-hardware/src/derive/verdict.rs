//! Is the CPU the limit? A verdict with its evidence.

use bench_schema::HardwareSummary;

/// Whether the CPU of the client's host held the numbers back.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CpuVerdict {
    /// "The CPU is not the limit": every sign that was read says so.
    NotTheLimit(Vec<String>),
    /// At least one sign says that it may be; these.
    MayBeTheLimit(Vec<String>),
    /// Nothing was read that would tell.
    Unknown,
}

/// Name of the derived figure, the level from which it is a sign, and what it is.
const SIGNS: [(&str, f64, &str); 6] = [
    ("host_cpu_share", 0.85, "the host's CPUs were busy"),
    ("busiest_core_share", 0.95, "the busiest core was busy"),
    ("host_cpu_pressure_share", 0.2, "tasks waited for a CPU"),
    ("host_steal_share", 0.05, "the hypervisor took away"),
    (
        "server_throttled_share",
        0.01,
        "the server's group was held back by its quota",
    ),
    (
        "client_throttled_share",
        0.01,
        "the client's group was held back by its quota",
    ),
];

/// Judge from a summary's derived figures. The bounds are the project's choice; the evidence names the numbers.
///
/// A busy core is a sign and no proof: a single-threaded server (most Python front ends) is limited by one core while the host is idle.
pub fn cpu_verdict(summary: &HardwareSummary) -> CpuVerdict {
    let (mut for_it, mut against) = (Vec::new(), Vec::new());
    for (name, bound, what) in SIGNS {
        let Some(read) = summary.derived.get(name) else {
            continue;
        };
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let evidence = format!(
            "{what} {} of the time (a sign from {})",
            percent(read.value),
            percent(bound)
        );
        if read.value >= bound {
            for_it.push(evidence);
        } else {
            against.push(evidence);
        }
    }
    match (for_it.is_empty(), against.is_empty()) {
        (false, _) => CpuVerdict::MayBeTheLimit(for_it),
        (true, false) => CpuVerdict::NotTheLimit(against),
        (true, true) => CpuVerdict::Unknown,
    }
}
