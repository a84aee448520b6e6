//! TLS as the target wants it: system roots, another authority, a client certificate, or no checking at all.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use crate::{ClientError, HttpVersion, TlsOptions};

/// The rustls configuration of a target. Loads the system's roots (about 10 ms), so make one for each worker, not for each connection.
pub(crate) fn client_config(
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
        HttpVersion::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
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
                "this system has no trusted certificates ({why}); name an authority (--ca) or do without checking (--insecure)"
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
        return Err(file(what, path, &"it holds none; it must be PEM"));
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ClientError> {
    let what = "a private key";
    PrivateKeyDer::from_pem_slice(&bounded(what, path)?).map_err(|error| file(what, path, &error))
}

/// Bytes of a file of certificates: the bundle of a whole system has a quarter of it.
const LONGEST_FILE: u64 = 1 << 20;

/// A file that may be a device that never ends.
fn bounded(what: &'static str, path: &Path) -> Result<Vec<u8>, ClientError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|opened| opened.take(LONGEST_FILE + 1).read_to_end(&mut bytes))
        .map_err(|error| file(what, path, &error))?;
    if bytes.len() as u64 > LONGEST_FILE {
        let wrong = format!("it has more than {} KiB", LONGEST_FILE / 1024);
        return Err(file(what, path, &wrong));
    }
    Ok(bytes)
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
mod tests {
    use super::*;

    #[test]
    fn a_file_that_never_ends_holds_no_certificate_and_no_key() {
        let endless = Path::new("/dev/zero");
        let said = [
            certificates(endless).unwrap_err().to_string(),
            private_key(endless).unwrap_err().to_string(),
        ];
        for said in said {
            assert!(said.contains("more than 1024 KiB"), "{said}");
        }
    }
}
