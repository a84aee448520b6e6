//! Reads and writes of real sockets, and the marks they leave.

use std::future::poll_fn;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use bench_schema::{Nanos, Stamp};
use tokio::io::AsyncReadExt as _;

use super::look::{LOOK, RECORD_HEAD, end_of_first, next_end};
use super::*;
use crate::Clock;
use crate::clock::KernelStamps;
use crate::sys::{Behind, Opening};

/// A socket whose reads have the kernel's stamps, its log, and the peer, whose writes each leave at once.
#[expect(clippy::unwrap_used, reason = "only tests call it")]
pub(crate) fn stamped_pair(clock: Clock) -> (Socket, Rc<ReadLog>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    near.set_nonblocking(true).unwrap();
    sys::ask_for_stamps(near.as_fd()).unwrap();
    let far = listener.accept().unwrap().0;
    far.set_nodelay(true).unwrap();
    let log = ReadLog::new(Rc::new(KernelStamps::new(clock)));
    let interest = Interest::READABLE | Interest::WRITABLE;
    let watched = sys::watch(Arc::new(near.into()), interest).unwrap();
    (Socket::new(watched, Rc::clone(&log)), log, far)
}

/// Reads all that waits, one permit after the other: the mark of each read and the bytes it brought.
#[expect(clippy::unwrap_used, reason = "only tests call it")]
async fn read_what_waits(socket: &mut Socket, len: usize) -> Vec<(ReadMark, Vec<u8>)> {
    let mut reads: Vec<(ReadMark, Vec<u8>)> = Vec::new();
    while reads.iter().map(|read| read.1.len()).sum::<usize>() < len {
        let mut buffer = [0; 4096];
        let n = socket.read(&mut buffer).await.unwrap();
        reads.push((socket.log.mark(), buffer[..n].to_vec()));
    }
    reads
}

/// Whatever the kernel puts together: a stamp that is called exact lies within the call that sent its event.
#[tokio::test]
async fn events_that_waited_together_have_their_own_stamps_or_are_known_to_share_one() {
    let clock = Clock::start();
    let (mut socket, log, mut far) = stamped_pair(clock.clone());
    let event = b"1c\r\ndata: {\"content\":\"token\"}\n\n\r\n";
    let slack = Nanos::new(50_000);
    let (mut own, mut shared) = (0, 0);
    for round in 0..200 {
        // Read alone: the usual length is known from here on.
        far.write_all(event).unwrap();
        read_what_waits(&mut socket, event.len()).await;
        log.begin(clock.now());
        // With late acknowledgements segments are still the sender's, and stay apart; with quick ones the kernel joins them.
        let quick = round % 2 == 0;
        rustix::net::sockopt::set_tcp_quickack(socket.fd.get_ref(), quick).unwrap();
        let mut written = Vec::new();
        for _ in 0..3 {
            let before = clock.now();
            far.write_all(event).unwrap();
            written.push((before - slack, clock.now() + slack));
        }
        let reads = read_what_waits(&mut socket, 3 * event.len()).await;
        if reads.iter().any(|(mark, _)| mark.arrival == mark.returned) {
            continue; // The kernel begins to stamp a moment after the first socket asks.
        }
        let mut at = 0;
        for (mark, bytes) in &reads {
            assert!(bytes.len() % event.len() == 0, "whole events");
            at += bytes.len() / event.len();
            // three calls are three segments, and none of them may pass for all
            assert!(bytes.len() == event.len() || mark.previous_return < mark.arrival);
            let (before, after) = written[at - 1];
            if mark.continues {
                shared += 1;
            } else {
                assert!(before <= mark.arrival && mark.arrival <= after);
                own += usize::from(bytes.len() == event.len() && at < 3);
            }
            assert!(mark.previous_return <= mark.arrival && mark.previous_return <= after);
        }
    }
    assert!(own > 0, "{own} of their own, {shared} shared");
}

