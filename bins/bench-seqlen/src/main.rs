//! `bench-seqlen`: how does cost grow with length?

mod design;

use std::process::ExitCode;

use bench_schema::Benchmark;

fn main() -> ExitCode {
    bench_program::main(
        Benchmark::Seqlen,
        "How cost grows with length: a realistic spread of lengths in categories, or a grid, with fitted scaling laws.",
        design::cells,
    )
}
