//! The seeds' studies, by the names of their fixtures.

pub(crate) const FIXTURES: &[&str] = &[
    "week2-latency",
    "week2-production",
    "week2-lengths",
    "phases-datasets",
    "phases-rates",
    "phases-gpus",
    "concurrency-sweep",
    "gpt2-cpu",
];
