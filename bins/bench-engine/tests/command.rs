//! The command and the engine in a process of its own.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use bench_engine::config::PROFILES;
use bench_engine::{EngineConfig, Entry, child};

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_bench-engine"))
}

fn output(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = command().args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    all
}

#[test]
fn single_keys_of_a_profile_are_set_and_unknown_ones_refused() {
    let print = ["serve", "--profile", "tiny", "--print-config"];
    let set = |key| output(&[&print[..], &["--set", key]].concat());
    let (code, text, _) = set("engine.scheduler.max_num_seqs=3");
    let config: EngineConfig = toml::from_str(&text).unwrap();
    let mut expected = EngineConfig::profile("tiny").unwrap();
    if let bench_engine::config::EngineKind::Transformer(engine) = &mut expected.engine {
        engine.scheduler.max_num_seqs = 3;
    }
    assert_eq!((code, config.engine), (Some(0), expected.engine));
    assert!(
        set("model=llama 3").1.contains("llama 3"),
        "what is no TOML is a text"
    );
    for wrong in [
        "engine.scheduler.seqs=3",
        "engine.nowhere.x=3",
        "engine.scheduler.max_num_seqs=0",
    ] {
        let (code, _, error) = set(wrong);
        assert_eq!(code, Some(2), "{error}");
    }
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let cases: [&[&str]; 6] = [
        &["--help"],
        &["--version"],
        &["serve", "--help"],
        &["profiles"],
        &["faults"],
        &["serve", "--print-config"],
    ];
    for args in cases {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let done = command().args(args).stdout(full.unwrap()).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("cannot write to standard output"), "{said}");
    }
}

#[test]
fn a_child_says_where_it_listens_and_in_the_end_what_it_knew_and_is_gone() {
    let child =
        child::spawn_program(command(), &EngineConfig::profile("instant").unwrap()).unwrap();
    let address = child.hello().listening.clone();
    let body = r#"{"prompt":"a","max_tokens":3,"stream":true}"#;
    let head =
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-request-id: mine";
    let before = bench_engine::clock::now_ns();
    assert!(
        ask(
            &address,
            &format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        )
        .contains("[DONE]")
    );
    let after = bench_engine::clock::now_ns();
    let answer = ask(
        &address,
        "GET /ledger HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    );
    let entry: Entry =
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1.trim()).unwrap();
    assert_eq!((entry.id.as_str(), entry.due_ns.len()), ("mine", 3));
    // The clock is the machine's: another process's stamps lie between this one's.
    assert!(before < entry.head_ns && entry.end_ns.unwrap() < after);
    let process = format!("/proc/{}", child.pid());
    let stat = std::fs::read_to_string(format!("{process}/stat")).unwrap();
    let group = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .nth(2)
        .unwrap();
    assert_eq!(
        group,
        child.pid().to_string(),
        "Ctrl-C at the terminal does not reach it"
    );
    let known = child.end().unwrap();
    assert_eq!(
        (known.entries, known.connections),
        (vec![entry], vec![1, 1])
    );
    assert!(!std::path::Path::new(&process).exists(), "ended and reaped");
}

#[test]
fn every_profile_listens_on_loopback_unless_something_else_is_asked_for() {
    for (name, ..) in PROFILES {
        let host = EngineConfig::profile(name).unwrap().host;
        let host: std::net::IpAddr = host.parse().unwrap();
        assert!(host.is_loopback(), "{name}: {host}");
    }
    let child =
        child::spawn_program(command(), &EngineConfig::profile("instant").unwrap()).unwrap();
    let bound: std::net::SocketAddr = child.hello().listening.parse().unwrap();
    assert!(bound.ip().is_loopback(), "{bound}");
}

#[test]
fn a_child_ends_when_its_parent_lets_go_of_its_input() {
    let config = serde_json::to_string(&EngineConfig::profile("fixed").unwrap()).unwrap();
    let mut process = command()
        .arg(child::ARGUMENT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(process.stdin.as_mut().unwrap(), "{config}").unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.contains("\"listening\":\"127.0.0.1:"), "{line}");
    drop(process.stdin.take());
    assert!(process.wait().unwrap().success());
}

#[test]
fn a_child_has_its_key_without_showing_it_in_its_arguments_or_environment() {
    let config = EngineConfig {
        api_key: Some("sk-very-secret".into()),
        ..EngineConfig::profile("instant").unwrap()
    };
    let child = child::spawn_program(command(), &config).unwrap();
    for file in ["cmdline", "environ"] {
        let shown = std::fs::read(format!("/proc/{}/{file}", child.pid())).unwrap();
        assert!(
            !String::from_utf8_lossy(&shown).contains("secret"),
            "{file}"
        );
    }
    let head = "GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
    let address = child.hello().listening.clone();
    assert!(ask(&address, &format!("{head}\r\n")).starts_with("HTTP/1.1 401"));
    let key = "authorization: Bearer sk-very-secret\r\n";
    assert!(ask(&address, &format!("{head}{key}\r\n")).starts_with("HTTP/1.1 200"));
}

#[test]
fn a_child_without_a_configuration_says_what_it_wants() {
    let output = command()
        .arg(child::ARGUMENT)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("standard input"), "{said}");
}

#[test]
fn a_child_that_cannot_start_is_an_error_that_says_so() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let config = EngineConfig {
        port: taken.local_addr().unwrap().port(),
        ..EngineConfig::default()
    };
    let error = child::spawn_program(command(), &config)
        .unwrap_err()
        .to_string();
    assert!(error.contains("before it listened"), "{error}");
}

#[test]
fn wrong_usage_is_refused_with_what_there_is() {
    let (code, _, error) = output(&["serve", "--profile", "70b"]);
    assert_eq!(code, Some(2));
    assert!(
        error.contains("70b") && error.contains("gpt2-124m"),
        "{error}"
    );
    let (code, _, error) = output(&["serve", "--model-dir", "/nowhere", "--profile", "fixed"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("simulated"), "{error}");
    let (code, _, error) = output(&["serve", "--model-dir", "/nowhere", "--port", "0"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("/nowhere/config.json"), "{error}");
}

#[test]
fn a_printed_configuration_is_one_that_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("engine.toml");
    let (code, first, _) = output(&["serve", "--profile", "7b", "--print-config"]);
    assert_eq!(code, Some(0));
    std::fs::write(&file, &first).unwrap();
    let (_, second, _) = output(&[
        "serve",
        "--profile",
        file.to_str().unwrap(),
        "--print-config",
    ]);
    assert_eq!(first, second);
    std::fs::write(&file, first.replace("step_ms =", "stepms =")).unwrap();
    let (code, _, error) = output(&["serve", "--profile", file.to_str().unwrap()]);
    assert_eq!(code, Some(2));
    assert!(error.contains("stepms"), "{error}");
}

#[test]
fn profiles_and_faults_are_listed() {
    assert!(output(&["profiles"]).1.contains("gpt2-124m"));
    assert!(output(&["faults"]).1.contains("reset-mid:3"));
}
