//! This host, and one without `/proc`.

use bench_schema::Stamp;

use super::*;
use crate::reading::Named;

#[test]
#[cfg(target_os = "linux")]
fn this_host_is_read_with_a_window_and_its_slow_facts_where_they_are_due() {
    let clock = std::cell::Cell::new(0);
    let now = || {
        clock.set(clock.get() + 1000);
        Stamp::new(clock.get())
    };
    let mut source = HostSource::new();
    let (mut readings, mut named) = (Vec::new(), Named::default());
    for whole in [true, false] {
        source.read(&mut Round {
            now: &now,
            whole,
            named: &mut named,
            emit: &mut |reading| readings.push(reading),
        });
    }
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
    source.read(&mut Round {
        now: &|| Stamp::EPOCH,
        whole: true,
        named: &mut Named::default(),
        emit: &mut |reading| readings.push(reading),
    });
    assert!(readings[0].unknown["cpu_busy_s_total"].contains("/nonexistent/stat"));
    assert!(!readings[0].values.contains_key("cpu_busy_s_total"));
}
