//! Files of certificates that are none.

use super::*;

#[test]
fn a_file_that_never_ends_holds_no_certificate_and_no_key() {
    let endless = Path::new("/dev/zero");
    let said = [
        certificates(endless).unwrap_err().to_string(),
        private_key(endless).unwrap_err().to_string(),
    ];
    for said in said {
        assert!(said.contains("more than 1024 KiB"), "{said}");
    }
}
