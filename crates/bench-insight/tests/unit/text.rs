use super::*;

#[test]
fn numbers_keep_their_significant_figures() {
    let shown = [
        percent(0.8547),
        percent(0.0041),
        number(949.1),
        number(4.6),
        percent(0.625),
    ];
    assert_eq!(
        shown,
        ["85 %", "0.41 %", "949", "4.60", "63 %"].map(str::to_owned)
    );
}

#[test]
fn thousands_are_separated() {
    assert_eq!(
        [grouped(397_440.0), grouped(12.0), grouped(-1_000.0)],
        ["397,440", "12", "-1,000"].map(str::to_owned)
    );
}
