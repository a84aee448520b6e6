//! Pages opened in headless Chromium, where there is one: nothing on the console, nothing on the network, every chart drawn.

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
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--enable-logging=stderr",
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
    let asked = |line: &&str| line.contains("\"url\":\"http") || line.contains("\"url\":\"ws");
    Seen {
        dom: String::from_utf8_lossy(&output.stdout).into_owned(),
        console: stderr
            .lines()
            .filter(|line| line.contains("CONSOLE"))
            .map(str::to_owned)
            .collect(),
        requests: net.lines().filter(asked).map(str::to_owned).collect(),
    }
}

#[test]
fn every_page_draws_all_its_charts_without_a_word_on_the_console_or_the_network() {
    let Some(browser) = chromium() else {
        eprintln!(
            "SKIPPED: no Chromium in PATH; install chromium-headless-shell to open the pages"
        );
        return;
    };
    let mut pages = html::pages();
    pages.push(("hostile", hostile::page()));
    pages.extend(crate::compare::pages());
    for (name, page) in pages {
        for width in [1280, 400] {
            let seen = open(&browser, &page, width);
            let charts = page.matches("data-chart>").count();
            assert!(charts > 0, "{name} has no chart");
            assert!(
                seen.dom.contains(&format!("data-ready=\"{charts}\"")),
                "{name} at {width}: the script did not end; console {:?}",
                seen.console
            );
            assert_eq!(
                seen.dom.matches("data-drawn=\"yes\"").count(),
                charts,
                "{name} at {width}"
            );
            assert!(
                seen.dom.matches("<svg").count() >= charts,
                "{name} at {width}: a chart without a drawing"
            );
            assert_eq!(seen.console, Vec::<String>::new(), "{name} at {width}");
            assert_eq!(seen.requests, Vec::<String>::new(), "{name} at {width}");
        }
    }
}
