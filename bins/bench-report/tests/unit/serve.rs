//! Tests of `src/serve.rs`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream as Client;

use proptest::prelude::*;

use super::*;

fn runs() -> BTreeMap<String, PathBuf> {
    let runs = ["a", "b~2f", "..."].map(|key| (key.to_owned(), Path::new("results").join(key)));
    BTreeMap::from(runs)
}

#[test]
fn the_pages_of_the_list_are_found() {
    let runs = runs();
    let path = |key: &str| runs[key].as_path();
    for (asks, is) in [
        ("/", Asked::List),
        ("/index.html", Asked::List),
        ("/runs/a.html", Asked::Report(path("a"))),
        ("/runs/....html", Asked::Report(path("..."))),
        (
            "/compare/a/b~2f.html",
            Asked::Comparison(path("a"), path("b~2f")),
        ),
    ] {
        assert_eq!(asked(asks, &runs), Some(is), "{asks}");
    }
    for asks in [
        "",
        "/runs/a",
        "/runs/c.html",
        "/compare/a.html",
        "/runs/../a.html",
    ] {
        assert_eq!(asked(asks, &runs), None, "{asks}");
    }
}

#[test]
fn those_who_ask_half_a_request_hold_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let own = listener.local_addr().unwrap();
        // half a request never runs into the limit on silence, so that nothing but room lets another one in
        let forever = Duration::from_hours(1);
        let client = tokio::task::spawn_blocking(move || {
            let half = || {
                let mut client = Client::connect(own).unwrap();
                client.write_all(b"GET / HTTP/1.1\r\nHost: 127").unwrap();
                client
            };
            let halves: Vec<Client> = (0..CONNECTIONS + 20).map(|_| half()).collect();
            let mut client = Client::connect(own).unwrap();
            let limit = Some(Duration::from_mins(1));
            client.set_read_timeout(limit).unwrap();
            client
                .write_all(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                .unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            drop(halves);
            answer
        });
        tokio::select! {
            answer = client => assert!(answer.unwrap().starts_with("HTTP/1.1 ")),
            done = serve(listener, own, folder.path(), forever) => panic!("{}", done.is_ok()),
        }
    });
}

proptest! {
    #[test]
    fn no_path_leads_to_anything_but_a_run_of_the_list(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "/", "..", ".", "%2e", "%2f", "~2f", "a", "b~2f", "...", "runs", "compare", "/runs/", "/compare/", ".html", "run.json", "\\", "//", "etc/passwd", "\0", "é",
            ]),
            0..10,
        )
    ) {
        let runs = runs();
        let listed = |path: &Path| runs.values().any(|run| run == path);
        let path = parts.concat();
        match asked(&path, &runs) {
            None => {}
            Some(Asked::List) => prop_assert!(path == "/" || path == "/index.html"),
            Some(Asked::Trends) => prop_assert_eq!(path, "/trend.html"),
            Some(Asked::Report(run)) => prop_assert!(listed(run)),
            Some(Asked::Comparison(base, new)) => prop_assert!(listed(base) && listed(new)),
        }
    }
}
