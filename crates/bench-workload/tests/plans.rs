//! Plans: the same everywhere.

use std::sync::Arc;

use crate::support_plans::{Problem, all, hash, open, part, plan, spec};
use bench_schema::{ArrivalKind, Nanos, PlanHash};
use bench_workload::{Plan, PlanSpec, Planned, Seed, Shard, Words};
use proptest::prelude::*;

const DATASETS: [&str; 11] = [
    "mixed",
    "random",
    "random-ids:1000",
    "text",
    "study:short",
    "study:gpt2",
    "spread",
    "prefix:4:64:8..32:zipf=1",
    "multiturn:3:40:10",
    "multiturn:1..5:40:10:think=0.5",
    "sharegpt-turns:../../fixtures/datasets/sharegpt.json",
];

fn spec_for(dataset: &str) -> Result<PlanSpec, Problem> {
    let mut spec = spec(dataset)?;
    spec.chat = !dataset.starts_with("random-ids");
    Ok(spec)
}

/// The plans of this version on the machine where it was written. A change here means that the same seed asks something
/// else than before: say so in the changelog.
const GOLDEN: [(&str, &str); 11] = [
    ("mixed", "7ef85793855f88a3"),
    ("random", "b1c6afc67c1fd0c1"),
    ("random-ids:1000", "5a54eabd407f495b"),
    ("text", "d0eabeacb9ae0c1c"),
    ("study:short", "c37e3c6346e1ec0a"),
    ("study:gpt2", "68594073d7650eb0"),
    ("spread", "fbd7382fded5ac8d"),
    ("prefix:4:64:8..32:zipf=1", "a1b4f0dbc07cc68c"),
    ("multiturn:3:40:10", "f302d98d559735f1"),
    ("multiturn:1..5:40:10:think=0.5", "e1d932878f98a38d"),
    (
        "sharegpt-turns:../../fixtures/datasets/sharegpt.json",
        "54e5be0dc4679b07",
    ),
];

/// The same of closed loops, whose lengths are drawn evenly.
const GOLDEN_CLOSED: [(&str, &str); 3] = [
    ("mixed", "16a2d1dd80bf8488"),
    (
        "joint:3*16..64/8+1*normal:200:30/64..96",
        "2e3fb0d0c9a43b93",
    ),
    ("prefix:4:64:8..32:zipf=1", "5002662c820aa698"),
];

#[test]
fn plans_are_the_same_on_every_machine() -> Result<(), Problem> {
    let open = spec("mixed")?.load;
    let closed = bench_schema::Load::closed(8);
    let golden = GOLDEN.iter().map(|golden| (&open, golden));
    let golden = golden.chain(GOLDEN_CLOSED.iter().map(|golden| (&closed, golden)));
    let mut seen = Vec::new();
    for (load, (dataset, _)) in golden.clone() {
        let planned = all(&plan(PlanSpec {
            load: load.clone(),
            ..spec_for(dataset)?
        })?)?;
        seen.push((*dataset, hash(&planned).to_string()[..16].to_owned()));
    }
    let expected = golden.map(|(_, (dataset, hash))| (*dataset, (*hash).to_owned()));
    assert_eq!(seen, expected.collect::<Vec<_>>());
    Ok(())
}

#[test]
fn due_times_of_every_process_are_the_same_on_every_machine() -> Result<(), Problem> {
    let kinds = [
        (ArrivalKind::Poisson, "68594073d7650eb0"),
        (ArrivalKind::Gamma { cov: 2.5 }, "0d9f905967e411f7"),
        (
            ArrivalKind::Ramp {
                from_per_s: 1.0,
                to_per_s: 9.0,
            },
            "06b31a35ca721e1b",
        ),
    ];
    let mut found = Vec::new();
    for (kind, _) in &kinds {
        let spec = PlanSpec {
            load: open(20.0, kind.clone()),
            ..spec("study:gpt2")?
        };
        found.push(hash(&all(&plan(spec)?)?).to_string()[..16].to_owned());
    }
    let expected: Vec<&str> = kinds.iter().map(|(_, hash)| *hash).collect();
    assert_eq!(found, expected);
    Ok(())
}

