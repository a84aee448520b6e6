//! Which proxy to go through, and who one is there.

use std::net::IpAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use bench_schema::{FailureKind, Secret, Stage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::endpoint::{Host, percent_decode};
use crate::fault::Fault;
use crate::socket::Socket;
use crate::{ClientError, Endpoint};

/// An HTTP proxy: asked for a tunnel to a TLS server, given the whole URL for a plain one.
#[derive(Clone, Debug)]
pub struct Proxy {
    endpoint: Endpoint,
    /// The value of `proxy-authorization`.
    authorization: Option<Secret>,
}

impl Proxy {
    /// From `http://[USER:PASSWORD@]HOST:PORT`, user and password percent-encoded where they hold `@`, `:` or `/`. They go to the proxy as
    /// Basic authentication, and nowhere else: not into messages, results or requests to the server.
    ///
    /// # Errors
    /// [`ClientError::Url`] where it is no URL of a proxy that can be used; the message does not show user or password.
    pub fn parse(url: &str) -> Result<Self, ClientError> {
        let with_scheme = if url.contains("://") {
            url.to_owned()
        } else {
            format!("http://{url}")
        };
        let (scheme, rest) = with_scheme
            .split_once("://")
            .unwrap_or(("http", with_scheme.as_str()));
        let authority = rest.find('/').map_or(rest, |end| rest.split_at(end).0);
        let Some((user, host)) = authority.rsplit_once('@') else {
            return Ok(Self::from(Endpoint::parse(&with_scheme)?));
        };
        let bare = format!("{scheme}://{host}");
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        let decoded = percent_decode(name).zip(percent_decode(password));
        let (name, password) = decoded.ok_or_else(|| ClientError::Url {
            url: bare.clone(),
            problem: "user and password must be percent-encoded".to_owned(),
        })?;
        let value = format!("Basic {}", BASE64.encode(format!("{name}:{password}")));
        Ok(Self {
            endpoint: Endpoint::parse(&bare)?,
            authorization: Some(Secret::new(value)),
        })
    }

    /// The proxy that these variables name for a server: `http_proxy` for plain servers, `https_proxy` for TLS, else `all_proxy`, in small
    /// letters or capitals; none for Unix sockets and for what `no_proxy` lists (names with all below them, addresses, `10.0.0.0/8`, any of
    /// them with a port, or `*`).
    ///
    /// # Errors
    /// [`ClientError::Url`] where the variable holds no URL that can be used.
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
        server: &Endpoint,
    ) -> Result<Option<Self>, ClientError> {
        let Host::Tcp { name, port } = server.host() else {
            return Ok(None);
        };
        let either = |small: &str| {
            variable(small)
                .or_else(|| variable(&small.to_ascii_uppercase()))
                .filter(|text| !text.trim().is_empty())
        };
        let excluded = either("no_proxy").is_some_and(|list| {
            list.split(',')
                .any(|rule| excludes(rule.trim(), name, *port))
        });
        if excluded {
            return Ok(None);
        }
        let own = if server.is_secure() {
            "https_proxy"
        } else {
            "http_proxy"
        };
        either(own)
            .or_else(|| either("all_proxy"))
            .map(|url| Self::parse(url.trim()))
            .transpose()
    }

    /// Where it listens.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The value of `proxy-authorization`, where it wants one.
    pub fn authorization(&self) -> Option<&Secret> {
        self.authorization.as_ref()
    }

    /// Whether it reads requests to this server itself, instead of passing bytes through a tunnel.
    pub(crate) fn reads_requests_to(server: &Endpoint) -> bool {
        !server.is_secure() && server.socket_path().is_none()
    }
}

impl From<Endpoint> for Proxy {
    fn from(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            authorization: None,
        }
    }
}

/// Whether one entry of `no_proxy` means this server.
fn excludes(rule: &str, name: &str, port: u16) -> bool {
    if rule == "*" {
        return true;
    }
    let rule = match rule.rsplit_once(':') {
        Some((host, of)) if !host.contains(':') && of.parse::<u16>().is_ok() => {
            if of.parse() != Ok(port) {
                return false;
            }
            host
        }
        _ => rule,
    };
    if rule.is_empty() {
        return false;
    }
    if let Some((network, bits)) = rule.split_once('/') {
        return within(name, network, bits).unwrap_or(false);
    }
    let (rule, name) = (rule.to_ascii_lowercase(), name.to_ascii_lowercase());
    let suffix = rule.trim_start_matches("*.").trim_start_matches('.');
    name == suffix
        || name
            .strip_suffix(suffix)
            .is_some_and(|before| before.ends_with('.'))
}

