//! The five programs in one file, a third of the size of five files: under the name of one (a link to it) it is that program, under any
//! other name the first argument is one, as in `serving-bench latency --url …`.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

/// A program by its name.
type Entry = (&'static str, fn() -> ExitCode);

const PROGRAMS: [Entry; 5] = [
    ("bench-latency", || {
        bench_program::main(&bench_latency::PROGRAM)
    }),
    ("bench-throughput", || {
        bench_program::main(&bench_throughput::PROGRAM)
    }),
    ("bench-seqlen", || {
        bench_program::main(&bench_seqlen::PROGRAM)
    }),
    ("bench-report", bench_report_command::main),
    ("bench-engine", bench_engine_command::main),
];

const HELP: &str = "\
Benchmarks of LLM servers.

Usage: serving-bench PROGRAM [ARGUMENT]…

Programs, each also under the name bench-PROGRAM:
  latency     how long one request takes
  throughput  how much load the server carries
  seqlen      how latency grows with length
  report      reports, comparisons and exports of results
  engine      the embedded engine, as a server

serving-bench PROGRAM --help has the options of each.";

fn main() -> ExitCode {
    // started again by a benchmark, under the file's own name
    if let Some(code) = bench_program::started_again() {
        return code;
    }
    let mut arguments = std::env::args_os();
    let called = arguments.next().unwrap_or_default();
    if let Some((_, program)) = named(Path::new(&called).file_name()) {
        return program();
    }
    let asked = arguments.next();
    match asked.as_deref().and_then(OsStr::to_str) {
        Some("--help" | "-h" | "help") => return tell(HELP),
        Some("--version" | "-V") => {
            return tell(concat!("serving-bench ", env!("CARGO_PKG_VERSION")));
        }
        _ => {}
    }
    let name = asked.map(|name| format!("bench-{}", name.to_string_lossy()));
    let Some((name, _)) = named(name.as_ref().map(OsStr::new)) else {
        return refuse("usage: serving-bench latency|throughput|seqlen|report|engine [ARGUMENT]…");
    };
    // this file again, under that name: a program reads its own command line
    match std::env::current_exe() {
        Ok(file) => refuse(
            &Command::new(file)
                .arg0(name)
                .args(arguments)
                .exec()
                .to_string(),
        ),
        Err(error) => refuse(&error.to_string()),
    }
}

fn named(name: Option<&OsStr>) -> Option<&'static Entry> {
    PROGRAMS
        .iter()
        .find(|(known, _)| name == Some(OsStr::new(known)))
}

fn tell(text: &str) -> ExitCode {
    // nobody may be reading
    writeln!(std::io::stdout().lock(), "{text}").ok();
    ExitCode::SUCCESS
}

fn refuse(why: &str) -> ExitCode {
    // nobody may be reading
    writeln!(std::io::stderr().lock(), "serving-bench: {why}").ok();
    ExitCode::from(2)
}
