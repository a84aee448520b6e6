//! A key goes to the server it is meant for, and nowhere else: no file, no line of output, no argument, no other host.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{Killed, Result, bench, stderr, stored};
use bench_engine::{EngineConfig, Server};

const KEY: &str = "sk-very-secret-0123456789";
const WORD: &str = "very-secret";

/// Everything that a run shows or leaves.
fn everything(output: &Output, run: &Path) -> Result<String> {
    let mut all = stderr(output) + &String::from_utf8_lossy(&output.stdout);
    if run.is_dir() {
        for entry in std::fs::read_dir(run)? {
            all += &String::from_utf8_lossy(&std::fs::read(entry?.path())?);
        }
    }
    Ok(all)
}

/// A run of two requests with the key.
fn keyed(args: &[&str], run: &Path) -> Command {
    let mut command = endless(args, run);
    command.args(["--requests", "2"]);
    command
}

/// The same without an end.
fn endless(args: &[&str], run: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-throughput"));
    command
        .args(args)
        .args([
            "--api-key-env",
            "BENCH_TEST_KEY",
            "--concurrency",
            "1",
            "--output-tokens",
            "2",
            "--warmup",
            "0",
            "--no-progress",
            "--keep-text",
        ])
        .env("BENCH_TEST_KEY", KEY)
        .stdin(Stdio::null())
        .arg("--out")
        .arg(run);
    command
}

/// A server that answers everything with these bytes.
fn parrot(answer: String) -> Result<String> {
    parroting(move |_| answer.clone())
}

/// A server that answers each request by its head.
fn parroting(mut answer: impl FnMut(&str) -> String + Send + 'static) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut head = [0; 8192];
            let read = stream.read(&mut head).unwrap_or(0);
            let asked = String::from_utf8_lossy(head.get(..read).unwrap_or_default());
            let _said = stream.write_all(answer(&asked).as_bytes());
        }
    });
    Ok(url)
}

fn page(status: &str, more: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{more}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

#[test]
fn a_key_from_the_environment_or_a_file_reaches_the_server_and_nothing_else() -> Result {
    let server = Server::start(EngineConfig {
        api_key: Some(KEY.to_owned()),
        ..EngineConfig::profile("instant")?
    })?;
    let url = server.url();
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("key");
    std::fs::write(&file, format!("{KEY}\n"))?;
    let file = file.to_str().ok_or("a path that is no text")?;
    for (name, source) in [
        ("env", ["--api-key-env", "BENCH_TEST_KEY"]),
        ("file", ["--api-key-file", file]),
    ] {
        let run = folder.path().join(name);
        let output = bench(&[
            "--url",
            &url,
            "--concurrency",
            "1",
            "--requests",
            "2",
            "--output-tokens",
            "2",
        ])
        .args(source)
        .env("BENCH_TEST_KEY", KEY)
        .arg("--out")
        .arg(&run)
        .output()?;
        let completed = stored(&run)?
            .cells
            .first()
            .map(|cell| cell.counts.completed);
        assert_eq!(completed, Some(2), "{name}: {}", stderr(&output));
        assert!(!everything(&output, &run)?.contains(WORD), "{name}");
    }
    Ok(())
}

#[test]
fn a_server_that_says_the_key_back_does_not_get_it_into_results_or_errors() -> Result {
    let body = format!("{{\"error\":{{\"message\":\"Incorrect API key provided: {KEY}\"}}}}");
    for status in ["401 Unauthorized", "500 Internal Server Error"] {
        let url = parrot(page(status, "content-type: application/json\r\n", &body))?;
        let folder = tempfile::tempdir()?;
        let run = folder.path().join("run");
        let output = keyed(&["--url", &url, "--model", "m"], &run).output()?;
        assert_eq!(output.status.code(), Some(1));
        let all = everything(&output, &run)?;
        let status = status.get(..3).unwrap_or_default();
        assert!(all.contains(status), "it says what happened: {all}");
        assert!(!all.contains(WORD), "{all}");
    }
    Ok(())
}

#[test]
fn a_key_that_is_said_back_in_the_middle_of_a_run_does_not_reach_the_terminal() -> Result {
    let event = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let answer = page("200 OK", "content-type: text/event-stream\r\n", event);
    let models = format!("{{\"data\":[{{\"id\":\"{KEY}\"}}]}}");
    let models = page("200 OK", "content-type: application/json\r\n", &models);
    let body = format!("{{\"error\":{{\"message\":\"no more for {KEY}\"}}}}");
    let refusal = page("500 Oops", "content-type: application/json\r\n", &body);
    let mut asked = 0;
    let url = parroting(move |head| {
        if !head.starts_with("POST /v1/chat") {
            return models.clone();
        }
        asked += 1;
        // the first request, which goes before the measurement, is answered
        if asked == 1 { &answer } else { &refusal }.clone()
    })?;
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let mut command = endless(&["--url", &url, "--requests", "40"], &run);
    let output = command.output()?;
    let said = stderr(&output);
    assert!(
        said.contains("ended early") && said.contains("no more for ***"),
        "{said}"
    );
    assert!(!everything(&output, &run)?.contains(WORD), "{said}");
    Ok(())
}

#[test]
fn a_key_given_as_the_name_of_its_variable_is_not_said() -> Result {
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let output = bench(&["--url", "http://127.0.0.1:1", "--api-key-env", KEY])
        .arg("--out")
        .arg(&run)
        .output()?;
    assert_eq!(output.status.code(), Some(2));
    assert!(
        !everything(&output, &run)?.contains(WORD),
        "{}",
        stderr(&output)
    );
    Ok(())
}

#[test]
fn an_answer_that_holds_the_key_is_kept_without_it() -> Result {
    let event = format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"your key is {KEY}\"}},\"finish_reason\":\"stop\"}}]}}\n\ndata: [DONE]\n\n"
    );
    let url = parrot(page(
        "200 OK",
        "content-type: text/event-stream\r\n",
        &event,
    ))?;
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let output = keyed(&["--url", &url, "--model", "m"], &run).output()?;
    let all = everything(&output, &run)?;
    assert!(all.contains("your key is ***"), "{all}");
    assert!(!all.contains(WORD));
    Ok(())
}

