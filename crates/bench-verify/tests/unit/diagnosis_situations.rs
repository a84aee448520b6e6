use std::collections::BTreeSet;

use super::*;

#[test]
fn there_are_forty_and_more_a_third_healthy_each_with_its_own_name_and_a_profile_that_can_be_played()
 {
    let all = situations().unwrap();
    let healthy = all.iter().filter(|one| one.is_healthy()).count();
    assert!(
        all.len() >= 40 && healthy * 3 >= all.len(),
        "{healthy} of {}",
        all.len()
    );
    let names: BTreeSet<_> = all.iter().map(|one| &one.name).collect();
    assert_eq!(names.len(), all.len());
    for situation in &all {
        assert!(!situation.profiles.is_empty(), "{}", situation.name);
        for profile in &situation.profiles {
            profile.check().unwrap();
        }
    }
}
