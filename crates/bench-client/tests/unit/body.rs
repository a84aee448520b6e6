//! Where a chunked body ends, and what is none.

use super::*;

fn read(wire: &[u8]) -> Result<(Vec<u8>, bool), String> {
    let mut body = Body::Chunks(Chunks::default());
    let (mut at, mut data) = (0, Vec::new());
    loop {
        let (used, part) = body.next(&wire[at..])?;
        match part {
            Part::Piece(piece) => data.extend_from_slice(&wire[at..][piece]),
            Part::End => return Ok((data, at + used == wire.len())),
            Part::Nothing => return Ok((data, false)),
        }
        at += used;
    }
}

#[test]
fn chunks_with_extensions_and_trailers_are_put_together() {
    let wire = b"5;name=\"v\"\r\nhello\r\n00A \r\n, world!!!\r\n0\r\nx-y: z\r\n\r\n";
    assert_eq!(read(wire), Ok((b"hello, world!!!".to_vec(), true)));
    assert_eq!(read(b"0\r\n\r"), Ok((Vec::new(), false)), "not over yet");
}

#[test]
fn what_is_no_chunk_is_refused() {
    for wire in [
        "\r\n",
        "g\r\n",
        "-1\r\n",
        "5\nhello",
        "5;a\nhello",
        "5\r\nhello!",
        "5\r\nhello\rx",
        "10000000000000000\r\n",
        "0\r\n\rx",
    ] {
        assert!(read(wire.as_bytes()).is_err(), "{wire:?}");
    }
    let endless = format!("1;{}", "x".repeat(MOST_IGNORED + 1));
    assert!(read(endless.as_bytes()).is_err());
    let endless = format!("0\r\n{}", "x: y\r\n".repeat(MOST_IGNORED / 4));
    assert!(read(endless.as_bytes()).is_err());
}
