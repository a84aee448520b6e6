//! This host, and one without `/proc`.

use super::*;

#[test]
#[cfg(target_os = "linux")]
fn this_host_is_read_with_a_window_and_its_slow_facts_at_the_first_tick() {
    let clock = std::cell::Cell::new(0);
    let now = || {
        clock.set(clock.get() + 1000);
        Stamp::new(clock.get())
    };
    let mut source = HostSource::new();
    let mut readings = Vec::new();
    source.read(&now, &mut |reading| readings.push(reading));
    source.read(&now, &mut |reading| readings.push(reading));
    let [first, second] = &readings[..] else {
        panic!("{readings:?}")
    };
    assert!(first.from < first.to);
    assert!(first.values["memory_total_bytes"] > 1e6);
    assert!(second.values["cpu_idle_s_total"] >= first.values["cpu_idle_s_total"]);
    assert!(!second.values.contains_key("memory_total_bytes"));
    assert!(
        second.unknown.is_empty(),
        "said twice: {:?}",
        second.unknown
    );
}

#[test]
fn a_host_without_proc_says_so_and_is_never_zero() {
    let nowhere = Path::new("/nonexistent");
    let mut source = HostSource::at(nowhere, nowhere);
    let mut readings = Vec::new();
    source.read(&|| Stamp::EPOCH, &mut |reading| readings.push(reading));
    assert!(readings[0].unknown["cpu_busy_s_total"].contains("/nonexistent/stat"));
    assert!(!readings[0].values.contains_key("cpu_busy_s_total"));
}
