//! `bench-report`.

fn main() -> std::process::ExitCode {
    bench_report_command::main()
}
