use super::*;

#[test]
fn every_level_is_in_one_of_few_rows() {
    let rows = each_level();
    assert_eq!(rows.len(), 4);
    for (factor, levels) in LEVELS.into_iter().enumerate() {
        let seen: BTreeSet<usize> = rows.iter().map(|row| row.0[factor]).collect();
        assert_eq!(seen.len(), levels, "factor {factor}");
    }
}

#[test]
fn every_pair_of_levels_is_in_a_row_and_the_rows_are_few() {
    let rows = pairwise();
    let covered: BTreeSet<_> = rows.iter().flat_map(|row| row.pairs()).collect();
    let all: BTreeSet<_> = product().iter().flat_map(|row| row.pairs()).collect();
    assert_eq!(covered, all);
    assert!((12..=16).contains(&rows.len()), "{}", rows.len());
}
