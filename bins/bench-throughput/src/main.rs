//! `bench-throughput`: how much can it serve, and what does load cost?

mod design;

use std::process::ExitCode;

use bench_schema::Benchmark;

fn main() -> ExitCode {
    bench_program::main(
        Benchmark::Throughput,
        "How much a server can serve and what load costs: a sweep of concurrency (closed loop) or of arrival rate (open loop).",
        design::cells,
    )
}
