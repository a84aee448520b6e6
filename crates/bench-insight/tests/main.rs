//! Findings, trust and decisions: one program, so that it is linked once.

mod decide;
#[path = "diagnosis/main.rs"]
mod diagnosis;
#[path = "seeds/fixtures.rs"]
mod fixtures;
#[path = "seeds/load.rs"]
mod load;
mod matrix;
mod properties;
mod searches;
#[path = "seeds/main.rs"]
mod seeds;
mod simulated;
mod trust;
mod turns;
mod wording;
