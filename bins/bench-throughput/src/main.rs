//! `bench-throughput`.

fn main() -> std::process::ExitCode {
    bench_program::main(&bench_throughput::PROGRAM)
}
