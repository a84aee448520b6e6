use bench_schema::Benchmark;

use super::*;

fn secrets(args: &[&str]) -> Secrets {
    Secrets::of(&crate::config::for_tests(Benchmark::Throughput, args))
}

#[test]
fn keys_and_all_header_values_are_taken_out_of_what_a_server_says_back() {
    let secrets = secrets(&[
        "--header",
        "Authorization: Bearer sk-abcdef-long",
        "--header",
        "X-Api-Key: sk-abcdef",
        "--header",
        "x-tenant: tenant-4711",
    ]);
    let said = "tenant-4711: sk-abcdef-long is no key, nor is sk-abcdef";
    assert_eq!(secrets.hidden(said), "***: *** is no key, nor is ***");
}

#[test]
fn the_forms_of_a_secret_are_hidden_too() {
    let secrets = secrets(&["--header", "x-key: p\"ss/w rd+1"]);
    // from Python: base64.b64encode(b'p"ss/w rd+1'), urllib.parse.quote(…, safe='')
    for form in [
        "p\"ss/w rd+1",
        "p\\\"ss/w rd+1",
        "cCJzcy93IHJkKzE=",
        "cCJzcy93IHJkKzE",
        "p%22ss%2Fw%20rd%2B1",
        "p%22ss%2fw%20rd%2b1",
        "p\"ss/w+rd+1",
        "702273732f772072642b31",
        "702273732F772072642B31",
        "P\"SS/W RD+1",
        "p\"s\0s/w rd\r\n+1",
        "cCJzcy9\\n3IHJkKzE=",
        "p&quot;ss&#47;w&#x20;rd&#43;1",
        "\\u0070\\u0022\\u0073\\u0073\\/w rd+1",
        "%70%22%73%73%2F%77%20%72%64%2B%31",
        "\\x70\\x22ss/w rd+1",
        // JSON in JSON, a percent form in HTML, and one in another
        "p\\\\\\\"ss/w rd+1",
        "&#37;70&#37;22ss/w rd+1",
        "%2570%2522ss/w%2520rd+1",
    ] {
        assert_eq!(secrets.hidden(&format!("<{form}>")), "<***>", "{form}");
    }
}

#[test]
fn a_secret_that_is_encoded_together_with_what_stands_around_it_is_hidden() {
    let secrets = secrets(&["--header", "Authorization: Basic bWU6b3Blbi0xMjM0NTY="]);
    for around in [
        "",
        "x",
        "xy",
        "xyz",
        "Authorization: Basic bWU6b3Blbi0xMjM0NTY=, ",
    ] {
        for secret in ["bWU6b3Blbi0xMjM0NTY=", "open-123456"] {
            let own = secrets.hidden(&BASE64_STANDARD.encode(format!("{around}{secret} is wrong")));
            let left = own.replace(HIDDEN, "");
            let all = BASE64_STANDARD.encode(format!("{around} is wrong"));
            assert!(left.len() <= all.len() + 4, "{around}{secret}: {own}");
        }
    }
    assert_eq!(
        secrets.hidden("open-123456 of me:open-123456"),
        "*** of ***"
    );
}

#[test]
fn words_and_numbers_are_taken_out_of_what_others_said_and_of_nothing_else() {
    let secrets = secrets(&["--header", "x-a: requests", "--header", "x-n: 123456"]);
    let own = "of 123456 requests";
    assert_eq!(secrets.hidden(own), own);
    let mut said = own.to_owned();
    secrets.hide(&mut said);
    assert_eq!(said, "of *** ***");
}

#[test]
fn a_secret_that_a_message_cut_in_two_is_hidden_and_a_few_letters_of_it_are_not() {
    let secrets = secrets(&[
        "--header",
        "x-key: sk-plainsecretkey-01234567",
        "--header",
        "x-word: geheimschlüssel-für-alle-fälle",
    ]);
    let hidden = |text: &str| secrets.hidden(text);
    assert_eq!(hidden("bad key sk-plainsecretkey-0…"), "bad key ***…");
    for end in 4..=12 {
        let cut = &"sk-plainsecretkey"[..end];
        assert_eq!(hidden(&format!("bad key {cut}…")), "bad key ***…");
    }
    let escaped = "it begins with `{\\\"key\\\": \\\"sk-pla…`";
    assert_eq!(hidden(escaped), escaped.replace("sk-pla", "***"));
    // what was not cut, and words before a secret, stay
    assert_eq!(hidden("the word is gehei"), "the word is gehei");
    let bearer = self::secrets(&["--header", "Authorization: Bearer sk-abcdef-long"]);
    assert_eq!(bearer.hidden("no Bearer…"), "no Bearer…");
    assert_eq!(bearer.hidden("no Bearer sk-a…"), "no Bearer ***…");
    assert_eq!(hidden("a key begins with sk-"), "a key begins with sk-");
    assert_eq!(hidden("<geheimschlüssel-für-alle-fälle>"), "<***>");
    assert_eq!(hidden("<geheimschlüssel-für-al…"), "<***…");
}

#[test]
fn the_end_of_a_kept_answer_shows_no_beginning_of_a_secret() {
    let secrets = secrets(&["--header", "x-key: sk-plainsecretkey-01234567"]);
    let kept = |said: &str, of: u64| {
        let exchange = bench_schema::Exchange::nothing(Outcome::Completed);
        let mut record = RequestRecord::bare(1, "c8", exchange);
        record.wire.text = Some(said.to_owned());
        record.wire.text_chars = of;
        secrets.hide_in(&mut record);
        record.wire.text.unwrap()
    };
    assert_eq!(kept("my key is sk-plai", 400), "my key is ***");
    assert_eq!(kept("as I said", 400), "as I said");
    let whole = "my key is sk-plainsecretkey-01234567";
    assert_eq!(kept(whole, 36), "my key is ***");
    // the end of the answer is its own
    assert_eq!(kept("it begins with sk-plai", 22), "it begins with sk-plai");
}