/// A read that leaves bytes whose stamp is another one by now: what came since may have been put together with them.
#[test]
fn a_stamp_is_exact_only_if_what_waits_behind_it_had_its_own_when_the_queue_was_looked_at() {
    let clock = Clock::start();
    let log = ReadLog::new(Rc::new(KernelStamps::new(clock.clone())));
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let stamp = |ms: i64| time.tv_sec * 1_000_000_000 + time.tv_nsec + ms * 1_000_000;
    let behind = |ms: i64| Behind::Segment(Some(stamp(ms)));
    let several = Some(Piece::OfSeveral);
    for (piece, seen, behind, exact) in [
        (several, Some(stamp(-5)), Some(Behind::Nothing), true),
        (several, Some(stamp(-5)), Some(behind(-5)), true),
        // put together with what was read
        (several, Some(stamp(-10)), Some(behind(-10)), false),
        // something came since the queue was looked at
        (several, Some(stamp(-5)), Some(behind(-4)), false),
        (several, Some(stamp(-5)), Some(Behind::Segment(None)), false),
        // nobody looked
        (None, None, Some(behind(-5)), false),
        (None, None, Some(Behind::Nothing), true),
        // nothing waited behind it
        (Some(Piece::Last), Some(stamp(-10)), None, true),
        (Some(Piece::Last), None, None, false),
    ] {
        log.drained.set(Stamp::new(i64::MIN));
        log.note_read(Read {
            started: clock.now(),
            returned: clock.now() + Nanos::from_millis(20),
            realtime_ns: Some(stamp(-10)),
            drained: false,
            piece,
            seen,
            behind,
            whole: true,
            one_segment: false,
            len: 100,
            opening: Opening::default(),
        });
        assert_eq!(
            !log.mark().continues,
            exact,
            "{piece:?} {seen:?} {behind:?}"
        );
        let rest_is_later = log.drained() == log.mark().arrival;
        assert_eq!(rest_is_later, exact, "{piece:?} {seen:?} {behind:?}");
    }
}

fn note_arrival(log: &ReadLog, returned: Stamp) {
    log.note_read(Read {
        started: returned,
        returned,
        realtime_ns: None,
        drained: true,
        piece: None,
        seen: None,
        behind: None,
        whole: true,
        one_segment: false,
        len: 100,
        opening: Opening::default(),
    });
}

#[test]
fn a_server_that_waits_for_acknowledgements_gets_each_from_then_on() {
    for waits in [false, true] {
        let stamps = Rc::new(KernelStamps::new(Clock::start()));
        let [log, other] = [(); 2].map(|()| ReadLog::new(Rc::clone(&stamps)));
        log.note_busy(true);
        other.note_busy(true);
        let mut ms = 1_000;
        let mut read_after = |gap: i64| {
            ms += gap;
            let arrival = Stamp::new(ms * 1_000_000);
            let asks = log.acknowledges_too_often(arrival);
            note_arrival(&log, arrival);
            asks
        };
        // an answer's head, a first token, and the next
        let begin = [100, 50, 5].map(&mut read_after);
        assert_eq!(begin, [false, false, true], "{waits}");
        // the others are not asked before this one has told
        let other_asks = |ms: i64| {
            note_arrival(&other, Stamp::new(ms * 1_000_000));
            other.acknowledges_too_often(Stamp::new((ms + 1) * 1_000_000))
        };
        assert!(!other_asks(1_156));
        // the one that came as it was asked is not acknowledged
        let stall = if waits { 40 } else { 5 };
        assert_eq!([stall, 5, 5].map(&mut read_after), [false; 3]);
        // a new pause ends what was asked for
        assert_eq!([200, 5, 5].map(&mut read_after), [false, !waits, false]);
        // it may have paused by itself: others are tried, up to three
        assert!(other_asks(2_000));
        stamps.note_spared(waits);
        stamps.note_spared(waits);
        assert_eq!(stamps.may_spare(Stamp::new(9_000_000_000)), !waits);
    }
}

