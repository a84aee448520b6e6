//! Datasets in files: what is wrong with some of them.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use bench_workload::{OnBadLine, Plan, PlanSpec, Words, WorkloadError};

use crate::support_files::{Problem, rows, spec, text};
use proptest::prelude::*;

/// Good lines, but for the one with this number.
fn with_bad_line(path: &Path, count: u64, bad: u64) -> Result<(), Problem> {
    let mut text = String::new();
    for line in 1..=count {
        if line == bad {
            text.push_str("{\"prompt\": \"never closed}\n");
        } else {
            writeln!(
                text,
                "{{\"prompt\": \"question {line}\", \"output_tokens\": 5}}"
            )?;
        }
    }
    std::fs::write(path, text)?;
    Ok(())
}

#[test]
fn bad_line_100_000_is_named_and_stops_or_is_passed_over_as_told() -> Result<(), Problem> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("long.jsonl");
    with_bad_line(&file, 100_010, 100_000)?;
    let stop = spec(&format!("jsonl:{}", file.display()))?;
    let mut iter = Plan::new(stop.clone(), Arc::new(Words))?.iter();
    let good = iter.by_ref().take_while(Result::is_ok).count();
    assert_eq!(good, 99_999);
    let message = rows(stop.clone())
        .err()
        .map(|e| e.to_string())
        .unwrap_or_default();
    assert!(
        message.contains("long.jsonl:100000: it is not JSON"),
        "{message}"
    );
    let skip = PlanSpec {
        on_bad_line: OnBadLine::Skip,
        ..stop
    };
    let plan = Plan::new(skip, Arc::new(Words))?;
    let mut iter = plan.iter();
    let last = iter.by_ref().last().ok_or("there are requests")??;
    assert_eq!((last.index, iter.skipped_lines()), (100_008, 1));
    assert_eq!(text(&last), "question 100010");
    Ok(())
}

/// Format, content of the file, and what the message says; nothing where all is well.
const BAD_LINES: &[(&str, &str, &str)] = &[
    (
        "sharegpt",
        "[\n{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}]},\n{\"conversations\": 5}]",
        ":3: it is not JSON",
    ),
    (
        "c4",
        "{\"text\": \"a\"}\n{\"url\": \"no text\"}\n",
        ":2: it needs one of",
    ),
    (
        "burstgpt",
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n1,m,five,5,5,x\n",
        ":2: `five` is not a number",
    ),
    (
        "azure",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2025-03-01 09:00:00,1,1\n2025-03-01 08:00:00,1,1\n",
        ":3: its time is before",
    ),
    (
        "azure",
        "TIMESTAMP,ContextTokens\n2025-03-01 09:00:00,1\n",
        ":1: the header has no column of output lengths",
    ),
    (
        "azure",
        "TIMESTAMP,ContextTokens,GeneratedTokens\nlunch,1,1\n",
        ":2: `lunch` is not a time",
    ),
    (
        "mooncake",
        "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1}\n{\"timestamp\": 1}\n",
        ":2: it is not JSON",
    ),
    (
        "csv",
        "prompt,output_tokens\na,1\nb,many\n",
        ":3: `many` is not a number of output tokens",
    ),
    ("csv", "prompt,output_tokens\na,1\nb,2,3\n", ":3:"),
    (
        "csv",
        "prompt,output_tokens,Max_Tokens\na,1,2\n",
        ":1: the header has the equivalent columns `output_tokens` and `Max_Tokens`",
    ),
    (
        "csv",
        "question\na\n",
        ":1: the header has no column `prompt`",
    ),
    ("trace", "hello\n", ":1: this is not a known trace format"),
    (
        "openai-batch",
        "{\"custom_id\": \"1\", \"url\": \"/v1/embeddings\", \"body\": {}}\n",
        ":1: `/v1/embeddings` is not supported",
    ),
    (
        "openai-batch",
        "{\"url\": \"/v1/completions\", \"body\": {\"model\": \"m\"}}\n",
        ":1: the body has neither",
    ),
    ("txt", "good\n\u{0}\n", ""),
    (
        "jsonl",
        "{\"prompt\": \"a\", \"output_tokens\": 99999999999}\n",
        ":1: 99999999999 output tokens are too many",
    ),
    (
        "azure",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n0,1,99999999999\n",
        ":2: 99999999999 output tokens are too many",
    ),
    (
        "azure",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n0,99999999999,1\n",
        ":2: 99999999999 input tokens are too many",
    ),
    (
        "jsonl",
        "{\"prompt\": \"a\", \"max_tokens\": 0}\n",
        ":1: 0 output tokens are too few",
    ),
    (
        "csv",
        "prompt,output_tokens\na,0\n",
        ":2: 0 output tokens are too few",
    ),
    (
        "jsonl",
        "{\"prompt\": \"a\", \"output_tokens\": 3, \"max_tokens\": 3}\n",
        ":1: it has `output_tokens` twice, under the same or an equivalent name",
    ),
    (
        "openai-batch",
        "{\"url\": \"/v1/completions\", \"body\": {\"prompt\": \"a\", \"max_tokens\": -1}}\n",
        ":1: `-1` is not a number of output tokens",
    ),
    (
        "openai-batch",
        "{\"url\": \"/v1/completions\", \"body\": {\"prompt\": \"a\", \"max_tokens\": 0}}\n",
        ":1: 0 output tokens are too few",
    ),
    (
        "jsonl",
        "{\"prompt\": \"a\"}\n\n{\"prompt\": [1, 2, 3]}\n",
        "request 2 of ",
    ),
    (
        "openai-batch",
        "{\"url\": \"/v1/completions\", \"body\": {\"prompt\": [1, 2, 3]}}\n",
        "token ids cannot be sent to a chat API",
    ),
];

