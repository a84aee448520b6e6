//! The client: was it able to do its part, and who kept it from that.

use super::{Scene, Seen, sending, stamps};
use crate::signals::derived;
use crate::text;

pub(super) fn client_cpu(scene: &Scene<'_>) -> Option<Seen> {
    let busy = scene.cell.client.busiest_worker;
    of_cpu_time(scene, busy, "the client's busiest worker used")
}

pub(super) fn run_queue(scene: &Scene<'_>) -> Option<Seen> {
    let waited = scene.cell.client.run_queue_wait;
    let harmful = !sending::is_on_time(scene) || !stamps::are_exact(scene);
    let what = "the client was ready to run but waited for a core during";
    of_cpu_time(scene, waited.filter(|_| harmful), what)
}

pub(super) fn steal(scene: &Scene<'_>) -> Option<Seen> {
    let taken = derived(scene.cell, "host_steal_share");
    of_cpu_time(scene, taken, "the hypervisor took from this host")
}

pub(super) fn client_throttled(scene: &Scene<'_>) -> Option<Seen> {
    let held = derived(scene.cell, "client_throttled_share");
    of_cpu_time(scene, held, "a CPU quota stopped the client during")
}

/// A share of CPU time or of the wall clock, of a cell that is long enough for it to mean something.
fn of_cpu_time(scene: &Scene<'_>, share: Option<f64>, what: &str) -> Option<Seen> {
    let share = share.filter(|_| scene.long_enough())?;
    let of = if what.ends_with("during") {
        "of the time"
    } else {
        "of the CPU"
    };
    Some(Seen::new(
        share,
        format!("{what} {} {of}", text::percent(share)),
    ))
}

/// A worker that used less of its core than this had it to spare: there no flag of ours helps.
const SPARE: f64 = 0.5;

/// The next step where a client with a core to spare had its machine taken from it.
pub(super) fn taken(scene: &Scene<'_>) -> Option<String> {
    const NOTICED: f64 = 0.01;
    busiest_with_a_core_to_spare(scene)?;
    let stolen = derived(scene.cell, "host_steal_share").filter(|share| *share >= NOTICED);
    let waited = scene
        .cell
        .client
        .run_queue_wait
        .filter(|share| *share >= NOTICED);
    // Waiting for a core that other programs have is counted as waiting; one that the hypervisor has is not.
    if let Some(waited) = waited.filter(|waited| stolen.is_none_or(|stolen| *waited > stolen)) {
        return Some(format!(
            "the client was not busy, but other programs (the server, if it runs here) kept it from a core for {} of the time: give it cores of its own",
            text::percent(waited)
        ));
    }
    let stolen = stolen?;
    Some(format!(
        "the client was not busy, but the hypervisor gave {} of this machine's CPU time to others: use a machine that is not shared, or a quieter time",
        text::percent(stolen)
    ))
}

/// The same, or that the machine was slow to wake it.
pub(super) fn taken_or_slow(scene: &Scene<'_>) -> Option<String> {
    let slow = || {
        let busiest = busiest_with_a_core_to_spare(scene)?;
        Some(format!(
            "the client used {} of a core at most, so its machine was slow to wake it: give it a core of its own, or a machine that is not shared",
            text::percent(busiest)
        ))
    };
    taken(scene).or_else(slow)
}

fn busiest_with_a_core_to_spare(scene: &Scene<'_>) -> Option<f64> {
    let busiest = scene.cell.client.busiest_worker;
    busiest.filter(|busy| *busy < SPARE)
}
