//! The splitter against `eventsource-stream`: both give the same events for any bytes, cut anywhere.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

#[path = "common/reference.rs"]
mod reference;

use bench_client::sse::{SseDecoder, SseError, SseEvent, SseSplitter};
use proptest::prelude::*;
use reference::ReferenceDecoder;

/// An event as the standard's consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    event: String,
    data: String,
}

impl From<SseEvent<'_>> for Seen {
    fn from(event: SseEvent<'_>) -> Self {
        Self {
            event: event.event.to_owned(),
            data: String::from_utf8_lossy(event.data).into_owned(),
        }
    }
}

fn events(decoder: &mut dyn SseDecoder, reads: &[&[u8]]) -> Result<Vec<Seen>, SseError> {
    let mut seen = Vec::new();
    for read in reads {
        decoder.feed(read, &mut |event| seen.push(Seen::from(event)))?;
    }
    Ok(seen)
}

/// Pieces of which streams are made, the odd ones more often than servers send them.
fn stream() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => Just("\n".to_owned()),
        2 => Just("\r\n".to_owned()),
        2 => Just("\r".to_owned()),
        4 => "data: ?[a-zé世🌍: ]{0,6}",
        1 => Just("data".to_owned()),
        1 => "event: ?[a-z]{0,4}",
        1 => "id: ?[a-z0-9]{0,4}",
        1 => Just("id: a\0b".to_owned()),
        1 => "retry: ?[0-9a]{0,4}",
        1 => ":[ -~]{0,6}",
        1 => "[a-z ]{0,6}:?[a-z]{0,3}",
        1 => Just("\u{feff}".to_owned()),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn cut<'a>(bytes: &'a [u8], at: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = at.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2)
        .map(|pair| bytes.get(pair[0]..pair[1]).unwrap())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn both_decoders_give_the_same_events_for_any_cut(
        text in stream(),
        at in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        // The reference waits for the byte after a CR, which may be its LF: a comment gives it one.
        let bytes = [text.as_bytes(), b":"].concat();
        let reads = cut(&bytes, &at);
        let own = events(&mut SseSplitter::new(1 << 20), &reads).unwrap();
        let reference = events(&mut ReferenceDecoder::new(), &reads).unwrap();
        prop_assert_eq!(own, reference, "{:?}", text);
    }

    #[test]
    fn the_splitter_gives_the_same_events_for_any_two_cuts(
        bytes in prop::collection::vec(prop::sample::select(&b"data: \r\n:x\xc3\xa9\xff\xef\xbb\xbf"[..]), 0..80),
        one in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        other in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut first = SseSplitter::new(1 << 20);
        let mut second = SseSplitter::new(1 << 20);
        let (reads, others) = (cut(&bytes, &one), cut(&bytes, &other));
        prop_assert_eq!(events(&mut first, &reads), events(&mut second, &others));
        let mut left = (Vec::new(), Vec::new());
        first.end(&mut |event| left.0.push(Seen::from(event)));
        second.end(&mut |event| left.1.push(Seen::from(event)));
        prop_assert_eq!(left.0, left.1);
    }

    #[test]
    fn an_event_ends_at_the_line_end_that_makes_its_blank_line(
        text in stream(),
        at in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut splitter = SseSplitter::new(1 << 20);
        for read in cut(text.as_bytes(), &at) {
            let mut ends = Vec::new();
            splitter.feed(read, &mut |event| ends.push(event.end)).unwrap();
            prop_assert!(ends.is_sorted());
            for end in ends {
                prop_assert!(matches!(read[end - 1], b'\r' | b'\n'));
            }
        }
    }
}

#[test]
fn an_event_that_lies_within_one_read_is_not_copied() {
    let bytes = b"data: one\n\ndata:two\n\n";
    let mut splitter = SseSplitter::new(1 << 20);
    let mut within = 0;
    let fed = splitter.feed(bytes, &mut |event| {
        within += usize::from(bytes.as_ptr_range().contains(&event.data.as_ptr()));
    });
    fed.unwrap();
    assert_eq!(within, 2);
}

#[test]
fn an_event_over_the_limit_is_a_clear_failure_however_it_comes() {
    let event = format!("data: {}\n\n", "x".repeat(200));
    let lines = "data: 0123456789\n".repeat(20);
    for (stream, step) in [
        (&event, 1),
        (&event, 64),
        (&event, 300),
        (&lines, 1),
        (&lines, 400),
    ] {
        let reads: Vec<&[u8]> = stream.as_bytes().chunks(step).collect();
        let failed = events(&mut SseSplitter::new(100), &reads);
        assert_eq!(
            failed,
            Err(SseError::TooLarge { limit: 100 }),
            "reads of {step}"
        );
    }
    let fits = format!("data: {}\n\n", "x".repeat(80)).repeat(50);
    assert_eq!(
        events(&mut SseSplitter::new(100), &[fits.as_bytes()])
            .unwrap()
            .len(),
        50
    );
}

#[test]
fn the_reference_survives_a_byte_order_mark_in_pieces() {
    let reads: [&[u8]; 4] = [b"\xef", b"\xbb", b"\xbfdata: a\n", b"\n"];
    let seen = events(&mut ReferenceDecoder::new(), &reads).unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen, events(&mut SseSplitter::new(100), &reads).unwrap());
}

#[test]
fn a_second_byte_order_mark_belongs_to_the_first_line() {
    let reads: [&[u8]; 1] = [b"\xef\xbb\xbf\xef\xbb\xbfdata: a\ndata: b\n\n"];
    let seen = events(&mut ReferenceDecoder::new(), &reads).unwrap();
    assert_eq!(seen.first().map(|event| event.data.as_str()), Some("b"));
    assert_eq!(seen, events(&mut SseSplitter::new(100), &reads).unwrap());
}

#[test]
fn the_reference_yields_an_event_with_the_read_that_completed_it() {
    let mut reference = ReferenceDecoder::new();
    let mut counts = Vec::new();
    for read in ["data: a\n", "\ndata: b\n\ndata: c", "\n", "\n"] {
        let mut count = 0;
        reference
            .feed(read.as_bytes(), &mut |_| count += 1)
            .unwrap();
        counts.push(count);
    }
    assert_eq!(counts, [0, 2, 0, 1]);
}

#[test]
fn many_lines_of_one_event_take_no_longer_for_being_one_event() {
    // Quadratic, this would be some 10^11 bytes copied.
    let event = "data: x\n".repeat(1 << 17) + "\n";
    let seen = events(&mut SseSplitter::new(1 << 24), &[event.as_bytes()]).unwrap();
    assert_eq!(
        seen.first().map(|event| event.data.len()),
        Some((1 << 18) - 1)
    );
}
