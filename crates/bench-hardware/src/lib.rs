//! Readings with windows: GPU via NVML, host via sysinfo and the kernel's counters, servers' Prometheus pages.