/// Whether an address lies in a network; `None` where one of them is none.
fn within(name: &str, network: &str, bits: &str) -> Option<bool> {
    let (address, network): (IpAddr, IpAddr) = (name.parse().ok()?, network.parse().ok()?);
    let bits: u32 = bits.parse().ok()?;
    let (a, n, width) = match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(n)) => (u128::from(a.to_bits()), u128::from(n.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(n)) => (a.to_bits(), n.to_bits(), 128),
        _ => return Some(false),
    };
    let shift = 128_u32.checked_sub(width)?;
    let host_bits = u32::checked_sub(width, bits)?;
    let cut = |x: u128| (x << shift).checked_shr(shift + host_bits).unwrap_or(0);
    Some(cut(a) == cut(n))
}

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
    let name = if name.contains(':') {
        format!("[{name}]")
    } else {
        name.clone()
    };
    let who = proxy.authorization().map_or_else(String::new, |value| {
        format!("Proxy-Authorization: {}\r\n", value.expose())
    });
    let request = format!("CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n{who}\r\n");
    let proxy = &proxy.endpoint().to_string();
    let broken = |error: std::io::Error| Fault::io(Stage::Connect, &error, proxy);
    socket.write_all(request.as_bytes()).await.map_err(broken)?;
    let mut head = Vec::with_capacity(256);
    while !head.ends_with(b"\r\n\r\n") {
        // A byte at a time, so that nothing of the server's own bytes is taken. Once a connection.
        head.push(socket.read_u8().await.map_err(broken)?);
        if head.len() > LONGEST_HEAD {
            return Err(refused(proxy, "a head without an end"));
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
        format!("the proxy {proxy} opened no tunnel: {answer}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_password_become_basic_authentication_and_are_never_shown() {
        let proxy = Proxy::parse("http://Aladdin:open%20sesame@h:3128/").unwrap();
        assert_eq!(proxy.endpoint().to_string(), "http://h:3128");
        assert_eq!(
            proxy.authorization().unwrap().expose(),
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
        );
        let shown = format!("{proxy:?}");
        assert!(
            !shown.contains("sesame") && !shown.contains("QWxh"),
            "{shown}"
        );
        let wrong = Proxy::parse("ftp://me:hunter2@h").unwrap_err().to_string();
        assert!(!wrong.contains("hunter2"), "{wrong}");
        assert!(Proxy::parse("h:8080").unwrap().authorization().is_none());
    }

    #[test]
    fn the_variables_are_read_as_other_programs_read_them() {
        let named = |server: &str, variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let server = Endpoint::parse(server).unwrap();
            Proxy::from_variables(variable, &server)
                .unwrap()
                .map(|proxy| proxy.endpoint().to_string())
        };
        let both = [("http_proxy", "p:1"), ("HTTPS_PROXY", "http://s:2")];
        assert_eq!(named("http://h", &both).unwrap(), "http://p:1");
        assert_eq!(named("https://h", &both).unwrap(), "http://s:2");
        assert_eq!(named("unix:///run/x", &both), None);
        assert_eq!(named("https://h", &both[..1]), None);
        assert_eq!(
            named("https://h", &[("ALL_PROXY", "a:3")]).unwrap(),
            "http://a:3"
        );
        let except = |list| [("http_proxy", "p:1"), ("no_proxy", list)];
        for (server, list, excluded) in [
            ("http://gpu.example.org", "example.org", true),
            ("http://gpu.example.org", ".example.org", true),
            ("http://badexample.org", "example.org", false),
            ("http://h:8000", "h:8000, other", true),
            ("http://h:8000", "h:9000", false),
            ("http://10.1.2.3", "10.0.0.0/8", true),
            ("http://11.1.2.3", "10.0.0.0/8", false),
            ("http://[::1]", "::1", true),
            ("http://[fd00::5]", "fd00::/8", true),
            ("http://10.1.2.3", "0.0.0.0/0", true),
            ("http://anything", "*", true),
            ("http://h", "", false),
        ] {
            assert_eq!(
                named(server, &except(list)).is_none(),
                excluded,
                "{server} {list}"
            );
        }
    }
}
