//! What the corpus cannot say: marks, limits, and the ways in which a client gives up.

#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    reason = "a test says what is wrong by failing"
)]

use bench_schema::{FailureKind, Nanos, Outcome, Stage, Stamp};

use bench_client::{
    Answer, AnswerDecoder, AnswerLimits, HeldBytes, ReadMark, StreamEnd, protocol_by_name,
};

const TOKEN: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"ab\"}}]}\n\n";
const FINISH: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";

fn decoder(limits: AnswerLimits) -> AnswerDecoder {
    AnswerDecoder::new(protocol_by_name("openai-chat").unwrap(), true, limits)
}

fn mark(previous_return: i64, arrival: i64, returned: i64) -> ReadMark {
    ReadMark {
        arrival: Stamp::new(arrival),
        stamped: true,
        returned: Stamp::new(returned),
        previous_return: Stamp::new(previous_return),
        arrived_from: Stamp::new(arrival),
        last_token_from: Stamp::new(previous_return),
        merged: false,
        continues: false,
    }
}

fn answer(reads: &[(&str, ReadMark)], end: StreamEnd) -> Answer {
    let mut decoder = decoder(AnswerLimits::default());
    for (bytes, mark) in reads {
        decoder.push(bytes.as_bytes(), *mark);
    }
    decoder.finish(end)
}

#[test]
fn the_count_that_a_message_opens_with_is_not_its_length() {
    let start = "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":7,\"output_tokens\":1}}}";
    let token =
        "{\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}";
    let stop = "{\"type\":\"message_stop\"}";
    let tokens = |end: &str| {
        let protocol = protocol_by_name("anthropic-messages").unwrap();
        let mut decoder = AnswerDecoder::new(protocol, true, AnswerLimits::default());
        for event in [start, token, token, end, stop] {
            let event = format!("data: {event}\n\n");
            decoder.push(event.as_bytes(), ReadMark::default());
        }
        let usage = decoder.finish(StreamEnd::Eof).usage.unwrap();
        (usage.prompt_tokens, usage.completion_tokens)
    };
    let end = "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}";
    assert_eq!(tokens(end), (Some(7), None));
    let counted = "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}";
    assert_eq!(tokens(counted), (Some(7), Some(2)));
}

