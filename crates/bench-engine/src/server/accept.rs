//! Listening, and what a connection is before its first request.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use crate::EngineError;
use crate::clock::now_ns;
use crate::config::{EngineConfig, PauseOf, TlsFiles};
use crate::http::{Io, h2};
use crate::serve;
use crate::server::Local;

/// The opening bytes of an HTTP/2 connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// A bound address, before a runtime has it.
pub(super) struct Listener {
    pub(super) address: Option<SocketAddr>,
    socket: Socket,
}

enum Socket {
    Tcp(StdListener),
    Unix(StdUnixListener),
    /// Connections are to be refused.
    None,
}

impl Listener {
    pub(super) fn bind(config: &EngineConfig) -> Result<Self, EngineError> {
        if let Some(path) = &config.unix {
            let failed = |source| EngineError::Bind {
                address: path.display().to_string(),
                source,
            };
            let socket = StdUnixListener::bind(path).map_err(failed)?;
            socket.set_nonblocking(true).map_err(failed)?;
            return Ok(Self {
                address: None,
                socket: Socket::Unix(socket),
            });
        }
        let name = format!("{}:{}", config.host, config.port);
        let failed = |source| EngineError::Bind {
            address: name.clone(),
            source,
        };
        let socket = listen((config.host.as_str(), config.port), config.backlog).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let socket = if config.refuse {
            Socket::None
        } else {
            Socket::Tcp(socket)
        };
        Ok(Self {
            address: Some(address),
            socket,
        })
    }
}

