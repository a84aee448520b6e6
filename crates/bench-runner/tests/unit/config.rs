use super::*;

struct Desk;

impl Surroundings for Desk {
    fn variable(&self, name: &str) -> Option<std::ffi::OsString> {
        match name {
            "http_proxy" => Some("http://me:hunter2@proxy:3128".into()),
            "no_proxy" => Some("near".into()),
            _ => None,
        }
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn read(&self, file: &Path) -> Result<String, String> {
        Err(format!("cannot read {}", file.display()))
    }
}

fn configured(text: &str) -> Result<Settings, String> {
    let benchmark = Benchmark::Throughput;
    let flags = flags(benchmark, "", ["b".into()]).unwrap();
    let file = Some((Path::new("x.toml"), text));
    settings(benchmark, flags, file, &Desk).map_err(|problems| format!("{problems:?}"))
}

#[test]
fn a_body_that_would_replace_the_prompts_is_refused_by_its_key() {
    let with =
        |api: &str, body: &str| configured(&format!("api = \"{api}\"\nextra_body = '{body}'\n"));
    for (api, body, key) in [
        ("openai-chat", r#"{"messages": []}"#, "messages"),
        (
            "openai-completions",
            r#"{"seed": 1, "prompt": ""}"#,
            "prompt",
        ),
        ("anthropic-messages", r#"{"messages": null}"#, "messages"),
        ("openai-responses", r#"{"input": "mine"}"#, "input"),
        ("tgi-generate", r#"{"inputs": 1}"#, "inputs"),
    ] {
        let said = with(api, body).unwrap_err();
        assert!(said.contains(&format!("`{key}` would replace")), "{said}");
    }
    for (api, body) in [
        (
            "openai-chat",
            r#"{"seed": 7, "stream_options": {"include_usage": false}}"#,
        ),
        ("openai-completions", r#"{"max_tokens": 2}"#),
        ("ollama-generate", r#"{"options": {"num_predict": 9}}"#),
    ] {
        assert!(with(api, body).is_ok(), "{api} {body}");
    }
}

#[test]
fn a_proxy_that_is_asked_for_has_to_be_there() {
    let none = configured("proxy = true\nurl = \"http://near:1\"\n").unwrap_err();
    assert!(none.contains("has no proxy for the server"), "{none}");
    let two = configured("proxy = true\nurl = [\"http://near:1\", \"http://far\"]\n");
    assert!(two.unwrap_err().contains("different proxies"));
    let unasked = configured("url = \"http://far\"\n").unwrap();
    assert!(proxy_to(&unasked, "http://far").unwrap().is_none());
    let asked = configured("proxy = true\nurl = \"http://far\"\n").unwrap();
    assert!(proxy_to(&asked, "http://far").unwrap().is_some());
}

#[test]
fn a_prometheus_server_is_asked_for_gpus_unless_it_is_asked_for_something_else() {
    let asked = |more: &str| {
        let text = format!("prometheus = \"http://prom:9090\"\n{more}");
        prometheus(&configured(&text).unwrap().machines).unwrap()
    };
    assert_eq!(asked("").gpus.as_deref(), Some(""));
    let query = "prometheus_query = [\"kv_cache_share=max(a)\"]\n";
    assert_eq!(asked(query).gpus, None);
    let chosen = asked(&format!("{query}prometheus_gpus = 'Hostname=\"a\"'\n"));
    assert_eq!(chosen.gpus.as_deref(), Some("Hostname=\"a\""));
    let kv_cache = ("kv_cache_share".to_owned(), "max(a)".to_owned());
    assert_eq!(chosen.queries, [kv_cache]);
}

#[test]
fn pages_have_to_be_addresses_and_none_is_a_word_for_no_page() {
    let pages = |text: &str| configured(text).map(|it| it.machines.server_pages());
    assert_eq!(pages("").unwrap(), None);
    let none = pages("server_metrics = \"none\"\n");
    assert_eq!(none.unwrap(), Some(Vec::new()));
    let two = pages("server_metrics = [\"http://a/metrics?x=1\", \"http://b/metrics\"]\n");
    assert_eq!(two.unwrap().unwrap().len(), 2);
    for key in ["server_metrics", "dcgm", "prometheus", "otlp"] {
        let said = configured(&format!("{key} = \"node-7:9400\"\n")).unwrap_err();
        assert!(said.contains(key) && said.contains("no scheme"), "{said}");
    }
}

#[test]
fn a_wrong_address_is_told_without_its_key() {
    let said = configured("url = \"http://me:hunter2@h:1/v1?key=sk-123456\"\n");
    let said = format!("{said:?}");
    assert!(
        !said.contains("hunter2") && !said.contains("sk-123456"),
        "{said}"
    );
}

#[test]
fn a_dataset_that_is_not_there_is_refused_before_anything_is_started() {
    let wrong = configured("dataset = \"sharegpt:no-such-file.json\"\n").unwrap_err();
    assert!(wrong.contains("cannot read no-such-file.json"), "{wrong}");
    let there = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    configured(&format!("dataset = \"txt:{there}\"\n")).unwrap();
}
