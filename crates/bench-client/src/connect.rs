//! From an endpoint to a connection that is ready for a request, with the cost of each step.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use bench_schema::{ConnectionFacts, FailureKind, Nanos, Stage, Stamp};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, sockopt};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::clock::KernelStamps;
use crate::endpoint::{Host, bracketed};
use crate::fault::Fault;
use crate::socket::{Peek, ReadLog, Socket, Watched, connected, stream_socket};
use crate::sys::ask_for_stamps;
use crate::transfer::{Stream, Wire};
use crate::wakes::Wakes;
use crate::{ClientError, Clock, Endpoint, HttpVersion, Proxy, Target, TlsOptions};

/// How long a looked-up address is used: a benchmark should neither measure the resolver nor miss a moved server.
const NAME_AGE: Nanos = Nanos::from_secs(30);
/// A Unix listener whose backlog is full says EAGAIN; there is nothing to wait on but time.
const BACKLOG_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);

const UNIX_SOCKET: &str = "Unix sockets have no receive timestamps";

fn no_stamps(error: &io::Error) -> String {
    format!("the kernel gives no receive timestamps: {error}")
}

async fn connect_path(path: &Path) -> io::Result<Watched> {
    let address = SocketAddrUnix::new(path)?;
    connected(stream_socket(AddressFamily::UNIX)?, &address).await
}

fn ask_beforehand() -> io::Result<OwnedFd> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    ask_for_stamps(socket.as_fd())?;
    Ok(socket)
}

/// When a name was looked up, and what it came to.
type Resolved = (Stamp, Rc<[SocketAddr]>);

/// Opens connections. One per worker thread.
#[derive(Debug)]
pub(crate) struct Connector {
    stamps: Rc<KernelStamps>,
    tls: Option<Arc<ClientConfig>>,
    http: HttpVersion,
    proxy: Option<Proxy>,
    names: RefCell<HashMap<(String, u16), Resolved>>,
    no_stamps: RefCell<Option<String>>,
    /// The kernel starts to stamp when the first socket asks, and a moment later. One that asks from the beginning, and is never
    /// used, has that over before the first connection.
    _asking: Option<OwnedFd>,
}

/// An open connection, before HTTP.
#[derive(Debug)]
pub(crate) struct RawConnection {
    pub(crate) wire: Wire,
    pub(crate) log: Rc<ReadLog>,
    pub(crate) peek: Peek,
    pub(crate) http2: bool,
    /// `resolve`, `connect` and `tls` are filled.
    pub(crate) cost: ConnectionFacts,
}

impl Connector {
    pub(crate) fn new(target: &Target, stamps: Rc<KernelStamps>) -> Result<Self, ClientError> {
        let secure = target.endpoints.iter().any(Endpoint::is_secure);
        let tls = secure
            .then(|| client_config(&target.tls, target.http))
            .transpose()?;
        let (asking, refused) = match ask_beforehand() {
            Ok(fd) => (Some(fd), None),
            Err(error) => (None, Some(no_stamps(&error))),
        };
        // One is enough: then some of the stamps are not the kernel's.
        let any_unix = target.endpoints.iter().any(|e| e.socket_path().is_some());
        Ok(Self {
            stamps,
            tls,
            http: target.http,
            proxy: target.proxy.clone(),
            names: RefCell::default(),
            no_stamps: RefCell::new(refused.or(any_unix.then(|| UNIX_SOCKET.to_owned()))),
            _asking: asking,
        })
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.stamps.clock()
    }

    /// Its connections belong to a thread of which this is known.
    pub(crate) fn follow(&self, wakes: Arc<Wakes>) {
        self.stamps.follow(wakes);
    }

    /// Why arrival stamps are not the kernel's, where they are not.
    pub(crate) fn no_stamps_reason(&self) -> Option<String> {
        self.no_stamps.borrow().clone()
    }

    /// Open a connection; `stage` always holds the step that is being waited for.
    pub(crate) async fn connect(
        &self,
        endpoint: &Endpoint,
        stage: &Cell<Stage>,
    ) -> Result<RawConnection, Fault> {
        let mut cost = ConnectionFacts::default();
        let proxy = self.proxy_for(endpoint);
        let via = proxy.map_or(endpoint, Proxy::endpoint);
        let watched = match via.host() {
            Host::Tcp { name, port } => {
                stage.set(Stage::Resolve);
                let addresses = self.resolve(name, *port, &mut cost).await?;
                stage.set(Stage::Connect);
                self.timed(&mut cost.connect, self.connect_any(&addresses, via))
                    .await?
            }
            Host::Unix(path) => {
                stage.set(Stage::Connect);
                self.timed(&mut cost.connect, self.connect_unix(path))
                    .await?
            }
        };
        let log = ReadLog::new(Rc::clone(&self.stamps));
        let mut socket = Socket::new(watched, Rc::clone(&log));
        if let Some(proxy) = proxy.filter(|_| endpoint.is_secure()) {
            let mut took = None;
            self.timed(&mut took, open_tunnel(&mut socket, endpoint, proxy))
                .await?;
            cost.connect = cost.connect.zip(took).map(|(a, b)| a + b);
        }
        let handle = socket.peek();
        let stream = if endpoint.is_secure() {
            stage.set(Stage::Tls);
            self.timed(&mut cost.tls, self.handshake(endpoint, socket))
                .await?
        } else {
            Stream::Plain(socket)
        };
        Ok(RawConnection {
            wire: Wire::new(stream, Rc::clone(&log)),
            log,
            peek: handle,
            http2: self.http == HttpVersion::Http2,
            cost,
        })
    }

