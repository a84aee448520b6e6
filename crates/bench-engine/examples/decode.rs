//! Tokens a second of the transformer at several batch sizes, through its own API.
//!
//! `cargo run --release -p bench-engine --example decode -- [PROFILE] [TOKENS]`

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use bench_engine::{EngineConfig, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let profile = arguments.next().unwrap_or_else(|| "tiny".to_owned());
    let tokens: u32 = arguments
        .next()
        .unwrap_or_else(|| "100".to_owned())
        .parse()?;
    let server = Server::start(EngineConfig::profile(&profile)?)?;
    let address = server.addr().ok_or("no address")?;
    let body = format!(
        "{{\"prompt\":\"{}\",\"max_tokens\":{tokens},\"temperature\":0,\"stream\":true}}",
        "word ".repeat(32)
    );
    let request = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let ask = || -> std::io::Result<()> {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(request.as_bytes())?;
        stream.read_to_end(&mut Vec::new()).map(|_| ())
    };
    ask()?; // pages the weights in
    for batch in [1, 2, 4, 8, 16] {
        drop(server.ledger().take());
        let cpu = cpu_seconds()?;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..batch).map(|_| scope.spawn(ask)).collect();
            threads
                .into_iter()
                .all(|thread| thread.join().is_ok_and(|asked| asked.is_ok()))
        });
        let entries = server.ledger().take();
        // Decoding only: from the last first token to the first last one, when all sequences run.
        let from = entries
            .iter()
            .filter_map(|e| e.due_ns.first())
            .max()
            .copied()
            .unwrap_or(0);
        let to = entries
            .iter()
            .filter_map(|e| e.due_ns.last())
            .min()
            .copied()
            .unwrap_or(0);
        let inside = |ns: &&u64| **ns > from && **ns <= to;
        let made: usize = entries
            .iter()
            .map(|e| e.due_ns.iter().filter(inside).count())
            .sum();
        let rate = made as f64 / (to.saturating_sub(from) as f64 / 1e9);
        let all: u64 = entries.iter().map(|e| e.completion_tokens).sum();
        let per_token = (cpu_seconds()? - cpu) / all as f64 * 1e3;
        writeln!(
            std::io::stdout().lock(),
            "{profile}: batch {batch:2}: {rate:7.1} tokens/s while all decode, {:.2} ms a step; \
             {per_token:.2} ms of CPU a token, prefill of 32 tokens included",
            f64::from(batch) / rate * 1e3
        )?;
    }
    Ok(())
}

/// User and system time of this process, from `/proc` (clock ticks of 10 ms).
fn cpu_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
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
