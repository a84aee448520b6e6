//! What a reading says once, and never.

use super::*;

#[test]
fn a_reason_is_given_once_and_a_new_one_again_until_there_are_too_many() {
    let mut named = Named::default();
    let mut said = 0;
    for turn in 0..20 {
        let mut draft = Draft::new(ReadingSource::Gpu, "0", Stamp::EPOCH, &mut named);
        draft.unknown("power_w", format!("reason {}", turn / 2));
        said += draft.finish(Stamp::new(1)).map_or(0, |r| r.unknown.len());
    }
    assert_eq!(said, REASONS_PER_NAME);
}

#[test]
fn what_is_not_finite_is_named_and_not_stored() {
    let mut named = Named::default();
    let mut draft = Draft::new(ReadingSource::Host, "", Stamp::EPOCH, &mut named);
    draft.set("a", f64::NAN);
    draft.set("b", 0.0);
    let reading = draft.finish(Stamp::new(5)).unwrap();
    assert_eq!(reading.values.keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!(reading.unknown["a"], "the source reported NaN");
    assert_eq!(reading.to, Stamp::new(5));
}
