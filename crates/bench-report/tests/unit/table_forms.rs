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
