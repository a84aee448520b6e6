//! TLS, HTTP/2, Unix sockets, keep-alive.

use std::io::{Read, Write};
use std::sync::Arc;

use bench_engine::config::{KeepAlive, TlsFiles};
use bench_engine::{EngineConfig, Outcome, Server};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::common::{chat, fast};

/// Reads one chunked answer off a connection that stays open.
fn one_answer(stream: &mut impl Read) -> String {
    let mut all = Vec::new();
    let mut byte = [0];
    while !all.ends_with(b"0\r\n\r\n") {
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "closed");
        all.push(byte[0]);
    }
    String::from_utf8(all).unwrap()
}

fn request(tokens: u32) -> String {
    let body = chat(tokens);
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn a_connection_carries_one_answer_after_the_other_and_the_ledger_counts_them() {
    let server = Server::start(fast()).unwrap();
    let mut stream = std::net::TcpStream::connect(server.addr().unwrap()).unwrap();
    for _ in 0..3 {
        stream.write_all(request(2).as_bytes()).unwrap();
        one_answer(&mut stream);
    }
    // Two at once: the second waits in the buffer.
    stream
        .write_all(format!("{}{}", request(2), request(2)).as_bytes())
        .unwrap();
    one_answer(&mut stream);
    one_answer(&mut stream);
    let reused: Vec<u64> = server.shutdown().iter().map(|entry| entry.reused).collect();
    assert_eq!(reused, [0, 1, 2, 3, 4]);
}

#[test]
fn connections_close_when_the_configuration_says_so() {
    let keep_alive = KeepAlive {
        max_requests: Some(2),
        ..KeepAlive::default()
    };
    let server = Server::start(EngineConfig {
        keep_alive,
        ..fast()
    })
    .unwrap();
    let mut stream = std::net::TcpStream::connect(server.addr().unwrap()).unwrap();
    stream.write_all(request(1).as_bytes()).unwrap();
    assert!(!one_answer(&mut stream).contains("connection: close"));
    stream.write_all(request(1).as_bytes()).unwrap();
    assert!(one_answer(&mut stream).contains("connection: close"));
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);

    let keep_alive = KeepAlive {
        idle_ms: Some(1),
        ..KeepAlive::default()
    };
    let server = Server::start(EngineConfig {
        keep_alive,
        ..fast()
    })
    .unwrap();
    let mut stream = std::net::TcpStream::connect(server.addr().unwrap()).unwrap();
    assert_eq!(
        stream.read(&mut [0]).unwrap(),
        0,
        "an idle connection is closed"
    );
}

#[test]
fn a_client_that_leaves_in_the_middle_is_in_the_ledger_as_gone() {
    let server = Server::start(fast()).unwrap();
    let mut stream = std::net::TcpStream::connect(server.addr().unwrap()).unwrap();
    stream.write_all(request(20_000).as_bytes()).unwrap();
    stream.read_exact(&mut [0; 400]).unwrap();
    drop(stream);
    while server.ledger().entries().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(server.shutdown()[0].outcome, Outcome::ClientGone);
}

#[test]
fn several_serving_threads_share_the_connections() {
    let server = Server::start(EngineConfig {
        io_threads: 3,
        ..fast()
    })
    .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..9 {
            scope.spawn(|| {
                let mut stream = std::net::TcpStream::connect(server.addr().unwrap()).unwrap();
                stream.write_all(request(5).as_bytes()).unwrap();
                one_answer(&mut stream);
            });
        }
    });
    let entries = server.shutdown();
    assert!(entries.len() == 9 && entries.iter().all(|entry| entry.due_ns.len() == 5));
}

#[test]
fn a_unix_socket_serves_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("engine.sock");
    let server = Server::start(EngineConfig {
        unix: Some(path.clone()),
        ..fast()
    })
    .unwrap();
    let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    stream.write_all(request(3).as_bytes()).unwrap();
    assert!(one_answer(&mut stream).contains("[DONE]"));
    drop(server);
    assert!(!path.exists());
}

fn certificate(folder: &std::path::Path) -> (TlsFiles, rustls::RootCertStore) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let files = TlsFiles {
        cert: folder.join("cert.pem"),
        key: folder.join("key.pem"),
        client_ca: None,
    };
    std::fs::write(&files.cert, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    (files, roots)
}

fn client(roots: rustls::RootCertStore, protocol: &[u8]) -> tokio_rustls::TlsConnector {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    tokio_rustls::TlsConnector::from(Arc::new(config))
}

