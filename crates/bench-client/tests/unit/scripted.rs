//! An in-memory connection whose every read has a known stamp, to hold the marks against.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bench_schema::{Nanos, Stamp};
use bytes::Bytes;
use hyper::Request;
use hyper::body::Body;
use hyper::rt::ReadBufCursor;
use proptest::prelude::*;
use tokio::task::LocalSet;

use crate::clock::KernelStamps;
use crate::request::{Outgoing, Sent};
use crate::socket::{Read, ReadLog};
use crate::transfer::{Connection, Http1, Http2, LocalTasks, Step, Transfer};
use crate::transfer::{SingleReadIo, Stream};
use crate::{Clock, ReadMark};

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
    /// The server answers when it has the whole request.
    sent: Arc<Sent>,
}

impl ScriptedStream {
    fn tick(&self) -> Stamp {
        let now = self.clock.get() + Nanos::new(1_000);
        self.clock.set(now);
        now
    }

    pub(crate) fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        cursor: &mut ReadBufCursor<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.sent.at().is_none() {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let Some(segment) = self.segments.front() else {
            self.log.note_end(self.tick());
            return Poll::Ready(Ok(0));
        };
        let started = self.tick();
        let rest = &segment[self.taken..];
        let n = rest.len().min(cursor.remaining());
        let drained = n < cursor.remaining();
        cursor.put_slice(&rest[..n]);
        let returned = self.tick();
        self.log.note_read(Read {
            started,
            returned,
            realtime_ns: None,
            drained,
            piece: None,
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
        self.log.note_write(at);
        self.written.borrow_mut().push((at, bytes[..n].to_vec()));
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(n))
    }
}

/// What one write accepted, and when.
type Write = (Stamp, Vec<u8>);

struct Played {
    /// Body bytes in order: (payload, mark).
    data: Vec<(Vec<u8>, ReadMark)>,
    head: Option<ReadMark>,
    reads: Vec<(Stamp, usize, usize)>,
    ended: bool,
    broken: bool,
    sent: Option<Stamp>,
    written: Vec<Write>,
}

/// Play a response in these segments through hyper and note what comes out.
fn play(segments: Vec<Vec<u8>>, write_room: usize, body_len: usize) -> Played {
    play_over(false, segments, write_room, body_len)
}

fn play_over(http2: bool, segments: Vec<Vec<u8>>, write_room: usize, body_len: usize) -> Played {
    let stamps = Rc::new(KernelStamps::new(Clock::start()));
    let log = ReadLog::new(stamps);
    let reads = Rc::new(RefCell::default());
    let written = Rc::new(RefCell::default());
    let sent = Sent::new(body_len);
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
        sent: Arc::clone(&sent),
    };
    let io = SingleReadIo::new(Stream::Scripted(stream), Rc::clone(&log));
    let body = Outgoing::new(
        Bytes::from(vec![b'x'; body_len]),
        Rc::clone(&log),
        Arc::clone(&sent),
    );
    assert_eq!(body.size_hint().exact(), Some(body_len as u64));
    let request = Request::post("http://h/").header("host", "h").body(body);
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let mut played = LocalSet::new().block_on(&runtime.unwrap(), async {
        let tasks = LocalTasks::default();
        let connection = if http2 {
            Connection::Http2(Http2::open(io, log, &tasks).await.unwrap())
        } else {
            let opened = Http1::open(io, log, None, 8192).await.unwrap();
            Connection::Http1(Box::new(opened))
        };
        step_through(connection.start(request.unwrap(), sent)).await
    });
    played.reads = reads.borrow().clone();
    played.written = written.borrow().clone();
    played
}

async fn step_through(mut transfer: Transfer) -> Played {
    let mut played = Played {
        data: Vec::new(),
        head: None,
        reads: Vec::new(),
        ended: false,
        broken: false,
        sent: None,
        written: Vec::new(),
    };
    while !played.ended && !played.broken {
        match poll_fn(|cx| transfer.poll_step(cx)).await {
            Step::Head(head, mark) => {
                assert_eq!(head.status.as_u16(), 200);
                played.head = Some(mark);
            }
            Step::Data(bytes, mark) => played.data.push((bytes.to_vec(), mark)),
            Step::End(_) => played.ended = true,
            Step::Broken(_) | Step::Lost => played.broken = true,
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
        let wire = played.written.iter().flat_map(|write| &write.1).copied().collect::<Vec<u8>>();
        let end = if http2 { end_of_data(&wire) } else { wire.len() };
        let mut taken = 0;
        let last = played.written.iter().find(|write| {
            taken += write.1.len();
            taken >= end
        });
        prop_assert!(end > body_len);
        prop_assert_eq!(played.sent, last.map(|write| write.0));
    }
}

/// Where the last DATA frame that a client wrote ends.
fn end_of_data(wire: &[u8]) -> usize {
    let mut at = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
    let mut end = 0;
    while let Some(&[a, b, c, kind]) = wire.get(at..at + 4) {
        at += 9 + u32::from_be_bytes([0, a, b, c]) as usize;
        if kind == 0 {
            end = at;
        }
    }
    end
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