#[test]
fn tls_records_are_followed_wherever_their_bytes_are_cut() {
    let record = |len: u16| {
        let [high, low] = len.to_be_bytes();
        [vec![23, 3, 3, high, low], vec![0xff; usize::from(len)]].concat()
    };
    let lens = [0, 1, 16_401, 5, 256, 0, 4_091];
    let bytes = lens.map(record).concat();
    for cut in [1, 2, 3, 4, 5, 6, 7, 100, 4_096, usize::MAX] {
        let mut records = Records::default();
        let mut at = 0;
        for part in bytes.chunks(cut.min(bytes.len())) {
            records.follow(part);
            at += part.len();
            let ends = lens.iter().scan(0, |end, len| {
                *end += RECORD_HEAD + usize::from(*len);
                Some(*end)
            });
            assert_eq!(
                records.rest() == 0,
                ends.clone().any(|end| end == at),
                "{at}"
            );
            let rest = ends.clone().find(|end| *end >= at).unwrap() - at;
            assert!(records.rest() <= rest, "{at}");
        }
    }
}

/// On a connection that answers share no event may have the stamp of another answer's, whatever the kernel puts together.
#[tokio::test]
async fn events_of_a_shared_connection_have_their_own_stamps_or_are_known_to_be_bounded() {
    let clock = Clock::start();
    let (mut socket, log, mut far) = stamped_pair(clock.clone());
    log.share();
    // a frame's head, and its event
    let frame = b"\x00\x00\x0a\x00\x00\x00\x00\x00\x01data: {}\n\n";
    let slack = Nanos::new(50_000);
    let (mut own, mut bounded) = (0, 0);
    for round in 0..20_000 {
        // the kernel begins to stamp some time after it was asked
        if round >= 200 && own > 0 {
            break;
        }
        let quick = round % 2 == 0;
        rustix::net::sockopt::set_tcp_quickack(socket.fd.get_ref(), quick).unwrap();
        // another exchange begins meanwhile, and says nothing of when these bytes came
        let mut written = Vec::new();
        for _ in 0..3 {
            let before = clock.now();
            far.write_all(frame).unwrap();
            written.push((before - slack, clock.now() + slack));
        }
        log.begin(clock.now());
        let reads = read_what_waits(&mut socket, 3 * frame.len()).await;
        assert_eq!(reads.len(), 3, "one event a read");
        for ((mark, _), (before, after)) in reads.iter().zip(written) {
            assert!(!mark.continues);
            if !mark.stamped {
                continue;
            }
            assert!(mark.previous_return <= after && before <= mark.arrival);
            assert!(mark.merged || mark.arrival <= after);
            own += usize::from(!mark.merged);
            bounded += usize::from(mark.merged);
        }
    }
    assert!(own > 0, "{own} exact, {bounded} bounded");
}

#[test]
fn a_long_event_is_read_in_parts_of_which_none_ends_within_an_empty_line() {
    let event = |content: usize| format!("data: {}\n\n", "x".repeat(content)).into_bytes();
    for content in [10, LOOK - 20, LOOK - 9, LOOK - 8, LOOK - 7, LOOK, 3 * LOOK] {
        let one = event(content);
        let two = [one.clone(), event(5)].concat();
        let (mut at, mut ends) = (0, 0);
        while at < two.len() {
            let waiting = &two[at..two.len().min(at + LOOK)];
            let end = next_end(waiting).unwrap_or(waiting.len());
            assert!(end > 0);
            // a part holds the end of no more than one event, and then ends with it
            assert!(
                at + end <= one.len() || at >= one.len(),
                "{content}: {at} + {end}"
            );
            at += end;
            ends += usize::from(at == one.len() || at == two.len());
        }
        assert_eq!(ends, 2, "{content}");
    }
    assert_eq!(next_end(b"\ndata: 1\n\n"), Some(1));
    assert_eq!(next_end(b"data: half of"), None);
}

