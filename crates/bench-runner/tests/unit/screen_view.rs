use bench_schema::Nanos;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

use super::*;
use crate::recent::Rates;

fn model() -> Model {
    let curve = |base: f64| {
        let second = |i: u32| (i != 30).then(|| (base * (1.0 + f64::from(i % 7)), base * 20.0));
        (0..90).map(second).collect()
    };
    let latency = |name, base: f64| Latency {
        name,
        now: Some((base, base * 20.0)),
        curve: curve(base),
    };
    Model {
        title: "bench-throughput · tiny-model · http://127.0.0.1:8000".to_owned(),
        running: Nanos::from_secs(95),
        phase: "8 in flight (2 of 3)".to_owned(),
        cells: "cell 2 of 5 · 1 done, 3 to come · about 2 min 05 s left in all".to_owned(),
        share: Some(0.456),
        phase_so_far: "45 of 100 requests · 12 s left".to_owned(),
        offered: "closed loop, 8 in flight".to_owned(),
        rates: Some(Rates {
            taken_up: 12.34,
            ended: 12.0,
            tokens: 1234.5,
        }),
        in_flight: 8,
        latencies: [latency("TTFT", 12e6), latency("ITL", 5e5)],
        requests: "120 completed · 3 failed".to_owned(),
        failures: Some("3 refused in connect".to_owned()),
        gpus: Some("2 read · 85 % busy on average · 612 W".to_owned()),
        server: Some("8 running · 2 in its queue · KV cache 45 % full".to_owned()),
        against: vec!["lateness of this client: p99 310 µs (last 10 s)".to_owned()],
        notes: vec!["no --url: starting the embedded engine".to_owned()],
    }
}

fn drawn(model: &Model, look: Look, (width, height): (u16, u16)) -> (String, Buffer) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model, look)).unwrap();
    let backend = terminal.backend();
    (backend.to_string(), backend.buffer().clone())
}

const COLOUR: Look = Look {
    paused: false,
    help: false,
    colour: true,
};

#[test]
fn nothing_hidden_in_a_model_s_name_reaches_the_terminal() {
    let named = Model {
        title: "\u{9b}31m\u{7f}\u{202e}a\u{2066}\u{200b}b\u{feff}\u{e0041}c".to_owned(),
        notes: vec!["\u{202e}note".to_owned()],
        ..model()
    };
    let (_, buffer) = drawn(&named, COLOUR, SMALLEST);
    let shown: String = (buffer.content.iter().map(ratatui::buffer::Cell::symbol)).collect();
    assert!(!shown.contains(is_hidden), "{shown:?}");
}

#[test]
fn it_all_fits_the_smallest_terminal() {
    let (text, _) = drawn(&model(), COLOUR, SMALLEST);
    insta::assert_snapshot!(text);
}

#[test]
fn a_large_terminal_has_taller_curves() {
    let (text, _) = drawn(&model(), COLOUR, (200, 50));
    insta::assert_snapshot!(text);
}

#[test]
fn without_colour_the_text_is_the_same_and_no_cell_has_one() {
    let plain = Look {
        colour: false,
        ..COLOUR
    };
    let is_coloured = |buffer: &Buffer| {
        let mut cells = buffer.content().iter();
        cells.any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    let paused = |look| Look {
        paused: true,
        ..look
    };
    for size in [SMALLEST, (200, 50)] {
        let (text, buffer) = drawn(&model(), paused(COLOUR), size);
        let (same, bare) = drawn(&model(), paused(plain), size);
        assert_eq!(text, same);
        assert!(is_coloured(&buffer) && !is_coloured(&bare));
    }
}

#[test]
fn what_nobody_knows_is_absent_and_not_zero() {
    let (text, _) = drawn(&Model::default(), COLOUR, SMALLEST);
    for told in ["GPUs", "Server", "0.0", "0 ns", "%", "failed"] {
        assert!(!text.contains(told), "{told}\n{text}");
    }
    assert!(text.contains("no problems so far"), "{text}");
}

#[test]
fn help_covers_it_and_a_small_terminal_says_so() {
    let look = Look {
        help: true,
        ..COLOUR
    };
    let (text, _) = drawn(&model(), look, SMALLEST);
    for line in HELP.lines() {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let (text, _) = drawn(&model(), COLOUR, (40, 10));
    assert!(text.contains("the terminal has 40 × 10"), "{text}");
}

#[test]
fn a_message_that_is_longer_than_the_terminal_is_wide_is_there_to_its_end() {
    let said =
        "Ctrl-C: no new requests; requests in flight may finish within 10s (repeat to cancel them)";
    let model = Model {
        notes: vec!["an earlier one".to_owned(), said.to_owned()],
        ..model()
    };
    let (text, _) = drawn(&model, COLOUR, (80, 26));
    assert!(text.contains("(repeat to"), "{text}");
    assert!(text.contains("\"cancel them)"), "{text}");
    // with room for one line the beginning is there
    let (text, _) = drawn(&model, COLOUR, SMALLEST);
    assert!(text.contains("\"Ctrl-C: no new requests;"), "{text}");
    assert_eq!(broken("abc def ghij", 7), ["abc def", "ghij"]);
    assert_eq!(broken("abcdefgh ij", 4), ["abcd", "efgh", "ij"]);
    assert_eq!(broken("", 4), [""]);
}
