//! `bench-seqlen`.

fn main() -> std::process::ExitCode {
    bench_program::main(&bench_seqlen::PROGRAM)
}
