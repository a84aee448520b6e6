use super::*;
use serde_json::{Value, json};

fn values(text: &str) -> Vec<Result<Value, String>> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.json");
    std::fs::write(&file, text).unwrap();
    let mut values = Lines::of_values(&file).unwrap();
    let mut found = Vec::new();
    while let Some(value) = values
        .next_value::<Value>()
        .map_err(|e| e.to_string())
        .transpose()
    {
        found.push(value);
    }
    found
}

#[test]
fn the_elements_of_an_array_are_cut_where_they_end() {
    let text = "\u{feff}[ {\"a\": \"]},{\\\"\"} ,\n[1, [2]], 3,\n \"x,y\" ]\n";
    let found: Vec<Value> = values(text).into_iter().map(Result::unwrap).collect();
    assert_eq!(
        found,
        [
            json!({"a": "]},{\""}),
            json!([1, [2]]),
            json!(3),
            json!("x,y")
        ]
    );
}

#[test]
fn a_bad_element_is_named_by_its_line_and_the_next_ones_are_read() {
    let found = values("[{\"a\": 1},\n{\"a\" 2},\n{\"a\": 3}]");
    assert!(
        found[1].as_ref().unwrap_err().contains("x.json:2"),
        "{found:?}"
    );
    assert_eq!(found[2], Ok(json!({"a": 3})));
}

#[test]
fn an_array_that_is_cut_off_is_an_error_after_its_whole_elements() {
    let found = values("[{\"a\": 1},\n{\"a\": ");
    assert_eq!(found.len(), 2);
    assert!(found[1].as_ref().unwrap_err().contains("ends inside"));
}
