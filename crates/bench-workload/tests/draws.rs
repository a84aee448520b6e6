//! Seeds, draws, and what is drawn from them by name.

use std::collections::BTreeSet;

use bench_workload::{Draw, JointSpec, LengthCategory, Seed};

#[test]
fn streams_of_other_purposes_cells_and_indices_differ() {
    let seed = Seed::new(1);
    let mut firsts: Vec<u64> = [("a", "x"), ("a", "y"), ("b", "x"), ("ax", "")]
        .into_iter()
        .map(|(purpose, cell)| Draw::new(seed.stream(purpose, cell)).bits())
        .collect();
    firsts.extend((0..4).map(|index| seed.streams("c", "x").at(index).bits()));
    firsts.push(Draw::new(Seed::new(2).stream("a", "x")).bits());
    let distinct: BTreeSet<u64> = firsts.iter().copied().collect();
    assert_eq!(distinct.len(), firsts.len());
}

#[test]
fn draws_below_a_number_stay_below_it_and_reach_every_value() {
    let mut draw = Draw::new(Seed::new(3).stream("test", ""));
    let mut seen = [0_u32; 7];
    for _ in 0..7_000 {
        seen[usize::try_from(draw.below(7)).unwrap()] += 1;
    }
    assert!(seen.iter().all(|n| (800..1_200).contains(n)), "{seen:?}");
    assert_eq!(draw.below(0), 0);
    assert_eq!(draw.between(5, 5), 5);
}

#[test]
fn a_target_falls_in_its_category_and_asks_for_both_lengths() {
    let mut draw = Draw::new(Seed::new(5).stream("spread", ""));
    for category in LengthCategory::ALL {
        for _ in 0..500 {
            let target = category.target(&mut draw);
            assert_eq!(LengthCategory::of(target.input + target.output), category);
            assert!(target.input >= 1 && target.output >= 1);
        }
    }
}

#[test]
fn category_names_read_back() {
    for category in LengthCategory::ALL {
        assert_eq!(category.name().parse::<LengthCategory>().unwrap(), category);
    }
    assert!("huge".parse::<LengthCategory>().is_err());
}

#[test]
fn a_joint_mixture_reads_back_as_itself() {
    let text = "joint:3*256/128..256+1*normal:1024:100/64";
    let spec: JointSpec = text.parse().unwrap();
    assert_eq!(spec.to_string(), text);
    assert!(matches!(&spec, JointSpec::Mixture(parts) if parts.len() == 2));
    let message = "joint:3*256".parse::<JointSpec>().unwrap_err().to_string();
    assert!(
        message.contains("not of the form INPUT/OUTPUT"),
        "{message}"
    );
}
