//! TLS, HTTP/2, Unix sockets, and pages beside the measurement, against real servers in this process.

#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test says what is wrong by failing, and a table of cases is long"
)]

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{ask, client, run, target};
use bench_client::{Client, Clock, Fetcher, HttpVersion, Probe, Proxy, Target, protocol_by_name};
use bench_schema::{ClockKind, Exchange, FailureKind, Nanos, Outcome, Secret, Stage};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;

type Streamed =
    StreamBody<futures_util::stream::BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

/// Three tokens, each in a frame of its own and not before the one before it has been taken, then the closing events.
async fn answer(request: Request<Incoming>) -> Result<Response<Streamed>, Infallible> {
    let path = request.uri().path().to_owned();
    let authorised = request.headers().get("authorization").is_some();
    let body = request
        .into_body()
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes);
    let asked = body.map_or(0, |body| body.len());
    let event = |json: &str| Bytes::from(format!("data: {json}\n\n"));
    let mut status = 200;
    let (kind, frames) = match path.as_str() {
        "/refused" => {
            status = 400;
            let said = br#"{"status":"error","errorType":"bad_data","error":"1:3: parse error"}"#;
            ("application/json", vec![Bytes::from_static(said)])
        }
        "/v1/models" => (
            "application/json",
            vec![Bytes::from_static(
                b"{\"data\":[{\"id\":\"m-1\",\"owned_by\":\"vllm\",\"max_model_len\":2048}]}",
            )],
        ),
        "/version" => (
            "application/json",
            vec![Bytes::from_static(b"{\"version\":\"0.32.0\"}")],
        ),
        "/tokenize" => (
            "application/json",
            vec![Bytes::from_static(b"{\"count\":2,\"tokens\":[7,8]}")],
        ),
        "/secret" => ("text/plain", vec![Bytes::from(format!("{authorised}"))]),
        _ => {
            let token = |text: &str| {
                event(&format!(
                    "{{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}"
                ))
            };
            let last =
                event("{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}");
            let usage = event(&format!(
                "{{\"choices\":[],\"usage\":{{\"prompt_tokens\":{asked},\"completion_tokens\":3}}}}"
            ));
            (
                "text/event-stream",
                vec![
                    token("a"),
                    token("b"),
                    token("c"),
                    last,
                    usage,
                    event("[DONE]"),
                ],
            )
        }
    };
    let stream = futures_util::stream::unfold(frames.into_iter(), |mut frames| async {
        let frame = frames.next()?;
        tokio::time::sleep(Duration::from_millis(2)).await;
        Some((Ok(Frame::data(frame)), frames))
    });
    let body = StreamBody::new(Box::pin(stream) as futures_util::stream::BoxStream<'static, _>);
    Ok(Response::builder()
        .status(status)
        .header("content-type", kind)
        .body(body)
        .unwrap())
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, http2: bool) {
    let io = TokioIo::new(stream);
    // A client that hangs up on purpose is no error here.
    if http2 {
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        drop(server.serve_connection(io, service_fn(answer)).await);
    } else {
        let server = hyper::server::conn::http1::Builder::new();
        drop(server.serve_connection(io, service_fn(answer)).await);
    }
}

/// A plain server on a thread of its own; it ends with the process.
fn plain_server(http2: bool) -> String {
    server_thread(move |listener| async move {
        let mut connections = tokio::task::JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            connections.spawn(serve(stream, http2));
        }
    })
}

fn server_thread<F: Future<Output = ()>>(
    body: impl FnOnce(TcpListener) -> F + Send + 'static,
) -> String {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            body(listener).await;
        });
    });
    told.recv().unwrap().to_string()
}

/// Certificates made for this test: an authority, a server on `localhost` and 127.0.0.1, and a client.
struct Papers {
    _dir: tempfile::TempDir,
    ca: PathBuf,
    client: (PathBuf, PathBuf),
    server: Arc<rustls::ServerConfig>,
}

