use super::*;

#[test]
fn a_key_asks_for_something_alone_and_not_as_a_part_of_another() {
    assert_eq!(keys(b"pq"), [Key::Pause, Key::Quit]);
    assert_eq!(keys(&[3]), [Key::CtrlC]);
    assert_eq!(keys(b"?x"), [Key::Help]);
    // what a terminal sends for a function key or in answer to a question
    assert_eq!(keys(b"\x1b[?1;2q"), []);
    assert_eq!(keys(b""), []);
}
