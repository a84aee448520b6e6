//! The run: config, pacing, execution, journal, progress, and the binaries' shared main.
