//! Datasets in files: every format.

use std::sync::Arc;

use bench_schema::{ArrivalKind, Load, Nanos, Prompt, Role};
use bench_workload::{Plan, PlanSpec, Planned, Salt, Words};

use crate::support_files::{Problem, rows, spec, text};

fn outputs(rows: &[Planned]) -> Vec<u32> {
    rows.iter()
        .filter_map(|planned| planned.item.request.max_tokens)
        .collect()
}

fn replay(speed: f64) -> Load {
    Load::Open {
        rate_per_s: Some(1.0),
        arrival: ArrivalKind::Trace { speed },
        in_flight_cap: None,
    }
}

#[test]
fn sharegpt_gives_the_first_question_and_the_length_of_its_answer() -> Result<(), Problem> {
    let rows = rows(spec("sharegpt:sharegpt.json")?)?;
    assert_eq!(
        rows.len(),
        4,
        "a conversation in which nobody asks is passed over"
    );
    assert!(text(&rows[0]).starts_with("My tomato plants"));
    assert!(text(&rows[1]).contains("\"one\" example, please: {short}."));
    assert_eq!(
        text(&rows[2]),
        "How long does the dough keep in the fridge?"
    );
    assert_eq!(
        text(&rows[3]),
        "Translate into French: the train leaves at noon.\n\nAnd please keep it polite."
    );
    // by words, as nothing counts tokens here
    assert_eq!(outputs(&rows), [37, 30, 10, 8]);
    Ok(())
}

#[test]
fn sharegpt_turns_are_whole_conversations() -> Result<(), Problem> {
    let rows = rows(spec("sharegpt-turns:sharegpt.json")?)?;
    let turns: Vec<(Option<u64>, Option<u32>)> =
        rows.iter().map(|p| (p.item.session, p.item.turn)).collect();
    let first = [(Some(0), Some(0)), (Some(0), Some(1)), (Some(0), Some(2))];
    assert_eq!(turns, [first.as_slice(), &[(None, None); 3]].concat());
    assert_eq!(rows[2].item.after.map(|after| after.index), Some(1));
    assert_eq!(text(&rows[2]), "Thanks, I will try that.");
    Ok(())
}

#[test]
fn c4_is_the_same_packed_and_unpacked_and_is_cut_to_a_length_where_asked() -> Result<(), Problem> {
    let plain = rows(spec("c4:c4.jsonl")?)?;
    assert_eq!(plain, rows(spec("c4:c4.jsonl.gz")?)?);
    assert_eq!(plain.len(), 4);
    assert!(text(&plain[1]).contains("as your arm.\nThen look back"));
    let cut = rows(PlanSpec {
        input: Some("20".parse()?),
        ..spec("c4:c4.jsonl.gz")?
    })?;
    for (cut, whole) in cut.iter().zip(&plain).take(3) {
        assert_eq!(text(cut).split_whitespace().count(), 20);
        assert!(
            text(whole).starts_with(&text(cut)),
            "natural text, cut at a word"
        );
    }
    assert_eq!(
        text(&cut[3]).split_whitespace().count(),
        20,
        "a short text goes on"
    );
    Ok(())
}

#[test]
fn traces_give_times_and_lengths() -> Result<(), Problem> {
    let s = Nanos::from_secs_f64;
    let expected = [
        (
            "burstgpt:burstgpt.csv",
            vec![(s(0.0), 310, 24), (s(21.0), 905, 188), (s(59.0), 256, 301)],
        ),
        (
            "azure:azure.csv",
            vec![
                (s(0.0), 420, 61),
                (s(4.376_543_3), 333, 140),
                (s(4.376_543_3), 1024, 32),
            ],
        ),
        (
            "mooncake:mooncake.jsonl",
            vec![(s(0.0), 1200, 52), (s(0.0), 1600, 26), (s(3.052), 700, 120)],
        ),
    ];
    for (dataset, rows_of) in expected {
        for dataset in [
            dataset.to_owned(),
            format!("trace:{}", dataset.split_once(':').ok_or("name")?.1),
        ] {
            let rows = rows(PlanSpec {
                load: replay(1.0),
                ..spec(&dataset)?
            })?;
            let seen: Vec<(Nanos, u64, u32)> = rows
                .iter()
                .filter_map(|p| Some((p.due?, p.item.size.words?, p.item.request.max_tokens?)))
                .collect();
            assert_eq!(seen[..3], rows_of, "{dataset}");
        }
    }
    let burst = rows(spec("burstgpt:burstgpt.csv")?)?;
    assert_eq!(burst[3].item.use_case.as_deref(), Some("api-log"));
    assert_eq!(
        burst[4].item.request.max_tokens,
        Some(1),
        "an answer has at least one token"
    );
    Ok(())
}

#[test]
fn a_replay_can_be_sped_up_and_ends_with_its_trace() -> Result<(), Problem> {
    let fast = PlanSpec {
        load: replay(4.0),
        cycle: true,
        ..spec("azure:azure.csv")?
    };
    let due: Vec<Nanos> = rows(fast)?
        .iter()
        .filter_map(|planned| planned.due)
        .collect();
    assert_eq!(due.len(), 6);
    assert_eq!(due[1], Nanos::new(1_094_135_825));
    let short = PlanSpec {
        load: replay(1.0),
        duration: Some(Nanos::from_secs(5)),
        ..spec("azure:azure.csv")?
    };
    assert_eq!(rows(short)?.len(), 4);
    let own_rate = Load::Open {
        rate_per_s: Some(2.0),
        arrival: ArrivalKind::Constant,
        in_flight_cap: None,
    };
    let due: Vec<Option<Nanos>> = rows(PlanSpec {
        load: own_rate,
        ..spec("azure:azure.csv")?
    })?
    .iter()
    .map(|p| p.due)
    .collect();
    assert_eq!(
        due[2],
        Some(Nanos::from_secs(1)),
        "a trace's lengths go with any arrivals"
    );
    Ok(())
}

