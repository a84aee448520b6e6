//! A tree of processes, grown and felled.

use std::process::{Child, Command, Stdio};

use super::*;
use crate::reading::Named;

#[test]
fn descendants_are_found_at_any_depth_and_a_ring_ends() {
    let parents = [(2, 1), (3, 2), (4, 3), (9, 8), (1, 4)];
    assert_eq!(descendants(1, &parents), [2, 3, 4].into());
    assert_eq!(descendants(5, &parents), BTreeSet::new());
}

fn waits_for_its_input() -> Child {
    let mut cat = Command::new("cat");
    cat.stdin(Stdio::piped()).stdout(Stdio::null());
    cat.spawn().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn a_child_is_found_and_what_it_used_is_kept_when_it_ends() {
    let mut child = waits_for_its_input();
    let units = KernelUnits::of_this_machine();
    let mut tree = Tree::new(std::process::id(), true, units);
    tree.find_members(Stamp::EPOCH);
    assert!(tree.members.contains_key(&child.id()));
    // one that comes later is found as well
    tree.not_before = Stamp::EPOCH;
    let mut later = waits_for_its_input();
    tree.find_members(Stamp::EPOCH);
    assert!(tree.members.contains_key(&later.id()));
    drop(later.stdin.take());
    later.wait().unwrap();
    let used = |tree: &mut Tree| {
        let mut named = Named::default();
        let mut draft = Draft::new(ReadingSource::Client, "", Stamp::EPOCH, &mut named);
        assert!(tree.read(Path::new("/proc"), true, &mut draft));
        draft.finish(Stamp::EPOCH).unwrap().values["cpu_s_total"]
    };
    let before = used(&mut tree);
    tree.members
        .get_mut(&child.id())
        .unwrap()
        .last
        .as_mut()
        .unwrap()
        .user = 5.0;
    drop(child.stdin.take());
    child.wait().unwrap();
    let after = used(&mut tree);
    assert!(!tree.members.contains_key(&child.id()));
    assert!(after >= before + 5.0 - 0.5, "{before} {after}");
    assert!(used(&mut tree) >= after);
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_that_has_ended_is_said_to_have_ended() {
    let mut child = waits_for_its_input();
    let units = KernelUnits::of_this_machine();
    let mut tree = Tree::new(child.id(), true, units);
    drop(child.stdin.take());
    child.wait().unwrap();
    let mut named = Named::default();
    let mut draft = Draft::new(ReadingSource::ServerProcess, "7", Stamp::EPOCH, &mut named);
    assert!(!tree.read(Path::new("/proc"), true, &mut draft));
    let reading = draft.finish(Stamp::EPOCH).unwrap();
    assert!(reading.values.is_empty() && reading.unknown["process"].starts_with("it has ended"));
}
