use bench_client::protocol_by_name;

use super::*;

#[test]
fn a_server_that_is_not_there_is_named_once_with_the_reason() {
    let said = |args: &[&str]| {
        let settings = config::for_tests(bench_schema::Benchmark::Throughput, args);
        let error = bench_client::ClientError::NotReady {
            url: "http://h:1".to_owned(),
            waited_s: 61.2,
            last: "http://h:1: nobody listens there".to_owned(),
        };
        let urls = ["http://h:1".to_owned()];
        cannot_measure(&error, &settings, &urls).to_string()
    };
    let first = |text: String| text.lines().next().map(str::to_owned).unwrap();
    assert_eq!(
        first(said(&["--url", "http://h:1"])),
        "http://h:1 cannot be measured: nobody listens there"
    );
    assert_eq!(
        first(said(&["--url", "http://h:1", "--wait", "60s"])),
        "http://h:1 cannot be measured after 61 s: nobody listens there"
    );
}

#[test]
fn what_a_protocol_says_makes_it_a_chat_and_not_its_files_name() {
    let folder = tempfile::tempdir().unwrap();
    let chat_folder = folder.path().join("chat");
    std::fs::create_dir(&chat_folder).unwrap();
    let template = |body: &str| {
        let file = chat_folder.join("api.json");
        let text = format!(r#"{{"path": "/", "body": {body}, "text": "/t"}}"#);
        std::fs::write(&file, text).unwrap();
        let name = format!("template:{}", file.display());
        takes_conversations(&*protocol_by_name(&name).unwrap())
    };
    assert!(!template(r#"{"p": "{{prompt}}"}"#));
    assert!(template(r#"{"m": "{{messages}}"}"#));
    for (name, chat) in [
        ("openai-chat", true),
        ("openai-completions", false),
        ("anthropic-messages", true),
        ("openai-responses", true),
        ("ollama-chat", true),
        ("ollama-generate", false),
        ("embeddings", false),
    ] {
        assert_eq!(
            takes_conversations(&*protocol_by_name(name).unwrap()),
            chat,
            "{name}"
        );
    }
}
