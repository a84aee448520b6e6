//! `bench-latency`.

fn main() -> std::process::ExitCode {
    bench_program::main(&bench_latency::PROGRAM)
}