#[test]
fn however_a_server_writes_the_key_back_it_reaches_no_file_and_no_terminal() -> Result {
    let each = |form: fn(u8) -> String| KEY.bytes().map(form).collect::<String>();
    let forms = [
        each(|byte| format!("&#{byte};")),
        each(|byte| format!("&#x{byte:X};")),
        each(|byte| format!("\\u{byte:04x}")),
        each(|byte| format!("%{byte:02X}")),
        each(|byte| format!("%25{byte:02x}")),
        each(|byte| format!("{byte:02x}")),
        KEY.to_uppercase(),
        // base64 of `Bearer KEY`, and of that with a line before it
        "QmVhcmVyIHNrLXZlcnktc2VjcmV0LTAxMjM0NTY3ODk=".to_owned(),
        "SG9zdDogaApBdXRob3JpemF0aW9uOiBCZWFyZXIgc2stdmVyeS1zZWNyZXQtMDEyMzQ1Njc4OQ==".to_owned(),
    ];
    for form in forms {
        let body = format!("<p>no more for {form}</p>");
        let url = parrot(page("401 No", "content-type: text/html\r\n", &body))?;
        let folder = tempfile::tempdir()?;
        let run = folder.path().join("run");
        let output = keyed(&["--url", &url, "--model", "m", "--keep-going"], &run).output()?;
        let all = everything(&output, &run)?;
        assert!(all.contains("no more for ") && all.contains("***"), "{all}");
        // what stands around a key that is encoded with it is nobody's secret
        let part = form
            .get(form.len() / 2..form.len() * 3 / 4)
            .unwrap_or(&form);
        assert!(!all.contains(part), "{form}: {all}");
    }
    Ok(())
}

#[test]
fn a_key_as_long_as_a_token_of_a_gateway_is_hidden_though_messages_are_cut() -> Result {
    let key = format!("eyJhbGciOiJSUzI1NiJ9.{}", "c2NvcGVzMTIz".repeat(80));
    let body = format!("{{\"error\":{{\"message\":\"invalid token {key}\"}}}}");
    let url = parrot(page("401 No", "content-type: application/json\r\n", &body))?;
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let mut command = keyed(&["--url", &url, "--model", "m", "--keep-going"], &run);
    let output = command.env("BENCH_TEST_KEY", &key).output()?;
    let all = everything(&output, &run)?;
    assert!(all.contains("invalid token ***"), "{all}");
    assert!(
        !all.contains("eyJhbGciOiJSUzI1NiJ9") && !all.contains("c2NvcGVzMTIz"),
        "{all}"
    );
    Ok(())
}

