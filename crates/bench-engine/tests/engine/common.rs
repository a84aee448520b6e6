//! A client of plain sockets: it sees every byte, and shares nothing with the server.

use std::io::{Read, Write};
use std::net::TcpStream;

use bench_engine::config::{EngineKind, Fixed};
use bench_engine::{EngineConfig, Server};

/// What came back on one connection until it was closed.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// How the connection ended.
    pub(crate) reset: bool,
}

impl Raw {
    pub(crate) fn status(&self) -> u16 {
        self.head
            .split(' ')
            .nth(1)
            .and_then(|s| s.parse().ok())
            .unwrap_or(0)
    }

    /// The body out of its chunks; whether the last chunk came.
    pub(crate) fn dechunked(&self) -> (Vec<u8>, bool) {
        let mut rest = self.body.as_slice();
        let mut out = Vec::new();
        loop {
            let Some(at) = rest.windows(2).position(|w| w == b"\r\n") else {
                return (out, false);
            };
            let size = std::str::from_utf8(&rest[..at])
                .ok()
                .and_then(|s| usize::from_str_radix(s, 16).ok());
            let Some(size) = size else {
                return (out, false);
            };
            rest = &rest[at + 2..];
            if size == 0 {
                return (out, true);
            }
            out.extend_from_slice(&rest[..size.min(rest.len())]);
            if rest.len() < size + 2 {
                return (out, false);
            }
            rest = &rest[size + 2..];
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.dechunked().0).into_owned()
    }

    /// The JSON of each `data:` line but `[DONE]`.
    pub(crate) fn events(&self) -> Vec<serde_json::Value> {
        self.text()
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .filter_map(|data| serde_json::from_str(data.trim()).ok())
            .collect()
    }
}

pub(crate) fn fast() -> EngineConfig {
    let engine = EngineKind::Fixed(Fixed {
        ttft_ms: 2.0,
        itl_ms: 1.0,
        ..Fixed::default()
    });
    EngineConfig {
        engine,
        ..EngineConfig::default()
    }
}

pub(crate) fn send(server: &Server, head: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.addr().unwrap()).unwrap();
    write!(
        stream,
        "{head}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    stream
}

pub(crate) fn receive(mut stream: TcpStream) -> Raw {
    let mut all = Vec::new();
    let reset = stream.read_to_end(&mut all).is_err();
    let at = all
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .map_or(all.len(), |at| at + 4);
    Raw {
        head: String::from_utf8_lossy(&all[..at]).into_owned(),
        body: all[at..].to_vec(),
        reset,
    }
}

pub(crate) fn post(server: &Server, path: &str, faults: &str, body: &str) -> Raw {
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-fault: {faults}");
    receive(send(server, &head, body))
}

pub(crate) fn get(server: &Server, path: &str) -> Raw {
    receive(send(
        server,
        &format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close"),
        "",
    ))
}

pub(crate) fn chat(tokens: u32) -> String {
    format!(
        r#"{{"model":"simulated","messages":[{{"role":"user","content":"Tell me a story"}}],"max_tokens":{tokens},
            "stream":true,"stream_options":{{"include_usage":true}}}}"#
    )
}
