//! `site` and `serve`: every run of a folder is in the list, read or not.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{blank, both_cells, command, ended, killed};
use crate::text;

#[test]
fn every_run_of_a_folder_is_listed_and_what_cannot_be_read_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let (runs, out) = (folder.path().join("runs"), folder.path().join("site"));
    let records = both_cells(1.0);
    let mut tagged = blank();
    tagged["tags"]["commit"] = "<i>&\"".into();
    ended(&runs.join("a <b>&'\" é%"), &tagged, &records);
    let mut later = blank();
    later["started_at"] = "2026-11-21T13:00:00Z".into();
    ended(&runs.join("later"), &later, &records);
    killed(&runs.join("cut"), &blank(), &records[..20]);
    killed(&runs.join("broken"), &blank(), &records);
    fs::write(runs.join("broken/run.json"), "{").unwrap();
    fs::create_dir_all(runs.join("lost")).unwrap();
    fs::write(runs.join("lost/requests.jsonl"), "").unwrap();
    let said = command(&["site", text(&runs), "--out", text(&out)]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("5 runs listed"), "{}", said.err);
    let unreadable = said.err.matches("listed as unreadable: ").count();
    assert_eq!(unreadable, 2, "{}", said.err);
    let index = fs::read_to_string(out.join("index.html")).unwrap();
    let rows = index.split("<tr>").skip(2);
    let rows: Vec<&str> = rows.map(|row| row.split("</tr>").next().unwrap()).collect();
    let row = |name: &str| {
        let place = rows.iter().position(|row| row.contains(name));
        place.unwrap_or_else(|| panic!("{name} is not listed"))
    };
    assert_eq!((rows.len(), row("later")), (5, 0));
    let odd = "a &lt;b&gt;&amp;'&quot; é%";
    assert!(rows[row(odd)].contains("commit=&lt;i&gt;&amp;&quot;"));
    assert!(rows[row(odd)].contains("href=\"runs/a~20~3cb~3e~26~27~22~20~c3~a9~25.html\""));
    assert!(rows[row("cut</bdi>")].contains("INCOMPLETE: "));
    for name in ["broken</bdi>", "lost</bdi>"] {
        assert!(row(name) >= 3, "{name} is not at the end");
        assert!(rows[row(name)].contains("CANNOT BE READ: "), "{name}");
        assert!(!rows[row(name)].contains("href"), "{name}");
    }
    for link in index.split("href=\"").skip(1) {
        let link = link.split('"').next().unwrap();
        let page = fs::read_to_string(out.join(link)).unwrap();
        assert!(page.contains("data-chart"), "{link} is no report");
    }
    // again, over what is there
    let again = command(&["site", text(&runs), "--out", text(&out)]);
    assert_eq!(again.code, Some(0), "{}", again.err);
    assert!(index == fs::read_to_string(out.join("index.html")).unwrap());
}

#[test]
fn runs_in_folders_of_the_folder_are_listed_by_where_they_lie() {
    let folder = tempfile::tempdir().unwrap();
    let (runs, out) = (folder.path().join("runs"), folder.path().join("site"));
    let records = both_cells(1.0);
    for run in ["one", "suite/latency", "suite/throughput", "a/b/deep"] {
        ended(&runs.join(run), &blank(), &records);
    }
    // what lies in a run is its own, and hidden folders are others'
    ended(&runs.join("one/within"), &blank(), &records);
    ended(&runs.join(".cache/old"), &blank(), &records);
    std::os::unix::fs::symlink(&runs, runs.join("suite/back")).unwrap();
    let said = command(&["site", text(&runs), "--out", text(&out)]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("4 runs listed"), "{}", said.err);
    let index = fs::read_to_string(out.join("index.html")).unwrap();
    assert!(index.contains("<bdi>suite/latency</bdi>"));
    assert!(index.contains("href=\"runs/a~2fb~2fdeep.html\""));
    assert!(out.join("runs/suite~2fthroughput.html").is_file());
}

