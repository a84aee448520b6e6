use super::*;

#[test]
fn a_head_is_read_with_lower_case_names_and_without_its_query() {
    let head = b"POST /v1/completions?x=1 HTTP/1.1\r\nHost: a\r\nX-Fault: crlf\r\nConnection: Close\r\n\r\nrest";
    let (request, used) = parse_head(head).unwrap().unwrap();
    assert_eq!(&head[used..], b"rest");
    assert_eq!(
        (request.path.as_str(), request.header("x-fault")),
        ("/v1/completions", Some("crlf"))
    );
    assert!(!request.keep_alive);
}

#[test]
fn a_target_may_be_a_whole_address() {
    for (target, path) in [
        ("http://gpu-box.example:8000/v1/models?x=1", "/v1/models"),
        ("http://gpu-box.example", "/"),
        ("/v1/models?x=1#y", "/v1/models"),
        ("*", "*"),
        ("/a b", "/a b"),
    ] {
        assert_eq!(path_of(target), path, "{target}");
    }
}

#[test]
fn half_a_head_waits_and_rubbish_is_refused() {
    assert!(parse_head(b"GET / HTTP/1.1\r\nHo").unwrap().is_none());
    assert!(matches!(
        parse_head(b"\x16\x03\x01\x02\x00\x01"),
        Err(NoRequest::Bad(_))
    ));
}
