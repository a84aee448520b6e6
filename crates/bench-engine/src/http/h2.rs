//! HTTP/2 by hyper: the same answers over its streams. Faults of the wire below HTTP need HTTP/1.1.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame as BodyFrame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{mpsc, oneshot};

use super::{Frame, Head, Io, Peer, Request};
use crate::clock::now_ns;
use crate::serve;
use crate::server::Local;

/// Frames that may wait for hyper before a sequence has to wait as well.
const FRAMES: usize = 64;

/// Spawns on the thread it is on.
#[derive(Clone, Copy)]
struct Here;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Here {
    fn execute(&self, future: F) {
        // The thread's LocalSet owns it and ends it with the server.
        drop(tokio::task::spawn_local(future));
    }
}

pub(crate) async fn connection(local: Rc<Local>, io: Io, number: u64) {
    let carried = Rc::new(std::cell::Cell::new(0));
    let unflushed = Arc::<Unflushed>::default();
    let weak = Arc::downgrade(&unflushed);
    let io = FlushNotifier { io, unflushed };
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (local, before) = (Rc::clone(&local), carried.get());
        carried.set(before + 1);
        let unflushed = Weak::clone(&weak);
        async move { Ok::<_, Infallible>(respond(local, request, (number, before), unflushed).await) }
    });
    // A broken connection is its client's affair, and in the ledger.
    hyper::server::conn::http2::Builder::new(Here)
        .serve_connection(TokioIo::new(io), service)
        .await
        .ok();
}

async fn respond(
    local: Rc<Local>,
    request: hyper::Request<Incoming>,
    on: (u64, u64),
    unflushed: Weak<Unflushed>,
) -> hyper::Response<Frames> {
    let head_ns = now_ns();
    let (parts, body) = request.into_parts();
    let text =
        |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = parts
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), text(value)))
        .collect();
    let body = body
        .collect()
        .await
        .map(|body| body.to_bytes().to_vec())
        .unwrap_or_default();
    let request = Request {
        method: parts.method.as_str().to_owned(),
        path: parts.uri.path().to_owned(),
        headers,
        body,
        http: "2",
        keep_alive: true,
        head_ns,
        body_ns: now_ns(),
    };
    let (head, answer) = oneshot::channel();
    let (frames, receiver) = mpsc::channel(FRAMES);
    let peer = Peer::H2 {
        head: Some(head),
        body: frames,
        unflushed,
    };
    // The thread's LocalSet owns it and ends it with the server.
    drop(tokio::task::spawn_local(async move {
        serve::answer(&local, &request, peer, on).await
    }));
    response(answer.await.ok(), receiver)
}

fn response(head: Option<Head>, frames: mpsc::Receiver<Frame>) -> hyper::Response<Frames> {
    let mut response = hyper::Response::new(Frames(frames));
    let Some(head) = head else {
        *response.status_mut() = hyper::StatusCode::BAD_GATEWAY;
        return response;
    };
    *response.status_mut() = hyper::StatusCode::from_u16(head.status).unwrap_or_default();
    let length = head
        .length
        .map(|length| ("content-length", length.to_string()));
    let all = [("content-type", head.content_type)]
        .into_iter()
        .chain(head.headers)
        .chain(length);
    for (name, value) in all {
        if let Ok(value) = value.parse() {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// A body made of what a sequence sends.
struct Frames(mpsc::Receiver<Frame>);

impl Body for Frames {
    type Data = Piece;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Piece>, io::Error>>> {
        self.0
            .poll_recv(cx)
            .map(|frame| frame.map(|frame| frame.map(BodyFrame::data)))
    }
}

/// Bytes of a stream, and who wants to know when the socket has them. Dropped before that, it tells nobody.
pub(crate) struct Piece {
    bytes: Bytes,
    told: Option<oneshot::Sender<u64>>,
    unflushed: Weak<Unflushed>,
}

impl Piece {
    pub(crate) fn new(bytes: &[u8], on: &Weak<Unflushed>) -> (Self, oneshot::Receiver<u64>) {
        let (told, written) = oneshot::channel();
        let piece = Self {
            bytes: Bytes::copy_from_slice(bytes),
            told: Some(told),
            unflushed: Weak::clone(on),
        };
        (piece, written)
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if self.bytes.is_empty()
            && let (Some(told), Some(unflushed)) = (self.told.take(), self.unflushed.upgrade())
        {
            unflushed.0.lock().push(told);
        }
    }
}

/// Who wants to know when what hyper has framed on a connection is in its socket. It goes with the connection.
#[derive(Default)]
pub(crate) struct Unflushed(Mutex<Vec<oneshot::Sender<u64>>>);

/// A transport that tells when it has been flushed, which hyper does once its buffer is empty.
struct FlushNotifier {
    io: Io,
    unflushed: Arc<Unflushed>,
}

impl AsyncRead for FlushNotifier {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for FlushNotifier {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        let now = now_ns();
        for told in self.unflushed.0.lock().drain(..) {
            // A sequence that was ended does not wait any more.
            told.send(now).ok();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