#[test]
fn blocks_of_a_mooncake_trace_are_shared_as_their_ids_are() -> Result<(), Problem> {
    let rows = rows(spec("mooncake:mooncake.jsonl")?)?;
    let words = |at: usize| {
        text(&rows[at])
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (a, b, c) = (words(0), words(1), words(2));
    assert_eq!((a.len(), b.len(), c.len()), (1200, 1600, 700));
    assert_eq!(a[..1024], b[..1024], "blocks 0 and 1");
    assert_ne!(a[1024..1100], b[1024..1100]);
    assert_eq!(a[..512], c[..512], "block 0");
    assert_ne!(a[512..600], c[512..600]);
    Ok(())
}

#[test]
fn ones_own_prompts_come_as_json_csv_or_lines() -> Result<(), Problem> {
    let json = rows(PlanSpec {
        chat: false,
        ..spec("jsonl:prompts.jsonl")?
    })?;
    assert_eq!(text(&json[0]), "List three uses of beeswax.");
    assert_eq!(json[0].item.use_case.as_deref(), Some("lists"));
    assert_eq!(
        text(&json[2]),
        "system: Answer in one word.\nuser: Is rain wet?"
    );
    assert_eq!(
        json[3].item.request.prompt,
        Prompt::TokenIds(vec![101, 7592, 2088, 102])
    );
    assert!(text(&json[4]).starts_with("Dear neighbour"));
    assert_eq!(outputs(&json), [40, 128, 2, 5, 120]);
    let csv = rows(spec("csv:prompts.csv")?)?;
    assert_eq!(text(&csv[1]), "Quote: \"measure twice\", then explain it.");
    assert_eq!(outputs(&csv), [24, 60, 128]);
    assert_eq!(csv[2].item.use_case, None);
    let lines: Vec<String> = rows(spec("txt:prompts.txt")?)?.iter().map(text).collect();
    assert_eq!(
        lines,
        [
            "What is a glacier?",
            "Explain how a sundial works.",
            "Name two kinds of knots."
        ]
    );
    Ok(())
}

#[test]
fn of_several_names_of_a_group_the_most_specific_wins() -> Result<(), Problem> {
    let dir = tempfile::tempdir()?;
    let files = [
        (
            "jsonl",
            "{\"prompt\": \"a\", \"category\": \"c\", \"label\": \"l\"}\n\
             {\"prompt\": \"b\", \"category\": \"c\", \"use_case\": \"u\"}\n",
            [Some("l"), Some("u")],
        ),
        (
            "csv",
            "prompt,category,label\na,c,l\nb,c,\n",
            [Some("l"), None],
        ),
    ];
    for (format, text, groups) in files {
        let path = dir.path().join(format!("own.{format}"));
        std::fs::write(&path, text)?;
        let read = rows(spec(&format!("{format}:{}", path.display()))?)?;
        let read: Vec<_> = read
            .iter()
            .map(|row| row.item.use_case.as_deref())
            .collect();
        assert_eq!(read, groups, "{format}");
    }
    Ok(())
}

#[test]
fn batch_files_keep_what_they_say_and_the_run_keeps_what_it_decides() -> Result<(), Problem> {
    let rows = rows(spec("openai-batch:openai-batch.jsonl")?)?;
    let first = &rows[0].item.request;
    assert_eq!(
        (first.max_tokens, first.sampling.temperature),
        (Some(12), Some(0.2))
    );
    assert!(
        matches!(&first.prompt, Prompt::Messages(m) if m.len() == 2 && m[0].role == Role::System)
    );
    assert_eq!(first.extra_body, None, "model and stream are the run's");
    let picture = &rows[1].item.request;
    let extra = picture
        .extra_body
        .as_ref()
        .ok_or("parts that are not text go along")?;
    assert_eq!(extra["logprobs"], true);
    assert_eq!(extra["messages"][0]["content"][1]["type"], "image_url");
    assert_eq!(picture.max_tokens, Some(40));
    assert_eq!(picture.sampling.stop, ["\n\n"]);
    assert_eq!(text(&rows[2]), "Once upon a time");
    assert!(rows[2].item.request.stream);
    Ok(())
}

#[test]
fn a_file_is_read_again_where_more_is_asked_and_its_prompts_differ_then() -> Result<(), Problem> {
    let spec = PlanSpec {
        cycle: true,
        requests: Some(10),
        salt: Salt::Auto,
        ..spec("txt:prompts.txt")?
    };
    let plan = Plan::new(spec, Arc::new(Words))?;
    let rows: Vec<Planned> = plan.iter().collect::<Result<_, _>>()?;
    assert_eq!(rows.len(), 10, "of three lines");
    let texts: std::collections::HashSet<String> = rows.iter().map(text).collect();
    assert_eq!(texts.len(), 10);
    assert!(
        rows.iter()
            .all(|planned| text(planned).ends_with(['?', '.']))
    );
    Ok(())
}
