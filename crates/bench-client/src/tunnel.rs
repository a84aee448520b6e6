//! Through an HTTP proxy to a TLS server (`CONNECT`).

use bench_schema::{FailureKind, Stage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::endpoint::Host;
use crate::fault::Fault;
use crate::socket::Socket;
use crate::{Endpoint, Proxy};

/// A proxy that says more than this before the tunnel is open is none.
const LONGEST_HEAD: usize = 8192;

/// Ask the proxy at the other end of `socket` to open a tunnel to `endpoint`; what follows on the socket is the server's.
pub(crate) async fn open(
    socket: &mut Socket,
    endpoint: &Endpoint,
    proxy: &Proxy,
) -> Result<(), Fault> {
    let Host::Tcp { name, port } = endpoint.host() else {
        return Ok(());
    };
    let name = if name.contains(':') {
        format!("[{name}]")
    } else {
        name.clone()
    };
    let who = proxy.authorization().map_or_else(String::new, |value| {
        format!("Proxy-Authorization: {}\r\n", value.expose())
    });
    let request = format!("CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n{who}\r\n");
    let proxy = &proxy.endpoint().to_string();
    let broken = |error: std::io::Error| Fault::io(Stage::Connect, &error, proxy);
    socket.write_all(request.as_bytes()).await.map_err(broken)?;
    let mut head = Vec::with_capacity(256);
    while !head.ends_with(b"\r\n\r\n") {
        // A byte at a time, so that nothing of the server's own bytes is taken. Once a connection.
        head.push(socket.read_u8().await.map_err(broken)?);
        if head.len() > LONGEST_HEAD {
            return Err(refused(proxy, "a head without an end"));
        }
    }
    let text = String::from_utf8_lossy(&head);
    let line = text.lines().next().unwrap_or_default();
    match line.split(' ').nth(1) {
        Some(status) if status.starts_with('2') => Ok(()),
        _ => Err(refused(proxy, line)),
    }
}

fn refused(proxy: &str, answer: &str) -> Fault {
    Fault::new(
        Stage::Connect,
        FailureKind::Other,
        format!("the proxy {proxy} opened no tunnel: {answer}"),
    )
}
