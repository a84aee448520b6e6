//! Plans, prompts, files and tokenizers: one program, so that it is linked once.

mod arrivals;
mod bad_files;
mod draws;
mod files;
mod grammar;
mod lengths;
mod plans;
mod prompts;
#[path = "support/files.rs"]
mod support_files;
#[path = "support/plans.rs"]
mod support_plans;
mod tokenizers;