    /// Unix sockets are on this machine; everything else goes through the proxy, where there is one.
    fn proxy_for(&self, endpoint: &Endpoint) -> Option<&Proxy> {
        let proxy = self.proxy.as_ref()?;
        endpoint.socket_path().is_none().then_some(proxy)
    }

    async fn timed<T>(
        &self,
        took: &mut Option<Nanos>,
        step: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let begin = self.clock().now();
        let done = step.await;
        *took = Some(self.clock().now() - begin);
        done
    }

    async fn resolve(
        &self,
        name: &str,
        port: u16,
        cost: &mut ConnectionFacts,
    ) -> Result<Rc<[SocketAddr]>, Fault> {
        if let Ok(address) = name.parse() {
            return Ok(Rc::new([SocketAddr::new(address, port)]));
        }
        let key = (name.to_owned(), port);
        let begin = self.clock().now();
        if let Some((at, known)) = self.names.borrow().get(&key)
            && begin - *at < NAME_AGE
        {
            return Ok(Rc::clone(known));
        }
        let found = tokio::net::lookup_host((name, port)).await;
        let now = self.clock().now();
        cost.resolve = Some(now - begin);
        let dns = |problem: &str| {
            Fault::new(
                Stage::Resolve,
                FailureKind::Dns,
                format!("the name `{name}` has no address: {problem}"),
            )
        };
        let addresses: Rc<[SocketAddr]> = found.map_err(|error| dns(&error.to_string()))?.collect();
        if addresses.is_empty() {
            return Err(dns("the DNS response was empty"));
        }
        self.names
            .borrow_mut()
            .insert(key, (now, Rc::clone(&addresses)));
        Ok(addresses)
    }

    async fn connect_any(
        &self,
        addresses: &[SocketAddr],
        endpoint: &Endpoint,
    ) -> Result<Watched, Fault> {
        let mut last = None;
        for address in addresses {
            match self.connect_tcp(*address).await {
                Ok(watched) => return Ok(watched),
                Err(error) => last = Some(error),
            }
        }
        let error = last.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into());
        Err(Fault::io(Stage::Connect, &error, &endpoint.to_string()))
    }

    async fn connect_tcp(&self, address: SocketAddr) -> io::Result<Watched> {
        let socket = stream_socket(match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        })?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        // Before the connection exists, so that not even its first segment goes unstamped.
        if let Err(error) = ask_for_stamps(socket.as_fd()) {
            self.note_no_stamps(&no_stamps(&error));
        }
        connected(socket, &address).await
    }

    async fn connect_unix(&self, path: &Path) -> Result<Watched, Fault> {
        self.note_no_stamps(UNIX_SOCKET);
        loop {
            match connect_path(path).await {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::time::sleep(BACKLOG_PAUSE).await;
                }
                done => {
                    let peer = || path.display().to_string();
                    return done.map_err(|error| Fault::io(Stage::Connect, &error, &peer()));
                }
            }
        }
    }

    async fn handshake(&self, endpoint: &Endpoint, socket: Socket) -> Result<Stream, Fault> {
        let peer = endpoint.to_string();
        let unusable = |why: String| Fault::new(Stage::Tls, FailureKind::Tls, why);
        let (Some(config), Host::Tcp { name, .. }) = (&self.tls, endpoint.host()) else {
            return Err(unusable(format!("{peer}: TLS is not configured")));
        };
        let server = ServerName::try_from(name.clone()).map_err(|error| {
            unusable(format!("`{name}` is not a valid certificate name: {error}"))
        })?;
        let tls = secured(Arc::clone(config), server, socket)
            .await
            .map_err(|error| Fault::tls(&error, &peer))?;
        let picked = tls.get_ref().1.alpn_protocol();
        if self.http == HttpVersion::Http2 && picked.is_some_and(|name| name != b"h2") {
            return Err(unusable(format!("{peer} does not support HTTP/2 (ALPN)")));
        }
        Ok(Stream::Tls(Box::new(tls)))
    }

    fn note_no_stamps(&self, reason: &str) {
        let mut noted = self.no_stamps.borrow_mut();
        if noted.is_none() {
            *noted = Some(reason.to_owned());
        }
    }
}

// A tunnel through a proxy.

/// A proxy that says more than this before the tunnel is open is none.
const LONGEST_HEAD: usize = 8192;

