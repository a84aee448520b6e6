//! Pages opened in headless Chromium, where there is one: nothing on the console, nothing on the network, every chart drawn,
//! no text on another.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{hostile, html};

fn chromium() -> Option<PathBuf> {
    let names = [
        "chromium-headless-shell",
        "chromium",
        "chromium-browser",
        "google-chrome",
    ];
    let dirs = std::env::split_paths(&std::env::var_os("PATH")?).collect::<Vec<_>>();
    names
        .iter()
        .flat_map(|name| dirs.iter().map(move |dir| dir.join(name)))
        .find(|path| path.is_file())
}

struct Seen {
    dom: String,
    console: Vec<String>,
    requests: Vec<String>,
}

fn open(browser: &Path, page: &str, width: u32) -> Seen {
    let dir = tempfile::tempdir().unwrap();
    let (file, log) = (dir.path().join("page.html"), dir.path().join("net.json"));
    std::fs::write(&file, page).unwrap();
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--dump-dom",
            "--enable-logging=stderr",
        ])
        // The browser's own traffic: switched off as far as it can be, and no name leads anywhere for the rest of it.
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-default-apps",
            "--disable-domain-reliability",
            "--disable-extensions",
            "--disable-sync",
            "--no-pings",
            "--host-resolver-rules=MAP * ~NOTFOUND",
        ])
        .args([
            "--virtual-time-budget=8000",
            &format!("--window-size={width},1200"),
        ])
        .arg(format!(
            "--user-data-dir={}",
            dir.path().join("profile").display()
        ))
        .arg(format!("--log-net-log={}", log.display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let net = std::fs::read_to_string(&log).unwrap_or_default();
    Seen {
        dom: String::from_utf8_lossy(&output.stdout).into_owned(),
        console: stderr
            .lines()
            .filter(|line| line.contains("CONSOLE"))
            .map(str::to_owned)
            .collect(),
        requests: net
            .lines()
            .filter(asked_by_the_page)
            .map(str::to_owned)
            .collect(),
    }
}

/// Does this line of the network log tell of a request of the page's? A full Chromium asks for the time, accounts and updates
/// of its own accord: those have "not an origin" as their initiator, whatever a page asks for has the page's.
fn asked_by_the_page(line: &&str) -> bool {
    let remote = line.contains("\"url\":\"http") || line.contains("\"url\":\"ws");
    remote && line.contains("\"initiator\":\"") && !line.contains("\"initiator\":\"not an origin\"")
}

/// What the page's own policy would not let run: a script that looks for texts on each other, in a copy without the policy.
const OVERLAP: &str = include_str!("overlap.js");

/// The browser, or `None` after saying so. Where `BENCH_REQUIRE_CHROMIUM` is set (CI sets it when it installed one) there
/// must be one.
#[expect(clippy::print_stderr, reason = "a test that was skipped has to say so")]
fn browser() -> Option<PathBuf> {
    let found = chromium();
    if found.is_none() {
        assert!(
            std::env::var_os("BENCH_REQUIRE_CHROMIUM").is_none(),
            "BENCH_REQUIRE_CHROMIUM is set, and there is no Chromium in PATH"
        );
        eprintln!(
            "SKIPPED: no Chromium in PATH; install Debian's chromium-headless-shell or chromium to open the pages"
        );
    }
    found
}

fn all_pages() -> Vec<(&'static str, String)> {
    let mut pages = html::pages();
    pages.push(("hostile", hostile::page()));
    pages.extend(crate::compare::pages());
    pages.push((crate::site::LIST, crate::site::page()));
    pages.push((crate::site::TRENDS, crate::site::trends()));
    pages
}

#[test]
fn a_filter_s_word_is_of_one_cell_of_the_list() {
    let Some(browser) = browser() else { return };
    let shown = |words: &str| {
        let typed = format!(
            "<script>var f = document.getElementById('filter'); f.value = '{words}'; f.dispatchEvent(new Event('input'));</script>"
        );
        // the page allows no script but its own
        let page = crate::site::page().replace("Content-Security-Policy", "x") + &typed;
        let dom = open(&browser, &page, 1280).dom;
        let rest = dom.split_once("id=\"shown\"").unwrap().1;
        let told = rest.split_once('>').unwrap().1;
        told.split_once('<').unwrap().0.to_owned()
    };
    assert_eq!(shown(""), "4 of 4 shown");
    assert_eq!(shown("throughput"), "2 of 4 shown");
    // the end of a benchmark's name and the beginning of its model's
    assert_eq!(shown("throughputo"), "0 of 4 shown");
}

#[test]
fn every_page_draws_all_its_charts_without_a_word_on_the_console_or_the_network() {
    let Some(browser) = browser() else { return };
    for (name, page) in all_pages() {
        for width in [1280, 390] {
            let seen = open(&browser, &page, width);
            let charts = page.matches("data-chart>").count();
            assert!(
                charts > 0 || name == crate::site::LIST,
                "{name} has no chart"
            );
            assert!(
                seen.dom.contains(&format!("data-ready=\"{charts}\"")),
                "{name} at {width}: the script did not end; console {:?}",
                seen.console
            );
            // the page of trends shows one chart at a time
            let shown = if name == crate::site::TRENDS {
                1
            } else {
                charts
            };
            assert_eq!(
                seen.dom.matches("data-drawn=\"yes\"").count(),
                shown,
                "{name} at {width}"
            );
            assert!(
                seen.dom.matches("<svg").count() >= shown,
                "{name} at {width}: a chart without a drawing"
            );
            assert_eq!(seen.console, Vec::<String>::new(), "{name} at {width}");
            assert_eq!(seen.requests, Vec::<String>::new(), "{name} at {width}");
        }
    }
}

#[test]
fn what_a_page_asks_of_the_network_is_seen() {
    let Some(browser) = browser() else { return };
    let page = r#"<img src="http://127.0.0.1:9/image"><iframe src="https://host.invalid/frame"></iframe>
        <script>new WebSocket("ws://127.0.0.1:9/socket"); fetch("http://host.invalid/fetch").catch(() => {});</script>"#;
    let seen = open(&browser, page, 1280).requests;
    for path in ["/image", "/frame", "/socket", "/fetch"] {
        assert!(
            seen.iter().any(|line| line.contains(path)),
            "{path}: {seen:?}"
        );
    }
}

#[test]
fn no_text_lies_on_another_or_leaves_its_chart_or_the_window() {
    let Some(browser) = browser() else { return };
    let mut all = Vec::new();
    for (name, page) in all_pages() {
        let open_to_scripts = page.replacen(
            "http-equiv=\"Content-Security-Policy\"",
            "name=\"was-policy\"",
            1,
        );
        let (before, after) = open_to_scripts.rsplit_once("</body>").unwrap();
        let probed = format!("{before}<script>{OVERLAP}</script></body>{after}");
        for width in [1280, 390] {
            let dom = open(&browser, &probed, width).dom;
            let attribute = |name: &str| -> String {
                let start = dom.find(&format!("{name}=\"")).unwrap() + name.len() + 2;
                let text = dom[start..].split('"').next().unwrap();
                text.replace("&quot;", "\"")
                    .replace("&lt;", "<")
                    .replace("&gt;", ">")
                    .replace("&amp;", "&")
            };
            // Some builds of Chromium have no window narrower than 500 pixels.
            let seen: u32 = attribute("data-width").parse().unwrap();
            assert!(
                seen == width || width == 390 && seen <= 500,
                "{name}: {seen} pixels"
            );
            if dom.contains("data-first=") && name != "hostile" {
                let end: u32 = attribute("data-first").parse().unwrap();
                assert!(end <= 800, "{name}: the first chart ends at {end} pixels");
            }
            let found: Vec<String> = serde_json::from_str(&attribute("data-found")).unwrap();
            all.extend(
                found
                    .iter()
                    // A use case whose name is forty signs without a space leaves no room beside it.
                    .filter(|what| {
                        name != "hostile"
                            || !what.starts_with("the verdict") && !what.starts_with("the table")
                    })
                    .map(|what| format!("{name} at {width}: {what}")),
            );
        }
    }
    assert!(all.is_empty(), "{} faults:\n{}", all.len(), all.join("\n"));
}

#[test]
fn the_list_is_narrowed_by_words_and_two_ticked_runs_lead_to_their_comparison() {
    let Some(browser) = browser() else { return };
    let page = crate::site::page();
    let (_, policy) = page
        .split_once("http-equiv=\"Content-Security-Policy\"")
        .unwrap();
    assert!(policy.contains("script-src 'sha256-"));
    let act = r"
        var filter = document.getElementById('filter'), boxes = document.querySelectorAll('#runs input');
        [0, 2, 1].forEach(function (i) { boxes[i].click(); });
        filter.value = 'GPUS=2 throughput';
        filter.dispatchEvent(new Event('input'));
        document.body.setAttribute('data-ticked', document.querySelectorAll('#runs input:checked').length);";
    let page = page.replacen("http-equiv=\"Content-Security-Policy\"", "name=\"was\"", 1);
    let page = page.replacen("</body>", &format!("<script>{act}</script></body>"), 1);
    let seen = open(&browser, &page, 1280);
    assert!(seen.dom.contains("data-ticked=\"2\""));
    // the third tick takes the first away, and the older run is the base
    assert!(seen.dom.contains("href=\"compare/c/b.html\""));
    assert!(seen.dom.contains(">1 of 4 shown<"));
    assert_eq!(seen.dom.matches("<tr hidden").count(), 3);
}