/// Tokens that come together after a gap woke the thread: they did not come at any time since the read before.
#[test]
fn events_that_waited_together_are_bounded_by_the_wake_up_and_not_by_the_gap_before_them() {
    const ROUNDS: usize = 200;
    let gap = Nanos::from_millis(4);
    let clock = Clock::start();
    let batching = crate::ReadBatching::new(clock.clone(), Nanos::ZERO);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(batching.park_hook())
        .on_thread_unpark(batching.wake_hook())
        .build()
        .unwrap();
    let (mut bounded, mut held, mut narrow) = (0, 0, 0);
    runtime.block_on(async {
        let (mut socket, log, mut far) = stamped_pair(clock.clone());
        log.stamps.follow(batching.wakes());
        let event = b"1c\r\ndata: {\"content\":\"token\"}\n\n\r\n";
        let (told, written) = std::sync::mpsc::channel();
        let (go, asked) = std::sync::mpsc::channel();
        let server = std::thread::spawn(move || {
            for round in 0..ROUNDS {
                asked.recv().unwrap();
                std::thread::sleep(gap.to_duration());
                // alone at first, so that the thread's latency is known
                for _ in 0..if round < 20 { 1 } else { 2 } {
                    far.write_all(event).unwrap();
                    told.send(clock.now() + Nanos::from_micros(50)).unwrap();
                }
            }
        });
        for round in 0..ROUNDS {
            let events = if round < 20 { 1 } else { 2 };
            go.send(()).unwrap();
            // the kernel joins what was acknowledged
            rustix::net::sockopt::set_tcp_quickack(socket.fd.get_ref(), true).unwrap();
            let reads = read_what_waits(&mut socket, events * event.len()).await;
            let first = written.recv().unwrap();
            for _ in 1..events {
                let _second = written.recv().unwrap();
            }
            let (mark, bytes) = &reads[0];
            if mark.stamped && (bytes.len() > event.len() || mark.continues) {
                bounded += 1;
                held += usize::from(mark.previous_return <= first);
                narrow += usize::from(mark.arrival - mark.previous_return < Nanos::from_millis(2));
            }
        }
        server.join().unwrap();
    });
    // On a machine that is busy the reader is quicker than most second writes, or is woken later than it ever was before: that tells nothing.
    if bounded >= ROUNDS / 4 {
        assert!(held * 10 >= bounded * 9, "{held} of {bounded}");
        assert!(narrow > 0, "{narrow} of {bounded}");
    }
}

/// A Unix socket has no stamps. Each arrival is known from when the thread was woken on, less what the kernel takes to wake it.
#[tokio::test]
async fn an_arrival_without_a_stamp_is_known_from_when_the_thread_was_woken() {
    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    let clock = Clock::start();
    let batching = crate::ReadBatching::new(clock.clone(), Nanos::ZERO);
    let log = ReadLog::new(Rc::new(KernelStamps::new(clock.clone())));
    let interest = Interest::READABLE | Interest::WRITABLE;
    let watched = sys::watch(Arc::new(near.into()), interest).unwrap();
    let mut socket = Socket::new(watched, Rc::clone(&log));
    let mut far = far;
    far.write_all(b"one").unwrap();
    // nothing tells when the thread was woken
    let unknown = read_what_waits(&mut socket, 3).await[0].0;
    assert!(!unknown.stamped && unknown.arrived_from == unknown.arrival);
    log.stamps.follow(batching.wakes());
    let (park, wake) = (batching.park_hook(), batching.wake_hook());
    for _ in 0..2 {
        park();
        wake();
        far.write_all(b"one").unwrap();
        let known = read_what_waits(&mut socket, 3).await[0].0;
        if crate::thread_schedstat().is_some() {
            assert!(known.arrived_from < known.arrival, "{known:?}");
        }
    }
}

