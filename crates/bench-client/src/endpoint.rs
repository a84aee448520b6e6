//! One URL of a target, and the proxy on the way to it.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use bench_schema::Secret;
use ipnet::IpNet;

use crate::ClientError;

/// Where a server listens: `http://host:port/prefix`, `https://…`, `unix:///path/to.sock` or `http+unix://%2Fpath%2Fto.sock/prefix`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    host: Host,
    secure: bool,
    /// Path prefix without a trailing slash; empty or beginning with one.
    prefix: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Host {
    Tcp { name: String, port: u16 },
    Unix(PathBuf),
}

impl Endpoint {
    /// Understand a URL.
    ///
    /// # Errors
    /// [`ClientError::Url`] with what is wrong: another scheme, no host, a port that is none, credentials (they belong in a
    /// header), a query.
    pub fn parse(url: &str) -> Result<Self, ClientError> {
        let refuse = |problem: &str| ClientError::Url {
            url: without_credentials(url),
            problem: problem.to_owned(),
        };
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| refuse("it has no scheme; write http://, https:// or unix://"))?;
        if rest.contains(['?', '#']) {
            return Err(refuse("a base URL must not have a query or fragment"));
        }
        match scheme.to_ascii_lowercase().as_str() {
            "unix" if rest.starts_with('/') => Ok(Self::unix(PathBuf::from(rest), "")),
            "unix" => Err(refuse(
                "write unix:// followed by an absolute path: unix:///run/server.sock",
            )),
            "http+unix" => {
                let (path, prefix) = split_path(rest);
                let path = percent_decode(path)
                    .filter(|path| path.starts_with('/'))
                    .ok_or_else(|| refuse("write the socket's path with %2F for each slash"))?;
                Ok(Self::unix(PathBuf::from(path), prefix))
            }
            "http" => Self::tcp(rest, false).map_err(refuse),
            "https" => Self::tcp(rest, true).map_err(refuse),
            _ => Err(refuse("the scheme must be http, https, unix or http+unix")),
        }
    }

    /// The URL of a page rather than of an API: its server, and its path with the query.
    ///
    /// # Errors
    /// [`ClientError::Url`], as [`Endpoint::parse`].
    pub fn parse_page(url: &str) -> Result<(Self, String), ClientError> {
        let (base, query) = match url.split_once('?') {
            Some((base, query)) => (base, Some(query)),
            None => (url, None),
        };
        let mut endpoint = Self::parse(base)?;
        let mut path = std::mem::take(&mut endpoint.prefix);
        if path.is_empty() {
            path.push('/');
        }
        if let Some(query) = query {
            path.push('?');
            path.push_str(query);
        }
        Ok((endpoint, path))
    }

    /// Whether both are the same host and port, spoken to in the same way.
    pub(crate) fn same_server(&self, other: &Self) -> bool {
        self.host == other.host && self.secure == other.secure
    }

    fn unix(path: PathBuf, prefix: &str) -> Self {
        Self {
            host: Host::Unix(path),
            secure: false,
            prefix: prefix.trim_end_matches('/').to_owned(),
        }
    }

    fn tcp(rest: &str, secure: bool) -> Result<Self, &'static str> {
        let (authority, prefix) = split_path(rest);
        if authority.contains('@') {
            return Err("credentials in a URL are not supported; use --header or an API key");
        }
        let (name, port) = if let Some(v6) = authority.strip_prefix('[') {
            let (name, after) = v6
                .split_once(']')
                .ok_or("an IPv6 address must end with ]")?;
            (
                name,
                after.strip_prefix(':').filter(|port| !port.is_empty()),
            )
        } else {
            match authority.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (authority, None),
            }
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err("it has no host");
        }
        let port = match port {
            None => {
                if secure {
                    443
                } else {
                    80
                }
            }
            Some(port) => port
                .parse()
                .ok()
                .filter(|&port| port != 0)
                .ok_or("the port must be a number from 1 to 65535")?,
        };
        if !prefix.is_ascii() || prefix.contains(char::is_whitespace) {
            return Err("the path must be percent-encoded");
        }
        Ok(Self {
            host: Host::Tcp {
                name: name.to_owned(),
                port,
            },
            secure,
            prefix: prefix.trim_end_matches('/').to_owned(),
        })
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Whether TLS is spoken.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// The path of a request: the prefix and `path`. A `/v1` that both have is there once, because base URLs are given both ways.
    pub fn path(&self, path: &str) -> String {
        if path.starts_with("/v1/") {
            return self.root_path(path);
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        format!("{}{slash}{path}", self.prefix)
    }

    /// The same server's path outside the API: `/metrics`, `/health`, `/version`. A `/v1` at the prefix's end does not belong to it.
    pub fn root_path(&self, path: &str) -> String {
        let prefix = self.prefix.strip_suffix("/v1").unwrap_or(&self.prefix);
        let slash = if path.starts_with('/') { "" } else { "/" };
        format!("{prefix}{slash}{path}")
    }

    /// The value of the `host` header.
    pub fn authority(&self) -> String {
        match &self.host {
            Host::Tcp { name, port } => {
                let default = if self.secure { 443 } else { 80 };
                let name = bracketed(name);
                if *port == default {
                    name
                } else {
                    format!("{name}:{port}")
                }
            }
            Host::Unix(_) => "localhost".to_owned(),
        }
    }

    /// The socket's path, where this is a Unix socket.
    pub fn socket_path(&self) -> Option<&Path> {
        match &self.host {
            Host::Unix(path) => Some(path),
            Host::Tcp { .. } => None,
        }
    }

    /// The TCP port of a server on this machine: its process can be found by it.
    pub fn loopback_port(&self) -> Option<u16> {
        match &self.host {
            Host::Tcp { port, .. } if self.is_loopback() => Some(*port),
            _ => None,
        }
    }

    /// The host's address, where the URL names one; a name is not looked up.
    pub fn address(&self) -> Option<IpAddr> {
        match &self.host {
            Host::Unix(_) => None,
            Host::Tcp { name, .. } => name.parse().ok(),
        }
    }

    /// Whether the server is on this machine, by its address.
    pub fn is_loopback(&self) -> bool {
        match &self.host {
            Host::Unix(_) => true,
            Host::Tcp { name, .. } => {
                name.eq_ignore_ascii_case("localhost")
                    || self.address().is_some_and(|address| address.is_loopback())
            }
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Tcp { name, port } => {
                let scheme = if self.secure { "https" } else { "http" };
                write!(f, "{scheme}://{}:{port}{}", bracketed(name), self.prefix)
            }
            Host::Unix(path) => write!(f, "unix://{}{}", path.display(), self.prefix),
        }
    }
}

