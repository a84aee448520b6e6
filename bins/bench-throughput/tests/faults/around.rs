//! Faults that are no server's: nobody there, no such name, nobody who answers, a certificate that nobody knows.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bench_engine::config::TlsFiles;
use bench_engine::{EngineConfig, Server};
use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};

use super::run::{Beside, Case, How};
use crate::common::Result;

/// A name, what is done, and how.
type Around = (&'static str, &'static str, fn() -> Result<Beside>);

pub(crate) fn cases() -> impl Iterator<Item = Case> {
    let cases: [Around; 6] = [
        ("refused", "Nobody listens on the port", refused),
        ("no such name", "The name has no address", no_such_name),
        (
            "no answer",
            "The address drops every packet: connections are never accepted, nor refused",
            no_answer,
        ),
        (
            "unknown certificate",
            "TLS with a certificate that nobody vouches for",
            unknown_certificate,
        ),
        ("no TLS", "Plain HTTP where TLS was asked for", no_tls),
        (
            "wrong key",
            "401, since the server wants another key",
            wrong_key,
        ),
    ];
    cases.into_iter().map(|(name, sent, make)| Case {
        name: name.to_owned(),
        sent: sent.to_owned(),
        how: How::Beside(make),
    })
}

fn engine(config: EngineConfig) -> Result<Beside> {
    let server = Server::start(config)?;
    Ok(Beside {
        url: server.url(),
        guard: Box::new(server),
    })
}

fn refused() -> Result<Beside> {
    engine(EngineConfig {
        refuse: true,
        ..EngineConfig::default()
    })
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "as its neighbours, which can fail"
)]
fn no_such_name() -> Result<Beside> {
    // a label of 64 letters is refused by the resolver itself: no packet leaves this machine
    Ok(Beside {
        url: format!("http://{}.invalid:1", "n".repeat(64)),
        guard: Box::new(()),
    })
}

/// A listener whose queue is full: the kernel drops what else knocks.
fn no_answer() -> Result<Beside> {
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0)))?;
    listen(&listener, 0)?;
    let address = SocketAddr::try_from(getsockname(&listener)?)?;
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        waiting.push(stream);
        if waiting.len() > 64 {
            return Err("the queue does not fill".into());
        }
    }
    Ok(Beside {
        url: format!("http://{address}"),
        guard: Box::new((listener, waiting)),
    })
}

fn unknown_certificate() -> Result<Beside> {
    let folder = tempfile::tempdir()?;
    let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
    let (cert, key) = (
        folder.path().join("cert.pem"),
        folder.path().join("key.pem"),
    );
    std::fs::write(&cert, own.cert.pem())?;
    std::fs::write(&key, own.signing_key.serialize_pem())?;
    let server = Server::start(EngineConfig {
        tls: Some(TlsFiles {
            cert,
            key,
            client_ca: None,
        }),
        ..EngineConfig::default()
    })?;
    Ok(Beside {
        url: server.url(),
        guard: Box::new((server, folder)),
    })
}

fn no_tls() -> Result<Beside> {
    let plain = engine(EngineConfig::default())?;
    Ok(Beside {
        url: plain.url.replace("http://", "https://"),
        guard: plain.guard,
    })
}

fn wrong_key() -> Result<Beside> {
    engine(EngineConfig {
        api_key: Some("another-key".to_owned()),
        ..EngineConfig::default()
    })
}
