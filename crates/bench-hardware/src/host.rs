//! The client's host: the kernel's counters at every tick, sysinfo's facts once a second.

use std::path::{Path, PathBuf};

use bench_schema::ReadingSource;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use crate::kernel::{
    CpuTimes, KernelUnits, ProcFile, cpu_times, disk_totals, malformed, pressure, traffic,
};
use crate::reading::{Draft, Round};
use crate::sampler::Source;

/// Reads `/proc` and asks sysinfo.
pub(crate) struct HostSource {
    stat: ProcFile,
    net: ProcFile,
    disks: ProcFile,
    pressure: [(&'static str, ProcFile); 3],
    units: KernelUnits,
    block: PathBuf,
    sysinfo: Result<System, String>,
}

impl HostSource {
    pub(crate) fn new() -> Self {
        Self::at(Path::new("/proc"), Path::new("/sys"))
    }

    fn at(proc: &Path, sys: &Path) -> Self {
        let pressure = ["cpu", "memory", "io"]
            .map(|kind| (kind, ProcFile::new(proc.join("pressure").join(kind))));
        let wanted = RefreshKind::nothing()
            .with_memory(MemoryRefreshKind::everything())
            .with_cpu(CpuRefreshKind::nothing().with_frequency());
        Self {
            stat: ProcFile::new(proc.join("stat")),
            net: ProcFile::new(proc.join("net/dev")),
            disks: ProcFile::new(proc.join("diskstats")),
            pressure,
            units: KernelUnits::of_this_machine(),
            block: sys.join("block"),
            sysinfo: System::new_with_specifics(wanted).map_err(|e| format!("sysinfo: {e:?}")),
        }
    }

    fn read_fast(&mut self, slow: bool, draft: &mut Draft<'_>) {
        match read_stat(&mut self.stat, self.units) {
            Ok((whole, cores)) => {
                set_cpu(draft, &whole);
                for (number, times) in cores.iter().filter(|_| slow) {
                    draft.set(&format!("core.{number}.cpu_busy_s_total"), times.busy());
                }
            }
            Err(why) => draft.unknown("cpu_busy_s_total", why),
        }
        let net = self.net.read();
        let traffic = net.and_then(|text| traffic(text).ok_or_else(|| malformed("net/dev")));
        draft.set_all(
            [
                "net_rx_bytes_total",
                "net_tx_bytes_total",
                "net_loopback_bytes_total",
                "net_trouble_total",
            ],
            traffic.map(|t| [t.received, t.sent, t.loopback, t.trouble].map(Some)),
        );
        for (kind, file) in &mut self.pressure {
            let read = file.read();
            let read = read.and_then(|text| pressure(text).ok_or_else(|| malformed("PSI")));
            let names = ["some", "full"].map(|what| format!("pressure_{kind}_{what}_s_total"));
            draft.set_all(
                names.each_ref().map(String::as_str),
                read.map(|p| [Some(p.some), p.full]),
            );
        }
    }

    fn read_slow(&mut self, draft: &mut Draft<'_>) {
        let whole = |name: &str| self.block.join(name).exists();
        let none = || "no disk found".to_owned();
        let disks = self.disks.read();
        let disks = disks.and_then(|text| disk_totals(text, whole).ok_or_else(none));
        draft.set_all(
            [
                "disk_read_bytes_total",
                "disk_write_bytes_total",
                "disk_busy_s_total",
            ],
            disks.map(|d| [d.read, d.written, d.busy].map(Some)),
        );
        match &mut self.sysinfo {
            Ok(system) => read_sysinfo(system, draft),
            Err(why) => draft.unknown("memory_used_bytes", why.clone()),
        }
    }
}

fn read_stat(
    file: &mut ProcFile,
    units: KernelUnits,
) -> Result<(CpuTimes, Vec<(u32, CpuTimes)>), String> {
    let text = file.read()?;
    cpu_times(text, units.ticks_per_s).ok_or_else(|| malformed("/proc/stat"))
}

fn set_cpu(draft: &mut Draft<'_>, times: &CpuTimes) {
    draft.set("cpu_busy_s_total", times.busy());
    draft.set("cpu_user_s_total", times.user);
    draft.set("cpu_system_s_total", times.system);
    draft.set("cpu_idle_s_total", times.idle);
    draft.set("cpu_iowait_s_total", times.iowait);
    draft.set("cpu_steal_s_total", times.steal);
}

fn read_sysinfo(system: &mut System, draft: &mut Draft<'_>) {
    system.refresh_memory();
    draft.set("memory_used_bytes", system.used_memory() as f64);
    draft.set("memory_available_bytes", system.available_memory() as f64);
    draft.set("memory_total_bytes", system.total_memory() as f64);
    draft.set("swap_used_bytes", system.used_swap() as f64);
    match System::load_average() {
        Ok(load) => draft.set("load_1m", load.one),
        Err(why) => draft.unknown("load_1m", format!("sysinfo: {why:?}")),
    }
    system.refresh_cpu_frequency();
    let clocks: Vec<f64> = system
        .cpus()
        .iter()
        .map(|cpu| cpu.frequency() as f64 * 1e6)
        .filter(|&hz| hz > 0.0)
        .collect();
    if clocks.is_empty() {
        draft.unknown("cpu_clock_hz", "the system does not report the CPU's clock");
    } else {
        let lowest = clocks.iter().copied().fold(f64::INFINITY, f64::min);
        draft.set(
            "cpu_clock_hz",
            clocks.iter().sum::<f64>() / clocks.len() as f64,
        );
        draft.set("cpu_clock_lowest_hz", lowest);
    }
}

impl Source for HostSource {
    fn source(&self) -> ReadingSource {
        ReadingSource::Host
    }

    fn read(&mut self, round: &mut Round<'_>) {
        let (from, whole) = ((round.now)(), round.whole);
        round.hand_on(ReadingSource::Host, "", (from, None), |draft| {
            self.read_fast(whole, draft);
            if whole {
                self.read_slow(draft);
            }
        });
    }
}

#[cfg(test)]
#[path = "../tests/unit/host.rs"]
mod tests;
