//! An in-memory connection whose every read has a known stamp, to hold the marks against.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bench_schema::{ConnectionFacts, Nanos, Stamp};
use bytes::Bytes;
use hyper::header::HeaderMap;
use proptest::prelude::*;
use tokio::task::LocalSet;

use crate::clock::KernelStamps;
use crate::request::{HttpRequest, PreparedRequest, Route};
use crate::socket::{Read, ReadLog};
use crate::transfer::{Connection, Http1, Http2, LocalTasks, Spare, Step, Stream, Transfer, Wire};
use crate::{Clock, Endpoint, ReadMark};

/// Gives one scripted segment a read; a segment larger than the buffer takes several reads, as on a real socket.
#[derive(Debug)]
pub(crate) struct ScriptedStream {
    segments: VecDeque<Vec<u8>>,
    taken: usize,
    log: Rc<ReadLog>,
    clock: Rc<Cell<Stamp>>,
    /// Arrival of each read and the range of stream bytes that it brought.
    reads: Rc<RefCell<Vec<(Stamp, usize, usize)>>>,
    at: usize,
    written: Rc<RefCell<Vec<Write>>>,
    /// Whoever waits for the answer.
    reader: Option<Waker>,
    /// Bytes that one write accepts.
    write_room: usize,
    /// The server answers when it has the whole request, of so many bytes beside its head.
    http2: bool,
    body_len: usize,
}

impl ScriptedStream {
    fn tick(&self) -> Stamp {
        let now = self.clock.get() + Nanos::new(1_000);
        self.clock.set(now);
        now
    }

    fn is_asked(&self) -> bool {
        let wire = wire_of(&self.written.borrow());
        if self.http2 {
            return end_of_data(&wire).1 >= self.body_len;
        }
        let head = memchr::memmem::find(&wire, b"\r\n\r\n");
        head.is_some_and(|head| wire.len() >= head + 4 + self.body_len)
    }

    pub(crate) fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if self.at == 0 && !self.is_asked() {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let Some(segment) = self.segments.front() else {
            self.log.note_end(self.tick());
            return Poll::Ready(Ok(0));
        };
        let started = self.tick();
        let rest = &segment[self.taken..];
        let n = rest.len().min(room.len());
        let drained = n < room.len();
        room[..n].copy_from_slice(&rest[..n]);
        let returned = self.tick();
        self.log.note_read(Read {
            started,
            returned,
            realtime_ns: None,
            drained,
            piece: None,
            seen: None,
            behind: None,
            whole: true,
            one_segment: false,
            len: n,
            opening: Default::default(),
        });
        self.reads
            .borrow_mut()
            .push((returned, self.at, self.at + n));
        self.at += n;
        self.taken += n;
        if self.taken == segment.len() {
            self.segments.pop_front();
            self.taken = 0;
        }
        Poll::Ready(Ok(n))
    }

    pub(crate) fn poll_send(&mut self, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let n = bytes.len().min(self.write_room);
        // The log's own clock, so that `sent` is comparable with what it noted when the body was taken.
        let at = self.log.now();
        self.log.note_write(at, n);
        self.written.borrow_mut().push((at, bytes[..n].to_vec()));
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(n))
    }
}

/// What one write accepted, and when.
type Write = (Stamp, Vec<u8>);

fn wire_of(writes: &[Write]) -> Vec<u8> {
    writes.iter().flat_map(|write| &write.1).copied().collect()
}

struct Played {
    /// Body bytes in order: (payload, mark).
    data: Vec<(Vec<u8>, ReadMark)>,
    head: Option<ReadMark>,
    status: u16,
    headers: HeaderMap,
    reads: Vec<(Stamp, usize, usize)>,
    ended: bool,
    broken: bool,
    sent: Option<Stamp>,
    written: Vec<Write>,
}

