//! What plans ask, and that they never ask the same by accident.

use std::collections::{BTreeMap, HashSet};

use crate::support_plans::{Problem, all, open, plan, spec};
use bench_schema::{ArrivalKind, Phase, Prompt, Role};
use bench_workload::{
    Calibration, LengthCategory, PlanSpec, Planned, Salt, Seed, USE_CASES, UseCase,
    continue_conversation,
};

fn text(planned: &Planned) -> String {
    match &planned.item.request.prompt {
        Prompt::Text(text) => text.to_string(),
        other => format!("{other:?}"),
    }
}

#[test]
fn no_prompt_is_shared_by_requests_warm_up_cells_or_repeats() -> Result<(), Problem> {
    for dataset in [
        "mixed",
        "random",
        "text",
        "study:short",
        "spread",
        "multiturn:1:40:10",
        "txt:../../fixtures/datasets/prompts.txt",
    ] {
        let base = PlanSpec {
            requests: Some(300),
            ..spec(dataset)?
        };
        let variants = [
            base.clone(),
            PlanSpec {
                phase: Phase::Warmup,
                ..base.clone()
            },
            PlanSpec {
                repeat: 1,
                ..base.clone()
            },
            PlanSpec {
                cell: "c16".to_owned(),
                ..base.clone()
            },
            PlanSpec {
                seed: Seed::new(43),
                ..base
            },
        ];
        let mut beginnings = HashSet::new();
        for variant in variants {
            for planned in all(&plan(variant)?)? {
                // a cache works on beginnings: two prompts may share none of more than a few characters
                let beginning: String = text(&planned).chars().take(24).collect();
                assert!(
                    beginnings.insert(beginning),
                    "{dataset}: {}",
                    text(&planned)
                );
            }
        }
    }
    Ok(())
}

#[test]
fn without_salt_the_prompts_are_those_of_the_dataset() -> Result<(), Problem> {
    let spec = PlanSpec {
        salt: Salt::Never,
        ..spec("mixed")?
    };
    let known: HashSet<&str> = USE_CASES.iter().flat_map(UseCase::prompts).collect();
    assert!(
        all(&plan(spec)?)?
            .iter()
            .all(|planned| known.contains(text(planned).as_str()))
    );
    Ok(())
}

#[test]
fn the_cells_of_a_sweep_differ_in_words_but_not_in_lengths_or_use_cases() -> Result<(), Problem> {
    let base = PlanSpec {
        input: Some("lognormal:4:1".parse()?),
        ..spec("mixed")?
    };
    let other = PlanSpec {
        cell: "c64".to_owned(),
        load: open(80.0, ArrivalKind::Poisson),
        ..base.clone()
    };
    let (one, two) = (all(&plan(base)?)?, all(&plan(other)?)?);
    for (one, two) in one.iter().zip(&two) {
        assert_eq!(one.item.size, two.item.size);
        assert_eq!(one.item.use_case, two.item.use_case);
        assert_eq!(one.item.request.max_tokens, two.item.request.max_tokens);
        assert_ne!(text(one), text(two));
        // four times the rate: the same gaps, a quarter as long, to the nanosecond
        let (slow, fast) = (one.due.ok_or("due")?, two.due.ok_or("due")?);
        assert!((slow.get() - 4 * fast.get()).abs() <= 4);
    }
    Ok(())
}

#[test]
fn the_mixed_workload_has_its_use_cases_in_their_proportions() -> Result<(), Problem> {
    let spec = PlanSpec {
        requests: Some(5_000),
        ..spec("mixed")?
    };
    let mut counts: BTreeMap<String, f64> = BTreeMap::new();
    for planned in all(&plan(spec)?)? {
        let name = planned.item.use_case.ok_or("a use case")?;
        let case = USE_CASES
            .iter()
            .find(|case| case.name == name)
            .ok_or("a known one")?;
        let answer = u64::from(planned.item.request.max_tokens.ok_or("an answer length")?);
        assert!(case.answer.contains(&answer), "{name}: {answer}");
        *counts.entry(name).or_default() += 1.0;
    }
    for case in &USE_CASES {
        let share = counts[case.name] / 5_000.0;
        // three standard deviations of a share are at most 0.021
        assert!(
            (share - case.weight).abs() < 0.022,
            "{}: {share}",
            case.name
        );
    }
    Ok(())
}

#[test]
fn answers_of_a_length_that_is_asked_for_are_of_no_use_case() -> Result<(), Problem> {
    let spec = PlanSpec {
        output: Some("64".parse()?),
        ..spec("mixed")?
    };
    for planned in all(&plan(spec)?)? {
        assert_eq!(planned.item.request.max_tokens, Some(64));
        assert_eq!(planned.item.use_case, None);
    }
    Ok(())
}

#[test]
fn study_prompts_keep_their_number_of_words_behind_a_salt() -> Result<(), Problem> {
    for (dataset, words) in [
        ("study:short", 5),
        ("study:medium", 19),
        ("study:long", 106),
    ] {
        for planned in all(&plan(spec(dataset)?)?)? {
            assert_eq!(planned.item.size.words, Some(words));
            assert_eq!(text(&planned).split_whitespace().count() as u64, words);
        }
    }
    let gpt2 = all(&plan(spec("study:gpt2")?)?)?;
    let firsts: Vec<String> = gpt2.iter().take(4).map(text).collect();
    assert_eq!(firsts[0], "Hello, how are you?");
    assert_eq!(firsts[3], firsts[0], "three prompts take turns");
    Ok(())
}

