//! Samplers, pages of servers and exporters, GPUs: one program, so that it is linked once.

mod common;
mod exporters;
mod exposition;
#[path = "common/fixtures.rs"]
mod fixtures;
mod gpu;
#[path = "common/pages.rs"]
mod pages;
mod query;
mod sampler;
mod servers;
