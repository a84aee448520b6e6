//! A GET over a socket of its own, for the engines' pages; it shares nothing with the client that is judged.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};

use crate::error::VerifyError;

/// Longest wait for a page.
const PATIENCE: Duration = Duration::from_mins(1);

/// The body of `path` at `base` (`http://…`, `https://…` by the certificate in `ca`, or `unix:PATH`).
pub(crate) fn get(base: &str, path: &str, ca: Option<&Path>) -> Result<Vec<u8>, VerifyError> {
    let failed = |source| VerifyError::Io {
        what: format!("GET {base}{path}"),
        source,
    };
    let all = exchange(base, path, ca).map_err(failed)?;
    let split = all
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .ok_or_else(|| VerifyError::read(format!("GET {base}{path}"), &"no response head"))?;
    let (head, body) = all.split_at(split + 4);
    if !head.starts_with(b"HTTP/1.1 200") {
        let status = String::from_utf8_lossy(head.split(|b| *b == b'\r').next().unwrap_or(&[]));
        return Err(VerifyError::read(format!("GET {base}{path}"), &status));
    }
    Ok(body.to_vec())
}

fn exchange(base: &str, path: &str, ca: Option<&Path>) -> std::io::Result<Vec<u8>> {
    if let Some(socket) = base.strip_prefix("unix:") {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        return ask(stream, path);
    }
    let (secure, address) = match base.strip_prefix("https://") {
        Some(address) => (true, address),
        None => (false, base.trim_start_matches("http://")),
    };
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    if secure {
        ask(rustls::StreamOwned::new(session(ca)?, stream), path)
    } else {
        ask(stream, path)
    }
}

fn session(ca: Option<&Path>) -> std::io::Result<rustls::ClientConnection> {
    let mut roots = rustls::RootCertStore::empty();
    if let Some(ca) = ca {
        let certificate = CertificateDer::from_pem_file(ca).map_err(std::io::Error::other)?;
        roots.add(certificate).map_err(std::io::Error::other)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(std::io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").map_err(std::io::Error::other)?;
    rustls::ClientConnection::new(Arc::new(config), name).map_err(std::io::Error::other)
}

fn ask(mut stream: impl Read + Write, path: &str) -> std::io::Result<Vec<u8>> {
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: engine\r\nconnection: close\r\n\r\n"
    )?;
    stream.flush()?;
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => Ok(all),
        // A TLS peer that closes without saying so; the length is checked by whoever reads the page.
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof && !all.is_empty() => {
            Ok(all)
        }
        Err(error) => Err(error),
    }
}
