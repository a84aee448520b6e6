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
fn what_hardly_changes_under_load_stays() {
    let along = |ttft: [f64; 2]| {
        let mut found = Finding::new(Fact::LoadEffects, 0.0);
        let evidence = ttft.map(|ns| Evidence::new(Known::Ttft.into(), ns, Unit::Ns));
        found.evidence.extend(evidence);
        headline(&found)
    };
    let said = "as load rises, TTFT p50 goes from 10.0 ms to 25.0 ms (2.50×)";
    assert_eq!(along([10e6, 25e6]), said);
    assert_eq!(
        along([10e6, 10.02e6]),
        "as load rises, TTFT p50 stays at 10.0 ms"
    );
}

#[test]
fn of_alternatives_the_first_with_all_its_numbers_stands() {
    let mut found = Finding::new(Cause::Queueing, 0.5);
    let numbers = [(Known::Waiting, 3.0), (Known::Running, 8.0)];
    let evidence = numbers.map(|(figure, n)| Evidence::new(figure.into(), n, Unit::Count));
    found.evidence.extend(evidence);
    let said = headline(&found);
    assert_eq!(
        said,
        "requests queue in the server: 3 wait on average while 8 run"
    );
}

#[test]
fn lengths_of_prompts_have_their_unit() {
    let mut found = Finding::new(Fact::PromptLength, 0.0);
    for (figure, n, unit) in [
        (Known::LatencyPenalty, 0.018, Unit::Ratio),
        (Known::FewestTokens, 12.0, Unit::Tokens),
        (Known::MostTokens, 128.0, Unit::Tokens),
    ] {
        found.evidence.push(Evidence::new(figure.into(), n, unit));
    }
    let said = "E2E grows by 1.8 % over prompts from 12 to 128 tokens";
    assert_eq!(headline(&found), said);
    found.evidence[0].figure = Known::High.into();
    let said = "E2E differs by at most 1.8 % over prompts from 12 to 128 tokens";
    assert_eq!(headline(&found), said);
}

#[test]
fn an_old_finding_says_what_it_said() {
    let mut old = Finding::new(Code::Other("tail_gap".to_owned()), 0.5);
    old.message = Some("P95 is 3.0× the median".to_owned());
    assert_eq!(headline(&old), "P95 is 3.0× the median");
}

#[test]
fn what_begins_with_the_first_request_is_not_told_to_begin_after_it() {
    let gone = |at: f64| {
        let mut found = Finding::new(Cause::ServerGone, 1.0);
        found.cells = vec!["c6".to_owned()];
        found.evidence = vec![
            Evidence::new(Known::At.into(), at, Unit::Ns),
            Evidence::new(Known::FailedShare.into(), 1.0, Unit::Ratio),
        ];
        headline(&found)
    };
    let lost = "100 % of the requests were lost";
    let said = format!("no request succeeded until the cell ended in c6: {lost}");
    assert_eq!(gone(0.0), said);
    let later = ", starting 2.00 s after the first request: ";
    assert_eq!(gone(2e9), said.replace(": ", later));
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
        "overload in r20: the server completes 2.84 requests/s of 20 requests/s offered, so its queue keeps growing"
    );
    found.evidence.remove(0);
    for (figure, ns) in [(Known::Ttft, 1e10), (Known::QuietTtft, 8e8)] {
        let evidence = Evidence::new(figure.into(), ns, Unit::Ns);
        found.evidence.push(evidence);
    }
    assert_eq!(
        headline(&found),
        "overload in r20: at 20 requests/s requests pile up until the last was sent, and a first token takes 10.0 s at the end, 800 ms at the beginning"
    );
}

#[test]
fn a_server_is_kept_from_its_cpu_by_others_or_uses_all_of_it_itself() {
    let told = |numbers: &[(Known, f64)]| {
        let mut found = Finding::new(Cause::ServerStarved, 0.5);
        let evidence =
            |(figure, n): &(Known, f64)| Evidence::new((*figure).into(), *n, Unit::Ratio);
        found.evidence.extend(numbers.iter().map(evidence));
        headline(&found)
    };
    let by_itself = told(&[(Known::HostCpu, 0.98), (Known::ServerCores, 1.9)]);
    assert_eq!(by_itself, "the server uses all of its CPUs: 98.0 % CPU use");
    let by_others = told(&[(Known::HostSteal, 0.2), (Known::HostCpu, 0.98)]);
    assert!(by_others.starts_with("the server lacks CPU time: the hypervisor"));
}

