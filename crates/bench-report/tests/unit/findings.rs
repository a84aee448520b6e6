//! Tests of `src/findings.rs`.

use bench_schema::{Action, Experiment};

use super::*;

#[test]
fn every_cause_without_numbers_still_has_a_line() {
    for cause in Cause::ALL {
        let said = headline(&Finding::new(*cause, 0.5));
        assert!(!said.is_empty(), "{cause}");
    }
}

#[test]
fn every_number_that_a_sentence_names_is_one_that_findings_have() {
    let found = |line: &'static str| line.strip_prefix("found ");
    for sentence in WORDS.lines().filter_map(found) {
        for named in sentence.split('{').skip(1) {
            let name = named.split(['}', '.']).next().unwrap();
            let known = Known::ALL.iter().any(|known| known.as_str() == name);
            assert!(known || name == "place", "{name} in: {sentence}");
        }
        assert_eq!(sentence.matches('[').count(), sentence.matches(']').count());
    }
}

#[test]
fn every_name_has_its_words_and_no_words_lack_a_name() {
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    wanted.extend(Cause::ALL.iter().map(|cause| ("cause", cause.as_str())));
    wanted.extend(Action::ALL.iter().map(|action| ("try", action.as_str())));
    let experiments = Experiment::ALL.iter();
    wanted.extend(experiments.map(|experiment| ("refute", experiment.as_str())));
    wanted.extend(Known::ALL.iter().map(|known| ("figure", known.as_str())));
    // those of which the sentence is made in other ways, or stands in the run
    let own = [
        "client_limited",
        "gpu_use",
        "scaling",
        "load_effects",
        "workloads_differ",
    ];
    let own = [&own[..], &["slo_met", "slo_undecided", "planning"]].concat();
    let causes = Cause::ALL.iter().map(|code| code.as_str());
    let answers = Answer::ALL.iter().map(|code| code.as_str());
    let facts = Fact::ALL.iter().map(|code| code.as_str());
    let found = causes.chain(answers).chain(facts);
    let found = found.filter(|name| !own.contains(name) && !name.starts_with("scenario"));
    wanted.extend(found.map(|name| ("found", name)));
    for (kind, name) in &wanted {
        assert!(!words(kind, name).is_empty(), "{kind} {name}");
    }
    let said = WORDS
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert_eq!(said.count(), wanted.len());
}

#[test]
fn of_alternatives_the_first_with_all_its_numbers_stands() {
    let mut found = Finding::new(Cause::Queueing, 0.5);
    let numbers = [(Known::Waiting, 3.0), (Known::Running, 8.0)];
    let evidence = numbers.map(|(figure, n)| Evidence::new(figure.into(), n, Unit::Count));
    found.evidence.extend(evidence);
    let said = headline(&found);
    assert_eq!(said, "requests wait in the server: 3 wait while 8 run");
}

#[test]
fn an_old_finding_says_what_it_said() {
    let mut old = Finding::new(Code::Other("tail_gap".to_owned()), 0.5);
    old.message = Some("P95 is 3.0× the median".to_owned());
    assert_eq!(headline(&old), "P95 is 3.0× the median");
}

#[test]
fn overload_is_told_with_both_rates() {
    let mut found = Finding::new(Cause::Overload, 0.5);
    found.cells = vec!["r20".to_owned()];
    for (figure, rate) in [(Known::ServedRate, 2.84), (Known::OfferedRate, 20.0)] {
        found
            .evidence
            .push(Evidence::new(figure.into(), rate, Unit::RequestsPerS));
    }
    assert_eq!(
        headline(&found),
        "overload in r20: 2.84 requests/s served of 20 requests/s offered, so the queue grows for as long as it lasts"
    );
}