/// Play a response in these segments and note what comes out.
fn play(segments: Vec<Vec<u8>>, write_room: usize, body_len: usize) -> Played {
    play_over(false, segments, write_room, body_len)
}

fn play_over(http2: bool, segments: Vec<Vec<u8>>, write_room: usize, body_len: usize) -> Played {
    let stamps = Rc::new(KernelStamps::new(Clock::start()));
    let log = ReadLog::new(stamps);
    let reads = Rc::new(RefCell::default());
    let written = Rc::new(RefCell::default());
    let stream = ScriptedStream {
        segments: segments.into(),
        taken: 0,
        log: Rc::clone(&log),
        clock: Rc::new(Cell::new(Stamp::new(1_000_000_000_000))),
        reads: Rc::clone(&reads),
        at: 0,
        written: Rc::clone(&written),
        reader: None,
        write_room,
        http2,
        body_len,
    };
    let wire = Wire::new(Stream::Scripted(Box::new(stream)), Rc::clone(&log));
    let prepared = PreparedRequest::plain(vec![b'x'; body_len].into(), HeaderMap::new());
    let route = Route::new(&Endpoint::parse("http://h").unwrap(), "/", None).unwrap();
    let request = HttpRequest {
        prepared: &prepared,
        route: &route,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let mut played = LocalSet::new().block_on(&runtime.unwrap(), async {
        let tasks = LocalTasks::default();
        let cost = ConnectionFacts::default();
        let connection = if http2 {
            Connection::Http2(Http2::open(wire, None, cost, &tasks).await.unwrap())
        } else {
            Connection::Http1(Http1::new(wire, None, cost, 8192, Spare::default()))
        };
        step_through(connection.start(request)).await
    });
    played.reads = reads.borrow().clone();
    played.written = written.borrow().clone();
    played
}

async fn step_through(mut transfer: Transfer) -> Played {
    let mut played = Played {
        data: Vec::new(),
        head: None,
        status: 0,
        headers: HeaderMap::new(),
        reads: Vec::new(),
        ended: false,
        broken: false,
        sent: None,
        written: Vec::new(),
    };
    while !played.ended && !played.broken {
        match poll_fn(|cx| transfer.poll_step(cx)).await {
            Step::Head(head, mark) => {
                played.head = Some(mark);
                played.status = head.status.as_u16();
                played.headers = head.headers;
            }
            Step::Data(mark) => played.data.push((transfer.data().to_vec(), mark)),
            Step::End(_) => played.ended = true,
            Step::Broken(_) => played.broken = true,
        }
    }
    played.sent = transfer.sent();
    played
}

/// Cut `wire` at these places.
fn cut(wire: &[u8], mut at: Vec<usize>) -> Vec<Vec<u8>> {
    at.retain(|&i| i > 0 && i < wire.len());
    at.sort_unstable();
    at.dedup();
    at.insert(0, 0);
    at.push(wire.len());
    at.windows(2).map(|w| wire[w[0]..w[1]].to_vec()).collect()
}

/// A chunked response and, for each payload byte, its place on the wire.
fn chunked(payloads: &[Vec<u8>]) -> (Vec<u8>, Vec<usize>, usize) {
    let mut wire = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    let head = wire.len();
    let mut places = Vec::new();
    for payload in payloads {
        wire.extend(format!("{:x}\r\n", payload.len()).bytes());
        places.extend(wire.len()..wire.len() + payload.len());
        wire.extend(payload);
        wire.extend(b"\r\n");
    }
    wire.extend(b"0\r\n\r\n");
    (wire, places, head)
}

/// The arrival of the read that brought wire byte `place`.
fn arrival_of(reads: &[(Stamp, usize, usize)], place: usize) -> Stamp {
    reads
        .iter()
        .find(|r| r.1 <= place && place < r.2)
        .unwrap()
        .0
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// However the network cuts a chunked answer, each piece that hyper hands out has the mark of the read that brought its
    /// last byte, and the head the mark of the read that completed it.
    #[test]
    fn every_piece_of_a_chunked_answer_has_the_mark_of_the_read_that_completed_it(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..400), 1..24),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let (wire, places, head) = chunked(&payloads);
        let at = cuts.iter().map(|i| i.index(wire.len())).collect();
        let played = play(cut(&wire, at), usize::MAX, 100);
        prop_assert!(played.ended && !played.broken);
        prop_assert_eq!(played.head.unwrap().arrival, arrival_of(&played.reads, head - 1));
        let mut byte = 0;
        for (data, mark) in &played.data {
            byte += data.len();
            prop_assert_eq!(mark.arrival, arrival_of(&played.reads, places[byte - 1]));
            // All its bytes came with that read: the bound reaches back to before every one of them.
            for place in &places[byte - data.len()..byte] {
                prop_assert!(mark.previous_return <= arrival_of(&played.reads, *place));
            }
            prop_assert!(!mark.merged);
        }
        prop_assert_eq!(byte, places.len());
    }

    /// The same for an answer that ends with its connection.
    #[test]
    fn every_piece_of_an_answer_without_a_length_has_the_mark_of_its_read(
        body in prop::collection::vec(any::<u8>(), 1..20_000),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let mut wire = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        let head = wire.len();
        wire.extend(&body);
        let at = cuts.iter().map(|i| i.index(wire.len())).collect();
        let played = play(cut(&wire, at), usize::MAX, 1);
        prop_assert!(played.ended);
        let mut place = head;
        for (data, mark) in &played.data {
            place += data.len();
            prop_assert_eq!(mark.arrival, arrival_of(&played.reads, place - 1));
        }
        prop_assert_eq!(place, wire.len());
    }

    /// `sent` is the write that took the request's last byte, however small the socket's appetite. Over HTTP/2 the head goes out in a
    /// write of its own.
    #[test]
    fn sent_is_when_the_last_byte_of_the_request_was_accepted(
        http2: bool, body_len in 1_usize..60_000, room in 1_usize..20_000,
    ) {
        let answer = if http2 { HTTP2_ANSWER.to_vec() } else { chunked(&[b"x".to_vec()]).0 };
        let played = play_over(http2, vec![answer], room, body_len);
        prop_assert!(played.ended);
        let wire = wire_of(&played.written);
        let end = if http2 { end_of_data(&wire).0 } else { wire.len() };
        let mut taken = 0;
        let last = played.written.iter().find(|write| {
            taken += write.1.len();
            taken >= end
        });
        prop_assert!(end > body_len);
        prop_assert_eq!(played.sent, last.map(|write| write.0));
    }
}

