//! Tests of `src/files.rs`.

use super::*;

#[test]
fn names_that_lead_out_of_a_folder_are_refused() {
    for name in ["../x", "a/b", "a\\b", "", "..", ".hidden", "a\0b", "c\n8"] {
        assert!(plain_name(name, Path::new("run")).is_err(), "{name:?}");
    }
    for name in ["c8", "r20-poisson", "short-x-50", "p1.5", "größe"] {
        assert_eq!(plain_name(name, Path::new("run")).unwrap(), name);
    }
}
