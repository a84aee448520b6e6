//! The kernel's own counters, as it writes them.

use super::*;

const STAT: &str = "cpu  7952 10 3586 245345 312 3 87 8 0 0\n\
                    cpu0 2784 10 1113 124606 39 3 14 1 0 0\n\
                    cpu1 5168 0 2473 120739 273 0 73 7 0 0\n\
                    intr 3 1 2\nctxt 99\n";

#[test]
fn times_are_seconds_of_the_machine_and_of_each_core() {
    let (whole, cores) = cpu_times(STAT, 100.0).unwrap();
    // user 79.52 + nice 0.10; system 35.86 + irq 0.03 + softirq 0.87
    assert!((whole.user - 79.62).abs() < 1e-9 && (whole.system - 36.76).abs() < 1e-9);
    assert!((whole.steal - 0.08).abs() < 1e-9);
    assert_eq!(cores.iter().map(|c| c.0).collect::<Vec<_>>(), [0, 1]);
    let sum: f64 = cores.iter().map(|c| c.1.busy()).sum();
    assert!((sum - whole.busy()).abs() < 1e-9);
}

#[test]
fn another_format_is_not_taken_for_zero() {
    assert_eq!(cpu_times("", 100.0), None);
    assert_eq!(cpu_times("cpu  1 2 3\n", 100.0), None);
    assert_eq!(cpu_times("cpu  a b c d e f g h\n", 100.0), None);
}

#[test]
fn whole_disks_are_summed_and_the_rest_left_out() {
    let text = " 7 0 loop0 1 0 8 0 0 0 0 0 0 0 0\n 254 0 vda 81532 26382 1000 26685 10031 59934 2000 11836 0 8096 38874\n \
                254 1 vda1 5 0 900 1 0 0 1900 0 0 70 1\n";
    let totals = disk_totals(text, |name| name == "vda").unwrap();
    assert!((totals.read - 512_000.0).abs() < 0.5 && (totals.written - 1_024_000.0).abs() < 0.5);
    assert!((totals.busy - 8.096).abs() < 1e-9);
    assert_eq!(disk_totals(text, |_| false), None);
}

#[test]
fn the_loopback_is_kept_apart() {
    let text = "Inter-|   Receive    |  Transmit\n face |bytes ...\n    lo: 3193 29 0 0 0 0 0 0 3193 29 0 0 0 0 0 0\n  \
                eth0:392848164 17103 1 2 0 0 0 0 1107911 10536 3 4 0 0 0 0\n";
    let read = traffic(text).unwrap();
    assert!((read.loopback - 3193.0).abs() < 0.5 && (read.received - 392_848_164.0).abs() < 0.5);
    assert!((read.sent - 1_107_911.0).abs() < 0.5 && (read.trouble - 10.0).abs() < 0.5);
    assert_eq!(traffic("a\nb\n  eth0: 1 2\n"), None);
    assert_eq!(traffic("a\nb\n"), None);
}

#[test]
fn totals_are_seconds_and_full_may_be_absent() {
    let both = "some avg10=18.77 avg60=4.47 avg300=1.33 total=9540138\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
    let read = pressure(both).unwrap();
    assert!((read.some - 9.540_138).abs() < 1e-9);
    assert_eq!(read.full, Some(0.0));
    let some = pressure("some avg10=0 avg60=0 avg300=0 total=5\n").unwrap();
    assert_eq!(some.full, None);
    assert_eq!(pressure("nothing"), None);
}

#[test]
fn a_process_whose_name_looks_like_fields_is_read_all_the_same() {
    let line = "10226 (we) R 9 (ird) S 10224 10224 5166 0 -1 4194304 102 0 0 0 250 75 0 0 20 0 7 0 142815 3133440 377 \
                18446744073709551615 94481954172928";
    let units = KernelUnits {
        ticks_per_s: 100.0,
        page_bytes: 4096.0,
    };
    let stat = process_stat(line, units).unwrap();
    assert!((stat.user - 2.5).abs() < 1e-9 && (stat.system - 0.75).abs() < 1e-9);
    assert!((stat.resident - 377.0 * 4096.0).abs() < 1e-9 && (stat.threads - 7.0).abs() < 1e-9);
    assert_eq!(stat.started, 142_815);
    assert_eq!(process_stat("10226 (cat) R 1 2", units), None);
}

#[test]
fn the_wait_is_the_second_field_in_nanoseconds() {
    assert_eq!(schedstat_wait("1103803 2000000000 1"), Some(2.0));
    assert_eq!(schedstat_wait("1103803"), None);
}

#[test]
fn only_listening_sockets_on_the_port_are_found() {
    let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
         0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1678 1 0 100 0 0 10 0\n   \
         1: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 1700 1 0 20 4 30 10 -1\n   \
         2: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1701 1 0 100 0 0 10 0\n";
    assert_eq!(listening(table, 8080).collect::<Vec<_>>(), [1678]);
}

#[test]
#[cfg(target_os = "linux")]
fn this_process_is_found_by_the_port_it_listens_on() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    assert_eq!(listener(Path::new("/proc"), port), Ok(std::process::id()));
    drop(socket);
}

#[test]
fn the_unified_group_is_found_among_those_of_version_1() {
    let groups = "9:name=systemd:/\n4:memory:/x\n0::/kubepods/pod7\n";
    assert_eq!(unified_path(groups), Some("/kubepods/pod7"));
    assert_eq!(unified_path("4:memory:/x\n"), None);
    let mounts = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
    assert_eq!(
        mount_point(mounts).as_deref(),
        Some("/sys/fs/cgroup/unified")
    );
}

#[test]
fn usage_is_seconds_and_limits_may_be_none() {
    let stat = "usage_usec 2500000\nuser_usec 2000000\nnr_throttled 3\nthrottled_usec 500000\n";
    let read = cgroup_cpu(stat).unwrap();
    assert!((read.used - 2.5).abs() < 1e-9);
    assert_eq!(read.throttled, Some(0.5));
    assert_eq!(cgroup_cpu("usage_usec 1\n").unwrap().throttled, None);
    assert_eq!(cpu_limit("150000 100000\n"), Some(1.5));
    assert_eq!(cpu_limit("max 100000\n"), None);
    assert_eq!(cgroup_bytes("max\n"), None);
    assert_eq!(cgroup_bytes("1024\n"), Some(1024.0));
}