#[test]
fn a_report_that_is_there_is_made_again_only_when_its_run_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (runs, out) = (folder.path().join("runs"), folder.path().join("site"));
    ended(&runs.join("a"), &blank(), &both_cells(1.0));
    killed(&runs.join("cut"), &blank(), &both_cells(1.0)[..20]);
    let site = || {
        let said = command(&["site", text(&runs), "--out", text(&out)]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        said.err
    };
    assert!(!site().contains("up to date"));
    let page = |run: &str| out.join(format!("runs/{run}.html"));
    let read = |run: &str| fs::read_to_string(page(run)).unwrap();
    let whole = [read("a"), read("cut")];
    // a word that no report has: what is written over it was made again
    let touch =
        |run: &str| fs::write(page(run), read(run).replace("<main>", "<main>TOUCHED")).unwrap();
    touch("a");
    touch("cut");
    assert!(site().contains("1 report up to date already"));
    // a run that was cut short may have gone on
    assert_eq!(
        (read("a").contains("TOUCHED"), read("cut") == whole[1]),
        (true, true)
    );
    // another run in its place
    fs::remove_dir_all(runs.join("a")).unwrap();
    ended(&runs.join("a"), &blank(), &both_cells(1.5));
    assert!(!site().contains("up to date"));
    assert!(!read("a").contains("TOUCHED") && read("a") != whole[0]);
    // half a page
    fs::write(page("a"), &read("a")[..1000]).unwrap();
    assert!(!site().contains("up to date"));
    assert!(read("a").len() > 1000);
}

#[test]
fn a_folder_without_runs_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("site");
    for place in [folder.path().to_owned(), folder.path().join("nowhere")] {
        let said = command(&["site", text(&place), "--out", text(&out)]);
        assert_eq!(said.code, Some(1), "{}", said.err);
        assert!(!out.exists());
    }
}

/// Ends with the test, whatever comes of it.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn pages_are_served_as_they_are_asked_for_and_nothing_else_is() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let records = both_cells(1.0);
    ended(&runs.join("a"), &blank(), &records);
    fs::write(folder.path().join("secret.html"), "do not tell").unwrap();
    let mut served = Command::new(env!("CARGO_BIN_EXE_bench-report"))
        .args(["serve", text(&runs), "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .map(Served)
        .unwrap();
    let mut url = String::new();
    let mut said = BufReader::new(served.0.stdout.take().unwrap());
    said.read_line(&mut url).unwrap();
    let address = url
        .trim()
        .trim_start_matches("http://")
        .trim_end_matches('/');
    let ask = |head: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(40)))
            .unwrap();
        write!(stream, "{head}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let get = |path: &str| ask(&format!("GET {path} HTTP/1.1\r\nhost: {address}"));
    // As many as it serves at once, which ask nothing: a browser opens some that it may need later.
    let silent: Vec<TcpStream> = (0..16)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    assert!(get("/").contains("<bdi>a</bdi>"));
    drop(silent);
    // another run, and a change of the first
    ended(&runs.join("b"), &blank(), &records);
    fs::write(runs.join("a/run.json"), "{").unwrap();
    let list = get("/");
    assert!(list.contains("runs/b.html") && list.contains("CANNOT BE READ"));
    ended(&runs.join("a"), &blank(), &both_cells(1.5));
    for page in ["/runs/a.html", "/compare/a/b.html"] {
        let page = get(page);
        assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("data-chart"));
    }
    for path in [
        "/secret.html",
        "/runs/../../secret.html",
        "/runs/%2e%2e/secret.html",
        "/runs/a/run.json",
    ] {
        let answer = get(path);
        assert!(
            answer.starts_with("HTTP/1.1 404 ") && !answer.contains("do not tell"),
            "{path}"
        );
    }
    assert!(ask(&format!("POST / HTTP/1.1\r\nhost: {address}")).starts_with("HTTP/1.1 405 "));
    assert!(ask("GET / HTTP/1.1\r\nhost: elsewhere.example").starts_with("HTTP/1.1 403 "));
}
