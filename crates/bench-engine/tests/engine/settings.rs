//! Faults and profiles as they are written.

use bench_engine::config::PROFILES;
use bench_engine::{EngineConfig, Fault, FaultKind, FaultSet, PlannedFault};

#[test]
fn every_fault_is_read_back_from_how_it_is_written() {
    for kind in FaultKind::ALL {
        let fault = Fault {
            kind: *kind,
            argument: kind.default_argument().unwrap_or(0),
        };
        assert_eq!(fault.to_string().parse::<Fault>().unwrap(), fault);
        assert_eq!(kind.name().parse::<Fault>().unwrap(), fault);
        assert!(kind.summary().ends_with('.'), "{}", kind.name());
    }
}

#[test]
fn unknown_names_and_arguments_are_refused_with_the_text_that_was_given() {
    for bad in ["nope", "reset-mid:x", "html:3"] {
        let message = FaultSet::parse(&format!("crlf;{bad}"))
            .unwrap_err()
            .to_string();
        assert!(message.contains(bad), "{message}");
    }
    assert!(FaultSet::parse(" ; ").unwrap().is_empty());
}

#[test]
fn a_share_strikes_about_that_many_and_always_the_same() {
    let plan = PlannedFault {
        fault: "html".parse().unwrap(),
        from: 10,
        until: Some(10_010),
        every: 1,
        share: 0.2,
    };
    let struck: Vec<u64> = (0..20_000).filter(|n| plan.strikes(*n, 7)).collect();
    assert!((1_800..2_200).contains(&struck.len()), "{}", struck.len());
    assert!(struck.iter().all(|n| (10..10_010).contains(n)));
    assert_eq!(
        struck,
        (0..20_000)
            .filter(|n| plan.strikes(*n, 7))
            .collect::<Vec<_>>()
    );
}

#[test]
fn every_listed_profile_exists_passes_its_check_and_survives_toml() {
    for (name, ..) in PROFILES {
        let config = EngineConfig::profile(name).unwrap();
        config.check().unwrap();
        let text = toml::to_string(&config).unwrap();
        assert_eq!(
            toml::from_str::<EngineConfig>(&text).unwrap(),
            config,
            "{name}"
        );
    }
}

#[test]
fn an_unknown_profile_is_refused_with_the_list() {
    let message = EngineConfig::profile("70b").unwrap_err().to_string();
    assert!(
        message.contains("70b") && message.contains("gpt2-124m"),
        "{message}"
    );
}

#[test]
fn unknown_keys_are_refused_where_they_stand() {
    let error = toml::from_str::<EngineConfig>("[engine]\nkind = \"fixed\"\nttft = 3")
        .unwrap_err()
        .to_string();
    assert!(error.contains("ttft"), "{error}");
}
