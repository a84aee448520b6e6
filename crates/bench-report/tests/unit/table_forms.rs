use super::*;
use crate::table::Cell;

#[test]
fn headings_that_columns_share_stand_apart_however_narrow_these_are() {
    let groups = ["of the one group", "of the other group"];
    let columns = groups.map(|group| ["a", "b"].map(|title| Column::of(group, title, "")));
    let mut table = Table::new("T", columns.concat());
    table.push((1..=4).map(Cell::count).collect());
    let shown = table.alone();
    assert!(
        shown.contains("  of the one group  of the other group\n"),
        "{shown}"
    );
}

#[test]
fn headings_of_strangers_move_no_cursor() {
    let nasty = "a\u{1b}]0;b\u{7}\u{9b}2J\u{202e}\r";
    let mut table = Table::new(nasty, vec![Column::text("t"), Column::of(nasty, nasty, "")]);
    table.push((1..=2).map(Cell::count).collect());
    let moves = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    let shown = table.alone();
    assert!(!shown.contains(moves), "{shown:?}");
}

#[test]
fn a_share_that_is_more_than_nothing_is_never_shown_as_zero() {
    let shown = |numbers: &[f64]| -> Vec<String> {
        let mut table = Table::new("T", vec![Column::number("use", "%")]);
        for n in numbers {
            table.push(vec![Cell::number(*n)]);
        }
        let rows = table.shown();
        rows.into_iter()
            .map(|mut row| row.swap_remove(0).text)
            .collect()
    };
    assert_eq!(
        shown(&[0.000_04, 0.0, 12.34, 0.06]),
        ["< 0.1", "0.00", "12.34", "0.06"]
    );
    assert_eq!(shown(&[0.000_04]), ["< 0.1"]);
    assert_eq!(shown(&[0.0]), ["0"]);
}
