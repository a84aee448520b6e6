//! What somebody sees who scrapes a run while it goes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use crate::common::{Killed, Result, endless, quick};
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
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
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
