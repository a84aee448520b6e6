//! Reads through TLS.

use std::future::poll_fn;
use std::io::Write as _;
use std::sync::{Arc, mpsc};

use rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::TlsConnector;

use super::*;
use crate::Clock;
use crate::socket::tests::stamped_pair;

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
    let tls = TlsConnector::from(Arc::new(client));
    let tls = tls.connect(name, socket).await.unwrap();
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