#[test]
fn the_spread_falls_into_its_categories_evenly() -> Result<(), Problem> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for planned in all(&plan(spec("spread")?)?)? {
        let output = u64::from(planned.item.request.max_tokens.ok_or("an answer length")?);
        let total = planned.item.size.asked_tokens.ok_or("a prompt length")? + output;
        let category = planned.item.category.ok_or("a category")?;
        assert_eq!(LengthCategory::of(total).name(), category);
        *counts.entry(category).or_default() += 1;
    }
    assert!(counts.values().all(|count| *count == 12), "{counts:?}");
    Ok(())
}

#[test]
fn groups_share_their_prefix_and_nothing_else() -> Result<(), Problem> {
    let plan = plan(spec("prefix:3:50:10")?)?;
    let mut groups: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for planned in all(&plan)? {
        let words: Vec<String> = text(&planned)
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        assert_eq!(words.len(), 60);
        let group = planned.item.session.ok_or("a group")?;
        let (shared, own) = (words[..50].join(" "), words[50..].join(" "));
        let kept = groups.entry(group).or_insert_with(|| vec![shared.clone()]);
        assert_eq!(kept[0], shared);
        assert!(!kept.contains(&own));
        kept.push(own);
    }
    let shared: HashSet<&String> = groups.values().map(|kept| &kept[0]).collect();
    assert_eq!((groups.len(), shared.len()), (3, 3));
    Ok(())
}

#[test]
fn what_the_server_adds_is_taken_off_the_text() -> Result<(), Problem> {
    let calibration = Calibration::learn(100, 112).ok_or("the server counts more")?;
    let spec = PlanSpec {
        input: Some("256".parse()?),
        calibration,
        ..spec("random")?
    };
    for planned in all(&plan(spec)?)? {
        assert_eq!(planned.item.size.asked_tokens, Some(256));
        assert_eq!(planned.item.size.words, Some(244));
    }
    assert_eq!(Calibration::learn(100, 99), None);
    Ok(())
}

#[test]
fn prefixes_that_are_too_many_to_keep_are_made_again_the_same() -> Result<(), Problem> {
    let few = all(&plan(spec("prefix:1:40:5")?)?)?;
    assert_eq!(few.len(), 60);
    let many = PlanSpec {
        requests: Some(30),
        ..spec("prefix:1000000:40:5:zipf=3")?
    };
    let mut groups: BTreeMap<u64, String> = BTreeMap::new();
    for planned in all(&plan(many)?)? {
        let text = text(&planned);
        let shared: Vec<&str> = text.split_whitespace().take(40).collect();
        let group = planned.item.session.ok_or("a group")?;
        let first = groups.entry(group).or_insert_with(|| shared.join(" "));
        assert_eq!(*first, shared.join(" "));
    }
    assert!(
        groups.len() < 15,
        "most of 30 requests fall into the first groups"
    );
    Ok(())
}

#[test]
fn joint_lengths_are_drawn_together_for_every_request() -> Result<(), Problem> {
    for planned in all(&plan(spec("joint:1*10/1000+1*200/20")?)?)? {
        let pair = (planned.item.size.words, planned.item.request.max_tokens);
        assert!(
            [(Some(10), Some(1000)), (Some(200), Some(20))].contains(&pair),
            "{pair:?}"
        );
    }
    Ok(())
}

#[test]
fn the_summary_shows_what_the_plan_will_ask() -> Result<(), Problem> {
    let spec = PlanSpec {
        input: Some("100..200".parse()?),
        output: Some("50".parse()?),
        requests: Some(2_000),
        ..spec("random")?
    };
    let summary = plan(spec)?.summary(10_000)?;
    assert_eq!((summary.requests, summary.looked_at), (Some(2_000), 2_000));
    let asked = summary.asked_input.ok_or("lengths")?;
    assert!(asked.min >= 100 && asked.max <= 200 && (asked.mean - 150.0).abs() < 3.0);
    assert!((asked.p50 - 150.0).abs() < 4.0 && asked.p90 > 185.0);
    assert_eq!(
        summary.output.map(|output| (output.min, output.max)),
        Some((50, 50))
    );
    let arrivals = summary.arrivals.ok_or("arrivals")?;
    assert!((arrivals.mean_rate_per_s.ok_or("a rate")? - 20.0).abs() < 1.5);
    assert!((arrivals.gap_cov.ok_or("a CoV")? - 1.0).abs() < 0.1);
    assert_eq!(summary.heads.len(), 5);
    assert!(summary.sent_input.is_none(), "words are not tokens");
    Ok(())
}

#[test]
fn a_later_turn_holds_all_that_was_said_before() {
    let first = Prompt::Text("one".into());
    let Prompt::Messages(messages) =
        continue_conversation(&first, "two", &Prompt::Text("three".into()), true)
    else {
        panic!("a chat is made of messages");
    };
    let said: Vec<(Role, &str)> = messages.iter().map(|m| (m.role, &*m.content)).collect();
    assert_eq!(
        said,
        [
            (Role::User, "one"),
            (Role::Assistant, "two"),
            (Role::User, "three")
        ]
    );
    let text = continue_conversation(&first, "two", &Prompt::Text("three".into()), false);
    assert_eq!(
        text,
        Prompt::Text("one\n\nAssistant: two\n\nUser: three".into())
    );
}
