//! One connection between two shards: both prove that they know the token, then each message carries a code that nobody else can make.
//!
//! Each side begins with a mark and 32 random bytes. From then on a message is its length (four bytes, most significant first), an HMAC-SHA256, and JSON. The code is
//! over both sides' random bytes, who sends, how many messages that side has sent, and the text: one that was made up, changed, sent again or sent back does not fit.
//! The token itself is never sent. Messages are not secret.

use std::io;
use std::time::Duration;

use bench_schema::{ClockExchange, Nanos, Secret, Stamp};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::net::sockopt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// What a connection begins with: whoever says something else is no shard. The last byte counts the changes of what is said from then on.
const MARK: [u8; 8] = *b"bmeet\0\0\x03";
const NONCE: usize = 32;
const CODE: usize = 32;
/// Bytes of a message: the facts of a thousand cells fit.
const LONGEST: usize = 1 << 20;
/// Bytes before the text of a message: its length and its code.
const HEAD: usize = 4 + CODE;
/// Room that is made to read into.
const ROOM: usize = 8 << 10;

/// A machine that is gone without a word is noticed after half a minute.
const QUIET: Duration = Duration::from_secs(15);
const AGAIN: Duration = Duration::from_secs(5);
const TIMES: u32 = 3;

/// Which side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Shard 0.
    Listens,
    /// Another shard.
    Calls,
}

/// Why nothing more comes over a connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("the peer does not speak the shard protocol")]
    NoShard,
    #[error(
        "its program has a different version with an incompatible shard protocol: use the same version on all hosts"
    )]
    OtherVersion,
    #[error("the peer has a different BENCH_MEET_TOKEN")]
    OtherToken,
    #[error("the peer sent an invalid message")]
    Nonsense,
    #[error("the connection ended: {0}")]
    Ended(#[from] io::Error),
}

/// What a link runs over.
pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Wire for T {}

/// A connection to another shard. Whoever waits for it may stop waiting at any time: what came of a message, or is still to be written, is kept.
pub(super) struct Link {
    wire: Box<dyn Wire>,
    came: Vec<u8>,
    leaves: Vec<u8>,
    side: Side,
    key: hmac::Key,
    /// The random bytes of the side that calls, then those of the one that listens.
    nonces: [u8; 2 * NONCE],
    sent: u64,
    received: u64,
}

/// Bytes that nobody can guess.
fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system has no random bytes"))?;
    Ok(bytes)
}

/// A name that no other meeting has.
pub(super) fn name() -> io::Result<String> {
    Ok(format!("{:016x}", u64::from_be_bytes(random()?)))
}

impl Link {
    /// The same over a connection whose end is noticed.
    pub(super) async fn open(
        stream: TcpStream,
        side: Side,
        token: &Secret,
    ) -> Result<Self, LinkError> {
        stream.set_nodelay(true)?;
        notice_who_is_gone(&stream)?;
        Self::over(Box::new(stream), side, token).await
    }

    /// Exchange marks and random bytes. That the other side knows the token is known with its first message.
    pub(super) async fn over(
        mut wire: Box<dyn Wire>,
        side: Side,
        token: &Secret,
    ) -> Result<Self, LinkError> {
        let own: [u8; NONCE] = random()?;
        let mut theirs = [0; MARK.len() + NONCE];
        if side == Side::Calls {
            wire.write_all(&[&MARK[..], &own].concat()).await?;
        }
        wire.read_exact(&mut theirs).await?;
        let (mark, theirs) = theirs.split_at(MARK.len());
        if mark.split_last().map(|(_, name)| name) != MARK.split_last().map(|(_, name)| name) {
            return Err(LinkError::NoShard);
        }
        if side == Side::Listens {
            wire.write_all(&[&MARK[..], &own].concat()).await?;
        }
        if mark != MARK {
            return Err(LinkError::OtherVersion);
        }
        let mut nonces = [0; 2 * NONCE];
        let (calls, listens) = nonces.split_at_mut(NONCE);
        let (first, second) = match side {
            Side::Calls => (&own[..], theirs),
            Side::Listens => (theirs, &own[..]),
        };
        calls.copy_from_slice(first);
        listens.copy_from_slice(second);
        Ok(Self {
            wire,
            came: Vec::new(),
            leaves: Vec::new(),
            side,
            key: hmac::Key::new(hmac::HMAC_SHA256, token.expose().as_bytes()),
            nonces,
            sent: 0,
            received: 0,
        })
    }

