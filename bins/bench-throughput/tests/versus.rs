//! Two servers in turns, as a user asks for it.

use std::path::Path;

use crate::common::{Result, bench, quick, records, stderr, stored};
use bench_engine::config::{EngineKind, Fixed};
use bench_engine::{EngineConfig, Server};

/// A server that takes so many times as long as [`quick`]: long enough that even a busy machine, whose stamps have wide bounds, knows its figures.
fn slower(times: f64) -> Result<Server> {
    let fixed = Fixed {
        ttft_ms: 2.0 * times,
        itl_ms: times,
        jitter: 0.0,
        ..Fixed::default()
    };
    Ok(Server::start(EngineConfig {
        engine: EngineKind::Fixed(fixed),
        ..EngineConfig::default()
    })?)
}

fn in_turns(first: &str, second: &str, out: &Path, more: &[&str]) -> Result<std::process::Output> {
    let args = ["--url", first, "--versus", second, "--blocks", "4"];
    let load = [
        "--concurrency",
        "2",
        "--requests",
        "20",
        "--dataset",
        "random",
    ];
    let lengths = [
        "--input-tokens",
        "4..9",
        "--output-tokens",
        "4..12",
        "--no-hardware",
    ];
    let mut command = bench(&[&args[..], &load, &lengths, more].concat());
    Ok(command.arg("--out").arg(out).output()?)
}

#[test]
fn the_slower_of_two_servers_is_found_in_turns() -> Result {
    let (fast, slow) = (slower(5.0)?, slower(15.0)?);
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("out");
    let output = in_turns(&fast.url(), &slow.url(), &out, &[])?;
    let said = String::from_utf8(output.stdout.clone())?;
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{said}{}",
        stderr(&output)
    );
    let found: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(out.join("versus.json"))?)?;
    let rows = found["rows"].as_array().ok_or("no rows")?;
    assert!(
        rows.iter().all(|row| row["test"] == "runs in turns"),
        "{found}"
    );
    let slower = rows.iter().find(|row| row["quantity"] == "e2e.p50");
    assert_eq!(slower.ok_or("no row")?["verdict"], "worse", "{found}");
    let paired = rows.iter().filter(|row| row["population"] == "pairs");
    let paired: Vec<_> = paired.filter_map(|row| row["quantity"].as_str()).collect();
    assert_eq!(
        paired,
        ["ttft.paired", "tpot.paired", "e2e.paired"],
        "{found}"
    );
    // on a busy machine a turn may not be trusted; that is another matter
    let incomparable = found["incomparable"].to_string();
    assert!(!incomparable.contains("other requests"), "{found}");
    assert!(said.contains("4 blocks find"), "{said}");
    for round in ["001", "002", "005", "008"] {
        let [a, b] = ["a", "b"].map(|side| out.join(side).join(round));
        let lengths = |run: &Path| -> Result<_> {
            let mut lengths: Vec<_> = records(run)?
                .into_iter()
                .map(|r| (r.phase, r.id, r.prompt.asked_tokens, r.asked_output_tokens))
                .collect();
            lengths.sort_unstable();
            Ok(lengths)
        };
        assert_eq!(lengths(&a)?, lengths(&b)?, "the same lengths");
        let hash = |run: &Path| -> Result<Option<String>> {
            Ok(stored(run)?
                .cells
                .first()
                .ok_or("no cell")?
                .plan
                .hash
                .clone())
        };
        assert_ne!(hash(&a)?, hash(&b)?, "other words");
    }
    Ok(())
}

#[test]
fn a_second_side_that_is_not_there_ends_it_with_what_was_measured() -> Result {
    let server = quick(EngineConfig::default())?;
    let gone = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", gone.local_addr()?);
    drop(gone);
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("out");
    let output = in_turns(&server.url(), &address, &out, &[])?;
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(&address), "{}", stderr(&output));
    assert!(!out.join("versus.json").exists());
    Ok(())
}

#[test]
fn what_two_sides_cannot_have_is_refused() -> Result {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("out");
    let refused = |more: &[&str]| -> Result<String> {
        let output = in_turns("http://h:1", "http://h:1", &out, more)?;
        assert_eq!(output.status.code(), Some(2));
        Ok(stderr(&output))
    };
    assert!(refused(&["--salt", "never"])?.contains("prefix cache"));
    assert!(refused(&["--shard", "0/2"])?.contains("two servers"));
    let alone = bench(&["--blocks", "4"]).output()?;
    assert!(stderr(&alone).contains("versus"), "{}", stderr(&alone));
    Ok(())
}
