//! An HTTP/1 connection: what has been read from it, and the requests that it carries.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

use crate::clock::now_ns;

/// A transport that requests come over.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin {
    fn fd(&self) -> BorrowedFd<'_>;

    /// The TCP stream, where nothing else lies between.
    fn tcp(&self) -> Option<&TcpStream> {
        None
    }
}

pub(crate) type Io = Box<dyn Transport>;

impl Transport for TcpStream {
    fn fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn tcp(&self) -> Option<&TcpStream> {
        Some(self)
    }
}

impl Transport for UnixStream {
    fn fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl Transport for TlsStream<Io> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.get_ref().0.fd()
    }
}

/// Bytes read ahead of what a client may send while it is being answered.
const READ_AHEAD: usize = 1 << 20;

pub(crate) struct Conn {
    pub(crate) io: Io,
    /// Read and not yet used.
    pub(crate) input: Vec<u8>,
    pub(crate) number: u64,
}

impl Conn {
    pub(crate) fn new(io: Io, number: u64) -> Self {
        Self {
            io,
            input: Vec::new(),
            number,
        }
    }

    /// Reads some more; 0 is the end.
    pub(crate) async fn fill(&mut self) -> io::Result<usize> {
        std::future::poll_fn(|cx| self.poll_fill(cx)).await
    }

    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut space = [0u8; 16 * 1024];
        let mut buf = ReadBuf::new(&mut space);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut buf))?;
        self.input.extend_from_slice(buf.filled());
        Poll::Ready(Ok(buf.filled().len()))
    }

    /// Ready when the other side has closed or reset; what it sends meanwhile is kept for the next request.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.input.len() < READ_AHEAD {
            match ready!(self.poll_fill(cx)) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(_) => {}
            }
        }
        Poll::Pending
    }

    pub(crate) async fn gone(&mut self) {
        std::future::poll_fn(|cx| self.poll_gone(cx)).await;
    }

    /// Writes all of it and hands it to the socket. TLS keeps a record back until it is flushed.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.io.write_all(bytes).await?;
        self.io.flush().await
    }

    /// Closes with a reset instead of in order (a Unix socket has no reset: it is just closed).
    pub(crate) fn reset(self) {
        rustix::net::sockopt::set_socket_linger(self.io.fd(), Some(Duration::ZERO)).ok();
    }

    pub(crate) async fn shut(&mut self) {
        self.io.shutdown().await.ok();
    }

    /// Ends in order: sends the end, then reads what still comes, so that the last bytes are not lost to a reset.
    pub(crate) async fn close(mut self) {
        self.shut().await;
        let rest = async {
            while self.fill().await.is_ok_and(|n| n > 0) {
                self.input.clear();
            }
        };
        // A client that never closes must not hold the task for ever.
        tokio::time::timeout(Duration::from_secs(2), rest)
            .await
            .ok();
    }
}

// Reading a request off a connection.

const MAX_HEAD: usize = 256 * 1024;
const MAX_BODY: usize = 256 << 20;
const MAX_HEADERS: usize = 128;

/// A request, whole.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) http: &'static str,
    pub(crate) keep_alive: bool,
    pub(crate) head_ns: u64,
    pub(crate) body_ns: u64,
}

/// Why no request came.
#[derive(Debug)]
pub(crate) enum NoRequest {
    /// The connection ended, or broke.
    Closed,
    /// It was no HTTP; the text says why.
    Bad(String),
}

impl From<io::Error> for NoRequest {
    fn from(_: io::Error) -> Self {
        Self::Closed
    }
}

impl Request {
    /// The first header of that name, given in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Reads the head of the next request; its body with [`Request::read_body`].
    pub(crate) async fn read_head(conn: &mut Conn) -> Result<Self, NoRequest> {
        loop {
            if !conn.input.is_empty()
                && let Some((request, used)) = parse_head(&conn.input)?
            {
                conn.input.drain(..used);
                return Ok(Self {
                    head_ns: now_ns(),
                    ..request
                });
            }
            if conn.input.len() > MAX_HEAD {
                return Err(NoRequest::Bad(format!(
                    "the head is longer than {MAX_HEAD} bytes"
                )));
            }
            if conn.fill().await? == 0 {
                return Err(NoRequest::Closed);
            }
        }
    }

