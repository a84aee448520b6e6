use super::*;

#[test]
fn a_finding_with_a_number_that_is_none_is_not_made() {
    let with = |value| {
        let draft = Draft::new(Cause::Queueing, 0.5);
        draft.because(Known::QueueShare, value).done()
    };
    assert!(with(1.0).is_some());
    assert!(with(f64::NAN).is_none() && with(f64::INFINITY).is_none());
    assert!(Draft::new(Cause::Queueing, f64::NAN).done().is_none());
}

#[test]
fn every_time_is_told_as_a_time() {
    for figure in [
        Known::Ttft,
        Known::ScheduledTtft,
        Known::ServerTtft,
        Known::QueueTime,
        Known::QueueTimeP50,
        Known::Tpot,
        Known::StallLength,
    ] {
        assert_eq!(of_cell(figure, 1.0, "c1").unit, Unit::Ns, "{figure:?}");
    }
}
