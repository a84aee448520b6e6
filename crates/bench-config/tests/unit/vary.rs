use super::*;

#[test]
fn values_are_crossed_and_a_constraint_leaves_some_out() {
    let varied = ["tp=1,2", "seqs=8,16,32"].map(|text| text.parse().unwrap());
    let names = |only: &[&str]| -> Vec<String> {
        let only: Vec<Only> = only.iter().map(|text| text.parse().unwrap()).collect();
        let all = settings_of(&varied, &only);
        all.iter().map(|one| filled("{tp}-{seqs}", one)).collect()
    };
    assert_eq!(names(&[]), ["1-8", "1-16", "1-32", "2-8", "2-16", "2-32"]);
    assert_eq!(
        names(&["tp=2:seqs=16,32"]),
        ["1-8", "1-16", "1-32", "2-16", "2-32"]
    );
    assert_eq!(settings_of(&[], &[]), [Values::new()]);
}

#[test]
fn what_is_written_reads_back() {
    for text in ["a=1,2", "a=[\"0\",\"0,1\"]"] {
        assert_eq!(text.parse::<Vary>().unwrap().to_string(), text);
    }
    let json: Vary = "a=[1, true, \"x y\"]".parse().unwrap();
    assert_eq!(json.values, ["1", "true", "x y"]);
    let rule = "tp=2:seqs=16,32";
    assert_eq!(rule.parse::<Only>().unwrap().to_string(), rule);
    // a value that is left out is one: a switch that is not there
    assert_eq!(
        "a=,--eager".parse::<Vary>().unwrap().values,
        ["", "--eager"]
    );
    for wrong in ["a", "a=", "a=1,1", "a b=1", "a=[[1]]"] {
        assert!(wrong.parse::<Vary>().is_err(), "{wrong}");
    }
}

#[test]
fn names_in_braces_are_placeholders_and_json_is_not() {
    let command = r#"serve {model} --json '{"a": {"b": 1}}' --port {port} {0}"#;
    assert_eq!(placeholders(command), ["model", "port"]);
}