#[test]
fn shards_make_exactly_the_requests_of_the_whole() -> Result<(), Problem> {
    let loads = [spec("mixed")?.load, bench_schema::Load::closed(5)];
    for (dataset, load) in DATASETS
        .iter()
        .flat_map(|dataset| loads.each_ref().map(|load| (*dataset, load)))
    {
        let plan = plan(PlanSpec {
            load: load.clone(),
            ..spec_for(dataset)?
        })?;
        let whole = all(&plan)?;
        assert_eq!(whole.len(), 60, "{dataset}");
        for count in [1, 2, 3, 7, 64] {
            let mut parts = Vec::new();
            let mut sum = PlanHash::default();
            for index in 0..count {
                let part = part(&plan, index, count)?;
                assert!(part.is_sorted_by_key(|planned| planned.index));
                sum += hash(&part);
                parts.extend(part);
            }
            assert_eq!(sum, hash(&whole), "{dataset} in {count} shards");
            parts.sort_by_key(|planned| planned.index);
            assert!(parts == whole, "{dataset} in {count} shards");
        }
    }
    Ok(())
}

#[test]
fn a_plan_of_one_shard_alone_is_that_part_of_the_whole() -> Result<(), Problem> {
    let whole = all(&plan(spec("mixed")?)?)?;
    let shard = Shard { index: 1, count: 4 };
    let part = all(&plan(PlanSpec {
        shard,
        ..spec("mixed")?
    })?)?;
    let expected: Vec<&Planned> = whole
        .iter()
        .filter(|planned| planned.index % 4 == 1)
        .collect();
    assert_eq!(part.iter().collect::<Vec<_>>(), expected);
    Ok(())
}

/// Else a shard with one slot more would be done, and idle, while the others go on.
#[test]
fn shards_of_a_closed_loop_have_requests_for_their_slots() -> Result<(), Problem> {
    for (slots, parts) in [(6, [20, 20, 10, 10]), (4, [15; 4]), (7, [17, 17, 17, 9])] {
        let load = bench_schema::Load::closed(slots);
        let plan = plan(PlanSpec {
            load: load.clone(),
            ..spec("mixed")?
        })?;
        for (index, requests) in (0..).zip(parts) {
            let part = part(&plan, index, 4)?;
            assert_eq!(part.len(), requests, "{slots} slots, shard {index}");
            // its first ones are for its own slots
            let own = load
                .part(u32::try_from(index)?, 4)
                .fewest_in_flight()
                .ok_or("a number")?;
            let first = part
                .iter()
                .filter(|planned| planned.index < u64::from(slots));
            assert_eq!(first.count(), own as usize);
        }
    }
    Ok(())
}

#[test]
fn later_turns_wait_for_the_answer_before_and_stay_in_one_shard() -> Result<(), Problem> {
    let plan = plan(spec("multiturn:3:40:10:think=1.5")?)?;
    for planned in part(&plan, 1, 2)? {
        assert_eq!(planned.item.session.map(|session| session % 2), Some(1));
        if planned.item.turn == Some(0) {
            assert!(planned.due.is_some() && planned.item.after.is_none());
            continue;
        }
        let after = planned.item.after.ok_or("it waits")?;
        assert_eq!(after.index, planned.index - 1);
        assert_eq!(after.delay, Nanos::from_millis(1_500));
        assert_eq!(planned.due, None);
    }
    Ok(())
}

/// A rate of conversations is scaled to the conversations that the requests make, not to the requests.
#[test]
fn conversations_arrive_at_exactly_the_rate_that_was_asked_for() -> Result<(), Problem> {
    for dataset in [
        "multiturn:3:40:10",
        "multiturn:1..5:40:10:think=0.5",
        "sharegpt-turns:../../fixtures/datasets/sharegpt.json",
        "random",
    ] {
        for seed in 1..6 {
            let plan = plan(PlanSpec {
                requests: Some(300),
                seed: Seed::new(seed),
                ..spec(dataset)?
            })?;
            let due: Vec<Nanos> = all(&plan)?.iter().filter_map(|one| one.due).collect();
            let last = due.last().ok_or("arrivals")?.as_secs_f64();
            let rate = due.len() as f64 / last;
            assert!((rate / 20.0 - 1.0).abs() < 1e-6, "{dataset}: {rate}");
            let seen = plan.summary(10)?.arrivals.ok_or("arrivals")?;
            assert_eq!(
                (seen.count, seen.of_all),
                (due.len() as u64, true),
                "{dataset}"
            );
            assert_eq!(Some(&seen.last), due.last(), "{dataset}");
        }
    }
    Ok(())
}