fn papers(demand_client: bool, protocols: &[&[u8]]) -> Papers {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use rustls_pki_types::PrivateKeyDer;
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let issue = |names: &[&str]| {
        let key = KeyPair::generate().unwrap();
        let names = names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let certificate = CertificateParams::new(names)
            .unwrap()
            .signed_by(&key, &issuer)
            .unwrap();
        (certificate, key)
    };
    let (server_certificate, server_key) = issue(&["localhost", "127.0.0.1"]);
    let (client_certificate, client_key) = issue(&["client"]);
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: String| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let ca = put("ca.pem", issuer.pem());
    let client = (
        put("client.pem", client_certificate.pem()),
        put("client.key", client_key.serialize_pem()),
    );
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = if demand_client {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(issuer.der().clone()).unwrap();
        let verifier =
            rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .unwrap();
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let key = PrivateKeyDer::try_from(server_key.serialize_der()).unwrap();
    let mut server = builder
        .with_single_cert(vec![server_certificate.der().clone()], key)
        .unwrap();
    server.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Papers {
        _dir: dir,
        ca,
        client,
        server: Arc::new(server),
    }
}

fn tls_server(papers: &Papers) -> String {
    let acceptor = TlsAcceptor::from(Arc::clone(&papers.server));
    let address = server_thread(move |listener| async move {
        let mut connections = tokio::task::JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            let acceptor = acceptor.clone();
            connections.spawn(async move {
                if let Ok(tls) = acceptor.accept(stream).await {
                    let http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
                    serve(tls, http2).await;
                }
            });
        }
    });
    let port = address.rsplit(':').next().unwrap().to_owned();
    format!("https://localhost:{port}")
}

fn answered(exchange: &Exchange) {
    assert_eq!(exchange.outcome, Outcome::Completed, "{exchange:?}");
    assert_eq!(exchange.events.len(), 3);
    assert_eq!(exchange.usage.as_ref().unwrap().completion_tokens, Some(3));
    assert_eq!(
        exchange.usage.as_ref().unwrap().prompt_tokens,
        Some(exchange.request_bytes)
    );
    let sent = exchange.sent.unwrap();
    assert!(
        exchange.connected.unwrap() <= sent && sent <= exchange.headers.unwrap(),
        "{exchange:?}"
    );
    let stamps: Vec<_> = exchange.events.stamps().collect();
    assert!(stamps.windows(2).all(|w| w[0] <= w[1]) && sent < stamps[0]);
}

#[test]
fn tls_with_a_custom_authority_keeps_its_time_apart_and_its_stamps() {
    let papers = papers(false, &[b"http/1.1"]);
    let mut aim = target(&tls_server(&papers));
    aim.tls.ca = Some(papers.ca.clone());
    let client = client(aim);
    run(async {
        let first = ask(&client).await;
        answered(&first);
        assert!(first.connection.tls.is_some_and(|took| took > Nanos::ZERO));
        assert!(first.connection.resolve.is_some(), "localhost is a name");
        // 2 ms between the tokens, each in a record and a read of its own: the gaps are there in the kernel's stamps. Where this thread
        // did not run meanwhile, the kernel may have put several together.
        let mut apart = false;
        for _ in 0..50 {
            let again = ask(&client).await;
            answered(&again);
            assert!(again.connection.reused && again.connection.tls.is_none());
            apart |= again.events.gaps().all(|gap| gap >= Nanos::new(1_000_000));
            if apart {
                break;
            }
        }
        assert!(apart);
    });
}

#[test]
fn an_unknown_authority_is_a_tls_failure_and_insecure_accepts_it() {
    let papers = papers(false, &[]);
    let url = tls_server(&papers);
    let other = self::papers(false, &[]);
    let mut strict = target(&url);
    strict.tls.ca = Some(other.ca.clone());
    let exchange = run(async { ask(&client(strict)).await });
    let Outcome::Failed {
        stage,
        failure,
        message,
    } = &exchange.outcome
    else {
        panic!("{exchange:?}")
    };
    assert_eq!((*stage, *failure), (Stage::Tls, FailureKind::Tls));
    assert!(
        message.contains("--ca") && message.contains("--insecure"),
        "{message}"
    );
    let mut lax = target(&url);
    lax.tls.insecure = true;
    answered(&run(async { ask(&client(lax)).await }));
}

