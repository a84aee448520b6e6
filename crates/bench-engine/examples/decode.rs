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
        let prefill: f64 = entries
            .iter()
            .filter_map(|e| Some((e.due_ns.first()? - e.scheduled_ns?) as f64 / 1e6))
            .fold(0.0, f64::max);
        let rate = made as f64 / (to.saturating_sub(from) as f64 / 1e9);
        writeln!(
            std::io::stdout().lock(),
            "{profile}: batch {batch:2}: {rate:7.1} tokens/s, {:.2} ms a step, longest prefill of 32 tokens {prefill:.1} ms",
            f64::from(batch) / rate * 1e3
        )?;
    }
    Ok(())
}
