//! System calls that have no safe interface: the one module of this crate with unsafe code.
//!
//! rustix has `recvmsg` but does not decode `SCM_TIMESTAMPNS`; hyper's uninitialised read buffers can be filled without a copy
//! or a memset only through their unsafe calls; tokio's `AsyncFd` wants a promise about the descriptor. Everything that leaves
//! this module is safe to call.
#![expect(
    unsafe_code,
    reason = "recvmsg's ancillary data and hyper's uninitialised buffers have no safe interface"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::rt::ReadBufCursor;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, Interest, ReadBuf};

/// The first bytes of a read; zeroes fill up a shorter one.
pub(crate) type Opening = [u8; 8];

/// What one `recvmsg` brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// Bytes read; 0 is the end of the stream.
    pub(crate) len: usize,
    /// When the kernel received the last segment that this read touched, nanoseconds of the real-time clock.
    pub(crate) realtime_ns: Option<i64>,
    /// Its first bytes.
    pub(crate) opening: Opening,
}

/// Let the current runtime watch a descriptor. It stays open as long as anybody holds it.
pub(crate) fn watch(fd: Arc<OwnedFd>, interest: Interest) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: an `OwnedFd` is open until it is dropped; the `AsyncFd` holds a reference to it and never gives the descriptor
    // itself away.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(Into::into)
}

/// Ask the kernel for a receive stamp on everything that arrives from now on.
#[cfg(target_os = "linux")]
pub(crate) fn ask_for_stamps(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_socket_option(fd, libc::SO_TIMESTAMPNS, 1)
}

#[cfg(target_os = "linux")]
fn set_socket_option(
    fd: BorrowedFd<'_>,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the option's value is a c_int that lives across the call, and its size is given.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            socklen_of::<libc::c_int>(),
        )
    };
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// What a TCP connection has brought in order since it began: bytes, and the segments that they came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) bytes: u64,
    pub(crate) segments: u32,
}

