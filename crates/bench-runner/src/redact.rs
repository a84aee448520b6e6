//! Taking secrets out of texts that will be stored or shown.

/// A URL without its user and password, and without query values (keys hide there too).
pub(crate) fn url(text: &str) -> String {
    let (scheme, rest) = text
        .split_once("://")
        .map_or(("", text), |(scheme, rest)| (scheme, rest));
    let (authority, tail) = match rest.find(['/', '?', '#']) {
        Some(end) => rest.split_at(end),
        None => (rest, ""),
    };
    let host = match authority.rsplit_once('@') {
        Some((_, host)) => format!("***@{host}"),
        None => authority.to_owned(),
    };
    let tail = tail
        .split_once('?')
        .map_or_else(|| tail.to_owned(), |(path, _)| format!("{path}?***"));
    if scheme.is_empty() {
        format!("{host}{tail}")
    } else {
        format!("{scheme}://{host}{tail}")
    }
}

#[cfg(test)]
mod tests {
    use super::url;

    #[test]
    fn credentials_and_queries_are_hidden() {
        assert_eq!(
            url("https://me:pw@host:8/v1?key=abc"),
            "https://***@host:8/v1?***"
        );
        assert_eq!(url("http://127.0.0.1:8000"), "http://127.0.0.1:8000");
        assert_eq!(url("unix:///run/server.sock"), "unix:///run/server.sock");
    }
}
