//! `bench-latency`: how long does one request take, and how steady is it?

mod design;

use std::process::ExitCode;

use bench_schema::Benchmark;

fn main() -> ExitCode {
    bench_program::main(
        Benchmark::Latency,
        "How long one request takes and how steady it is: prompt lengths × output lengths, one request at a time, repeated.",
        design::cells,
    )
}
