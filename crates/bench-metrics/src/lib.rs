//! The arithmetic of latency measurements: percentiles, intervals, fits, scaling, goodput. Pure; no runtime.