    pub(crate) async fn read_body(&mut self, conn: &mut Conn) -> Result<(), NoRequest> {
        if self
            .header("expect")
            .is_some_and(|e| e.eq_ignore_ascii_case("100-continue"))
        {
            conn.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        if self
            .header("transfer-encoding")
            .is_some_and(|e| e.eq_ignore_ascii_case("chunked"))
        {
            self.body = read_chunked(conn).await?;
        } else if let Some(length) = self.header("content-length") {
            let length: usize =
                length
                    .parse()
                    .ok()
                    .filter(|n| *n <= MAX_BODY)
                    .ok_or_else(|| {
                        NoRequest::Bad(format!("content-length {length:?} is not usable"))
                    })?;
            self.body = take(conn, length).await?;
        }
        self.body_ns = now_ns();
        Ok(())
    }
}

fn parse_head(input: &[u8]) -> Result<Option<(Request, usize)>, NoRequest> {
    let mut space = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut space);
    let used = match parsed.parse(input) {
        Ok(httparse::Status::Complete(used)) => used,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(NoRequest::Bad(error.to_string())),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers: Vec<(String, String)> = parsed
        .headers
        .iter()
        .map(|h| (h.name.to_ascii_lowercase(), text(h.value)))
        .collect();
    let http = if parsed.version == Some(0) {
        "1.0"
    } else {
        "1.1"
    };
    let asks = |word: &str| {
        headers
            .iter()
            .any(|(name, value)| name == "connection" && value.to_ascii_lowercase().contains(word))
    };
    let keep_alive = if http == "1.0" {
        asks("keep-alive")
    } else {
        !asks("close")
    };
    let target = parsed.path.unwrap_or("/");
    let request = Request {
        method: parsed.method.unwrap_or("GET").to_owned(),
        path: path_of(target),
        headers,
        http,
        keep_alive,
        ..Request::default()
    };
    Ok(Some((request, used)))
}

/// The path of a request's target, which may be a whole address: a server has to take that too, and a proxy may hand it on
/// (RFC 9112, 3.2.2). A target that is neither keeps its words, so that the answer can quote them.
fn path_of(target: &str) -> String {
    target
        .parse::<hyper::Uri>()
        .map_or_else(|_| target.to_owned(), |uri| uri.path().to_owned())
}

async fn take(conn: &mut Conn, length: usize) -> Result<Vec<u8>, NoRequest> {
    while conn.input.len() < length {
        if conn.fill().await? == 0 {
            return Err(NoRequest::Closed);
        }
    }
    let rest = conn.input.split_off(length);
    Ok(std::mem::replace(&mut conn.input, rest))
}

async fn read_chunked(conn: &mut Conn) -> Result<Vec<u8>, NoRequest> {
    let mut body = Vec::new();
    loop {
        let (at, size) = loop {
            match httparse::parse_chunk_size(&conn.input) {
                Ok(httparse::Status::Complete(found)) => break found,
                Ok(httparse::Status::Partial) => {
                    if conn.fill().await? == 0 {
                        return Err(NoRequest::Closed);
                    }
                }
                Err(_) => return Err(NoRequest::Bad("a chunk size is no number".into())),
            }
        };
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if body.len().saturating_add(size) > MAX_BODY {
            return Err(NoRequest::Bad(format!(
                "the body is longer than {MAX_BODY} bytes"
            )));
        }
        conn.input.drain(..at);
        let chunk = take(conn, size + 2).await?;
        if size == 0 {
            return Ok(body); // trailers are not expected from a client of this API
        }
        body.extend_from_slice(&chunk[..size]);
    }
}

#[cfg(test)]
#[path = "../../tests/unit/http_h1.rs"]
mod tests;
