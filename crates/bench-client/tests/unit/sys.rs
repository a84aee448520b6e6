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
        let received = recv_into_slice(near.as_fd(), &mut buffer).unwrap();
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
    let received = recv_into_slice(near.as_fd(), &mut [0; 4]).unwrap();
    assert_eq!((received.len, received.realtime_ns), (0, None));
}

#[test]
fn without_asking_there_is_no_stamp() {
    let (mut near, mut far) = pair();
    far.write_all(b"x").unwrap();
    assert_eq!(
        recv_into_slice(near.as_fd(), &mut [0; 4])
            .unwrap()
            .realtime_ns,
        None
    );
    near.set_nonblocking(true).unwrap();
    assert!(near.read(&mut [0; 1]).is_err());
}

#[test]
fn hypers_uninitialised_buffer_is_filled_in_place() {
    let (near, mut far) = pair();
    far.write_all(b"hello").unwrap();
    let mut room = [std::mem::MaybeUninit::<u8>::uninit(); 8];
    let mut buffer = hyper::rt::ReadBuf::uninit(&mut room);
    assert_eq!(
        recv_into_cursor(near.as_fd(), &mut buffer.unfilled(), 8)
            .unwrap()
            .len,
        5
    );
    assert_eq!(buffer.filled(), b"hello");
}

fn realtime_ns() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
