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
    assert_eq!(hidden("bad key sk-plainsecr…"), "bad key ***…");
    assert_eq!(hidden("a key begins with sk-"), "a key begins with sk-");
    assert_eq!(hidden("<geheimschlüssel-für-alle-fälle>"), "<***>");
    assert_eq!(hidden("<geheimschlüssel-für-al…"), "<***…");
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
