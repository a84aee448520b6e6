//! One file, five programs.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

const FILE: &str = env!("CARGO_BIN_EXE_serving-bench");

fn said(file: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(file).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn a_link_is_the_program_of_its_name_and_so_is_the_first_argument() {
    let folder = tempfile::tempdir().unwrap();
    for short in ["latency", "throughput", "seqlen", "report", "engine"] {
        let name = format!("bench-{short}");
        let link = folder.path().join(&name);
        symlink(FILE, &link).unwrap();
        let version = format!("{name} {}\n", env!("CARGO_PKG_VERSION"));
        assert_eq!(
            said(&link, &["--version"]),
            (Some(0), version, String::new())
        );
        let by_link = said(&link, &["--help"]);
        assert_eq!(by_link.0, Some(0));
        assert_eq!(said(Path::new(FILE), &[short, "--help"]), by_link);
    }
}

#[test]
fn help_has_colours_where_the_environment_asks_for_them() {
    for program in ["latency", "report", "engine"] {
        let coloured = |variables: &[(&str, &str)]| {
            let mut help = Command::new(FILE);
            help.args([program, "--help"])
                .env_remove("NO_COLOR")
                .env_remove("CLICOLOR_FORCE")
                .envs(variables.iter().copied());
            help.output().unwrap().stdout.contains(&0x1b)
        };
        assert!(coloured(&[("CLICOLOR_FORCE", "1")]), "{program}");
        assert!(!coloured(&[]), "{program}: this is no terminal");
        let both = [("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")];
        assert!(!coloured(&both), "{program}");
    }
}

#[test]
fn the_file_itself_says_what_it_is() {
    for asked in ["--help", "-h", "help"] {
        let (code, out, error) = said(Path::new(FILE), &[asked]);
        assert_eq!((code, error.as_str()), (Some(0), ""), "{asked}");
        for program in ["latency", "throughput", "seqlen", "report", "engine"] {
            assert!(out.contains(program), "{out}");
        }
    }
    let version = format!("serving-bench {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        said(Path::new(FILE), &["--version"]),
        (Some(0), version, String::new())
    );
}

#[test]
fn another_name_is_refused() {
    for arguments in [&[][..], &["dance"], &["bench-latency"]] {
        let (code, out, error) = said(Path::new(FILE), arguments);
        assert_eq!((code, out.as_str()), (Some(2), ""));
        assert!(error.starts_with("serving-bench: usage: "), "{error}");
    }
}

#[test]
fn a_benchmark_finds_its_engine_in_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("bench-latency");
    symlink(FILE, &link).unwrap();
    let run = folder.path().join("run");
    let (code, _, error) = said(
        &link,
        &[
            "--engine",
            "fixed",
            "--prompt-tokens",
            "16",
            "--output-tokens",
            "4",
            "--repeat",
            "2",
            "--quick",
            "--quiet",
            "--out",
            run.to_str().unwrap(),
        ],
    );
    // 3: whether the numbers can be believed depends on what else this machine does
    assert!(matches!(code, Some(0 | 3)), "{code:?} {error}");
    assert!(run.join("run.json").exists());
}
