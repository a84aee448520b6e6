use super::*;

fn scenario(slo: &str) -> ScenarioSet {
    ScenarioSet {
        scenarios: vec![Scenario {
            name: "chatbot".to_owned(),
            description: String::new(),
            use_cases: vec!["short-qa".to_owned()],
            slos: vec![slo.to_owned()],
        }],
    }
}

#[test]
fn an_objective_is_read_with_its_quantile_and_unit() {
    let slos = scenario("p90:e2e=2s").slos().unwrap();
    assert_eq!(slos.len(), 1);
    assert!((slos[0].q - 0.9).abs() < 1e-12 && (slos[0].limit - 2e9).abs() < 1e-3);
    assert_eq!(slos[0].use_case.as_deref(), Some("short-qa"));
    assert!((scenario("ttft=200ms").slos().unwrap()[0].q - 0.95).abs() < 1e-12);
}

#[test]
fn an_objective_may_be_written_as_a_target_is() {
    for (text, same) in [
        ("ttft.p99<=200ms", "p99:ttft=200ms"),
        ("e2e<=1.5s@short-qa", "e2e=1.5s@short-qa"),
        ("itl.p50 = 20ms", "p50:itl=20ms"),
    ] {
        assert_eq!(parse_slo(text), parse_slo(same), "{text}");
    }
    assert!(parse_slo("p99:ttft.p50=1s").is_err());
}

#[test]
fn a_wrong_objective_names_the_scenario_the_text_and_the_way_out() {
    for (slo, hint) in [
        ("e2e", "p95:e2e=1.5s"),
        ("e2e=2", "write `2ms` or `2s`"),
        ("e2e=-2s", "above 0"),
        ("px:e2e=2s", "p99.9"),
        ("speed=2s", "known are"),
    ] {
        let problem = scenario(slo).check().unwrap_err().to_string();
        assert!(
            problem.contains("chatbot") && problem.contains(hint),
            "{problem}"
        );
    }
}