/// A server that writes all tokens of a step in one call: they arrived together, and the read before says nothing of them.
#[tokio::test]
async fn events_that_one_segment_brought_have_its_stamp() {
    let (mut socket, log, mut far) = stamped_pair(Clock::start());
    let mut exact = 0;
    // The kernel begins to stamp a moment after the first socket asks.
    for round in 0..100_000 {
        let bytes = "data: {}\n\n".repeat(2 + round % 5);
        far.write_all(bytes.as_bytes()).unwrap();
        let reads = read_what_waits(&mut socket, bytes.len()).await;
        log.note_events(2);
        let mark = reads[0].0;
        let stamped = mark.arrival < mark.returned && reads.len() == 1;
        exact += usize::from(stamped && mark.previous_return == mark.arrival);
        if exact == 100 {
            return;
        }
    }
    panic!("{exact} of 100");
}

/// The stamp is taken before the call, so that what the call does before it reaches the last byte would be counted as the server's.
#[tokio::test]
async fn the_write_that_ends_a_request_is_short_however_long_the_request() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    near.set_nonblocking(true).unwrap();
    let mut far = listener.accept().unwrap().0;
    let log = ReadLog::new(Rc::new(KernelStamps::new(Clock::start())));
    let watched = sys::watch(
        Arc::new(near.into()),
        Interest::READABLE | Interest::WRITABLE,
    );
    let socket = Socket::new(watched.unwrap(), log);
    for len in [1, 2 * LAST_WRITE, 2 * LAST_WRITE + 1, 64 << 10, 400_000] {
        let server = std::thread::spawn(move || {
            far.read_exact(&mut vec![0; len]).unwrap();
            far
        });
        let request = vec![b'x'; len];
        let (mut written, mut last) = (0, 0);
        while written < len {
            last = poll_fn(|cx| socket.poll_send(cx, &request[written..]))
                .await
                .unwrap();
            written += last;
        }
        assert!(last <= 2 * LAST_WRITE, "{last} of {len} bytes");
        far = server.join().unwrap();
    }
}

#[tokio::test]
async fn an_answer_that_came_before_the_request_was_out_is_read_although_the_peer_has_reset() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut far = listener.accept().unwrap().0;
    near.write_all(b"head").unwrap();
    assert_eq!(far.peek(&mut [0; 1]).unwrap(), 1);
    far.write_all(b"no").unwrap();
    // what it has not read makes this a reset
    drop(far);
    while near.take_error().unwrap().is_none() {
        std::thread::yield_now();
    }
    near.set_nonblocking(true).unwrap();
    let log = ReadLog::new(Rc::new(KernelStamps::new(Clock::start())));
    let watched = sys::watch(
        Arc::new(near.into()),
        Interest::READABLE | Interest::WRITABLE,
    );
    let mut socket = Socket::new(watched.unwrap(), log);
    let written = poll_fn(|cx| socket.poll_send(cx, b"body")).await;
    assert_eq!(written.unwrap(), 4);
    let mut answer = [0; 8];
    assert_eq!(socket.read(&mut answer).await.unwrap(), 2);
    assert!(answer.starts_with(b"no"));
    let nothing_more = poll_fn(|cx| socket.poll_send(cx, b"body")).await;
    assert!(nothing_more.is_err());
}