#[test]
fn bad_lines_of_every_format_are_named() -> Result<(), Problem> {
    let folder = tempfile::tempdir()?;
    for (format, content, expected) in BAD_LINES {
        let file = folder.path().join("x");
        std::fs::write(&file, content)?;
        let message = rows(spec(&format!("{format}:{}", file.display()))?)
            .err()
            .map(|e| e.to_string());
        match *expected {
            "" => assert_eq!(message, None),
            _ => assert!(
                message.as_ref().is_some_and(|m| m.contains(*expected)),
                "{format}: {message:?}"
            ),
        }
    }
    Ok(())
}

#[test]
fn files_without_text_or_rows_or_existence_are_named() -> Result<(), Problem> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("x");
    std::fs::write(&file, b"good\n\xff\xfe\n")?;
    let message = rows(spec(&format!("txt:{}", file.display()))?)
        .err()
        .map(|e| e.to_string())
        .unwrap_or_default();
    assert!(message.contains("x:2: it is not UTF-8"), "{message}");
    std::fs::write(&file, "\n\n")?;
    assert!(matches!(
        rows(spec(&format!("txt:{}", file.display()))?),
        Err(WorkloadError::Empty { .. })
    ));
    let missing = rows(spec("txt:no-such-file.txt")?)
        .err()
        .map(|e| e.to_string())
        .unwrap_or_default();
    assert!(missing.contains("no-such-file.txt"), "{missing}");
    Ok(())
}

const FORMATS: [&str; 10] = [
    "sharegpt",
    "sharegpt-turns",
    "c4",
    "burstgpt",
    "azure",
    "mooncake",
    "trace",
    "csv",
    "txt",
    "openai-batch",
];

/// Pieces of all the formats, in any order.
fn rubbish() -> impl Strategy<Value = Vec<u8>> {
    let pieces = [
        "[",
        "]",
        "{",
        "}",
        "\"",
        "\\",
        ",",
        ":",
        "\n",
        "\r\n",
        " ",
        "\u{feff}",
        "null",
        "-1",
        "1e99",
        "0",
        "\"text\": \"a\"",
        "{\"text\": \"a\"}",
        "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}]}",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n",
        "2025-03-01 09:00:00,5,5\n",
        "prompt,output_tokens\n",
        "{\"timestamp\": 1, \"input_length\": 2, \"output_length\": 3, \"hash_ids\": [1, 2]}\n",
        "{\"url\": \"/v1/completions\", \"body\": {\"prompt\": \"a\"}}\n",
    ];
    let piece =
        proptest::sample::select(pieces.to_vec()).prop_map(|piece| piece.as_bytes().to_vec());
    let byte = any::<u8>().prop_map(|byte| vec![byte]);
    proptest::collection::vec(prop_oneof![9 => piece, 1 => byte], 0..30)
        .prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn rubbish_ends_in_an_error_or_an_end_whatever_the_format(content in rubbish()) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x");
        std::fs::write(&file, &content).unwrap();
        for format in FORMATS {
            let spec = PlanSpec {
                on_bad_line: OnBadLine::Skip,
                ..spec(&format!("{format}:{}", file.display())).unwrap()
            };
            let Ok(plan) = Plan::new(spec, Arc::new(Words)) else { continue };
            let made = plan.iter().take(1_000).flatten().count();
            prop_assert!(made <= content.len(), "{format}: more requests than bytes");
        }
    }
}