/// Where the last DATA frame that a client wrote ends, and the bytes that whole ones hold.
fn end_of_data(wire: &[u8]) -> (usize, usize) {
    let mut at = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
    let (mut end, mut bytes) = (0, 0);
    while let Some(&[a, b, c, kind]) = wire.get(at..at + 4) {
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        at += 9 + len;
        if kind == 0 && at <= wire.len() {
            (end, bytes) = (at, bytes + len);
        }
    }
    (end, bytes)
}

/// SETTINGS, the head (status 200) and a byte that ends the first stream.
const HTTP2_ANSWER: &[u8] =
    b"\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\x01\0\x01\0\0\0\x01y";

#[test]
fn an_answer_that_breaks_off_inside_a_chunk_is_broken_after_what_came() {
    let wire =
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nwor".to_vec();
    let played = play(vec![wire], usize::MAX, 1);
    assert!(played.broken && !played.ended);
    let text: Vec<u8> = played.data.into_iter().flat_map(|(data, _)| data).collect();
    assert_eq!(text, b"hellowor");
}

/// Its head came after it, however little that says.
#[test]
fn an_event_is_not_at_the_end_of_its_read_where_a_chunk_or_the_end_of_the_body_begins_behind_it() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
    for (first, then, continues) in [
        ("", "5\r\nworld\r\n0\r\n\r\n", [false, true]),
        ("5", "\r\nworld\r\n", [true, false]),
        ("5\r\n", "world", [true, false]),
        ("5\r\nworld\r\n", "0\r\n\r\n", [true, false]),
    ] {
        let segments = vec![format!("{head}{first}").into(), then.into()];
        let played = play(segments, usize::MAX, 1);
        let said: Vec<_> = played.data.iter().map(|data| data.1.continues).collect();
        assert_eq!(said, continues, "{first:?} {then:?}");
    }
}