/// What has arrived by now; absent where the socket is not TCP, or the kernel too old to tell.
#[cfg(target_os = "linux")]
pub(crate) fn arrived(fd: BorrowedFd<'_>) -> Option<Arrived> {
    /// `tcpi_bytes_received` and `tcpi_data_segs_in` of `struct tcp_info`, whose members only ever grew in number.
    const BYTES: usize = 128;
    const SEGMENTS: usize = 152;
    let mut info = [0_u8; 160];
    let mut len = socklen_of::<[u8; 160]>();
    // SAFETY: the array is valid for writes of `len` bytes, and both live across the call.
    let rc = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    let told = info.get(..usize::try_from(len).ok()?)?;
    let bytes = told.get(BYTES..BYTES + 8)?.try_into().ok()?;
    let segments = told.get(SEGMENTS..SEGMENTS + 4)?.try_into().ok()?;
    (rc == 0).then(|| Arrived {
        bytes: u64::from_ne_bytes(bytes),
        segments: u32::from_ne_bytes(segments),
    })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn arrived(_fd: BorrowedFd<'_>) -> Option<Arrived> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn ask_for_stamps(_fd: BorrowedFd<'_>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Read at most `limit` bytes into hyper's buffer, without initialising it first.
pub(crate) fn recv_into_cursor(
    fd: BorrowedFd<'_>,
    cursor: &mut ReadBufCursor<'_>,
    limit: usize,
) -> io::Result<Received> {
    // SAFETY: nothing is read from the spare room, and nothing uninitialised is written to it.
    let spare = unsafe { cursor.as_mut() };
    let (start, len) = (spare.as_mut_ptr().cast::<u8>(), spare.len().min(limit));
    // SAFETY: `start` is valid for writes of `len` bytes, as the slice above says.
    let received = unsafe { recv(fd, start, len) }?;
    // SAFETY: the kernel has just written that many bytes at the start of the spare room.
    unsafe { cursor.advance(received.len) };
    Ok(received)
}

/// Read into initialised memory.
pub(crate) fn recv_into_slice(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Received> {
    // SAFETY: the slice is valid for writes of its length.
    unsafe { recv(fd, buffer.as_mut_ptr(), buffer.len()) }
}

/// The stamp of the segment that holds the next byte to be read, where there is one and the kernel stamped it.
pub(crate) fn next_stamp(fd: BorrowedFd<'_>) -> Option<i64> {
    let mut byte = [0_u8; 1];
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: the array is valid for writes of its length.
    let peeked = unsafe { recv_with(fd, byte.as_mut_ptr(), byte.len(), flags) };
    peeked.ok()?.realtime_ns
}

/// Let a tokio reader (the TLS stream) fill hyper's buffer.
pub(crate) fn poll_tokio_read<R: AsyncRead>(
    reader: Pin<&mut R>,
    cx: &mut Context<'_>,
    cursor: &mut ReadBufCursor<'_>,
) -> Poll<io::Result<usize>> {
    // SAFETY: tokio's ReadBuf never writes uninitialised bytes over initialised ones.
    let mut buffer = ReadBuf::uninit(unsafe { cursor.as_mut() });
    match reader.poll_read(cx, &mut buffer) {
        Poll::Ready(Ok(())) => {
            let filled = buffer.filled().len();
            // SAFETY: that many bytes at the start of the spare room are filled, hence initialised.
            unsafe { cursor.advance(filled) };
            Poll::Ready(Ok(filled))
        }
        Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        Poll::Pending => Poll::Pending,
    }
}

/// Room for one `SCM_TIMESTAMPNS` and a neighbour, or for one `SCM_TIMESTAMPING`, aligned as control messages must be.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// # Safety
/// `start` must be valid for writes of `len` bytes.
unsafe fn recv(fd: BorrowedFd<'_>, start: *mut u8, len: usize) -> io::Result<Received> {
    // SAFETY: as this function's own.
    unsafe { recv_with(fd, start, len, 0) }
}

/// # Safety
/// `start` must be valid for writes of `len` bytes.
unsafe fn recv_with(
    fd: BorrowedFd<'_>,
    start: *mut u8,
    len: usize,
    flags: libc::c_int,
) -> io::Result<Received> {
    let mut iov = libc::iovec {
        iov_base: start.cast(),
        iov_len: len,
    };
    let mut control = Control([0; 64]);
    // SAFETY: all-zero is a valid msghdr: null pointers with zero lengths.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut iov;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    // The field's type differs between C libraries.
    message.msg_controllen = 64_u32.try_into().unwrap_or_default();
    // SAFETY: `message` points at one iovec over memory the caller vouches for, and at `control`, which outlives the call.
    let n = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, flags) };
    let len = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
    let mut opening = Opening::default();
    // SAFETY: the kernel has written `len` bytes at `start`; no more than that, nor than `opening` holds, are copied.
    unsafe { std::ptr::copy_nonoverlapping(start, opening.as_mut_ptr(), len.min(opening.len())) };
    Ok(Received {
        len,
        realtime_ns: stamp_in(&message),
        opening,
    })
}

#[cfg(target_os = "linux")]
fn stamp_in(message: &libc::msghdr) -> Option<i64> {
    // SAFETY: the kernel has filled `message`; CMSG_FIRSTHDR/NXTHDR stay inside its control buffer.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: not null, so it points at a whole header inside the control buffer.
        let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
        if level == libc::SOL_SOCKET
            && (kind == libc::SCM_TIMESTAMPNS || kind == libc::SCM_TIMESTAMPING)
        {
            // SAFETY: a message of these kinds begins with a timespec; it need not be aligned.
            let time: libc::timespec =
                unsafe { std::ptr::read_unaligned(libc::CMSG_DATA(header).cast()) };
            #[expect(
                clippy::useless_conversion,
                reason = "the fields' types differ between targets"
            )]
            return Some(
                i64::from(time.tv_sec)
                    .saturating_mul(1_000_000_000)
                    .saturating_add(i64::from(time.tv_nsec)),
            );
        }
        // SAFETY: as above.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}

#[cfg(not(target_os = "linux"))]
fn stamp_in(_message: &libc::msghdr) -> Option<i64> {
    None
}

#[cfg(target_os = "linux")]
fn socklen_of<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).unwrap_or(libc::socklen_t::MAX)
}

/// The kernel's own stamps of what is sent: too dear for each request, but they say where within the call the instant lies.
#[cfg(all(test, target_os = "linux"))]
pub(crate) mod sending {
    use super::{BorrowedFd, io, recv_with, set_socket_option};

    /// Ask for a stamp of each segment when it leaves the socket for the device.
    pub(crate) fn ask_for_stamps(fd: BorrowedFd<'_>) -> io::Result<()> {
        let flags = libc::SOF_TIMESTAMPING_TX_SCHED
            | libc::SOF_TIMESTAMPING_SOFTWARE
            | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        set_socket_option(fd, libc::SO_TIMESTAMPING, flags.cast_signed())
    }

    /// The oldest stamp that was not taken yet, nanoseconds of the real-time clock.
    pub(crate) fn take_stamp(fd: BorrowedFd<'_>) -> Option<i64> {
        let mut nothing = [0_u8; 8];
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the array is valid for writes of its length.
        let received = unsafe { recv_with(fd, nothing.as_mut_ptr(), nothing.len(), flags) };
        received.ok()?.realtime_ns
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
#[path = "../tests/unit/sys.rs"]
mod tests;