#[test]
fn a_dataset_cannot_name_files_outside_its_folder() -> Result<(), Problem> {
    let outer = tempfile::tempdir()?;
    std::fs::write(outer.path().join("secret.txt"), "secret")?;
    let folder = outer.path().join("data");
    std::fs::create_dir(&folder)?;
    std::fs::write(folder.join("good.txt"), "good")?;
    let file = folder.join("prompts.jsonl");
    let mut names = vec![
        "../secret.txt".to_owned(),
        outer.path().join("secret.txt").display().to_string(),
        "sub/../../secret.txt".to_owned(),
    ];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(outer.path().join("secret.txt"), folder.join("link.txt"))?;
        names.push("link.txt".to_owned());
    }
    for name in names {
        let mut out = std::fs::File::create(&file)?;
        writeln!(out, "{}", serde_json::json!({"prompt_file": "good.txt"}))?;
        writeln!(out, "{}", serde_json::json!({"prompt_file": name}))?;
        let refused = rows(spec(&format!("jsonl:{}", file.display()))?);
        assert!(
            matches!(&refused, Err(WorkloadError::Outside { line: 2, .. })),
            "{name}: {refused:?}"
        );
    }
    Ok(())
}

#[test]
fn bad_gzip_is_a_file_error_not_an_end() -> Result<(), Problem> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("cut.jsonl.gz");
    let whole = std::fs::read("../../fixtures/datasets/c4.jsonl.gz")?;
    std::fs::write(&file, &whole[..whole.len() / 2])?;
    let refused = rows(spec(&format!("c4:{}", file.display()))?);
    assert!(
        matches!(refused, Err(WorkloadError::File { .. })),
        "{refused:?}"
    );
    Ok(())
}

#[test]
fn a_row_that_unpacks_to_more_than_any_prompt_is_refused_by_name() -> Result<(), Problem> {
    let folder = tempfile::tempdir()?;
    let long = "a".repeat(33 << 20);
    for (name, format, text) in [
        (
            "x.jsonl.gz",
            "jsonl",
            format!("{{\"prompt\": \"{long}\"}}\n"),
        ),
        (
            "x.json.gz",
            "sharegpt",
            format!("[{{\"conversations\": [{{\"from\": \"human\", \"value\": \"{long}\"}}]}}]"),
        ),
        ("x.csv.gz", "csv", format!("prompt\n\"{long}\"\n")),
        ("x.txt", "txt", long.clone()),
    ] {
        let file = folder.path().join(name);
        let mut to = std::fs::File::create(&file)?;
        if name.ends_with("gz") {
            let mut packed = flate2::write::GzEncoder::new(to, flate2::Compression::fast());
            packed.write_all(text.as_bytes())?;
            packed.finish()?;
        } else {
            to.write_all(text.as_bytes())?;
        }
        let skip = PlanSpec {
            on_bad_line: OnBadLine::Skip,
            ..spec(&format!("{format}:{}", file.display()))?
        };
        let plan = Plan::new(skip, Arc::new(Words));
        let error = match plan {
            Ok(plan) => plan.iter().find_map(Result::err),
            Err(error) => Some(error),
        };
        let message = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(
            message.contains("one row is larger than 32 MiB"),
            "{name}: {message}"
        );
    }
    Ok(())
}

#[cfg(target_os = "linux")]
#[test]
fn a_path_that_never_ends_is_refused() {
    let zeros = Path::new("/dev/zero");
    let tokenizer = bench_workload::HfTokenizer::open(zeros).err();
    let message = tokenizer.map(|error| error.to_string()).unwrap_or_default();
    assert!(message.contains("larger than 128 MiB"), "{message}");
    for format in ["jsonl", "txt", "sharegpt", "trace"] {
        let spec = spec(&format!("{format}:/dev/zero")).unwrap();
        let error = match Plan::new(spec, Arc::new(Words)) {
            Ok(plan) => plan.iter().find_map(Result::err),
            Err(error) => Some(error),
        };
        let message = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(message.contains("larger than"), "{format}: {message}");
    }
}

/// Opening one waits until somebody writes to it.
#[test]
fn a_pipe_is_refused_by_name_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let tokenizer = bench_workload::HfTokenizer::open(&pipe).unwrap_err();
    let dataset = spec(&format!("jsonl:{}", pipe.display())).unwrap();
    let dataset = match Plan::new(dataset, Arc::new(Words)) {
        Ok(plan) => plan.iter().find_map(Result::err),
        Err(error) => Some(error),
    };
    for error in [tokenizer, dataset.unwrap()] {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        let said = format!("{error}: {}", cause.unwrap_or_default());
        assert!(
            said.contains("pipe") && said.contains("to a file"),
            "{said}"
        );
    }
}