#[test]
fn what_is_secret_in_addresses_is_hidden_written_and_decoded() {
    let page = "http://h:1/m?key=abc%21def&x=1";
    let secrets = secrets(&["--server-metrics", page]);
    let said = "abc%21def abc!def x=1";
    assert_eq!(secrets.hidden(said), "*** *** x=1");
    // credentials stand in a proxy's address only
    let of_proxy = in_url("http://me:pass%40word@proxy:3128");
    let expected = ["me:pass%40word", "pass%40word", "me:pass@word", "pass@word"];
    assert_eq!(of_proxy, expected);
}

#[test]
fn a_whole_result_is_without_them_and_can_be_read() {
    let text = include_str!("../../../../fixtures/results/v1.2/run.json");
    let mut run = RunRecord::from_json(text).unwrap();
    run.server.models = vec!["sk-abcdef".to_owned()];
    run.server
        .facts
        .insert("sk-abcdef".to_owned(), "a sk-abcdef b".to_owned());
    secrets(&[
        "--header",
        "a: sk-abcdef",
        "--header",
        "b: latency",
        "--header",
        "c: untrusted",
    ])
    .hide_in_run(&mut run);
    let stored = serde_json::to_string(&run).unwrap();
    assert!(!stored.contains("sk-abcdef") && RunRecord::from_json(&stored).is_ok());
    assert_eq!(run.server.models, ["***"]);
}

#[test]
fn keys_in_a_body_are_secrets_by_their_names() {
    let secrets = secrets(&[
        "--extra-body",
        r#"{"api_key": "sk-in-body-1", "user": {"auth-token": ["sk-in-body-2"]}, "stop": "a-stop-word"}"#,
    ]);
    let said = "sk-in-body-1, sk-in-body-2, a-stop-word";
    assert_eq!(secrets.hidden(said), "***, ***, a-stop-word");
}

#[test]
fn tokens_and_what_stands_under_the_name_of_a_secret_are_secrets_and_special_tokens_are_not() {
    let secrets = secrets(&[
        "--extra-body",
        r#"{"token": "tk-body-11", "hf_token": "hf_body22", "auth": {"bearer": "br-body-33"}, "credentials": {"user": "me-body-44"},
            "private_key": "pk-body-55", "pwd": "pw-body-66", "eos_token": "<|im_end|>", "prompt_cache_key": "shared-77", "max_tokens": "no-number-88"}"#,
    ]);
    let said = "tk-body-11 hf_body22 br-body-33 me-body-44 pk-body-55 pw-body-66";
    assert_eq!(secrets.hidden(said), "*** *** *** *** *** ***");
    let said = "<|im_end|> shared-77 no-number-88";
    assert_eq!(secrets.hidden(said), said);
}

#[test]
fn keys_in_the_command_of_a_server_and_in_a_reset_are_secrets() {
    let server = r#"env HF_TOKEN=hf_command11 vllm serve org/model --api-key sk-command-22 --ssl-password=pw-command-33 --port {port} --max-num-batched-tokens 123456
        --kv-transfer-config '{"access_key": "ak-command-44"}' --env=HF_TOKEN=hf_command55"#;
    let of_server = secrets(&["--server", server]);
    let said =
        "hf_command11 sk-command-22 pw-command-33 ak-command-44 hf_command55 org/model 123456";
    assert_eq!(
        of_server.hidden(said),
        "*** *** *** *** *** org/model 123456"
    );
    let reset = r#"sh -c "curl -u admin:pw-reset-11 -H 'Authorization: Bearer sk-reset-22' -X POST 'http://me:pw-reset-33@{url}/reset?key=k-reset-44'""#;
    let said = "pw-reset-11 sk-reset-22 pw-reset-33 k-reset-44 admin";
    let of_command = secrets(&["--reset", reset]);
    assert_eq!(of_command.hidden(said), "*** *** *** *** admin");
    let of_page = secrets(&["--reset", "{url}/reset?key=k-reset-44"]);
    assert_eq!(of_page.hidden("k-reset-44"), "***");
}

#[test]
fn each_cookie_and_each_parameter_of_an_authorization_is_a_secret() {
    let secrets = secrets(&[
        "--header",
        "Cookie: session=abc-123-def; other=ghi-456-jkl",
        "--header",
        "Proxy-Authorization: Digest nonce=\"n0nce-789\", uri=/",
        "--header",
        "x-model: name=llama-70b",
    ]);
    let said = "abc-123-def ghi-456-jkl n0nce-789 llama-70b";
    assert_eq!(secrets.hidden(said), "*** *** *** llama-70b");
}

#[test]
fn letters_beyond_ascii_are_hidden_in_upper_and_lower_case() {
    let body = r#"{"pwd": "pässWörd-ключ-鍵-7777"}"#;
    let hidden = secrets(&[
        "--extra-body",
        body,
        "--header",
        "x-custom: hx Tok/en-4418 é zz9",
    ]);
    for said in [
        "no: PÄSSWÖRD-КЛЮЧ-鍵-7777",
        "no: pässwörd-ключ-鍵-7777",
        r"no: P\u00c4SSW\u00d6RD-\u041a\u041b\u042e\u0427-\u9375-7777",
        "no: HX TOK/EN-4418 É ZZ9",
    ] {
        let mut text = said.to_owned();
        hidden.hide(&mut text);
        assert_eq!(text, "no: ***", "{said}");
    }
}
