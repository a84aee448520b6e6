//! System calls that have no safe interface: the one module of this crate with unsafe code.
//!
//! rustix has `recvmsg` but does not decode `SCM_TIMESTAMPNS`, and no `sched_setattr`; tokio's `AsyncFd` wants a promise about the descriptor. Everything
//! that leaves this module is safe to call.
#![expect(
    unsafe_code,
    reason = "recvmsg's ancillary data, TCP_INFO and a thread's turns have no safe interface"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use bench_schema::Nanos;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

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

/// Let the kernel acknowledge every second small segment and no longer each read, until it has waited 40 ms for a second one.
pub(crate) fn acknowledge_less(fd: BorrowedFd<'_>) {
    #[cfg(target_os = "linux")]
    let _not_tcp = rustix::net::sockopt::set_tcp_quickack(fd, false);
    #[cfg(not(target_os = "linux"))]
    let _other_ways = fd;
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

/// Ask the kernel to let the calling thread, when it wakes, run before threads that have not had their turn of a millisecond or more:
/// its own turns are to be as short as the kernel has them. Its share of the processor stays what it was, and nobody needs a privilege
/// for it. Linux before 6.12 and other systems change nothing.
///
/// What carries load wakes often and works for microseconds; whatever else is on its processor (the planner at a prompt, the server)
/// would otherwise hold it up for the rest of a turn: 0.7 to 2.8 ms.
pub fn take_short_turns() {
    #[cfg(target_os = "linux")]
    {
        /// The shortest that Linux has, nanoseconds.
        const TURN: u64 = 100_000;
        let _refused = change_turn(TURN);
    }
}

#[cfg(target_os = "linux")]
fn change_turn(length: u64) -> Option<()> {
    // SAFETY: the structure is plain numbers, for which zero is a value, and valid for writes of its size; both calls copy it.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = u32::try_from(size_of::<libc::sched_attr>()).ok()?;
    let this_thread = 0;
    // SAFETY: as above.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            this_thread,
            &raw mut attributes,
            size,
            0,
        )
    };
    // Somebody's choice of a policy (real time, idle) is left alone.
    if rc != 0 || attributes.sched_policy != libc::SCHED_OTHER.cast_unsigned() {
        return None;
    }
    attributes.size = size;
    attributes.sched_runtime = length;
    // SAFETY: as above.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_sched_setattr,
            this_thread,
            &raw const attributes,
            0,
        )
    };
    (rc == 0).then_some(())
}

/// What a TCP connection has brought in order since it began: bytes, and the segments that they came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) bytes: u64,
    pub(crate) segments: u32,
}

/// What has arrived by now; absent where the socket is not TCP, or the kernel too old to tell.
pub(crate) fn arrived(fd: BorrowedFd<'_>) -> Option<Arrived> {
    let info = TcpInfo::of(fd)?;
    Some(Arrived {
        bytes: u64::from_ne_bytes(info.member(TcpInfo::BYTES_RECEIVED)?),
        segments: u32::from_ne_bytes(info.member(TcpInfo::SEGMENTS_IN)?),
    })
}

/// How far the peer's kernel has come with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpState {
    /// Bytes of ours that it has acknowledged, and one for the connection's beginning.
    acknowledged: u64,
    /// Nothing travels any more, in either direction.
    is_over: bool,
    /// The shortest so far.
    pub(crate) round_trip: Option<Nanos>,
}

impl TcpState {
    /// Of a connection whose peer has closed: whether it did so without having taken all that was written to it: nothing beyond the first
    /// `before` bytes was acknowledged, or it reset the connection after it had closed it.
    pub(crate) fn threw_away(&self, before: u64) -> bool {
        self.acknowledged <= before.saturating_add(1) || self.is_over
    }
}

/// The same; absent as for [`arrived`].
pub(crate) fn tcp_state(fd: BorrowedFd<'_>) -> Option<TcpState> {
    const CLOSED: u8 = 7;
    let info = TcpInfo::of(fd)?;
    let [state] = info.member(TcpInfo::STATE)?;
    let shortest = u32::from_ne_bytes(info.member(TcpInfo::MIN_RTT)?);
    let known = Some(shortest).filter(|&us| us != u32::MAX);
    Some(TcpState {
        acknowledged: u64::from_ne_bytes(info.member(TcpInfo::BYTES_ACKED)?),
        is_over: state == CLOSED,
        round_trip: known.map(|us| Nanos::new(i64::from(us) * 1_000)),
    })
}

/// The beginning of `struct tcp_info`, whose members only ever grew in number.
struct TcpInfo([u8; 160], usize);

impl TcpInfo {
    /// `tcpi_state`, and so on.
    const STATE: usize = 0;
    const BYTES_ACKED: usize = 120;
    const BYTES_RECEIVED: usize = 128;
    const MIN_RTT: usize = 148;
    const SEGMENTS_IN: usize = 152;

    #[cfg(target_os = "linux")]
    fn of(fd: BorrowedFd<'_>) -> Option<Self> {
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
        let told = usize::try_from(len).ok().filter(|_| rc == 0)?;
        Some(Self(info, told))
    }

    #[cfg(not(target_os = "linux"))]
    fn of(_fd: BorrowedFd<'_>) -> Option<Self> {
        None
    }

    fn member<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(..self.1)?.get(at..at + N)?.try_into().ok()
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn ask_for_stamps(_fd: BorrowedFd<'_>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn recv(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Received> {
    recv_with(fd, buffer, 0)
}

/// What waits behind a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// No byte.
    Nothing,
    /// A byte of a segment with this stamp, as [`Received::realtime_ns`]; absent where it has none.
    Segment(Option<i64>),
}

/// As [`recv`], and all of it stays where it is.
pub(crate) fn peek(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Received> {
    recv_with(fd, buffer, libc::MSG_PEEK | libc::MSG_DONTWAIT)
}

pub(crate) fn behind(fd: BorrowedFd<'_>) -> Behind {
    match peek(fd, &mut [0; 1]) {
        Ok(Received { len: 0, .. }) => Behind::Nothing,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Behind::Nothing,
        found => Behind::Segment(found.ok().and_then(|received| received.realtime_ns)),
    }
}

/// Room for one `SCM_TIMESTAMPNS` and a neighbour, or for one `SCM_TIMESTAMPING`, aligned as control messages must be.
#[repr(C, align(8))]
struct Control([u8; 64]);

fn recv_with(fd: BorrowedFd<'_>, buffer: &mut [u8], flags: libc::c_int) -> io::Result<Received> {
    let mut iov = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut control = Control([0; 64]);
    // SAFETY: all-zero is a valid msghdr: null pointers with zero lengths.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut iov;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    // The field's type differs between C libraries.
    message.msg_controllen = 64_u32.try_into().unwrap_or_default();
    // SAFETY: `message` points at one iovec over `buffer`, and at `control`; both outlive the call.
    let n = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, flags) };
    let len = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
    let mut opening = Opening::default();
    let begin = buffer.iter().take(len);
    opening
        .iter_mut()
        .zip(begin)
        .for_each(|(to, from)| *to = *from);
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
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        recv_with(fd, &mut [0; 8], flags).ok()?.realtime_ns
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
#[path = "../tests/unit/sys.rs"]
mod tests;