#[test]
fn a_client_certificate_is_shown_where_the_server_demands_one() {
    let papers = papers(true, &[]);
    let url = tls_server(&papers);
    let mut aim = target(&url);
    aim.tls.ca = Some(papers.ca.clone());
    let without = run(async { ask(&client(aim.clone())).await });
    assert!(
        matches!(
            without.outcome,
            Outcome::Failed {
                failure: FailureKind::Tls | FailureKind::Closed | FailureKind::Reset,
                ..
            }
        ),
        "{without:?}"
    );
    aim.tls.client = Some(papers.client.clone());
    answered(&run(async { ask(&client(aim)).await }));
}

#[test]
fn speaking_tls_to_a_plain_port_says_so() {
    let url = format!("https://{}", plain_server(false));
    let mut aim = target(&url);
    aim.tls.insecure = true;
    let exchange = run(async { ask(&client(aim)).await });
    let Outcome::Failed {
        failure, message, ..
    } = &exchange.outcome
    else {
        panic!("{exchange:?}")
    };
    assert_eq!(*failure, FailureKind::Tls);
    assert!(message.contains("http://"), "{message}");
}

#[test]
fn speaking_plainly_to_a_tls_port_says_so() {
    let papers = papers(false, &[]);
    let url = tls_server(&papers).replace("https://", "http://");
    let exchange = run(async { ask(&client(target(&url))).await });
    let Outcome::Failed {
        failure, message, ..
    } = &exchange.outcome
    else {
        panic!("{exchange:?}")
    };
    assert_eq!(*failure, FailureKind::Http, "{message}");
    assert!(message.contains("https://"), "{message}");
}

#[test]
fn a_file_that_holds_no_certificate_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("empty.pem");
    std::fs::write(&path, "nothing").unwrap();
    let mut aim = target("https://localhost:1");
    aim.tls.ca = Some(path);
    let error = Client::new(Arc::new(aim), Clock::start())
        .unwrap_err()
        .to_string();
    assert!(error.contains("empty.pem"), "{error}");
}

#[test]
fn http2_by_prior_knowledge_and_by_alpn_shares_one_connection() {
    let papers = papers(false, &[b"h2", b"http/1.1"]);
    let plain = target(&format!("http://{}", plain_server(true)));
    let mut secure = target(&tls_server(&papers));
    secure.tls.ca = Some(papers.ca.clone());
    for mut aim in [plain, secure] {
        aim.http = HttpVersion::Http2;
        many_at_once(aim);
    }
}

#[test]
fn connections_opened_beforehand_cost_no_request_time_and_are_one_over_http2() {
    let mut shared = target(&format!("http://{}", plain_server(true)));
    shared.http = HttpVersion::Http2;
    let papers = papers(false, &[b"http/1.1"]);
    let mut single = target(&tls_server(&papers));
    single.tls.ca = Some(papers.ca.clone());
    for aim in [shared, single] {
        let opened = if aim.http == HttpVersion::Http2 { 1 } else { 3 };
        let client = client(aim);
        run(async {
            client.open(3).await;
            let all = futures_util::future::join_all((0..3).map(|_| ask(&client))).await;
            let new: Vec<_> = all.iter().map(|exchange| &exchange.connection).collect();
            let new: Vec<_> = new.iter().filter(|facts| !facts.reused).collect();
            assert_eq!(new.len(), opened);
            assert!(
                new.iter()
                    .all(|facts| facts.beforehand && facts.connect.is_some())
            );
            for exchange in &all {
                answered(exchange);
            }
            client.open(3).await;
            let again = futures_util::future::join_all((0..3).map(|_| ask(&client))).await;
            assert!(
                again.iter().all(|exchange| exchange.connection.reused),
                "nothing was missing"
            );
            drop(client);
        });
    }
}

fn many_at_once(aim: Target) {
    let client = client(aim);
    run(async {
        let all = futures_util::future::join_all((0..20).map(|_| ask(&client))).await;
        for exchange in &all {
            answered(exchange);
        }
        let opened = all
            .iter()
            .filter(|exchange| exchange.connection.connect.is_some())
            .count();
        assert_eq!(opened, 1, "one connection for all");
        drop(client);
    });
}

