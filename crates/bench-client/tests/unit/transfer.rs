//! Reads through TLS.

use std::future::poll_fn;
use std::io::Write as _;
use std::sync::{Arc, mpsc};

use bench_schema::Nanos;
use rustls::pki_types::{PrivateKeyDer, ServerName};

use super::*;
use crate::connect::secured;
use crate::socket::tests::stamped_pair;
use crate::{AnswerDecoder, AnswerLimits, Clock, StreamEnd, protocol_by_name};

#[expect(clippy::unwrap_used, reason = "only the test calls it")]
fn papers() -> (rustls::ClientConfig, rustls::ServerConfig) {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(own.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (client, server)
}

/// The records of a connection that several answers share are each of another answer: one that is decoded with the read of the next has that
/// one's stamp.
#[tokio::test]
async fn a_read_through_tls_takes_no_more_than_one_read_of_the_socket() {
    let (client, server) = papers();
    let (socket, log, far) = stamped_pair(Clock::start());
    let (go, asked) = mpsc::channel::<()>();
    let (done, written) = tokio::sync::oneshot::channel();
    let writer = std::thread::spawn(move || {
        let session = rustls::ServerConnection::new(Arc::new(server)).unwrap();
        let mut tls = rustls::StreamOwned::new(session, far);
        tls.write_all(b"hello").unwrap();
        asked.recv().unwrap();
        for record in ["first", "second", "third"] {
            tls.write_all(record.as_bytes()).unwrap();
            tls.flush().unwrap();
        }
        done.send(()).unwrap();
        tls
    });
    let name = ServerName::try_from("localhost").unwrap();
    let tls = secured(Arc::new(client), name, socket).await.unwrap();
    let mut wire = Wire::new(Stream::Tls(Box::new(tls)), Rc::clone(&log));
    let mut room = [0; 4096];
    let mut read = async || {
        let before = log.reads();
        let len = poll_fn(|cx| wire.poll_read(cx, &mut room)).await.unwrap();
        let text = String::from_utf8(room[..len].to_vec()).unwrap();
        (text, log.reads() - before, log.mark())
    };
    assert_eq!(read().await.0, "hello");
    log.share();
    go.send(()).unwrap();
    written.await.unwrap();
    let mut marks = Vec::new();
    for record in ["first", "second", "third"] {
        let (text, reads, mark) = read().await;
        assert_eq!((text.as_str(), reads), (record, 1));
        marks.push(mark);
    }
    // Each has a stamp of its own, or is known to share one.
    for pair in marks.windows(2) {
        assert!(pair[0].arrival < pair[1].arrival || pair[0].merged || !pair[0].stamped);
    }
    drop(writer.join().unwrap());
}

const SIZES: [usize; 5] = [200, 1_300, 3_000, 4_043, 17_000];
const ROUNDS: usize = 8;
const EVENTS: usize = 3;

/// When a write began, and when it returned.
type Call = (Stamp, Stamp);

/// Writes three events of each size when asked to, and tells of the calls.
#[expect(clippy::unwrap_used, reason = "only the test calls it")]
fn write_events(
    mut tls: impl io::Write,
    clock: &Clock,
    asked: &mpsc::Receiver<()>,
    done: &tokio::sync::mpsc::Sender<Vec<Call>>,
) {
    for size in (0..ROUNDS).flat_map(|_| SIZES) {
        let pad = "x".repeat(size);
        let event = format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":\"a\"}}}}],\"pad\":\"{pad}\"}}\n\n"
        );
        asked.recv().unwrap();
        let mut calls = Vec::new();
        for _ in 0..EVENTS {
            // the gap between two tokens
            std::thread::sleep(Nanos::from_millis(1).to_duration());
            let before = clock.now();
            tls.write_all(event.as_bytes()).unwrap();
            tls.flush().unwrap();
            calls.push((before, clock.now()));
        }
        done.blocking_send(calls).unwrap();
    }
}

/// Reads three events: each one's stamp and bound, where all of it had the kernel's stamps.
#[expect(clippy::unwrap_used, reason = "only the test calls it")]
async fn read_events(wire: &mut Wire) -> Option<Vec<(Stamp, Nanos)>> {
    let openai = protocol_by_name("openai-chat").unwrap();
    let mut decoder = AnswerDecoder::new(openai, true, AnswerLimits::default());
    let mut room = vec![0; 64 << 10];
    let (mut events, mut stamped) = (0, true);
    while events < EVENTS {
        let len = poll_fn(|cx| wire.poll_read(cx, &mut room)).await.unwrap();
        let mark = wire.log.mark();
        stamped &= mark.stamped;
        events += decoder.push(&room[..len], mark).content_events;
    }
    let log = decoder.finish(StreamEnd::Eof).events;
    let bound = |event: usize| {
        let found = log.bounds().iter().find(|bound| bound.0 as usize == event);
        found.map_or(Nanos::ZERO, |bound| bound.1)
    };
    let all = log.stamps().enumerate().map(|(i, at)| (at, bound(i)));
    stamped.then(|| all.collect())
}

/// Three events of one answer that the kernel may put together before anybody reads them, each of which may lie in several records.
#[tokio::test]
async fn events_that_waited_under_tls_are_exact_only_where_their_stamps_are_their_own() {
    let clock = Clock::start();
    let (client, server) = papers();
    let (socket, log, far) = stamped_pair(clock.clone());
    let peek = socket.peek();
    let (go, asked) = mpsc::channel::<()>();
    let (done, mut written) = tokio::sync::mpsc::channel(1);
    let its_clock = clock.clone();
    let writer = std::thread::spawn(move || {
        let session = rustls::ServerConnection::new(Arc::new(server)).unwrap();
        let mut tls = rustls::StreamOwned::new(session, far);
        tls.write_all(b"hello").unwrap();
        write_events(&mut tls, &its_clock, &asked, &done);
        tls
    });
    let name = ServerName::try_from("localhost").unwrap();
    let tls = secured(Arc::new(client), name, socket).await.unwrap();
    let mut wire = Wire::new(Stream::Tls(Box::new(tls)), Rc::clone(&log));
    let hello = poll_fn(|cx| wire.poll_read(cx, &mut [0; 8])).await;
    assert_eq!(hello.unwrap(), 5);
    let slack = Nanos::from_micros(50);
    for size in (0..ROUNDS).flat_map(|_| SIZES) {
        // the kernel puts together what was acknowledged
        peek.acknowledge_at_once();
        log.begin(clock.now());
        go.send(()).unwrap();
        let calls = written.recv().await.unwrap();
        // The kernel begins to stamp a moment after the first socket asks.
        let Some(events) = read_events(&mut wire).await else {
            continue;
        };
        for (&(at, bound), (before, after)) in events.iter().zip(calls) {
            let from = at - bound;
            assert!(
                before <= at + slack && from <= after + slack,
                "an event of {size} bytes was written from {before:?} to {after:?}, not from {from:?} to {at:?}"
            );
        }
        assert_eq!(events[EVENTS - 1].1, Nanos::ZERO, "nothing followed it");
    }
    drop(writer.join().unwrap());
}
