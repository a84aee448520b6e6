use super::*;

// Seed 000, table "Sequence Length Categories and Scaling".
#[test]
fn the_usual_categories_are_those_of_the_length_study() {
    let categories = LengthCategories::default();
    let names: Vec<_> = [0, 49, 50, 149, 150, 300, 499, 500, 9_999]
        .map(|n| categories.of(n))
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(
        names,
        [
            "tiny",
            "tiny",
            "short",
            "short",
            "medium",
            "long",
            "long",
            "very-long",
            "very-long"
        ]
    );
}