/// Its first connection takes no request: it answers the first one with a `GOAWAY` that names no stream and no error. What was sent on it is sent on the
/// next one, which all share.
#[test]
fn a_request_that_a_goaway_does_not_name_is_sent_on_another_connection() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const GOAWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    const HEADERS: u8 = 1;
    let address = server_thread(|listener| async move {
        let (mut first, _) = listener.accept().await.unwrap();
        first.write_all(&SETTINGS).await.unwrap();
        let mut preface = [0; 24];
        first.read_exact(&mut preface).await.unwrap();
        loop {
            let mut head = [0; 9];
            first.read_exact(&mut head).await.unwrap();
            let length =
                usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            let mut payload = vec![0; length];
            first.read_exact(&mut payload).await.unwrap();
            if head[3] == HEADERS {
                break;
            }
        }
        first.write_all(&GOAWAY).await.unwrap();
        let (second, _) = listener.accept().await.unwrap();
        serve(second, true).await;
    });
    let mut aim = target(&format!("http://{address}"));
    aim.http = HttpVersion::Http2;
    let client = client(aim);
    run(async {
        let all = futures_util::future::join_all((0..20).map(|_| ask(&client))).await;
        all.iter().for_each(answered);
        let replaced = all.iter().map(|exchange| exchange.connection.replaced);
        assert!(replaced.max() == Some(1));
        drop(client);
    });
}

#[test]
fn a_large_prompt_over_http2_is_sent_before_the_answer() {
    let mut aim = target(&format!("http://{}", plain_server(true)));
    aim.http = HttpVersion::Http2;
    let client = client(aim);
    run(async {
        let mut question = crate::common::question();
        question.prompt = bench_schema::Prompt::Text("x".repeat(1_000_000).into());
        let exchange = client.send(&question, "large").await;
        answered(&exchange);
        assert!(exchange.request_bytes > 1_000_000);
        drop(client);
    });
}

#[test]
fn a_unix_socket_works_and_says_that_its_stamps_are_not_the_kernels() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sock");
    let (tell, told) = std::sync::mpsc::channel();
    let there = path.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = UnixListener::bind(there).unwrap();
            tell.send(()).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                serve(stream, false).await;
            }
        });
    });
    told.recv().unwrap();
    let client = client(target(&format!("unix://{}", path.display())));
    let (kind, reason) = client.clock_kind();
    assert_eq!(kind, ClockKind::ReadReturn);
    assert!(reason.unwrap().contains("Unix"));
    let exchange = run(async {
        let exchange = ask(&client).await;
        drop(client);
        exchange
    });
    answered(&exchange);
    assert!(exchange.events.lags().all(|lag| lag == Nanos::ZERO));
}

#[test]
fn a_probe_finds_models_kind_version_and_counts_tokens() {
    let mut aim = target(&format!("http://{}", plain_server(false)));
    aim.api_key = Some(Secret::new("k"));
    let probe = Probe::new(Fetcher::new(&aim).unwrap(), Clock::start()).unwrap();
    run(async {
        let facts = probe.look(Nanos::ZERO).await.unwrap();
        assert_eq!(facts.models, ["m-1"]);
        assert_eq!(facts.facts["max_model_len"], "2048");
        assert_eq!(
            (facts.kind.as_deref(), facts.version.as_deref()),
            (Some("vllm"), Some("0.32.0"))
        );
        let tokens = probe.tokenize("m", "hello world").unwrap().unwrap();
        assert_eq!((tokens.count, tokens.ids), (2, Some(vec![7, 8])));
    });
}

#[test]
fn a_server_that_is_not_there_is_not_ready_and_the_last_look_is_told() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let probe = Probe::new(Fetcher::new(&target(&url)).unwrap(), Clock::start()).unwrap();
    let error = run(async { probe.look(Nanos::from_millis(1)).await })
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("not ready") && error.contains("refused"),
        "{error}"
    );
}

