//! How many connections are opened, and what a server that answers only some paths costs.

#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    reason = "a test says what is wrong by failing"
)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{ask, client, run, target, whole_stream};
use bench_client::{Client, Clock, Fetcher, Probe};
use bench_schema::Nanos;

/// A server that keeps its connections, and how many it has been asked for.
fn keeping_server() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&accepted);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::SeqCst);
            std::thread::Builder::new()
                .stack_size(128 << 10)
                .spawn(move || answer_all(stream))
                .unwrap();
        }
    });
    (url, accepted)
}

fn answer_all(mut stream: TcpStream) {
    let answer = whole_stream(2);
    let mut asked = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        asked.extend_from_slice(&buffer[..n]);
        // The body of these requests ends with the only "}" at the end of a read.
        if asked.ends_with(b"}") {
            asked.clear();
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// So many requests after each other.
async fn stream(client: Rc<Client>, requests: usize) {
    for _ in 0..requests {
        let exchange = ask(&client).await;
        assert!(exchange.outcome.is_completed(), "{:?}", exchange.outcome);
    }
}

#[test]
fn a_closed_loop_opens_as_many_connections_as_it_has_streams() {
    for streams in [64, 256] {
        let (url, accepted) = keeping_server();
        let client = Rc::new(client(target(&url)));
        run(async {
            // Waves that end together, then streams that give their connections back while others take theirs.
            for requests in [1, 1, 1, 6] {
                let mut slots = tokio::task::JoinSet::new();
                for _ in 0..streams {
                    slots.spawn_local(stream(Rc::clone(&client), requests));
                }
                while let Some(slot) = slots.join_next().await {
                    slot.unwrap();
                }
            }
            drop(client);
        });
        assert_eq!(accepted.load(Ordering::SeqCst), streams);
    }
}

/// A server of pages that closes a connection after so many, and how many connections it has accepted.
fn page_server(pages: usize) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&accepted);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                for _ in 0..pages {
                    let Ok(1..) = stream.read(&mut buffer) else {
                        return;
                    };
                    let page = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                    stream.write_all(page.as_bytes()).unwrap();
                }
            });
        }
    });
    (url, accepted)
}

#[test]
fn whoever_fetches_from_one_server_does_so_over_one_connection() {
    let (url, accepted) = page_server(usize::MAX);
    let fetcher = Fetcher::new(&target(&url)).unwrap();
    let probe = Probe::new(fetcher.clone(), Clock::start()).unwrap();
    run(async { probe.look(Nanos::ZERO).await.unwrap() });
    let get = |fetcher: &Fetcher| {
        let page = fetcher.get(&format!("{url}/metrics"), Duration::from_secs(10), 100);
        assert_eq!(page.unwrap(), b"{}");
    };
    get(&fetcher);
    let sampler = fetcher.clone();
    std::thread::scope(|scope| scope.spawn(|| (0..20).for_each(|_| get(&sampler))).join()).unwrap();
    assert!(probe.tokenize("m", "text").unwrap().is_none());
    assert_eq!(accepted.load(Ordering::SeqCst), 1);
    assert!(fetcher.take_cpu() > Nanos::ZERO);
}

#[test]
fn a_page_that_is_asked_for_on_a_closed_connection_is_asked_for_again() {
    let (url, accepted) = page_server(3);
    let fetcher = Fetcher::new(&target(&url)).unwrap();
    for _ in 0..10 {
        let page = fetcher.get(&url, Duration::from_secs(10), 100);
        assert_eq!(page.unwrap(), b"{}");
    }
    assert_eq!(accepted.load(Ordering::SeqCst), 4);
}

#[test]
fn pages_that_a_server_hangs_on_are_given_up_together_and_listed() {
    const MODELS: &str = "HTTP/1.1 200 OK\r\ncontent-length: 21\r\n\r\n{\"data\":[{\"id\":\"m\"}]}";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(n @ 1..) = stream.read(&mut buffer) {
                    if buffer[..n].starts_with(b"GET /v1/models ") {
                        stream.write_all(MODELS.as_bytes()).unwrap();
                    }
                }
            });
        }
    });
    let probe = Probe::new(Fetcher::new(&target(&url)).unwrap(), Clock::start()).unwrap();
    let facts = run(async { probe.look(Nanos::ZERO).await.unwrap() });
    assert_eq!(
        (facts.models.as_slice(), facts.version),
        ([String::from("m")].as_slice(), None)
    );
    assert!(facts.silent.iter().any(|page| page == "/version"));
    assert_eq!(facts.silent.len(), 7, "{:?}", facts.silent);
}