#[test]
fn a_header_that_is_a_word_of_the_format_leaves_a_result_that_can_be_read() -> Result {
    let folder = tempfile::tempdir()?;
    let server = Server::start(EngineConfig::profile("instant")?)?;
    let url = server.url();
    let words = [
        "requests",
        "true",
        "1",
        "sha256",
        "throughput",
        "100000",
        "concurrency",
    ];
    let headers: Vec<String> = words.iter().map(|word| format!("x-a: {word}")).collect();
    let mut args = vec!["--url", url.as_str()];
    args.extend(headers.iter().flat_map(|header| ["--header", header]));
    let (with, without) = (folder.path().join("with"), folder.path().join("without"));
    keyed(&args, &with).output()?;
    keyed(&args[..2], &without).output()?;
    let (with, without) = (stored(&with)?, stored(&without)?);
    let keys = |run: &bench_schema::RunRecord| {
        let config = run.config.as_object();
        config.map(|map| {
            map.keys()
                .filter(|key| *key != "header")
                .cloned()
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(keys(&with), keys(&without));
    assert_eq!(with.cells.len(), without.cells.len());
    let of = |run: &bench_schema::RunRecord| {
        run.cells
            .first()
            .map(|cell| (cell.label.clone(), cell.plan.hash.clone()))
    };
    assert_eq!(of(&with), of(&without));
    Ok(())
}

#[test]
fn a_redirect_to_another_host_is_not_followed() -> Result {
    let other = TcpListener::bind("127.0.0.1:0")?;
    other.set_nonblocking(true)?;
    let to = format!(
        "location: http://{}/v1/chat/completions\r\n",
        other.local_addr()?
    );
    for status in [
        "301 Moved Permanently",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        let url = parrot(page(status, &to, ""))?;
        let folder = tempfile::tempdir()?;
        let run = folder.path().join("run");
        let output = keyed(&["--url", &url, "--model", "m"], &run).output()?;
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("redirect"), "{}", stderr(&output));
        assert_eq!(
            other.accept().map_err(|error| error.kind()).err(),
            Some(ErrorKind::WouldBlock),
            "{status}"
        );
    }
    Ok(())
}

#[test]
fn a_password_in_a_url_or_a_header_is_not_shown_by_errors_and_plans() -> Result {
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let config = folder.path().join("bench.toml");
    std::fs::write(
        &config,
        format!("nonsense = 1\n[header]\nAuthorization = \"Bearer {KEY}\"\n"),
    )?;
    let config = config.to_str().ok_or("a path that is no text")?;
    let with_password = format!("http://me:{KEY}@127.0.0.1:1");
    for args in [
        vec!["--url", &with_password],
        vec!["--url", &with_password, "--dry-run"],
        vec!["--url", "http://127.0.0.1:1", "--config", config],
        vec!["--url", "http://127.0.0.1:1", "--wait", "0s"],
        vec![
            "--url",
            "http://127.0.0.1:1",
            "--dry-run",
            "--output",
            "json",
        ],
    ] {
        let output = keyed(&args, &run).output()?;
        assert!(
            !everything(&output, &run)?.contains(WORD),
            "{args:?}: {}",
            stderr(&output)
        );
    }
    Ok(())
}

#[test]
fn a_secret_that_the_server_says_of_itself_reaches_no_file_and_no_terminal() -> Result {
    // models that are named after what was sent: the key, a header's value, both in other forms
    let models = format!(
        "{{\"data\":[{{\"id\":\"{KEY}\"}},{{\"id\":\"tenant-4711-x\"}},{{\"id\":\"dGVuYW50LTQ3MTEteA==\"}},{{\"id\":\"q%2Fsecret\"}}]}}"
    );
    let url = parrot(page(
        "200 OK",
        "content-type: application/json\r\n",
        &models,
    ))?;
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let page = format!("{url}/metrics?key=q%2Fsecret");
    let args = [
        "--url",
        &url,
        "--server-metrics",
        &page,
        "--header",
        "x-tenant: tenant-4711-x",
        "--keep-going",
    ];
    let output = keyed(&args, &run).output()?;
    let all = everything(&output, &run)?;
    let models = stored(&run)?.server.models;
    assert_eq!(models, ["***"; 4], "{all}");
    for secret in [
        WORD,
        "tenant-4711-x",
        "dGVuYW50LTQ3MTEteA",
        "q%2Fsecret",
        "q/secret",
    ] {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
    Ok(())
}

#[test]
fn a_header_without_a_colon_and_an_empty_key_file_are_told_without_values() -> Result {
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "\n")?;
    let empty = empty.to_str().ok_or("a path that is no text")?;
    let header = format!("Authorization Bearer {KEY}");
    for (args, said) in [
        (["--header", &header], "`Name: value`"),
        (["--api-key-file", empty], "it must hold the key"),
    ] {
        let output = bench(&["--url", "http://127.0.0.1:1"])
            .args(args)
            .arg("--out")
            .arg(&run)
            .output()?;
        assert_eq!(output.status.code(), Some(2));
        let all = everything(&output, &run)?;
        assert!(all.contains(said) && !all.contains(WORD), "{all}");
    }
    Ok(())
}

#[test]
fn no_program_that_a_run_starts_has_the_key_among_its_arguments() -> Result {
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let engine = folder.path().join("engine.toml");
    std::fs::write(&engine, format!("api_key = \"{KEY}\"\n"))?;
    let engine = engine.to_str().ok_or("a path that is no text")?;
    let mut command = endless(&["--engine", engine, "--requests", "100000"], &run);
    let mut child = Killed(
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?,
    );
    while !run.join("requests.jsonl").exists() {
        assert!(child.0.try_wait()?.is_none(), "it ended too early");
        std::thread::yield_now();
    }
    let processes = family(child.0.id())?;
    assert!(
        processes.len() >= 2,
        "the benchmark and its engine: {processes:?}"
    );
    for process in processes {
        let arguments = std::fs::read(format!("/proc/{process}/cmdline"))?;
        assert!(!String::from_utf8_lossy(&arguments).contains(WORD));
    }
    Ok(())
}

/// A process and its children.
fn family(parent: u32) -> Result<Vec<u32>> {
    let mut all = vec![parent];
    for entry in std::fs::read_dir("/proc")? {
        let Some(process) = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default();
        if fields.split_whitespace().nth(1) == Some(parent.to_string().as_str()) {
            all.push(process);
        }
    }
    Ok(all)
}
