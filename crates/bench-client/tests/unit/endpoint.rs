//! Servers, proxies, and what is told of neither.

use super::*;

#[test]
fn a_server_is_its_host_and_port_and_whether_it_speaks_tls() {
    let of = |url: &str| Endpoint::parse(url).unwrap();
    assert!(of("http://h:9090/v1").same_server(&of("http://h:9090")));
    assert!(!of("http://h:9090/v1").same_server(&of("https://h:9090")));
}

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