#[test]
fn pages_are_fetched_with_limits_and_secrets_stay_with_the_target() {
    let (own, other) = (plain_server(false), plain_server(false));
    let mut aim = Target::new(
        &format!("http://{own}/v1"),
        protocol_by_name("openai-chat").unwrap(),
        "m",
    )
    .unwrap();
    aim.api_key = Some(Secret::new("k"));
    let fetcher = Fetcher::new(&aim).unwrap();
    let page = |host: &str, most| {
        fetcher.get(
            &format!("http://{host}/secret?a=1"),
            Duration::from_secs(10),
            most,
        )
    };
    assert_eq!(page(&own, 100).unwrap(), b"true");
    assert_eq!(page(&other, 100).unwrap(), b"false");
    assert!(page(&own, 3).unwrap_err().contains("larger than 3 bytes"));
    let token = Secret::new("Bearer t-1234567");
    let base = format!("http://{other}");
    let authorized = fetcher.clone().authorized(&base, &token).unwrap();
    let third = plain_server(false);
    let told = |host: &str| {
        authorized.get(
            &format!("http://{host}/secret"),
            Duration::from_secs(10),
            100,
        )
    };
    assert_eq!(told(&other).unwrap(), b"true");
    assert_eq!(told(&third).unwrap(), b"false", "and nobody else");
    assert!(!format!("{authorized:?}").contains("1234567"));
    let refused = format!("http://{other}/refused");
    let with_token = format!("{refused}?token=abc");
    let why = fetcher.get(&with_token, Duration::from_secs(10), 100);
    let expected = format!("{refused}: HTTP 400: 1:3: parse error");
    assert_eq!(why.unwrap_err(), expected, "what it said, and no token");
}

/// A proxy for one connection: a tunnel where it is asked for one, else it answers itself as the server would. Tells the request's head.
fn proxy() -> (String, std::sync::mpsc::Receiver<Vec<String>>) {
    let (tell, told) = std::sync::mpsc::channel();
    let address = server_thread(move |listener| async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut near, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.windows(4).any(|w| w == b"\r\n\r\n") {
            near.read_buf(&mut head).await.unwrap();
        }
        let lines: Vec<String> = String::from_utf8_lossy(&head)
            .lines()
            .map(str::to_owned)
            .collect();
        tell.send(lines.clone()).unwrap();
        if let Some(rest) = lines[0].strip_prefix("CONNECT ") {
            let to = rest
                .split(' ')
                .next()
                .unwrap()
                .replace("localhost", "127.0.0.1");
            let mut far = tokio::net::TcpStream::connect(to).await.unwrap();
            near.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
                .await
                .unwrap();
            drop(tokio::io::copy_bidirectional(&mut near, &mut far).await);
        } else {
            near.write_all(crate::common::whole_stream(3).as_bytes())
                .await
                .unwrap();
            drop(near.read_u8().await);
        }
    });
    (address, told)
}

#[test]
fn a_proxy_tunnels_tls_and_is_given_the_whole_url_otherwise() {
    const WHO: &str = "basic bWU6aHVudGVyMg==";
    let papers = papers(false, &[]);
    let url = tls_server(&papers);
    let papers_of = |head: &[String]| {
        let mut lines = head.iter().map(|line| line.to_ascii_lowercase());
        lines.find_map(|line| Some(line.strip_prefix("proxy-authorization: ")?.to_owned()))
    };
    let (address, head) = proxy();
    let mut secure = target(&url);
    secure.tls.ca = Some(papers.ca.clone());
    secure.proxy = Some(Proxy::parse(&format!("http://me:hunter2@{address}")).unwrap());
    let exchange = run(async { ask(&client(secure)).await });
    answered(&exchange);
    let seen = head.recv().unwrap();
    assert!(seen[0].starts_with("CONNECT localhost:"), "{seen:?}");
    assert_eq!(
        papers_of(&seen).as_deref(),
        Some(WHO.to_lowercase().as_str())
    );

    let (address, head) = proxy();
    let mut plain = target("http://model.invalid/v1");
    plain.proxy = Some(Proxy::parse(&format!("http://me:hunter2@{address}")).unwrap());
    let exchange = run(async { ask(&client(plain)).await });
    assert_eq!(exchange.outcome, Outcome::Completed, "{exchange:?}");
    let seen = head.recv().unwrap();
    assert_eq!(
        seen[0],
        "POST http://model.invalid/v1/chat/completions HTTP/1.1"
    );
    assert_eq!(
        papers_of(&seen).as_deref(),
        Some(WHO.to_lowercase().as_str())
    );
}
