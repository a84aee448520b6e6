//! A page server that behaves as badly as it is told to, and a client for it.
#![expect(clippy::unwrap_used, reason = "only tests use it")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread;

use bench_hardware::{Fetch, FetchLimits};

/// `GET` over plain HTTP/1.0: enough for a test, and it keeps its limits.
pub(crate) struct PlainHttp;

impl Fetch for PlainHttp {
    fn get(&self, url: &str, limits: FetchLimits) -> Result<Vec<u8>, String> {
        let rest = url.strip_prefix("http://").ok_or("not http")?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let address = host.parse().map_err(|_| "not an address".to_owned())?;
        let mut stream = TcpStream::connect_timeout(&address, limits.timeout)
            .map_err(|e| format!("connect: {:?}", e.kind()))?;
        stream
            .set_read_timeout(Some(limits.timeout))
            .map_err(|e| e.to_string())?;
        // In one piece: a server that answers after the first would close on the rest.
        let request = format!("GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n");
        stream
            .write_all(request.as_bytes())
            .map_err(|e| e.to_string())?;
        let mut answer = Vec::new();
        let mut part = [0; 16 << 10];
        loop {
            match stream.read(&mut part) {
                Ok(0) => break,
                Ok(n) => answer.extend_from_slice(&part[..n]),
                Err(_) => return Err("no answer in time".to_owned()),
            }
            if answer.len() > limits.max_bytes {
                return Err(format!("longer than {} bytes", limits.max_bytes));
            }
        }
        let head = answer
            .windows(4)
            .position(|w| w == b"\r\n\r\n")
            .ok_or("no head")?;
        if !(answer.starts_with(b"HTTP/1.0 200") || answer.starts_with(b"HTTP/1.1 200")) {
            return Err("a status other than 200".to_owned());
        }
        Ok(answer.split_off(head + 4))
    }
}

/// What a page server does with a request.
pub(crate) enum Manner {
    /// Answer with what the function makes, given the number of the request.
    Page(Box<dyn Fn(usize) -> Vec<u8> + Send>),
    /// Accept, and never answer.
    Silent,
    /// Answer with this status.
    Status(&'static str),
    /// Send without end.
    Endless,
}

/// Serve pages on a free loopback port until the returned guard is dropped.
pub(crate) fn serve(manner: Manner) -> (String, PageServer) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = channel::<()>();
    let thread = thread::spawn(move || {
        let mut held = Vec::new();
        for (number, stream) in listener.incoming().enumerate() {
            if stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Empty) {
                return;
            }
            let Ok(stream) = stream else { continue };
            held.extend(answer(stream, number, &manner));
        }
    });
    let guard = PageServer {
        address,
        stop: Some(stop),
        thread: Some(thread),
    };
    (format!("http://{address}/metrics"), guard)
}

fn answer(mut stream: TcpStream, number: usize, manner: &Manner) -> Option<TcpStream> {
    let mut request = [0; 1024];
    // What is asked does not matter, and errors are the client's affair: it may have given up.
    let Ok(1..) = stream.read(&mut request) else {
        return None;
    };
    match manner {
        Manner::Page(page) => {
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n").ok();
            stream.write_all(&page(number)).ok();
        }
        Manner::Silent => return Some(stream),
        Manner::Status(status) => {
            write!(stream, "HTTP/1.0 {status}\r\n\r\nno").ok();
        }
        Manner::Endless => {
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n").ok();
            while stream.write_all(&b"a_total 1\n".repeat(1000)).is_ok() {}
        }
    }
    None
}

/// Ends the server when dropped.
pub(crate) struct PageServer {
    address: std::net::SocketAddr,
    stop: Option<std::sync::mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for PageServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        TcpStream::connect(self.address).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}
