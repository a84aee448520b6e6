//! Control groups, version 2: what a group used, was refused, and may use.

use std::path::{Path, PathBuf};

/// Usage of a group's CPU, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CgroupCpu {
    pub(crate) used: f64,
    /// Time in which the group was held back by its quota; absent where it has none.
    pub(crate) throttled: Option<f64>,
}

/// Where the group of a process is, or why that cannot be told.
pub(crate) fn directory(proc: &Path, pid: &str) -> Result<PathBuf, String> {
    let groups = super::text(&proc.join(pid).join("cgroup"))?;
    let path = unified_path(&groups).ok_or_else(|| "cgroup version 2 is not in use".to_owned())?;
    let mounts = super::text(&proc.join("self").join("mounts"))?;
    let mount =
        mount_point(&mounts).ok_or_else(|| "no cgroup2 file system is mounted".to_owned())?;
    let full = Path::new(&mount).join(path.trim_start_matches('/'));
    // Within a container the path may be that of the host, and the group is the mount's root.
    Ok(if full.is_dir() { full } else { mount.into() })
}

fn unified_path(groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| line.strip_prefix("0::"))
}

fn mount_point(mounts: &str) -> Option<String> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, at, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| at.to_owned())
    })
}

/// Parse `cpu.stat`.
pub(crate) fn cpu(text: &str) -> Option<CgroupCpu> {
    let value = |key: &str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(' ')?;
            (name == key).then(|| value.trim().parse::<u64>().ok().map(|us| us as f64 / 1e6))?
        })
    };
    Some(CgroupCpu {
        used: value("usage_usec")?,
        throttled: value("throttled_usec"),
    })
}

/// Cores that `cpu.max` allows; `None` where there is no limit.
pub(crate) fn cpu_limit(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0).then(|| quota as f64 / period as f64)
}

/// Bytes in `memory.max` or `memory.current`; `None` where there is no limit.
pub(crate) fn bytes(text: &str) -> Option<f64> {
    text.trim().parse::<u64>().ok().map(|bytes| bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let read = cpu(stat).unwrap();
        assert!((read.used - 2.5).abs() < 1e-9);
        assert_eq!(read.throttled, Some(0.5));
        assert_eq!(cpu("usage_usec 1\n").unwrap().throttled, None);
        assert_eq!(cpu_limit("150000 100000\n"), Some(1.5));
        assert_eq!(cpu_limit("max 100000\n"), None);
        assert_eq!(bytes("max\n"), None);
        assert_eq!(bytes("1024\n"), Some(1024.0));
    }
}