/// Binds with a queue of `backlog` connections that are to be accepted.
fn listen(address: impl std::net::ToSocketAddrs, backlog: u16) -> io::Result<StdListener> {
    let socket = StdListener::bind(address)?;
    // The standard library has asked for a queue of its own choice; asking again changes its length.
    rustix::net::listen(&socket, i32::from(backlog))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// What TLS connections are accepted with: certificate and protocols.
pub(super) fn tls(files: &TlsFiles) -> Result<TlsAcceptor, EngineError> {
    let refuse = |reason: String| EngineError::Tls {
        cert: files.cert.clone(),
        key: files.key.clone(),
        reason,
    };
    let chain = certificates(&files.cert).map_err(refuse)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| refuse(e.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| refuse(e.to_string()))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = rustls::RootCertStore::empty();
            for certificate in certificates(path).map_err(refuse)? {
                roots.add(certificate).map_err(|e| refuse(e.to_string()))?;
            }
            let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
                Arc::new(roots),
                provider,
            )
            .build();
            builder.with_client_cert_verifier(verifier.map_err(|e| refuse(e.to_string()))?)
        }
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|e| refuse(e.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// A connection on its way to the thread that serves it, where it is made, and its number.
pub(super) struct Accepted(Make, u64);

type Make = Box<dyn FnOnce() -> io::Result<Io> + Send>;

/// Accepts, and shares connections out in turn over this thread and the others. While the server is gone nothing listens.
pub(super) async fn accept(
    local: Rc<Local>,
    listener: Listener,
    others: Vec<mpsc::Sender<Accepted>>,
) -> io::Result<()> {
    let address = listener.address;
    let mut socket = match listener.socket {
        Socket::Tcp(socket) => Async::Tcp(TcpListener::from_std(socket)?),
        Socket::Unix(socket) => Async::Unix(UnixListener::from_std(socket)?),
        Socket::None => return Ok(()),
    };
    loop {
        let accepted = tokio::select! {
            accepted = accept_one(&local, &socket) => accepted,
            until = outage(&local) => {
                drop(socket);
                local.server.gone.send_replace(true);
                let (Some(until), Some(address)) = (until, address) else {
                    return Ok(());
                };
                local.pacer.until(until).await;
                local.server.gone.send_replace(false);
                socket = Async::Tcp(TcpListener::from_std(listen(address, local.server.config.backlog)?)?);
                continue;
            }
        };
        let Ok(stream) = accepted else {
            // Out of descriptors, or the client went away in between: wait a little rather than spin.
            local.pacer.pause(1_000_000).await;
            continue;
        };
        let number = local.server.next_connection();
        let accepted = Accepted(stream, number);
        let turn = usize::try_from(number).unwrap_or(0) % (others.len() + 1);
        match turn.checked_sub(1).and_then(|at| others.get(at)) {
            None => begin(&local, accepted)?,
            // The other thread ends only with the server.
            Some(other) => drop(other.send(accepted).await),
        }
    }
}

async fn accept_one(local: &Local, socket: &Async) -> io::Result<Make> {
    let conditions = &local.server.conditions;
    if let Some(until) = conditions.paused_until(PauseOf::Accept, now_ns()) {
        local.pacer.until(until).await;
    }
    socket.accept().await
}

/// Waits for the next outage, and says when it ends, unless it is for ever. Without one, or before the first connection, it
/// waits for ever itself.
async fn outage(local: &Local) -> Option<u64> {
    let Some((from, until)) = local.server.conditions.next_outage(now_ns()) else {
        return std::future::pending().await;
    };
    local.pacer.until(from).await;
    until
}

/// Serves what another thread accepted.
pub(super) async fn receive(
    local: Rc<Local>,
    mut from: mpsc::Receiver<Accepted>,
) -> io::Result<()> {
    while let Some(accepted) = from.recv().await {
        begin(&local, accepted)?;
    }
    Ok(())
}

enum Async {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Async {
    async fn accept(&self) -> io::Result<Make> {
        Ok(match self {
            Self::Tcp(socket) => {
                let stream = socket.accept().await?.0.into_std()?;
                // A stream that cannot be told so still works, only later.
                stream.set_nodelay(true).ok();
                Box::new(move || Ok(Box::new(TcpStream::from_std(stream)?)))
            }
            Self::Unix(socket) => {
                let stream = socket.accept().await?.0.into_std()?;
                Box::new(move || Ok(Box::new(UnixStream::from_std(stream)?)))
            }
        })
    }
}

fn begin(local: &Rc<Local>, Accepted(make, number): Accepted) -> io::Result<()> {
    let io = make()?;
    let local = Rc::clone(local);
    let mut gone = local.server.gone.subscribe();
    // The thread's LocalSet owns it and ends it with the server.
    drop(tokio::task::spawn_local(async move {
        tokio::select! {
            () = connection(local, io, number) => {}
            // What is dropped is closed, as the kernel closes the sockets of a process that died.
            _ = gone.wait_for(|gone| *gone) => {}
        }
    }));
    Ok(())
}

async fn connection(local: Rc<Local>, io: Io, number: u64) {
    let Some(io) = serve::at_accept(&local, io, number).await else {
        return;
    };
    let (io, second): (Io, bool) = match &local.server.tls {
        Some(acceptor) if io.tcp().is_some() => {
            let Ok(stream) = acceptor.accept(io).await else {
                return;
            };
            let second = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            (Box::new(stream), second)
        }
        _ => {
            let idle = local.server.config.keep_alive.idle_ms;
            let second = match idle.map(|ms| ms.saturating_mul(1_000_000)) {
                None => speaks_h2(&io).await,
                Some(idle) => tokio::select! {
                    second = speaks_h2(&io) => second,
                    () = local.pacer.pause(idle) => return,
                },
            };
            (io, second)
        }
    };
    if second {
        h2::connection(local, io, number).await;
    } else {
        serve::connection(local, io, number).await;
    }
}

/// Whether a client without TLS begins with HTTP/2, as far as its first bytes tell.
async fn speaks_h2(io: &Io) -> bool {
    let Some(stream) = io.tcp() else { return false };
    let mut first = [0; PREFACE.len()];
    loop {
        match stream.peek(&mut first).await {
            Ok(n) if n > 0 && n < PREFACE.len() && first[..n] == PREFACE[..n] => {
                // The rest of the preface is on its way.
                tokio::task::yield_now().await;
            }
            Ok(n) => return n == PREFACE.len() && first == PREFACE,
            Err(_) => return false,
        }
    }
}
