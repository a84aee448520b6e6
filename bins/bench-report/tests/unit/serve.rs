//! Tests of `src/serve.rs`.

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
