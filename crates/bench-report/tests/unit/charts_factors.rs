use super::*;

#[test]
fn levels_are_sorted_by_size_and_two_negative_ones_are_two() {
    let mut levels = [
        Factor::Name("b".to_owned()),
        Factor::Number(1.0),
        Factor::Number(-1.0),
        Factor::Name("a".to_owned()),
        Factor::Number(-2.0),
    ];
    levels.sort_by(compared);
    assert_eq!(
        levels.map(|level| level.to_string()).join(" "),
        "-2 -1 1 a b"
    );
}