/// What it says of the instant: within the call, and nearer to its beginning, where the stamp is taken, than to its end.
#[tokio::test]
async fn the_kernel_hands_a_request_on_within_the_call_and_nearer_to_sent_than_to_its_return() {
    const REQUESTS: usize = 300;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    near.set_nonblocking(true).unwrap();
    near.set_nodelay(true).unwrap();
    let mut far = listener.accept().unwrap().0;
    // A server that waits in its read: the call wakes it, as that of a real request does.
    let server = std::thread::spawn(move || {
        let mut request = [0; 1000];
        while far.read_exact(&mut request).is_ok() && far.write_all(b"x").is_ok() {}
    });
    let clock = Clock::start();
    let stamps = Rc::new(KernelStamps::new(clock.clone()));
    let log = ReadLog::new(Rc::clone(&stamps));
    sys::sending::ask_for_stamps(near.as_fd()).unwrap();
    let watched = sys::watch(
        Arc::new(near.into()),
        Interest::READABLE | Interest::WRITABLE,
    );
    let mut socket = Socket::new(watched.unwrap(), Rc::clone(&log));
    let (mut after_sent, mut before_return) = (Vec::new(), Vec::new());
    for _ in 0..REQUESTS {
        let written = poll_fn(|cx| socket.poll_send(cx, &[b'x'; 1000])).await;
        let returned = clock.now();
        assert_eq!(written.unwrap(), 1000);
        let handed = sys::sending::take_stamp(socket.fd.get_ref().as_fd());
        let handed = stamps.arrival(handed.expect("a stamp for each segment"), returned);
        after_sent.push(handed - log.last_write());
        before_return.push(returned - handed);
        assert_eq!(socket.read(&mut [0; 8]).await.unwrap(), 1);
    }
    drop(socket);
    server.join().unwrap();
    // The two clocks are read one after the other: a conversion is wrong by less than this.
    let slack = Nanos::new(50_000);
    assert!(after_sent.iter().all(|late| *late > Nanos::ZERO - slack));
    let median = |times: &mut Vec<Nanos>| {
        times.sort();
        times[REQUESTS / 2]
    };
    let (begun, left) = (median(&mut after_sent), median(&mut before_return));
    assert!(begun < left, "{begun} from the stamp, {left} to the return");
}

#[test]
fn the_first_piece_ends_with_the_event_and_its_chunk() {
    let first = |bytes: &[u8]| end_of_first(bytes);
    let chunk = b"b\r\ndata: {}\n\n\r\nb\r\ndata: {}\n\n\r\n";
    assert_eq!(first(chunk), Some(15));
    assert_eq!(first(b"data: a\ndata: b\n\ndata: c\n\n"), Some(17));
    assert_eq!(first(b"data: a\r\n\r\ndata: b\r\n\r\n"), Some(11));
    assert_eq!(first(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nb\r\ndata"), Some(25));
    // A line of JSON each, chunk by chunk.
    assert_eq!(first(b"3\r\n{}\n\r\n3\r\n{}\n\r\n"), Some(8));
    assert_eq!(first(b"data: half of an"), None);
    assert_eq!(first(b"data: the other\n"), None);
    assert_eq!(first(&[23, 3, 3, 0, 2, 1, 1, 23, 3, 3]), Some(7));
}

/// The kernel may put a handshake off when it is busy, but not all of them.
#[tokio::test]
async fn a_handshake_that_is_over_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut at_once = 0;
    for _ in 0..20 {
        let socket = stream_socket(AddressFamily::INET).unwrap();
        let mut connecting = std::pin::pin!(connected(socket, &address));
        poll_fn(|cx| {
            at_once += usize::from(connecting.as_mut().poll(cx).is_ready());
            Poll::Ready(())
        })
        .await;
    }
    assert!(at_once > 0, "each of them waited for the runtime");
}

/// Of every second small segment, once the kernel no longer waits for more; and where it need not be, of each.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn so_many_events_are_acknowledged_less() {
    let event = b"1c\r\ndata: {\"content\":\"token\"}\n\n\r\n";
    for is_busy in [false, true] {
        let mut fewest = usize::MAX;
        // A machine that is busy itself lets some segments wait for long.
        for _ in 0..20 {
            let (mut socket, log, mut far) = stamped_pair(Clock::start());
            rustix::net::sockopt::set_tcp_quickack(socket.fd.get_ref(), true).unwrap();
            log.note_busy(is_busy);
            let mut acknowledged = 0;
            for read in 1..=200_u64 {
                far.write_all(event).unwrap();
                read_what_waits(&mut socket, event.len()).await;
                let before = read * event.len() as u64 - 2;
                let all = sys::tcp_state(far.as_fd()).is_some_and(|far| !far.threw_away(before));
                acknowledged += usize::from(all);
            }
            fewest = fewest.min(acknowledged);
        }
        assert_eq!(fewest < 130, is_busy, "{fewest} of 200");
    }
}