async fn over_h2<T>(io: T) -> (hyper::StatusCode, String)
where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(io))
            .await
            .unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(connection);
    let request = hyper::Request::post("https://localhost/v1/chat/completions")
        .body(Full::<bytes::Bytes>::from(chat(4)))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn tls_serves_http_1_and_http_2_by_what_the_client_speaks() {
    let folder = tempfile::tempdir().unwrap();
    let (tls, roots) = certificate(folder.path());
    let server = Server::start(EngineConfig {
        tls: Some(tls),
        ..fast()
    })
    .unwrap();
    assert!(server.url().starts_with("https://"));
    let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
    let tcp = tokio::net::TcpStream::connect(server.addr().unwrap())
        .await
        .unwrap();
    let stream = client(roots.clone(), b"h2")
        .connect(name.clone(), tcp)
        .await
        .unwrap();
    let (status, text) = over_h2(stream).await;
    assert!(
        status.is_success() && text.ends_with("data: [DONE]\n\n"),
        "{text}"
    );
    assert_eq!(text.matches("\"content\":\"").count(), 1 + 4);

    let tcp = tokio::net::TcpStream::connect(server.addr().unwrap())
        .await
        .unwrap();
    let mut stream = client(roots, b"http/1.1").connect(name, tcp).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, request(4).as_bytes())
        .await
        .unwrap();
    let mut all = vec![0; 16];
    tokio::io::AsyncReadExt::read_exact(&mut stream, &mut all)
        .await
        .unwrap();
    assert!(all.starts_with(b"HTTP/1.1 200"));
    drop(stream);
    let http: Vec<String> = server
        .shutdown()
        .into_iter()
        .map(|entry| entry.http)
        .collect();
    assert_eq!(http, ["2", "1.1"]);
}

/// The client's window holds a part of an event, and it takes more only when it reads.
#[tokio::test]
async fn an_event_of_http_2_has_left_when_the_socket_has_it_and_not_when_it_was_made() {
    let server = Server::start(fast()).unwrap();
    let tcp = tokio::net::TcpStream::connect(server.addr().unwrap())
        .await
        .unwrap();
    let (mut sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(10)
        .handshake(TokioIo::new(tcp))
        .await
        .unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(connection);
    let request = hyper::Request::post("http://localhost/v1/chat/completions")
        .body(Full::<bytes::Bytes>::from(chat(4)))
        .unwrap();
    let mut body = sender.send_request(request).await.unwrap().into_body();
    let part = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!((1..=10).contains(&part.len()));
    let read = bench_engine::clock::now_ns();
    body.collect().await.unwrap();
    let entry = &server.shutdown()[0];
    assert_eq!(entry.outcome, Outcome::Completed);
    assert!(entry.before_ns[0] < read && read < entry.after_ns[0]);
    assert!(entry.accepted_ns.unwrap() <= entry.head_ns);
}

#[tokio::test]
async fn http_2_without_tls_is_known_by_its_first_bytes() {
    let server = Server::start(fast()).unwrap();
    let tcp = tokio::net::TcpStream::connect(server.addr().unwrap())
        .await
        .unwrap();
    let (status, text) = over_h2(tcp).await;
    assert!(
        status.is_success() && text.ends_with("data: [DONE]\n\n"),
        "{text}"
    );
    let entry = &server.shutdown()[0];
    assert_eq!(
        (entry.http.as_str(), entry.due_ns.len(), entry.outcome),
        ("2", 4, Outcome::Completed)
    );
}

#[test]
fn a_certificate_that_is_none_is_refused_with_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let (tls, _) = certificate(folder.path());
    std::fs::write(&tls.key, "no key").unwrap();
    let error = Server::start(EngineConfig {
        tls: Some(tls),
        ..fast()
    })
    .unwrap_err()
    .to_string();
    assert!(error.contains("key.pem"), "{error}");
}

#[test]
fn a_pause_holds_requests_until_it_is_over() {
    let pause = bench_engine::config::Pause {
        what: bench_engine::config::PauseOf::Requests,
        after_ms: 0,
        for_ms: 80,
        every_ms: None,
    };
    let server = Server::start(EngineConfig {
        pauses: vec![pause],
        ..fast()
    })
    .unwrap();
    let mut stream = std::net::TcpStream::connect(server.addr().unwrap()).unwrap();
    stream.write_all(request(1).as_bytes()).unwrap();
    one_answer(&mut stream);
    let entry = &server.shutdown()[0];
    // The connection came before the head; the pause began with it.
    assert!(entry.scheduled_ns.unwrap() > entry.body_ns);
}
