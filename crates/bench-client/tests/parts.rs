//! Timers and URLs.

use bench_client::{Clock, Endpoint, Timer};
use bench_schema::Nanos;

#[tokio::test]
async fn a_wait_is_never_over_before_its_due_time() {
    let clock = Clock::start();
    for spin in [0, 200_000] {
        let mut timer = Timer::new(clock.clone(), Nanos::new(spin)).unwrap();
        for ahead in [50_000, 300_000, 2_000_000] {
            let due = clock.now() + Nanos::new(ahead);
            let woke = timer.wait_until(due).await;
            assert!(woke >= due && clock.now() >= woke);
        }
    }
}

#[tokio::test]
async fn a_due_time_in_the_past_does_not_wait_for_the_runtime() {
    use std::future::Future;
    use std::task::{Context, Waker};
    let clock = Clock::start();
    let mut timer = Timer::new(clock.clone(), Nanos::ZERO).unwrap();
    let due = clock.now() - Nanos::from_secs(1);
    let mut wait = std::pin::pin!(timer.wait_until(due));
    assert!(
        wait.as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    );
}

#[tokio::test]
async fn a_wait_that_was_given_up_does_not_shorten_the_next() {
    let clock = Clock::start();
    let mut timer = Timer::new(clock.clone(), Nanos::ZERO).unwrap();
    let first = clock.now() + Nanos::from_millis(1);
    {
        use std::future::Future;
        use std::task::{Context, Waker};
        let mut wait = std::pin::pin!(timer.wait_until(first));
        assert!(
            wait.as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
    }
    let mut other = Timer::new(clock.clone(), Nanos::ZERO).unwrap();
    other.wait_until(first + Nanos::from_millis(2)).await;
    let due = clock.now() + Nanos::from_millis(5);
    assert!(timer.wait_until(due).await >= due);
}

#[test]
fn urls_are_understood_with_their_defaults() {
    let shown = |url: &str| Endpoint::parse(url).unwrap().to_string();
    assert_eq!(shown("http://10.0.0.1"), "http://10.0.0.1:80");
    assert_eq!(shown("HTTPS://host/v1/"), "https://host:443/v1");
    assert_eq!(shown("http://[::1]:8000/a"), "http://[::1]:8000/a");
    assert_eq!(shown("unix:///run/x.sock"), "unix:///run/x.sock");
    assert_eq!(
        shown("http+unix://%2Frun%2Fx.sock/v1"),
        "unix:///run/x.sock/v1"
    );
}

#[test]
fn a_v1_given_with_the_base_url_is_not_doubled() {
    for url in [
        "http://h:1",
        "http://h:1/",
        "http://h:1/v1",
        "http://h:1/v1/",
    ] {
        let endpoint = Endpoint::parse(url).unwrap();
        assert_eq!(
            endpoint.path("/v1/chat/completions"),
            "/v1/chat/completions"
        );
        assert_eq!(endpoint.root_path("/metrics"), "/metrics");
    }
    let behind = Endpoint::parse("http://h:1/team/v1").unwrap();
    assert_eq!(behind.path("/v1/models"), "/team/v1/models");
    assert_eq!(behind.path("/generate"), "/team/v1/generate");
    assert_eq!(behind.root_path("metrics"), "/team/metrics");
}

#[test]
fn the_host_header_names_a_port_only_where_it_is_not_the_default() {
    let host = |url: &str| Endpoint::parse(url).unwrap().authority();
    assert_eq!(host("http://h"), "h");
    assert_eq!(host("http://h:8000"), "h:8000");
    assert_eq!(host("https://[::1]"), "[::1]");
    assert_eq!(host("unix:///s"), "localhost");
}

#[test]
fn a_url_that_cannot_be_used_says_why_and_never_shows_a_password() {
    for (url, why) in [
        ("localhost:8000", "no scheme"),
        ("ftp://h", "must be http"),
        ("http://", "no host"),
        ("http://h:0", "port"),
        ("http://h:99999", "port"),
        ("http://h/?a=b", "query"),
        ("unix://relative", "absolute path"),
        ("http+unix://relative", "%2F"),
    ] {
        let message = Endpoint::parse(url).unwrap_err().to_string();
        assert!(message.contains(why), "{url}: {message}");
    }
    let message = Endpoint::parse("http://me:hunter2@h")
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("credentials") && !message.contains("hunter2"),
        "{message}"
    );
}

#[test]
fn a_page_keeps_its_path_and_query() {
    let (endpoint, path) = Endpoint::parse_page("http://h:9090/api/v1/query?q=up%3A1").unwrap();
    assert_eq!(
        (endpoint.to_string(), path),
        ("http://h:9090".into(), "/api/v1/query?q=up%3A1".into())
    );
    assert_eq!(Endpoint::parse_page("http://h").unwrap().1, "/");
}

#[test]
fn an_address_is_told_and_a_name_is_not_looked_up() {
    let address = |url: &str| Endpoint::parse(url).unwrap().address();
    assert_eq!(address("http://[::1]:8000/v1"), "::1".parse().ok());
    assert_eq!(address("http://10.0.0.1"), "10.0.0.1".parse().ok());
    assert_eq!(address("http://localhost:8000"), None);
    assert_eq!(address("unix:///s"), None);
}

#[test]
fn only_addresses_of_this_machine_are_loopback() {
    let local = |url: &str| Endpoint::parse(url).unwrap().is_loopback();
    assert!(local("http://127.0.0.1:1") && local("http://localhost") && local("unix:///s"));
    assert!(!local("http://10.0.0.1") && !local("http://127.0.0.1.example.org"));
}
