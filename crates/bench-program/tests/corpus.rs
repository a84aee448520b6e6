//! What the fuzz targets were fed, and what they found, through the same code on every change: no panic, no hang, the same answers for any cut.

#![allow(
    clippy::allow_attributes,
    clippy::expect_used,
    clippy::missing_panics_doc,
    missing_docs,
    unreachable_pub,
    reason = "the bodies are shared with the fuzz targets, which fail by panicking"
)]

#[path = "../../../fuzz/src/bodies.rs"]
mod bodies;

use std::path::PathBuf;

#[test]
fn every_input_of_the_corpus_is_taken_without_harm() {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (target, body) in bodies::ALL {
        let inputs = std::fs::read_dir(corpus.join(target));
        let mut seen = 0;
        for input in inputs.unwrap_or_else(|error| panic!("{target}: {error}")) {
            let path = input.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            let taken = std::panic::catch_unwind(|| body(&bytes));
            assert!(taken.is_ok(), "{}", path.display());
            seen += 1;
        }
        assert!(seen >= 3, "{target}: {seen} inputs");
    }
}
