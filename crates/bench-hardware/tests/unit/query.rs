//! Answers of a Prometheus server.

use super::*;

#[test]
fn vectors_and_scalars_are_read_with_their_labels() {
    let vector = br#"{"status":"success","data":{"resultType":"vector","result":[
        {"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","gpu":"0","instance":"h:9400"},"value":[1700000000.1,"97"]},
        {"metric":{"gpu":"1"},"value":[1700000000.1,"NaN"]}]}}"#;
    let series = instant(vector).unwrap();
    assert_eq!(series[0].name, "DCGM_FI_DEV_GPU_UTIL");
    assert_eq!(shown(&series[0].labels), "gpu=0,instance=h:9400");
    assert!((series[0].value - 97.0).abs() < 1e-9 && series[1].value.is_nan());
    let scalar = br#"{"status":"success","data":{"resultType":"scalar","result":[1,"2.5"]}}"#;
    let number = &instant(scalar).unwrap()[0];
    assert!((number.value - 2.5).abs() < 1e-9 && number.labels.is_empty());
}

#[test]
fn what_is_not_an_instant_is_refused_with_the_servers_words() {
    for (body, word) in [
        (
            r#"{"status":"error","errorType":"bad_data","error":"parse error at char 3"}"#,
            "parse error at char 3",
        ),
        (
            r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#,
            "range",
        ),
        (r#"{"status":"success"}"#, "no data"),
        ("<html>", "expected value"),
    ] {
        let error = instant(body.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn a_query_that_finds_too_much_is_said_and_not_cut() {
    let sample = |gpu: usize| Sample {
        name: "up".to_owned(),
        labels: [("gpu".to_owned(), gpu.to_string())].into(),
        value: 1.0,
    };
    let samples: Vec<Sample> = (0..=MAX_PARTS).map(sample).collect();
    let why = parts(Some("up"), &samples).unwrap_err();
    assert!(why.contains("257") && why.contains("labels"), "{why}");
    assert_eq!(parts(Some("up"), &samples[1..]).unwrap().len(), MAX_PARTS);
    assert!(parts(None, &samples).unwrap_err().contains("no GPU"));
}

#[test]
fn queries_survive_the_address_line() {
    assert_eq!(
        percent_encoded(r#"avg(a{b="c d"})"#),
        "avg%28a%7Bb%3D%22c%20d%22%7D%29"
    );
}