    /// Send a message. Where this is dropped, what is left of it goes before whatever is sent or received next.
    pub(super) async fn send(&mut self, message: &impl Serialize) -> Result<(), LinkError> {
        let body = serde_json::to_vec(message).map_err(io::Error::from)?;
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        if body.len() > LONGEST {
            let wrong = format!("a message of {length} bytes is longer than {LONGEST}");
            return Err(io::Error::other(wrong).into());
        }
        let code = hmac::sign(&self.key, &self.signed(self.side, self.sent, &body));
        self.sent += 1;
        self.leaves.extend_from_slice(&length.to_be_bytes());
        self.leaves.extend_from_slice(code.as_ref());
        self.leaves.extend_from_slice(&body);
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), LinkError> {
        while !self.leaves.is_empty() {
            let written = self.wire.write(&self.leaves).await?;
            if written == 0 {
                return Err(io::Error::from(io::ErrorKind::WriteZero).into());
            }
            self.leaves.drain(..written);
        }
        Ok(())
    }

    /// The next message.
    pub(super) async fn receive<M: DeserializeOwned>(&mut self) -> Result<M, LinkError> {
        self.flush().await?;
        loop {
            if let Some(body) = self.whole()? {
                return serde_json::from_slice(&body).map_err(|_| LinkError::Nonsense);
            }
            // room is made as it comes: a length alone costs nothing
            self.came.reserve(ROOM);
            if self.wire.read_buf(&mut self.came).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    /// The text of the first message that came, once all of it is there.
    fn whole(&mut self) -> Result<Option<Vec<u8>>, LinkError> {
        let Some((length, rest)) = self.came.split_first_chunk() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > LONGEST {
            return Err(LinkError::Nonsense);
        }
        let Some((code, body)) = rest
            .get(..CODE + length)
            .and_then(|message| message.split_at_checked(CODE))
        else {
            return Ok(None);
        };
        let other = match self.side {
            Side::Listens => Side::Calls,
            Side::Calls => Side::Listens,
        };
        let signed = self.signed(other, self.received, body);
        hmac::verify(&self.key, &signed, code).map_err(|_| LinkError::OtherToken)?;
        let body = body.to_vec();
        self.received += 1;
        self.came.drain(..HEAD + length);
        Ok(Some(body))
    }

    fn signed(&self, by: Side, number: u64, body: &[u8]) -> Vec<u8> {
        let by = [u8::from(by == Side::Calls)];
        [&self.nonces[..], &by, &number.to_be_bytes(), body].concat()
    }
}

fn notice_who_is_gone(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, QUIET)?;
    sockopt::set_tcp_keepintvl(stream, AGAIN)?;
    Ok(sockopt::set_tcp_keepcnt(stream, TIMES)?)
}

// How far two clocks are apart, from stamps of one message and its answer.

/// Stamps of one message that was answered: sent and back on this clock, came and left on the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct FourStamps {
    pub(super) sent: Stamp,
    pub(super) came: Stamp,
    pub(super) left: Stamp,
    pub(super) back: Stamp,
}

impl FourStamps {
    /// What is to be added to this clock for the other one, and how wrong that can be: the message came after it was sent, and its answer after it left, however
    /// unequal the two ways are. Absent where the stamps contradict that.
    pub(super) fn exchange(&self) -> Option<ClockExchange> {
        // the other clock is ahead by at most this, and by at least that
        let (most, least) = (self.came - self.sent, self.left - self.back);
        let width = most - least;
        (width >= Nanos::ZERO).then(|| ClockExchange {
            at: self.back,
            offset: Nanos::new(least.get() + width.get() / 2),
            bound: Nanos::new(width.get() / 2 + width.get() % 2),
        })
    }
}

/// The exchange that says most.
pub(super) fn best(of: impl Iterator<Item = FourStamps>) -> Option<ClockExchange> {
    of.filter_map(|stamps| stamps.exchange())
        .min_by_key(|exchange| exchange.bound)
}

#[cfg(test)]
#[path = "../../tests/unit/meet_offset.rs"]
mod tests;
