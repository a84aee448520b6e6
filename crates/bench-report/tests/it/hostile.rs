//! Names and messages of strangers are harmless wherever they are shown.

use bench_report::{RunFiles, html, markdown, terminal};
use bench_schema::{
    Action, Advice, Cause, Code, Evidence, Factor, Finding, Known, RuledOut, RunRecord, Trust,
    TrustReason, TrustVerdict, Unit,
};
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use crate::support::{requests, runs};

const NASTY: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>`|[a](http://evil.example)\u{1b}[31m\u{202e}#*#*#*#alert(3)#*#*#*#\"'&${7*7}{{b}}";

/// A run in which every text that comes from outside is `text`.
pub(crate) fn run_with(text: &str) -> RunRecord {
    let mut run = runs::seqlen();
    run.title = text.into();
    run.server.model = Some(text.into());
    run.server.urls = vec![text.into()];
    run.server.kind = Some(text.into());
    run.host.name = Some(text.into());
    run.host.unknown.insert(text.into(), text.into());
    run.tags.insert(text.into(), text.into());
    run.config = serde_json::json!({ text: text });
    run.complete = false;
    run.incomplete_reason = Some(text.into());
    let mut second = run.cells[0].clone();
    second.id = text.into();
    run.cells.push(second);
    for cell in &mut run.cells {
        cell.label = text.into();
        cell.factors
            .insert("prompt".into(), Factor::Name(text.into()));
        cell.plan.dataset = text.into();
        cell.counts.failed = 1;
        cell.counts.planned += 1;
        cell.counts.messages = vec![(text.into(), 1)];
        for group in &mut cell.groups {
            group.name = text.into();
        }
    }
    run.trust = Trust::from_reasons(vec![TrustReason {
        cell: Some(text.into()),
        also_in: vec![text.into()],
        ..TrustReason::new(text, TrustVerdict::Doubtful, text)
    }]);
    let hostile = Evidence {
        cell: Some(text.into()),
        of: Some(text.into()),
        ..Evidence::new(text.into(), 1.0, Unit::Count)
    };
    let mut found = Finding::new(Code::Other(text.into()), 1.0);
    found.message = Some(text.into());
    found.evidence = vec![hostile.clone()];
    found.ruled_out = vec![RuledOut {
        cause: Cause::Overload,
        by: hostile.clone(),
    }];
    found.advice = vec![Advice {
        action: Action::RunMoreAtOnce,
        parameter: Some(text.into()),
    }];
    found.cells = vec![text.into()];
    run.findings.push(found);
    // Its words are ours, but the endpoint's name is not.
    let mut replica = Finding::new(Cause::SlowReplica, 1.0);
    replica.evidence = vec![Evidence {
        figure: Known::ReplicaRatio.into(),
        ..hostile
    }];
    run.findings.push(replica);
    run
}

/// A page full of hostile texts.
pub(crate) fn page() -> String {
    let run = run_with(NASTY);
    let dir = requests::directory(&run);
    html::render(&run, &RunFiles::in_dir(dir.path())).unwrap()
}

/// The page without its own scripts and styles: what the run's texts could have got into.
fn without_scripts(page: &str) -> String {
    let mut rest = page;
    let mut out = String::new();
    while let Some(at) = rest.find("<script>") {
        out.push_str(&rest[..at]);
        rest = &rest[at..][rest[at..].find("</script>").unwrap() + 9..];
    }
    out + rest
}

pub(crate) fn is_harmless_html(page: &str, own_scripts: usize) {
    assert_eq!(page.matches("<script>").count(), own_scripts);
    assert_eq!(
        page.matches("</script>").count(),
        own_scripts + page.matches("<script type=\"application/json\">").count()
    );
    let body = without_scripts(page);
    for tag in [
        "<img",
        "<iframe",
        "<link",
        "<object",
        "<form",
        "onerror=\"",
        "url(",
        "@import",
        "\u{202e}",
        "\u{1b}",
    ] {
        assert!(!body.contains(tag), "{tag} in the page");
    }
    for (at, _) in body.match_indices("href=\"") {
        assert!(
            body[at + 6..].starts_with('#'),
            "a link that leaves the page: {}",
            &body[at..at + 40]
        );
    }
    for json in body.split("<script type=\"application/json\">").skip(1) {
        let json = json.split("</script>").next().unwrap();
        serde_json::from_str::<serde_json::Value>(json).expect("each chart is one JSON value");
    }
}

#[test]
fn hostile_names_stay_text_in_the_page() {
    is_harmless_html(&page(), 3);
}

#[test]
fn hostile_names_stay_text_in_markdown_and_on_the_terminal() {
    let run = run_with(NASTY);
    let text = markdown::render(&run, &[]).replace("\\]", "");
    for markup in ["<script", "<img", "](http", "\u{1b}", "\u{202e}", "http://"] {
        assert!(!text.contains(markup), "{markup} in the Markdown");
    }
    let shown = terminal::render(&run, None);
    assert!(
        shown.chars().all(|c| c == '\n' || !c.is_control()),
        "a control character reached the terminal"
    );
    assert!(!shown.contains('\u{202e}'));
}

#[test]
fn a_name_of_ten_kilobytes_makes_no_report_large() {
    let run = run_with(&"x".repeat(10_000));
    assert!(
        terminal::render(&run, None)
            .lines()
            .all(|line| line.width() <= 100)
    );
    assert!(markdown::render(&run, &[]).len() < 100_000);
    assert!(html::render(&run, &RunFiles::default()).unwrap().len() < 1_500_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_text_breaks_a_report_or_comes_through_unescaped(text in "\\PC{0,40}|[<>&\"'`|\\\\\\[\\]#*_@$:/.\\n\\t\u{1b}\u{202e}a-z]{0,60}") {
        let run = run_with(&text);
        is_harmless_html(&html::render(&run, &RunFiles::default()).unwrap(), 3);
        let shown = terminal::render(&run, None);
        prop_assert!(shown.lines().all(|line| line.width() <= 100));
        prop_assert!(shown.chars().all(|c| c == '\n' || !c.is_control()));
        let marked = markdown::render(&run, &[]);
        prop_assert!(!marked.replace("<details><summary>", "").replace("</summary>", "").replace("</details>", "").contains('<'));
    }

    #[test]
    fn no_number_makes_a_report_panic(value in prop_oneof![Just(0.0), Just(-1.0), Just(f64::NAN), Just(f64::INFINITY), Just(f64::MIN_POSITIVE), Just(f64::MAX), any::<f64>()]) {
        let mut run = runs::sweep();
        for cell in &mut run.cells {
            for seen in cell.metrics.values_mut() {
                seen.mean = value;
                seen.sd = Some(value);
                seen.cov = Some(value);
                seen.quantiles.iter_mut().for_each(|q| q.value = value);
            }
            if let Some(rates) = &mut cell.windows.whole {
                rates.requests_per_s = Some(value);
                rates.output_tokens_per_s = Some(value);
            }
            cell.analysis.ms_per_token = Some(value);
        }
        run.analysis.scaling.iter_mut().for_each(|row| row.scaling_factor = value);
        html::render(&run, &RunFiles::default()).unwrap();
        markdown::render(&run, &[]);
        terminal::render(&run, None);
    }
}