#[test]
fn a_warm_up_has_a_whole_conversation_for_each_slot_however_few_requests_are_asked_for()
-> Result<(), Problem> {
    for (dataset, whole, each) in [
        ("multiturn:3:40:10", 8, Some(3)),
        ("multiturn:1..5:40:10", 8, None),
        ("mixed", 8, Some(1)),
    ] {
        for requests in [2, 25] {
            let spec = PlanSpec {
                load: bench_schema::Load::closed(8),
                requests: Some(requests),
                fewest_units: whole,
                ..spec(dataset)?
            };
            let plan = plan(spec)?;
            let planned = all(&plan)?;
            assert!(planned.len() as u64 >= requests, "{dataset}");
            if let Some(turns) = each {
                assert_eq!(planned.len() as u64, requests.max(whole * turns));
            }
            assert_eq!(plan.requests(), each.map(|_| planned.len() as u64));
            let begun = planned.iter().filter(|one| one.item.after.is_none());
            assert!(begun.count() as u64 >= whole, "{dataset}");
        }
    }
    Ok(())
}

#[test]
fn a_duration_ends_an_open_plan_and_the_count_is_known_before() -> Result<(), Problem> {
    let spec = PlanSpec {
        requests: None,
        duration: Some(Nanos::from_secs(30)),
        ..spec("random")?
    };
    let plan = plan(spec)?;
    let due: Vec<Nanos> = all(&plan)?
        .iter()
        .filter_map(|planned| planned.due)
        .collect();
    assert_eq!(plan.requests(), Some(due.len() as u64));
    assert!(due.iter().all(|at| *at < Nanos::from_secs(30)));
    // 600 expected, sd 24.5
    assert!((500..700).contains(&due.len()), "{}", due.len());
    Ok(())
}

#[test]
fn a_closed_loop_has_no_due_times_and_no_end_of_its_own() -> Result<(), Problem> {
    let spec = PlanSpec {
        requests: None,
        load: PlanSpec::default().load,
        ..spec("mixed")?
    };
    let plan = plan(spec)?;
    assert_eq!(plan.requests(), None);
    let mut taken = PlanHash::default();
    for planned in plan.iter().take(25) {
        let planned = planned?;
        assert_eq!(planned.due, None);
        taken += planned.hash();
    }
    let bounded = Plan::new(
        PlanSpec {
            requests: Some(25),
            ..plan.spec().clone()
        },
        Arc::new(Words),
    )?;
    assert_eq!(taken, hash(&all(&bounded)?));
    Ok(())
}

/// Levels of a sweep have more requests the higher they are; what a level costs is not to be read off the luck of its lengths.
#[test]
fn each_hundred_requests_of_a_closed_loop_have_the_lengths_of_all() -> Result<(), Problem> {
    for (dataset, prompts, answers, mean) in [
        ("mixed", "128..896", None, [512.0, 106.75]),
        (
            "random",
            "normal:550:150",
            Some("lognormal:5:0.5"),
            [550.0, 168.2],
        ),
        (
            "random",
            "mix:3*16..64+1*300",
            Some("zipf:1024:1.1"),
            [105.0, 101.8],
        ),
    ] {
        for seed in 0..6 {
            let planned = all(&plan(PlanSpec {
                load: bench_schema::Load::closed(64),
                requests: Some(700),
                input: Some(prompts.parse()?),
                output: answers.map(str::parse).transpose()?,
                seed: Seed::new(seed),
                ..spec(dataset)?
            })?)?;
            for hundred in planned.chunks(100) {
                let of = |length: &dyn Fn(&Planned) -> u64| {
                    hundred.iter().map(|one| length(one) as f64).sum::<f64>() / 100.0
                };
                let seen = [
                    of(&|one| one.item.size.asked_tokens.unwrap_or_default()),
                    of(&|one| one.item.request.max_tokens.unwrap_or_default().into()),
                ];
                for (seen, mean) in seen.into_iter().zip(mean) {
                    assert!(
                        (seen / mean - 1.0).abs() < 0.02,
                        "{dataset} {seed}: {seen} of {mean}"
                    );
                }
                let long = hundred
                    .iter()
                    .filter(|one| one.item.use_case.as_deref() == Some("long-form"));
                assert!(
                    dataset != "mixed" || long.count() == 10,
                    "a tenth of `mixed` is long"
                );
            }
            // the hundreds are not alike in their order
            let order = |from: usize| {
                planned
                    .iter()
                    .skip(from)
                    .map(|one| one.item.size.asked_tokens)
            };
            assert!(!order(0).take(100).eq(order(100).take(100)));
        }
    }
    Ok(())
}