#[test]
fn slower_decoding_is_told_with_what_it_buys() {
    let mut found = Finding::new(Cause::DecodeSlowsWithLoad, 0.5);
    let number = |figure: Known, n, unit| Evidence::new(figure.into(), n, unit);
    found.evidence = vec![
        number(Known::Tpot, 5.49e6, Unit::Ns),
        number(Known::QuietTpot, 1.16e6, Unit::Ns),
    ];
    let slower = "decode slows down under load: 5.49 ms per token, 1.16 ms at low load";
    assert_eq!(headline(&found), slower);
    found
        .evidence
        .push(number(Known::ScalingFactor, 2.0, Unit::Count));
    assert_eq!(
        headline(&found),
        format!("{slower}; throughput is 2× that at low load")
    );
}

#[test]
fn where_a_finding_is_does_not_depend_on_the_words_of_its_sentence() {
    let mut found = Finding::new(Code::Other("kv".to_owned()), 0.5);
    found.message = Some("the server's cells of memory are worn".to_owned());
    found.cells = vec!["c8".to_owned()];
    assert_eq!(
        placed(&found),
        "the server's cells of memory are worn in c8"
    );
    let mut found = Finding::new(Cause::Overload, 0.5);
    for (figure, rate) in [(Known::ServedRate, 2.0), (Known::OfferedRate, 20.0)] {
        let evidence = Evidence::new(figure.into(), rate, Unit::RequestsPerS);
        found.evidence.push(evidence);
    }
    found.cells = ["c8", "c16", "c32"].map(str::to_owned).to_vec();
    assert_eq!(placed(&found).matches("more cells").count(), 1);
}

#[test]
fn what_nobody_can_tell_says_how_much_more_would_decide_with_and_without_ends() {
    let mut found = Finding::new(Answer::SloUndecided, 0.0);
    let number = |figure: Known, cell: &str, value, unit| Evidence {
        of: Some("P95 TTFT".to_owned()),
        cell: Some(cell.to_owned()),
        ..Evidence::new(figure.into(), value, unit)
    };
    found.evidence = vec![
        number(Known::Limit, "c8", 2e8, Unit::Ns),
        number(Known::TimesAsMany, "c8", 3.0, Unit::Count),
    ];
    let decide = "times as many requests needed to decide)";
    assert_eq!(
        headline(&found),
        format!("the data cannot decide P95 TTFT ≤ 200 ms in c8 (about 3 {decide}")
    );
    found.evidence.extend([
        number(Known::Limit, "c16", 2e8, Unit::Ns),
        number(Known::TimesAsMany, "c16", 5.0, Unit::Count),
    ]);
    assert_eq!(
        headline(&found),
        format!("the data cannot decide P95 TTFT ≤ 200 ms in 2 cells (about 3 to 5 {decide}")
    );
    // a number that nobody can use is none
    let mut far = found.clone();
    far.evidence
        .push(number(Known::Limit, "c32", 2e8, Unit::Ns));
    far.evidence
        .push(number(Known::TimesAsMany, "c32", 12_340.0, Unit::Count));
    let said = "in 3 cells (about 3 to more than 100 times as many requests needed to decide)";
    assert!(headline(&far).ends_with(said), "{}", headline(&far));
    // of one that no answer has a value of
    let mut none = Finding::new(Answer::SloUndecided, 0.0);
    none.evidence = vec![
        number(Known::Limit, "c8", 2e8, Unit::Ns),
        number(Known::Vacuous, "c8", 100.0, Unit::Count),
    ];
    let said = "the data cannot decide P95 TTFT ≤ 200 ms in c8 (no request has this value)";
    assert_eq!(headline(&none), said);
    // of one whose share is what is asked no number is known
    found
        .evidence
        .push(number(Known::Limit, "c32", 2e8, Unit::Ns));
    assert!(headline(&found).ends_with(
        "in 3 cells (about 3 to 5 times as many requests needed to decide in 2 of them)"
    ));
}