#[test]
fn usage_is_read_where_some_servers_put_it() {
    let usage = |closing: &str| {
        let mut decoder = decoder(AnswerLimits::default());
        for event in [TOKEN, &format!("data: {closing}\n\n"), "data: [DONE]\n\n"] {
            decoder.push(event.as_bytes(), ReadMark::default());
        }
        let usage = decoder.finish(StreamEnd::Eof).usage;
        usage.map(|usage| (usage.prompt_tokens, usage.completion_tokens))
    };
    let told = Some((Some(7), Some(5)));
    let seven = r#""usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}"#;
    let choice = r#"{"index":0,"delta":{},"finish_reason":"stop""#;
    assert_eq!(usage(&format!(r#"{{"choices":[],{seven}}}"#)), told);
    assert_eq!(
        usage(&format!(r#"{{"choices":[{choice},{seven}}}]}}"#)),
        told
    );
    let groq = format!(r#""x_groq":{{"id":"r",{seven}}}"#);
    assert_eq!(
        usage(&format!(r#"{{"choices":[{choice}}}],{groq}}}"#)),
        told
    );
    // where it is told twice, what stands in its place counts
    let both = r#""usage":{"prompt_tokens":1,"completion_tokens":2}"#;
    assert_eq!(
        usage(&format!(
            r#"{{"choices":[{choice},{both}}}],{seven},{groq}}}"#
        )),
        told
    );
    assert_eq!(
        usage(&format!(
            r#"{{"choices":[{choice},"usage":null}}],"x_groq":"r"}}"#
        )),
        None
    );
}

#[test]
fn an_event_has_the_arrival_and_the_lag_of_the_read_that_completed_it() {
    let (half, rest) = TOKEN.split_at(20);
    let reads = [(half, mark(0, 10, 15)), (rest, mark(15, 40, 47))];
    let events = answer(&reads, StreamEnd::Eof).events;
    assert_eq!(events.first(), Some(Stamp::new(40)));
    assert_eq!(events.lags().collect::<Vec<_>>(), [Nanos::new(7)]);
    assert_eq!(events.bounds(), []);
}

#[test]
fn of_several_events_in_a_read_all_but_the_last_are_bounded_by_the_read_before() {
    let three = TOKEN.repeat(3);
    let events = answer(&[(&three, mark(30, 100, 105))], StreamEnd::Eof).events;
    assert_eq!(events.bounds(), [(0, Nanos::new(70)), (1, Nanos::new(70))]);
    assert!(events.stamps().all(|at| at == Stamp::new(100)));
}

#[test]
fn a_bound_is_never_negative() {
    // The clocks' offset is sampled, so an arrival may seem to be before the read that preceded it.
    let two = TOKEN.repeat(2);
    let events = answer(&[(&two, mark(130, 100, 105))], StreamEnd::Eof).events;
    assert_eq!(events.bounds(), []);
    let late = answer(&[(TOKEN, mark(0, 100, 95))], StreamEnd::Eof).events;
    assert_eq!(late.lags().collect::<Vec<_>>(), [Nanos::ZERO]);
}

#[test]
fn a_closing_event_in_the_same_read_makes_the_last_stamp_a_bound_also_in_a_later_push() {
    let read = mark(30, 100, 105);
    let together = answer(&[(TOKEN, read), (FINISH, read)], StreamEnd::Eof).events;
    assert_eq!(together.bounds(), [(0, Nanos::new(70))]);
    let apart = answer(
        &[(TOKEN, read), (FINISH, mark(105, 110, 112))],
        StreamEnd::Eof,
    )
    .events;
    assert_eq!(apart.bounds(), []);
}

#[test]
fn a_last_token_among_closing_events_is_bounded_by_what_woke_the_thread_and_not_by_the_gap_before()
{
    let read = ReadMark {
        last_token_from: Stamp::new(95),
        ..mark(30, 100, 105)
    };
    let whole = format!("{TOKEN}{FINISH}data: [DONE]\n\n");
    let alone = answer(&[(&whole, read)], StreamEnd::Eof).events;
    assert_eq!(alone.bounds(), [(0, Nanos::new(5))]);
    // Two tokens in a read say that the thread was late by a gap: then what it usually takes says nothing.
    let two = answer(&[(&format!("{TOKEN}{whole}"), read)], StreamEnd::Eof).events;
    assert_eq!(two.bounds(), [(0, Nanos::new(70)), (1, Nanos::new(70))]);
}

/// What follows an event may have waited with it for as long as nobody read, unless it closes the answer.
#[test]
fn a_token_that_shares_its_read_with_something_else_than_the_end_is_bounded_by_the_read_before() {
    let read = ReadMark {
        last_token_from: Stamp::new(95),
        ..mark(30, 100, 105)
    };
    let pinged = format!("{TOKEN}: ping\n\n");
    let next = format!("{FINISH}data: [DONE]\n\n");
    let reads = [(pinged.as_str(), read), (&next, mark(105, 200, 205))];
    let events = answer(&reads, StreamEnd::Eof).events;
    assert_eq!(events.bounds(), [(0, Nanos::new(70))]);
}

#[test]
fn pieces_with_one_stamp_are_judged_as_one_read() {
    let read = ReadMark {
        last_token_from: Stamp::new(95),
        ..mark(30, 100, 105)
    };
    let piece = ReadMark {
        continues: true,
        returned: Stamp::new(104),
        ..read
    };
    let two = answer(&[(TOKEN, piece), (TOKEN, read)], StreamEnd::Eof).events;
    assert_eq!(two.bounds(), [(0, Nanos::new(70))]);
    // What closes the answer came right after it.
    let closed = answer(&[(TOKEN, piece), (FINISH, read)], StreamEnd::Eof).events;
    assert_eq!(closed.bounds(), [(0, Nanos::new(5))]);
    // More segments were put to the rest meanwhile: the first token is no more exact for that.
    let grown = mark(30, 120, 125);
    let events = answer(&[(TOKEN, piece), (TOKEN, grown)], StreamEnd::Eof).events;
    assert_eq!(events.bounds(), [(0, Nanos::new(70))]);
    assert_eq!(events.last(), Some(Stamp::new(120)));
}

/// A Unix socket: how late the read was is what the stamp may be off by, whatever else the read brought.
#[test]
fn a_stamp_of_the_client_s_own_is_bounded_by_when_the_thread_was_woken() {
    let read = ReadMark {
        stamped: false,
        arrived_from: Stamp::new(80),
        ..mark(30, 100, 100)
    };
    let alone = answer(&[(TOKEN, read)], StreamEnd::Eof).events;
    assert_eq!(alone.bounds(), [(0, Nanos::new(20))]);
    let closed = ReadMark {
        last_token_from: Stamp::new(95),
        ..read
    };
    let closed = answer(&[(&format!("{TOKEN}{FINISH}"), closed)], StreamEnd::Eof).events;
    assert_eq!(closed.bounds(), [(0, Nanos::new(20))]);
    let two = answer(&[(&TOKEN.repeat(2), read)], StreamEnd::Eof).events;
    assert_eq!(two.bounds(), [(0, Nanos::new(70)), (1, Nanos::new(20))]);
}

#[test]
fn bytes_of_a_merged_read_are_never_exact() {
    let merged = ReadMark {
        merged: true,
        ..mark(30, 100, 105)
    };
    let events = answer(&[(TOKEN, merged)], StreamEnd::Eof).events;
    assert_eq!(events.bounds(), [(0, Nanos::new(70))]);
}

/// An answer that a proxy sends twice has its tokens once, whether both come in one read or apart.
#[test]
fn content_after_the_end_marker_is_of_no_answer() {
    let once = format!("{TOKEN}{TOKEN}{FINISH}data: [DONE]\n\n");
    let together = answer(&[(&once.repeat(2), mark(0, 1, 2))], StreamEnd::Eof);
    let apart = [(once.as_str(), mark(0, 1, 2)), (&once, mark(2, 3, 4))];
    for twice in [together, answer(&apart, StreamEnd::Eof)] {
        assert_eq!(twice.outcome, Outcome::Completed);
        assert_eq!(twice.events.len(), 2);
        assert_eq!(twice.events.last(), Some(Stamp::new(1)));
    }
}

#[test]
fn progress_says_what_each_push_brought() {
    let mut decoder = decoder(AnswerLimits::default());
    assert_eq!(decoder.stage(), Stage::FirstToken);
    assert_eq!(
        decoder
            .push(TOKEN.repeat(2).as_bytes(), mark(0, 1, 2))
            .content_events,
        2
    );
    assert_eq!(decoder.stage(), Stage::Stream);
    let finish = decoder.push(FINISH.as_bytes(), mark(2, 3, 4));
    assert_eq!((finish.content_events, finish.done), (0, false));
    assert_eq!(decoder.stage(), Stage::Tail);
    assert!(decoder.push(b"data: [DONE]\n\n", mark(4, 5, 6)).done);
    assert!(decoder.push(b"", mark(6, 7, 8)).done);
    let failed = decoder.push(b"data: {\"error\":\"late\"}\n\n", mark(8, 9, 10));
    assert!(failed.failed);
}

#[test]
fn an_event_beyond_the_limit_is_a_failure_that_names_it() {
    let limits = AnswerLimits {
        max_event_bytes: 100,
        ..AnswerLimits::default()
    };
    let mut decoder = decoder(limits);
    let long = format!("data: {{\"x\":\"{}\"}}\n\n", "y".repeat(200));
    let mut failed = false;
    for piece in long.as_bytes().chunks(50) {
        failed = decoder.push(piece, mark(0, 1, 2)).failed;
    }
    assert!(failed);
    match decoder.finish(StreamEnd::Eof).outcome {
        Outcome::Failed {
            failure: FailureKind::TooLarge,
            stage: Stage::FirstToken,
            message,
        } => {
            assert!(message.contains("100 bytes"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

/// 600 kB of a document that does not end; with its opening bytes for each framing.
fn unfinished(decoder: &mut AnswerDecoder, opening: &str) -> bool {
    let piece = "y".repeat(20_000);
    let mut failed = decoder.push(opening.as_bytes(), mark(0, 1, 2)).failed;
    for _ in 0..30 {
        failed |= decoder.push(piece.as_bytes(), mark(0, 1, 2)).failed;
    }
    failed
}

#[test]
fn unfinished_events_and_bodies_of_all_answers_together_have_a_limit_that_ordinary_streams_never_meet()
 {
    for (api, streaming, opening) in [
        ("openai-chat", true, "data: \""),
        ("openai-chat", true, "{\"x\": \""),
        ("openai-chat", false, "{\"x\": \""),
        ("ollama-chat", true, "{\"x\": \""),
    ] {
        let limits = AnswerLimits {
            held: HeldBytes::new(1 << 20),
            ..AnswerLimits::default()
        };
        let decoder = || {
            let protocol = protocol_by_name(api).unwrap();
            AnswerDecoder::new(protocol, streaming, limits.clone())
        };
        let (mut first, mut second, mut third) = (decoder(), decoder(), decoder());
        assert!(!unfinished(&mut first, opening), "{api}");
        assert!(unfinished(&mut second, opening), "{api}: both fit");
        match second.finish(StreamEnd::Eof).outcome {
            Outcome::Failed {
                failure: FailureKind::TooLarge,
                message,
                ..
            } => assert!(
                message.contains("together") && message.contains("1048576"),
                "{message}"
            ),
            other => panic!("{api}: {other:?}"),
        }
        // what an ordinary stream keeps of an event in two reads costs nothing of it
        let mut ordinary = AnswerDecoder::new(
            protocol_by_name("openai-chat").unwrap(),
            true,
            AnswerLimits {
                held: HeldBytes::new(0),
                ..AnswerLimits::default()
            },
        );
        let (head, rest) = TOKEN.split_at(9);
        ordinary.push(head.as_bytes(), mark(0, 1, 2));
        let progress = ordinary.push(rest.as_bytes(), mark(2, 3, 4));
        assert_eq!((progress.content_events, progress.failed), (1, false));
        // the end of an answer makes room for another
        drop(first);
        assert!(
            !unfinished(&mut third, opening),
            "{api}: no room was given back"
        );
    }
}

/// Sixteen such answers took 2 GB of memory and as much of the disk.
#[test]
fn an_answer_without_end_fails_before_it_fills_the_memory() {
    for (asked, most) in [
        (Some(8), 1 << 16),
        (Some(10_000), 160_000),
        (Some(u64::MAX), 1 << 20),
        (None, 1 << 18),
    ] {
        assert_eq!(AnswerLimits::events_for(asked), most);
    }
    let mut endless = decoder(AnswerLimits {
        max_events: AnswerLimits::events_for(Some(8)),
        ..AnswerLimits::default()
    });
    let many = TOKEN.repeat(1 << 12);
    let mut reads = (0..).map(|i| endless.push(many.as_bytes(), mark(i, i + 1, i + 2)).failed);
    assert_eq!(reads.position(|failed| failed), Some(16));
    match endless.finish(StreamEnd::Eof).outcome {
        Outcome::Failed {
            failure: FailureKind::TooLarge,
            message,
            ..
        } => assert!(message.contains("does not end"), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn text_is_kept_only_where_asked_and_only_so_much_of_it() {
    let text = |keep_text| {
        let mut decoder = decoder(AnswerLimits {
            keep_text,
            ..AnswerLimits::default()
        });
        decoder.push(TOKEN.repeat(3).as_bytes(), mark(0, 1, 2));
        let answer = decoder.finish(StreamEnd::Eof);
        (answer.text, answer.text_chars)
    };
    assert_eq!(text(None), (None, 6));
    assert_eq!(text(Some(3)), (Some("aba".to_owned()), 6));
    assert_eq!(text(Some(100)), (Some("ababab".to_owned()), 6));
}

#[test]
fn a_client_that_gives_up_keeps_what_it_has() {
    let reads = [(TOKEN, mark(0, 1, 2))];
    let late = answer(&reads, StreamEnd::TimedOut(Stage::Stream));
    assert_eq!(
        late.outcome,
        Outcome::TimedOut {
            stage: Stage::Stream
        }
    );
    let cancelled = answer(&reads, StreamEnd::Cancelled("end of the run".to_owned()));
    assert_eq!(
        cancelled.outcome,
        Outcome::Cancelled {
            reason: "end of the run".to_owned()
        }
    );
    assert_eq!((late.events.len(), cancelled.events.len()), (1, 1));
}

#[test]
fn a_cut_answer_does_not_take_the_event_that_lacks_its_blank_line() {
    let unfinished = TOKEN.trim_end();
    let cut = StreamEnd::Cut {
        stage: Stage::Stream,
        failure: FailureKind::Reset,
        message: "reset".to_owned(),
    };
    assert_eq!(answer(&[(unfinished, mark(0, 1, 2))], cut).events.len(), 0);
    assert_eq!(
        answer(&[(unfinished, mark(0, 1, 2))], StreamEnd::Eof)
            .events
            .len(),
        1
    );
}

#[test]
fn messages_are_short_and_show_what_came() {
    let page = format!("<html>{}\n\n</html>", "x".repeat(5000));
    match answer(&[(&page, mark(0, 1, 2))], StreamEnd::Eof).outcome {
        Outcome::Failed {
            failure: FailureKind::Protocol,
            message,
            ..
        } => {
            assert!(message.contains("<html>xxx"), "{message}");
            assert!(message.chars().count() <= 301, "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn half_of_an_emoji_in_an_escape_costs_no_answer() {
    let half = r#"data: {"choices":[{"delta":{"content":"\ud83d"}}]}"#.to_owned() + "\n\n";
    let other = r#"data: {"choices":[{"delta":{"content":"\ude00"}}]}"#.to_owned() + "\n\n";
    let reads = [
        (half.as_str(), mark(0, 10, 15)),
        (&other, mark(15, 20, 25)),
        (FINISH, mark(25, 30, 35)),
    ];
    let told = answer(&reads, StreamEnd::Eof);
    assert_eq!(told.outcome, Outcome::Completed);
    assert_eq!((told.events.len(), told.text_chars), (2, 2));
}

#[test]
fn documents_that_say_nothing_of_an_answer_are_none() {
    let at = mark(0, 1, 1);
    let error = "data: {\"detail\":\"Internal Server Error\"}\n\n";
    let role = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n";
    for said in [error, role] {
        let ended = format!("{said}data: [DONE]\n\n");
        let outcome = answer(&[(&ended, at)], StreamEnd::Eof).outcome;
        assert!(
            matches!(&outcome, Outcome::Failed { failure: FailureKind::Empty, message, .. } if message.contains("it begins with")),
            "{outcome:?}"
        );
        let cut = answer(&[(said, at)], StreamEnd::Eof).outcome;
        assert!(matches!(cut, Outcome::Truncated { .. }), "{cut:?}");
    }
    // an answer of no words is one, where the server says that it is over
    assert_eq!(
        answer(&[(FINISH, at)], StreamEnd::Eof).outcome,
        Outcome::Completed
    );
}

#[test]
fn an_event_of_the_type_error_is_one_whatever_its_shape() {
    for data in ["{\"message\":\"out of memory\"}", "out of memory"] {
        let stream = format!("{TOKEN}event: error\ndata: {data}\n\ndata: [DONE]\n\n");
        let outcome = answer(&[(&stream, mark(0, 1, 1))], StreamEnd::Eof).outcome;
        assert!(
            matches!(&outcome, Outcome::Failed { failure: FailureKind::ServerError, stage: Stage::Stream, message } if message.contains("out of memory")),
            "{outcome:?}"
        );
    }
}
