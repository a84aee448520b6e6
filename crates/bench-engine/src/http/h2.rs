//! HTTP/2 by hyper: the same answers over its streams. Faults of the wire below HTTP need HTTP/1.1.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame as BodyFrame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::{mpsc, oneshot};

use super::conn::Io;
use super::peer::{Frame, Head, Peer};
use super::request::Request;
use crate::clock::now_ns;
use crate::local::Local;
use crate::serve;

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

/// Serves one HTTP/2 connection until it ends.
pub(crate) async fn connection(local: Rc<Local>, io: Io, number: u64) {
    let carried = Rc::new(std::cell::Cell::new(0));
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (local, before) = (Rc::clone(&local), carried.get());
        carried.set(before + 1);
        async move { Ok::<_, Infallible>(respond(local, request, (number, before)).await) }
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
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, std::io::Error>>> {
        self.0
            .poll_recv(cx)
            .map(|frame| frame.map(|frame| frame.map(BodyFrame::data)))
    }
}
