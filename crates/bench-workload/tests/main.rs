//! Plans, prompts, files and tokenizers: one program, so that it is linked once.

mod arrivals;
mod bad_files;
mod files;
mod lengths;
mod plans;
mod prompts;
mod tokenizers;