/// A name as it stands in a URL.
pub(crate) fn bracketed(name: &str) -> String {
    if name.contains(':') {
        format!("[{name}]")
    } else {
        name.to_owned()
    }
}

fn split_path(rest: &str) -> (&str, &str) {
    rest.split_at(rest.find('/').unwrap_or(rest.len()))
}

/// A text without its percent-encoding; absent where that is no UTF-8.
pub(crate) fn percent_decode(text: &str) -> Option<String> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    decoded.ok().map(Cow::into_owned)
}

/// For messages: whatever stands before an `@` in the authority is not shown.
fn without_credentials(url: &str) -> String {
    match (url.split_once("://"), url.rfind('@')) {
        (Some((scheme, _)), Some(at)) => format!("{scheme}://***{}", url.get(at..).unwrap_or("")),
        _ => url.to_owned(),
    }
}

// Which proxy to go through, and who one is there.

/// An HTTP proxy: asked for a tunnel to a TLS server, given the whole URL for a plain one.
#[derive(Clone, Debug)]
pub struct Proxy {
    endpoint: Endpoint,
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
    if let Ok(network) = rule.parse::<IpNet>() {
        return name
            .parse()
            .is_ok_and(|address: IpAddr| network.contains(&address));
    }
    let (rule, name) = (rule.to_ascii_lowercase(), name.to_ascii_lowercase());
    let suffix = rule.trim_start_matches("*.").trim_start_matches('.');
    name == suffix
        || name
            .strip_suffix(suffix)
            .is_some_and(|before| before.ends_with('.'))
}

#[cfg(test)]
#[path = "../tests/unit/endpoint.rs"]
mod tests;
