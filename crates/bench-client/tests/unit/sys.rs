//! The unsafe calls, against real sockets.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use super::*;

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

#[test]
fn a_segment_is_stamped_by_the_kernel_when_it_arrives_not_when_it_is_read() {
    let (near, mut far) = pair();
    ask_for_stamps(near.as_fd()).unwrap();
    // The kernel begins to stamp a moment after the first socket of the machine asks; until then reads have no stamp.
    let stamped = (0..100_000).find_map(|_| {
        let before = realtime_ns();
        far.write_all(b"token").unwrap();
        let mut buffer = [0; 16];
        let received = recv(near.as_fd(), &mut buffer).unwrap();
        assert_eq!(&buffer[..received.len], b"token");
        Some((before, received.realtime_ns?, realtime_ns()))
    });
    let (before, at, after) = stamped.unwrap();
    assert!(before <= at && at <= after, "{before} {at} {after}");
}

#[test]
fn the_end_of_the_stream_is_zero_bytes_without_a_stamp() {
    let (near, far) = pair();
    ask_for_stamps(near.as_fd()).unwrap();
    drop(far);
    let received = recv(near.as_fd(), &mut [0; 4]).unwrap();
    assert_eq!((received.len, received.realtime_ns), (0, None));
}

#[test]
fn without_asking_there_is_no_stamp() {
    let (mut near, mut far) = pair();
    far.write_all(b"x").unwrap();
    assert_eq!(recv(near.as_fd(), &mut [0; 4]).unwrap().realtime_ns, None);
    near.set_nonblocking(true).unwrap();
    assert!(near.read(&mut [0; 1]).is_err());
}

/// After a close the kernel knows whether what was written before it had been taken.
#[test]
fn a_peer_that_closed_before_it_took_a_request_is_told_from_one_that_read_it() {
    let threw_away = |close: &dyn Fn(TcpStream, &mut TcpStream)| {
        let (mut near, mut far) = pair();
        near.write_all(b"first").unwrap();
        far.read_exact(&mut [0; 5]).unwrap();
        close(far, &mut near);
        // over a loopback the peer's kernel has answered by now
        assert_eq!(near.read(&mut [0; 1]).unwrap(), 0, "it has closed");
        tcp_state(near.as_fd()).unwrap().threw_away(5)
    };
    let closed_before = threw_away(&|far, near| {
        drop(far);
        near.write_all(b"second").unwrap();
    });
    let read_and_closed = threw_away(&|mut far, near| {
        near.write_all(b"second").unwrap();
        far.read_exact(&mut [0; 6]).unwrap();
    });
    let closed_unread = threw_away(&|far, near| {
        near.write_all(b"second").unwrap();
        // with the end first: a reset alone is also what a server sends that has read
        far.shutdown(std::net::Shutdown::Both).unwrap();
    });
    assert_eq!(
        (closed_before, read_and_closed, closed_unread),
        (true, false, true)
    );
}

fn realtime_ns() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