/// Any one request has the lengths that were asked for: over many seeds, the first one's are as those of a hundred.
#[test]
fn a_request_of_a_closed_loop_has_any_length_wherever_it_stands() -> Result<(), Problem> {
    for at in [0, 37, 99] {
        let mut longer = 0;
        for seed in 0..400 {
            let planned = all(&plan(PlanSpec {
                load: bench_schema::Load::closed(1),
                requests: Some(at + 1),
                input: Some("1..1000".parse()?),
                seed: Seed::new(seed),
                ..spec("random")?
            })?)?;
            let last = planned.last().ok_or("requests")?;
            longer += u32::from(last.item.size.asked_tokens > Some(700));
        }
        // 120 expected, sd 9.2
        assert!((90..150).contains(&longer), "{longer} of 400 at {at}");
    }
    Ok(())
}

#[test]
fn settings_that_contradict_each_other_are_refused_with_a_way_out() -> Result<(), Problem> {
    let refused = |spec: PlanSpec| {
        Plan::new(spec, Arc::new(Words))
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default()
    };
    let ids = refused(spec("random-ids:100")?);
    assert!(ids.contains("completions"), "{ids}");
    let trace = refused(PlanSpec {
        load: open(1.0, ArrivalKind::Trace { speed: 1.0 }),
        ..spec("mixed")?
    });
    assert!(trace.contains("--dataset trace:FILE"), "{trace}");
    let shard = refused(PlanSpec {
        shard: Shard { index: 3, count: 3 },
        ..spec("mixed")?
    });
    assert!(shard.contains("shard 3 of 3"), "{shard}");
    let both = refused(PlanSpec {
        joint: Some("joint:1*5/5".parse()?),
        input: Some("5".parse()?),
        ..spec("random")?
    });
    assert!(both.contains("joint"), "{both}");
    let spread = refused(PlanSpec {
        output: Some("5".parse()?),
        ..spec("spread")?
    });
    assert!(spread.contains("sets these lengths itself"), "{spread}");
    let none = refused(PlanSpec {
        requests: Some(0),
        ..spec("random")?
    });
    assert!(none.contains("at least 1"), "{none}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn every_split_of_every_seed_gives_the_whole(seed in any::<u64>(), count in 1_u64..9, turns in 1_u64..4) {
        let spec = PlanSpec {
            seed: Seed::new(seed),
            requests: Some(20),
            ..spec(&format!("multiturn:1..{turns}:6:3")).unwrap()
        };
        let plan = plan(spec).unwrap();
        let mut parts: Vec<Planned> = (0..count)
            .flat_map(|index| part(&plan, index, count).unwrap())
            .collect();
        parts.sort_by_key(|planned| planned.index);
        prop_assert_eq!(parts, all(&plan).unwrap());
    }
}

/// Cells of a sweep are compared, request by request; stages of a search are pooled, and a bunch in one must not be in all.
#[test]
fn cells_have_the_same_arrivals_and_lengths_unless_they_are_to_have_their_own()
-> Result<(), Problem> {
    let of = |cell: &str, own_draws| {
        let planned = all(&plan(PlanSpec {
            cell: cell.to_owned(),
            own_draws,
            ..spec_for("random")?
        })?)?;
        let drawn = planned.iter().map(|one| one.due);
        Ok::<_, Problem>(drawn.collect::<Vec<_>>())
    };
    assert_eq!(of("s1-r5", false)?, of("s2-r5", false)?);
    assert_ne!(of("s1-r5", true)?, of("s2-r5", true)?);
    assert_eq!(of("s1-r5", true)?, of("s1-r5", true)?);
    Ok(())
}
