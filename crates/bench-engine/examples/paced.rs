//! How many paced tokens a second one serving thread writes, and how late: a server in a process of its own, a reader that
//! only counts bytes, and the ledger.
//!
//! `cargo run --release -p bench-engine --example paced -- [STREAMS] [ITL_MS] [TOKENS]`

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::ExitCode;

use bench_engine::config::{EngineKind, Fixed};
use bench_engine::{EngineConfig, Entry, child};

fn main() -> ExitCode {
    if let Some(code) = child::run_if_requested() {
        return code;
    }
    let mut out = std::io::stdout().lock();
    match run() {
        Ok(line) => writeln!(out, "{line}").map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS),
        Err(error) => writeln!(out, "{error}").map_or(ExitCode::FAILURE, |()| ExitCode::FAILURE),
    }
}

fn run() -> Result<String, Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: &str| arguments.next().unwrap_or_else(|| default.to_owned());
    let (streams, itl_ms, tokens) = (
        next("1024").parse::<usize>()?,
        next("5").parse::<f64>()?,
        next("500").parse::<u32>()?,
    );
    let engine = EngineKind::Fixed(Fixed {
        ttft_ms: 500.0,
        itl_ms,
        jitter: 0.1,
        ..Fixed::default()
    });
    let server = child::spawn(&EngineConfig {
        engine,
        ..EngineConfig::default()
    })?;
    let address = server.hello().listening.clone();
    let body = format!("{{\"prompt\":\"a\",\"max_tokens\":{tokens},\"stream\":true}}");
    let request = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let before = cpu_seconds(server.pid())?;
    read_all(&address, &request, streams)?;
    let cpu = cpu_seconds(server.pid())? - before;
    Ok(summary(
        &ledger(&address)?,
        cpu,
        streams as f64 / itl_ms * 1e3,
    ))
}

fn summary(entries: &[Entry], cpu: f64, asked: f64) -> String {
    let total: usize = entries.iter().map(|entry| entry.due_ns.len()).sum();
    let first = entries
        .iter()
        .filter_map(|entry| entry.after_ns.first())
        .min()
        .copied()
        .unwrap_or(0);
    let last = entries
        .iter()
        .filter_map(|entry| entry.after_ns.last())
        .max()
        .copied()
        .unwrap_or(0);
    let seconds = (last - first) as f64 / 1e9;
    let mut late: Vec<u64> = entries
        .iter()
        .flat_map(|e| {
            e.due_ns
                .iter()
                .zip(&e.after_ns)
                .map(|(due, after)| after - due)
        })
        .collect();
    late.sort_unstable();
    let share = |per_mille: usize| {
        late.get(late.len() * per_mille / 1000)
            .map_or(0.0, |ns| *ns as f64 / 1e3)
    };
    format!(
        "{} streams: asked {asked:.0} tokens/s, wrote {total} tokens in {seconds:.2} s = {:.0} tokens/s; \
         server CPU {cpu:.2} s = {:.2} us a token; late p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us",
        entries.len(),
        total as f64 / seconds,
        cpu / total as f64 * 1e6,
        share(500),
        share(990),
        share(999),
    )
}

/// Opens all streams and reads them to their end on this thread, without looking at them.
fn read_all(
    address: &str,
    request: &str,
    streams: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let tasks = tokio::task::LocalSet::new();
    let mut readers = Vec::new();
    for _ in 0..streams {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(request.as_bytes())?;
        stream.set_nonblocking(true)?;
        readers.push(stream);
    }
    tasks.block_on(&runtime, async {
        let mut all = tokio::task::JoinSet::new();
        for stream in readers {
            let stream = tokio::net::TcpStream::from_std(stream)?;
            all.spawn_local(async move {
                let mut space = [0; 16_384];
                loop {
                    stream.readable().await?;
                    match stream.try_read(&mut space) {
                        Ok(0) => return Ok::<(), std::io::Error>(()),
                        Ok(_) => {}
                        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error),
                    }
                }
            });
        }
        while let Some(done) = all.join_next().await {
            done??;
        }
        Ok(())
    })
}

fn ledger(address: &str) -> Result<Vec<Entry>, Box<dyn std::error::Error>> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /ledger HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (_, lines) = text
        .split_once("\r\n\r\n")
        .ok_or("no answer from /ledger")?;
    lines
        .lines()
        .map(|line| serde_json::from_str(line).map_err(Into::into))
        .collect()
}

/// User and system time of a process, from `/proc` (clock ticks of 10 ms).
fn cpu_seconds(pid: u32) -> Result<f64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks = |at: usize| {
        fields
            .get(at)
            .and_then(|f| f.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    Ok((ticks(11) + ticks(12)) / 100.0)
}
