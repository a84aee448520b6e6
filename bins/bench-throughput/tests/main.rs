//! The command as its users run it: one program, so that it is linked once.

mod capacity;
mod common;
mod crash;
mod deaths;
mod disk;
mod end_to_end;
mod endings;
mod factors;
#[path = "faults/main.rs"]
mod faults;
mod secrets;
mod shards;
mod versus;
mod watched;
mod workloads;
