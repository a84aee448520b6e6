//! What to measure.

use bench_client::{Endpoint, Proxy};
use bench_schema::Secret;

use super::{Surroundings, path, variable};
use crate::config::parse;
use crate::config::reader::Reader;
use crate::config::settings::{Connections, TargetSettings};

pub(super) fn target(r: &mut Reader, around: &dyn Surroundings) -> Option<TargetSettings> {
    let api_key = api_key(r, around);
    let headers = r.list("header", |text| {
        bench_client::Target::parse_header(text).map_err(|error| error.to_string())
    });
    let connections = r.one("connections", |text| match text {
        "reuse" => Ok(Connections::Reuse),
        "per-request" => Ok(Connections::PerRequest),
        "prewarm" => Ok(Connections::Prewarm),
        other => Err(format!(
            "must be reuse, per-request or prewarm (got `{other}`)"
        )),
    });
    let urls = r.list("url", |text| {
        Endpoint::parse(text)
            .map(|_| text.trim_end_matches('/').to_owned())
            .map_err(|error| error.to_string())
    });
    let proxy = r.switch("proxy").then(|| proxy(r, around, &urls)).flatten();
    Some(TargetSettings {
        urls,
        api: r.one("api", |text| {
            bench_client::protocol_by_name(text)
                .map(|_| text.to_owned())
                .map_err(|error| error.to_string())
        })?,
        model: r.text("model"),
        stream: r.switch("stream"),
        continuous_usage: r.switch("continuous_usage"),
        headers,
        api_key,
        ca: r.one("ca", path),
        client_cert: r.one("client_cert", path),
        client_key: r.one("client_key", path),
        insecure: r.switch("insecure"),
        http2: r.switch("http2"),
        connections: connections?,
        proxy,
        wait: r.one("wait", parse::duration)?,
    })
}

/// The one proxy for all URLs.
fn proxy(r: &mut Reader, around: &dyn Surroundings, urls: &[String]) -> Option<Proxy> {
    let for_url = |url: &String| {
        let server = Endpoint::parse(url)?;
        Proxy::from_variables(|name| around.variable(name), &server)
    };
    let found: Result<Vec<Option<Proxy>>, _> = urls.iter().map(for_url).collect();
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            r.complain("proxy", error.to_string(), None);
            return None;
        }
    };
    let first = found.first().cloned().flatten();
    let name = |proxy: &Option<Proxy>| proxy.as_ref().map(|proxy| proxy.endpoint().to_string());
    if found.iter().any(|other| name(other) != name(&first)) {
        let help = "measure them one by one, or change http_proxy, https_proxy or no_proxy";
        r.complain(
            "proxy",
            "the environment names different proxies for these URLs",
            Some(help.to_owned()),
        );
    } else if first.is_none() {
        let help = "set http_proxy or https_proxy, look at no_proxy, or take `proxy` out";
        r.complain(
            "proxy",
            "the environment names no proxy for the server",
            Some(help.to_owned()),
        );
    }
    first
}

fn api_key(r: &mut Reader, around: &dyn Surroundings) -> Option<Secret> {
    if r.given("api_key_env") && r.given("api_key_file") {
        r.complain(
            "api_key_file",
            "the key comes from a variable or from a file, not from both",
            Some("take one of the two out".into()),
        );
    }
    let from_variable = variable(r, "api_key_env", around);
    let from_file = r.one("api_key_file", |file| {
        around.read(std::path::Path::new(file))
    });
    from_variable
        .or(from_file)
        .map(|key| Secret::new(key.trim()))
}