/// Ask the proxy at the other end of `socket` to open a tunnel (`CONNECT`) to `endpoint`; what follows on the socket is the server's.
pub(crate) async fn open_tunnel(
    socket: &mut Socket,
    endpoint: &Endpoint,
    proxy: &Proxy,
) -> Result<(), Fault> {
    let Host::Tcp { name, port } = endpoint.host() else {
        return Ok(());
    };
    let name = bracketed(name);
    let who = proxy.authorization().map_or_else(String::new, |value| {
        format!("Proxy-Authorization: {}\r\n", value.expose())
    });
    let request = format!("CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n{who}\r\n");
    let proxy = &proxy.endpoint().to_string();
    let broken = |error: io::Error| Fault::io(Stage::Connect, &error, proxy);
    socket.write_all(request.as_bytes()).await.map_err(broken)?;
    let mut head = Vec::with_capacity(256);
    while !head.ends_with(b"\r\n\r\n") {
        // A byte at a time, so that nothing of the server's own bytes is taken. Once a connection.
        head.push(socket.read_u8().await.map_err(broken)?);
        if head.len() > LONGEST_HEAD {
            return Err(refused(proxy, "an incomplete response head"));
        }
    }
    let text = String::from_utf8_lossy(&head);
    let line = text.lines().next().unwrap_or_default();
    match line.split(' ').nth(1) {
        Some(status) if status.starts_with('2') => Ok(()),
        _ => Err(refused(proxy, line)),
    }
}

fn refused(proxy: &str, answer: &str) -> Fault {
    Fault::new(
        Stage::Connect,
        FailureKind::Other,
        format!("the proxy {proxy} refused to open a tunnel: {answer}"),
    )
}

/// TLS over a connected socket, of which nothing else is read before.
pub(crate) async fn secured(
    config: Arc<ClientConfig>,
    server: ServerName<'static>,
    socket: Socket,
) -> io::Result<TlsStream<Socket>> {
    socket.expect_records();
    TlsConnector::from(config).connect(server, socket).await
}

// TLS as the target wants it: system roots, another authority, a client certificate, or no checking at all.

/// The rustls configuration of a target. Loads the system's roots (about 10 ms), so make one for each worker, not for each connection.
fn client_config(
    options: &TlsOptions,
    http: HttpVersion,
) -> Result<Arc<ClientConfig>, ClientError> {
    let provider = Arc::new(ring::default_provider());
    let refused = |error: rustls::Error| ClientError::Tls {
        problem: error.to_string(),
    };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(refused)?;
    let builder = if options.insecure {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAny(provider)))
    } else {
        builder.with_root_certificates(roots(options.ca.as_deref())?)
    };
    let mut config = match &options.client {
        Some((chain, key)) => builder
            .with_client_auth_cert(certificates(chain)?, private_key(key)?)
            .map_err(refused)?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = match http {
        HttpVersion::Http1 => vec![b"http/1.1".to_vec()],
        HttpVersion::Http2 => vec![b"h2".to_vec()],
    };
    Ok(Arc::new(config))
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, ClientError> {
    let mut store = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    store.add_parsable_certificates(system.certs);
    if let Some(path) = ca {
        for certificate in certificates(path)? {
            store
                .add(certificate)
                .map_err(|error| file(AUTHORITY, path, &error))?;
        }
    }
    if store.is_empty() {
        let why = system
            .errors
            .first()
            .map_or_else(|| "none was found".to_owned(), ToString::to_string);
        return Err(ClientError::Tls {
            problem: format!(
                "this system has no trusted certificates ({why}); set a certificate authority (--ca) or disable verification (--insecure)"
            ),
        });
    }
    Ok(store)
}

const AUTHORITY: &str = "certificate authority";

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let what = "certificates";
    let found = CertificateDer::pem_slice_iter(&bounded(what, path)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| file(what, path, &error))?;
    if found.is_empty() {
        return Err(file(
            what,
            path,
            &"it contains none; the file must be in PEM format",
        ));
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ClientError> {
    let what = "a private key";
    PrivateKeyDer::from_pem_slice(&bounded(what, path)?).map_err(|error| file(what, path, &error))
}

/// Bytes of a file of certificates: the bundle of a whole system has a quarter of it.
const LONGEST_FILE: u64 = 1 << 20;

fn bounded(what: &'static str, path: &Path) -> Result<Vec<u8>, ClientError> {
    File::open(path)
        .and_then(|opened| bench_schema::read_within(opened, LONGEST_FILE))
        .map_err(|error| file(what, path, &error))
}

fn file(what: &'static str, path: &Path, problem: &dyn std::fmt::Display) -> ClientError {
    ClientError::TlsFile {
        what,
        path: path.to_owned(),
        problem: problem.to_string(),
    }
}

/// `--insecure`: any certificate will do; signatures are still checked, so that the handshake itself is a real one.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
#[path = "../tests/unit/connect.rs"]
mod tests;
