//! Small real servers that do exactly what a test says.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::allow_attributes,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "each test file uses its own part of this; a test says what is wrong by failing"
)]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use bench_client::{Client, Clock, Target, protocol_by_name};
use bench_schema::{Exchange, GenerationRequest, Prompt, Sampling};

/// What a server does with one connection, step by step.
#[derive(Clone, Debug)]
pub enum Act {
    /// Read until a whole request (head and `content-length` body) is there; end the connection's script if the client has closed.
    Request,
    /// Write these bytes in one write.
    Write(Vec<u8>),
    /// Wait for the test's word ([`Scripted::word`]).
    Wait,
    /// Close both ways.
    Close,
    /// Close with a reset.
    Reset,
    /// Keep the connection open until the client closes it.
    Linger,
}

pub fn text(bytes: &str) -> Act {
    Act::Write(bytes.as_bytes().to_vec())
}

/// A server thread that plays one script for each connection, in turn.
pub struct Scripted {
    pub url: String,
    pub requests: Receiver<String>,
    waits: Receiver<()>,
    go: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Scripted {
    pub fn start(scripts: Vec<Vec<Act>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (seen, requests) = channel();
        let (go, wait) = channel();
        let (reached, waits) = channel();
        let thread = std::thread::spawn(move || {
            for script in scripts {
                let Ok((stream, _)) = listener.accept() else {
                    return;
                };
                stream.set_nodelay(true).unwrap();
                play(stream, script, &seen, (&reached, &wait));
            }
        });
        Self {
            url,
            requests,
            waits,
            go,
            thread: Some(thread),
        }
    }

    /// Give the word once the server waits for it and the client, on the same runtime, has read what was written before.
    pub async fn word(&self) {
        self.word_after(Duration::from_millis(1)).await;
    }

    /// The same, so much later.
    pub async fn word_after(&self, held: Duration) {
        let nap = || tokio::time::sleep(Duration::from_millis(1));
        while self.waits.try_recv().is_err() {
            nap().await;
        }
        // Over a loopback it is in the client's socket by now; each nap lets the runtime look at its sockets and run what they wake.
        nap().await;
        tokio::time::sleep(held).await;
        self.go.send(()).unwrap();
    }

    /// Wait for the server's scripts to be over.
    pub fn join(mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn play(
    mut stream: TcpStream,
    script: Vec<Act>,
    seen: &Sender<String>,
    (reached, wait): (&Sender<()>, &Receiver<()>),
) {
    for act in script {
        match act {
            Act::Request => match read_request(&mut stream) {
                Some(request) => drop(seen.send(request)),
                None => return,
            },
            // The client may be gone on purpose.
            Act::Write(bytes) => drop(stream.write_all(&bytes)),
            Act::Wait => {
                reached.send(()).ok();
                wait.recv().ok();
            }
            Act::Close => {
                drop(stream.shutdown(Shutdown::Both));
                return;
            }
            Act::Reset => {
                rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
                return;
            }
            Act::Linger => {
                let mut sink = [0; 256];
                while stream.read(&mut sink).is_ok_and(|n| n > 0) {}
            }
        }
    }
}

fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut byte = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_ascii_lowercase()
                        .strip_prefix("content-length: ")
                        .map(str::to_owned)
                })
                .map_or(0, |n| n.trim().parse().unwrap());
            if body.len() >= length {
                return Some(text);
            }
        }
        match stream.read(&mut byte) {
            Ok(n) if n > 0 => bytes.extend_from_slice(&byte[..n]),
            _ => return None,
        }
    }
}

pub const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// One chunk of a chunked body.
pub fn chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

pub fn token(text: &str) -> String {
    chunk(&format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n"
    ))
}

pub fn finish() -> String {
    chunk("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n")
        + &chunk("data: [DONE]\n\n")
        + "0\r\n\r\n"
}

pub fn whole_stream(tokens: usize) -> String {
    let tokens: String = (0..tokens).map(|i| token(&format!("t{i} "))).collect();
    format!("{STREAM_HEAD}{tokens}{}", finish())
}

pub fn target(url: &str) -> Target {
    let mut target = Target::new(url, protocol_by_name("openai-chat").unwrap(), "m").unwrap();
    // Nothing here takes long; a test that waits for ever should say so soon.
    target.timeouts.whole = bench_schema::Nanos::from_secs(30);
    target
}

pub fn client(target: Target) -> Client {
    Client::new(Arc::new(target), Clock::start()).unwrap()
}

pub fn question() -> GenerationRequest {
    GenerationRequest {
        prompt: Prompt::Text("hello".into()),
        max_tokens: Some(16),
        min_tokens: None,
        ignore_eos: false,
        sampling: Sampling::default(),
        stream: true,
        extra_body: None,
    }
}

pub async fn ask(client: &Client) -> Exchange {
    client.send(&question(), "r-1").await
}

/// Run on a single-threaded runtime, as a worker does.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, future)
}
