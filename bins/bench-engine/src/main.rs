//! `bench-engine`.

fn main() -> std::process::ExitCode {
    bench_engine_command::main()
}