/// What hyper makes of the same answer: status, headers and body, and whether it ended in order.
fn by_hyper(wire: &[u8]) -> (u16, HeaderMap, Vec<u8>, bool) {
    use http_body_util::BodyExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    LocalSet::new().block_on(&runtime.unwrap(), async {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let io = hyper_util::rt::TokioIo::new(near);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        let driver = tokio::task::spawn_local(connection);
        let body = http_body_util::Full::new(Bytes::from_static(b"x"));
        let request = hyper::Request::post("/").header("host", "h").body(body);
        let response = sender.send_request(request.unwrap());
        let server = async {
            let _asked = far.read(&mut [0; 4096]).await.unwrap();
            far.write_all(wire).await.ok();
            drop(far);
        };
        let (response, ()) = tokio::join!(response, server);
        let mut found = (0, HeaderMap::new(), Vec::new(), false);
        if let Ok(response) = response {
            found.0 = response.status().as_u16();
            found.1 = response.headers().clone();
            let mut body = response.into_body();
            found.3 = loop {
                match body.frame().await {
                    Some(Ok(frame)) => found.2.extend(frame.into_data().unwrap_or_default()),
                    Some(Err(_)) => break false,
                    None => break true,
                }
            };
        }
        driver.abort();
        found
    })
}

const HEADS: [&str; 12] = [
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\nA: b\r\nA: c\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nx: y\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n",
    "HTTP/1.1 200\r\ncontent-length: 30\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 7, 7\r\ncontent-length: 7\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 7\r\ncontent-length: 8\r\n\r\n",
    "HTTP/1.1 404 Not Found\ncontent-length: +7\n\n",
    "HTTP/1.1 204 No Content\r\ncontent-length: 7\r\n\r\n",
    "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    "HTTP/1.0 200 OK\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
];

proptest! {
    // The same thousand each time; the first hundred thousand were looked at once.
    #![proptest_config(ProptestConfig {
        cases: 1_000,
        rng_seed: proptest::test_runner::RngSeed::Fixed(29),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever a server sends, in whatever pieces: it is read as hyper reads it.
    #[test]
    fn an_answer_is_read_as_hyper_reads_it(
        head in prop::sample::select(HEADS.to_vec()),
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
        spoiled in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(b"\r\n 0;,:afG\x00\xff".to_vec())), 0..3),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        kept in any::<prop::sample::Index>(),
        whole: bool,
    ) {
        let mut wire = head.as_bytes().to_vec();
        let (chunks, _, head_len) = chunked(&payloads);
        wire.extend(&chunks[head_len..]);
        for (at, byte) in spoiled {
            let at = at.index(wire.len());
            wire[at] = byte;
        }
        if !whole {
            wire.truncate(kept.index(wire.len()) + 1);
        }
        let (status, headers, body, ended) = by_hyper(&wire);
        let at = cuts.iter().map(|i| i.index(wire.len())).collect();
        let played = play(cut(&wire, at), usize::MAX, 1);
        let ours: Vec<u8> = played.data.into_iter().flat_map(|(data, _)| data).collect();
        prop_assert_eq!((played.status, played.ended), (status, ended));
        prop_assert_eq!(played.headers, headers);
        let sent = String::from_utf8_lossy(&wire);
        prop_assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&body), "{:?}", sent);
    }
}
