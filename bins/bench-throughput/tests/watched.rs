//! What somebody sees who scrapes a run while it goes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use crate::common::{Killed, Result, bench, endless, quick, stderr};
use bench_engine::EngineConfig;
use rustix::process::{Pid, Signal, kill_process};

/// The address that the program told, `host:port`.
fn told(child: &mut Killed) -> Result<String> {
    let stderr = child.0.stderr.take().ok_or("no stderr")?;
    for line in BufReader::new(stderr).lines() {
        let line = line?;
        if let Some((_, url)) = line.split_once("metrics of this run: http://") {
            return Ok(url.trim_end_matches("/metrics").to_owned());
        }
    }
    Err("no address was told".into())
}

fn get(address: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn value(page: &str, line: &str) -> f64 {
    let rest = |text: &str| text.strip_prefix(line)?.strip_prefix(' ')?.parse().ok();
    page.lines().find_map(rest).unwrap_or(0.0)
}

#[test]
fn a_run_can_be_scraped_while_it_goes() -> Result {
    let server = quick(EngineConfig::default())?;
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let listen = ["--metrics-listen", "127.0.0.1:0", "--no-hardware"];
    let mut child = endless(&server, 3, &run, &listen)?;
    let address = told(&mut child)?;
    let completed = "bench_requests_total{phase=\"measure\",outcome=\"completed\"}";
    let mut page = String::new();
    while value(&page, completed) < 20.0 {
        assert!(child.0.try_wait()?.is_none(), "it ended too early: {page}");
        page = get(&address, "/metrics")?;
    }
    assert!(page.contains("application/openmetrics-text"), "{page}");
    assert!(page.ends_with("# EOF\n"), "{page}");
    let n = value(&page, completed);
    let of = |name: &str| value(&page, &format!("bench_{name}{{phase=\"measure\"}}"));
    assert!((of("output_tokens_total") - 8.0 * n).abs() < 0.5, "{page}");
    assert!(
        (of("request_latency_seconds_count") - n).abs() < 0.5,
        "{page}"
    );
    assert!(
        (of("inter_token_latency_seconds_count") - 7.0 * n).abs() < 0.5,
        "{page}"
    );
    assert!(of("time_to_first_token_seconds_sum") >= 0.002 * n, "{page}");
    assert!(get(&address, "/")?.starts_with("HTTP/1.1 404"));

    assert!(value(&page, "bench_requests_in_flight") <= 3.0, "{page}");
    let pid = i32::try_from(child.0.id())?;
    kill_process(Pid::from_raw(pid).ok_or("no process")?, Signal::TERM)?;
    assert_eq!(child.0.wait()?.code(), Some(5));
    Ok(())
}

#[test]
fn an_address_that_is_taken_is_named_before_any_load() -> Result {
    let server = quick(EngineConfig::default())?;
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?.to_string();
    let folder = tempfile::tempdir()?;
    let mut child = endless(
        &server,
        1,
        &folder.path().join("run"),
        &["--metrics-listen", &address],
    )?;
    let mut said = String::new();
    let mut stderr = child.0.stderr.take().ok_or("no stderr")?;
    stderr.read_to_string(&mut said)?;
    assert_eq!(child.0.wait()?.code(), Some(1));
    assert!(
        said.contains(&address) && said.contains("--metrics-listen"),
        "{said}"
    );
    assert!(server.ledger().take().is_empty(), "nothing was sent");
    Ok(())
}

/// A request's path and body, answered with 200; an error where the connection is closed.
fn taken(stream: &mut BufReader<TcpStream>) -> Result<(String, Vec<u8>)> {
    let (mut path, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Err("the connection was closed".into());
        }
        let line = line.trim().to_ascii_lowercase();
        if let Some(rest) = line.strip_prefix("post ") {
            rest.clone_into(&mut path);
        } else if let Some(rest) = line.strip_prefix("content-length:") {
            length = rest.trim().parse()?;
        } else if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    stream.get_mut().write_all(answer.as_bytes())?;
    Ok((path, body))
}

/// What the run pushed into `url`, and what it said: 12 short requests, two at a time.
fn pushed_to(url: &str) -> Result<(Option<i32>, String)> {
    let server = quick(EngineConfig::default())?;
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let mut command = bench(&[
        "--url",
        &server.url(),
        "--concurrency",
        "2",
        "--requests",
        "12",
    ]);
    let command = command.args([
        "--warmup",
        "0",
        "--output-tokens",
        "8",
        "--quiet",
        "--no-hardware",
    ]);
    let command = command.args(["--otlp", url, "--out"]).arg(run);
    let output = command.output()?;
    Ok((output.status.code(), stderr(&output)))
}

#[test]
fn a_run_pushes_its_last_state_to_a_collector() -> Result {
    let collector = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", collector.local_addr()?);
    let (push, pushes) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in collector.incoming().flatten() {
            let mut stream = BufReader::new(stream);
            while let Ok(one) = taken(&mut stream) {
                push.send(one).ok();
            }
        }
    });
    let (code, said) = pushed_to(&url)?;
    assert!(matches!(code, Some(0 | 3)), "{code:?} {said}");
    assert!(!said.contains("pushed"), "{said}");
    let (path, body) = pushes.try_iter().last().ok_or("nothing was pushed")?;
    assert!(path.starts_with("/v1/metrics "), "{path}");
    let body: serde_json::Value = serde_json::from_slice(&body)?;
    let metrics = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array();
    let metrics = metrics.ok_or("no metrics")?;
    let point = |name: &str, kind: &str| {
        let mut all = metrics.iter().filter(|metric| metric["name"] == name);
        let found = all
            .next()
            .map(|metric| metric[kind]["dataPoints"][0].clone());
        found.unwrap_or_default()
    };
    assert_eq!(point("bench_requests", "sum")["asInt"], "12", "{body}");
    assert_eq!(point("bench_output_tokens", "sum")["asInt"], "96", "{body}");
    let ttft = point("bench_time_to_first_token", "histogram");
    assert_eq!(ttft["count"], "12", "{body}");
    Ok(())
}

#[test]
fn a_collector_that_is_not_there_is_reported_once_and_disturbs_nothing() -> Result {
    let gone = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let (code, said) = pushed_to(&format!("http://{gone}"))?;
    assert!(matches!(code, Some(0 | 3)), "{code:?} {said}");
    assert_eq!(said.matches("could not be pushed").count(), 1, "{said}");
    Ok(())
}
