use super::*;

fn page(at: i64, values: &[(&str, f64)], unknown: &[(&str, &str)]) -> Reading {
    Reading {
        from: Stamp::new(at),
        to: Stamp::new(at),
        source: ReadingSource::ServerMetrics,
        instance: "http://h".to_owned(),
        values: values.iter().map(|&(n, v)| (n.to_owned(), v)).collect(),
        unknown: unknown
            .iter()
            .map(|&(n, w)| (n.to_owned(), w.to_owned()))
            .collect(),
    }
}

fn window(from: i64, to: i64) -> [Window; 1] {
    [Window {
        from: Stamp::new(from),
        to: Stamp::new(to),
    }]
}

#[test]
fn a_page_is_unknown_in_the_windows_in_which_it_failed_and_not_in_those_after() {
    let mut history = History::default();
    let failed = ("scrape_failures_total", 1.0);
    history.push(&page(
        0,
        &[("scrape_failures_total", 0.0), ("page_bytes", 9.0)],
        &[],
    ));
    history.push(&page(10, &[failed], &[("page", "no answer")]));
    for at in [20, 30, 40] {
        history.push(&page(at, &[failed, ("page_bytes", 9.0)], &[]));
    }
    let said = |from, to| history.unknown_in(&window(from, to));
    assert_eq!(said(0, 15)["server_metrics/http://h/page"], "no answer");
    assert!(said(0, 5).is_empty(), "not known yet");
    assert!(said(20, 40).is_empty(), "all is well again");
}

#[test]
fn the_reason_is_the_one_that_held_then() {
    let mut history = History::default();
    history.push(&page(10, &[], &[("page", "no answer")]));
    history.push(&page(30, &[], &[("page", "refused")]));
    let said = |to| history.unknown_in(&window(0, to)).into_values().next();
    assert_eq!(said(20).as_deref(), Some("no answer"));
    assert_eq!(said(40).as_deref(), Some("refused"));
    assert_eq!(history.unknown_in(&[]), BTreeMap::new());
}
