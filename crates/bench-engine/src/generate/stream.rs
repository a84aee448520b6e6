//! The loop that writes a stream, and the faults that lie in the middle of it.

use crate::api::{Dialect, Piece};
use crate::engine::Step;
use crate::fault::{FaultKind as K, FaultSet};
use crate::generate::{Generation, Next, stall};
use crate::http::{Events, Gone, Head, Peer, Written};
use crate::ledger::{Entry, Outcome};
use crate::serve::Left;
use crate::server::Local;

/// Stands in a giant event where its text will be.
const GIANT: &str = "giant-event-text";

/// What ends a stream before its time, and after how many content events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Reset,
    Close,
    HalfClose,
    Stall(u64),
    Truncate,
    BadChunk,
    Error,
}

fn cut_of(faults: &FaultSet) -> Option<(u64, Cut)> {
    let hour = 3_600_000;
    [
        (faults.has(K::ResetHeaders).then_some(0), Cut::Reset),
        (faults.has(K::CloseHeaders).then_some(0), Cut::Close),
        (
            faults.has(K::StallHeaders).then_some(0),
            Cut::Stall(faults.get(K::StallHeaders).unwrap_or(hour)),
        ),
        (faults.get(K::ResetMid), Cut::Reset),
        (faults.get(K::CloseMid), Cut::Close),
        (faults.get(K::HalfClose), Cut::HalfClose),
        (faults.get(K::StallMid), Cut::Stall(hour)),
        (faults.get(K::Truncate), Cut::Truncate),
        (faults.get(K::BadChunk), Cut::BadChunk),
        (faults.get(K::ErrorInStream), Cut::Error),
    ]
    .into_iter()
    .filter_map(|(at, cut)| at.map(|at| (at, cut)))
    .min_by_key(|(at, _)| *at)
}

/// One stream that is being written.
struct Stream<'a, 'g> {
    generation: &'a mut Generation<'g>,
    dialect: &'a mut dyn Dialect,
    faults: &'a FaultSet,
    events: Events,
    /// Choices whose opening event was written.
    opened: Vec<bool>,
    /// Content events written or held.
    count: u64,
    /// Due times and tokens of events that are held for one write.
    held: Vec<(u64, u32, u32)>,
    /// Everything is held until the end, because its length is announced.
    buffered: bool,
}

pub(super) async fn run(
    generation: &mut Generation<'_>,
    dialect: &mut dyn Dialect,
    faults: &FaultSet,
    mut peer: Peer,
    entry: &mut Entry,
) -> Left {
    generation.keep = false;
    entry.status = Some(200);
    let buffered = faults.has(K::LengthLong) || faults.has(K::LengthShort);
    let opened = vec![false; generation.choices.len()];
    let events = Events::new(dialect.framing(), peer.is_chunked() && !buffered, faults);
    let mut stream = Stream {
        generation,
        dialect,
        faults,
        events,
        opened,
        count: 0,
        held: Vec::new(),
        buffered,
    };
    match stream.drive(&mut peer, entry).await {
        Err(Gone) => {
            entry.outcome = Outcome::ClientGone;
            None
        }
        Ok(Some(cut)) => {
            entry.outcome = Outcome::Fault;
            stream.cut(cut, peer, entry).await
        }
        Ok(None) => {
            entry.outcome = Outcome::Completed;
            let keep_alive = &generation.local.server.config.keep_alive;
            if faults.has(K::CloseAfter) || keep_alive.close_after_stream || buffered {
                peer.close().await;
                return None;
            }
            Some(peer)
        }
    }
}

impl Stream<'_, '_> {
    /// Writes head, events and closing; ends early with the cut that was planned.
    async fn drive(&mut self, peer: &mut Peer, entry: &mut Entry) -> Result<Option<Cut>, Gone> {
        if !self.buffered {
            self.head(peer, entry, None).await?;
        }
        self.preamble(peer).await?;
        let cut = cut_of(self.faults);
        loop {
            if let Some((_, cut)) = cut.filter(|(at, _)| *at == self.count) {
                self.flush(peer, entry).await?;
                return Ok(Some(cut));
            }
            match self.generation.next(peer).await {
                Next::Gone => return Err(Gone),
                Next::Over => break,
                Next::Step { choice, step } => self.step(peer, entry, choice, &step).await?,
            }
        }
        self.flush(peer, entry).await?;
        self.close(peer, entry).await.map(|()| None)
    }

    async fn head(
        &mut self,
        peer: &mut Peer,
        entry: &mut Entry,
        length: Option<u64>,
    ) -> Result<(), Gone> {
        let wrong = self.faults.has(K::ContentType);
        let kind = if wrong {
            "application/octet-stream"
        } else {
            self.dialect.framing().content_type()
        };
        let head = Head::new(200, kind, length).with("x-request-id", entry.id.clone());
        write_head(self.generation.local, peer, head, self.faults, entry).await
    }

    /// What faults put before the first token.
    async fn preamble(&mut self, peer: &mut Peer) -> Result<(), Gone> {
        if self.faults.has(K::Bom) {
            self.events.chunk(b"\xef\xbb\xbf");
        }
        if let Some(ms) = self.faults.get(K::RoleEarly) {
            self.open(0);
            peer.write(&self.events.wire).await?;
            self.events.wire.clear();
            self.generation
                .local
                .pacer
                .pause(ms.saturating_mul(1_000_000))
                .await;
        }
        Ok(())
    }

    fn open(&mut self, choice: usize) {
        if !std::mem::replace(&mut self.opened[choice], true) {
            self.dialect
                .open(&mut self.events, choice, self.generation.usage);
        }
    }

    async fn step(
        &mut self,
        peer: &mut Peer,
        entry: &mut Entry,
        at: usize,
        step: &Step,
    ) -> Result<(), Gone> {
        self.generation.account(at, step, entry);
        if self.faults.has(K::EmptyStream) {
            return Ok(());
        }
        self.open(at);
        if self
            .faults
            .get(K::Pings)
            .is_some_and(|every| self.count.is_multiple_of(every.max(1)))
            && !self.buffered
        {
            let content = std::mem::take(&mut self.events.wire);
            self.events.comment("ping");
            peer.write(&self.events.wire).await?;
            self.events.wire = content;
        }
        let giant = self
            .faults
            .get(K::GiantEvent)
            .filter(|_| self.count == 0 && !self.buffered);
        if let Some(bytes) = giant {
            self.giant(peer, at, step, bytes).await?;
        } else {
            self.write_piece(at, step);
        }
        let choice = &mut self.generation.choices[at];
        let tokens = u32::try_from(choice.ids.len() - choice.new_ids).unwrap_or(u32::MAX);
        choice.before += u64::from(tokens);
        self.count += 1;
        self.held
            .push((step.due_ns, tokens, u32::try_from(at).unwrap_or(u32::MAX)));
        let together = self.faults.get(K::Coalesce).unwrap_or(1).max(1);
        if (self.held.len() as u64) < together {
            return Ok(());
        }
        self.flush(peer, entry).await
    }

    fn write_piece(&mut self, at: usize, step: &Step) {
        let choice = &self.generation.choices[at];
        let text = &choice.text[choice.new_text..];
        let text = if self.faults.has(K::EmptyFirst) && choice.before == 0 {
            ""
        } else if self.faults.has(K::SplitUtf8) {
            "\u{8a9e}"
        } else {
            text
        };
        let ids = &choice.ids[choice.new_ids..];
        let (before, usage) = (choice.before, self.generation.usage);
        let piece = Piece {
            choice: at,
            text,
            ids,
            before,
            finish: step.finish,
            usage,
        };
        if self.faults.get(K::InvalidJson) == Some(self.count) {
            self.events.data(b"{\"choices\":[{\"index\":0,");
        } else if self.faults.get(K::InvalidUtf8) == Some(self.count) {
            self.events.data(b"{\"choices\":[{\"index\":0,\"text\":\"\xff\xfe\",\"delta\":{\"content\":\"\xff\xfe\"}}]}");
        } else {
            self.dialect.piece(&mut self.events, &piece);
        }
    }

    /// One event whose text is longer than anyone should keep, without keeping it here.
    async fn giant(
        &mut self,
        peer: &mut Peer,
        at: usize,
        step: &Step,
        mut bytes: u64,
    ) -> Result<(), Gone> {
        const PIECE: &[u8] = &[b'x'; 65_536];
        let mut plain = Events::new(self.dialect.framing(), false, self.faults);
        let choice = &self.generation.choices[at];
        let ids = &choice.ids[choice.new_ids..];
        let usage = self.generation.usage;
        self.dialect.piece(
            &mut plain,
            &Piece {
                choice: at,
                text: GIANT,
                ids,
                before: 0,
                finish: step.finish,
                usage,
            },
        );
        let mark = GIANT.as_bytes();
        let split = plain
            .wire
            .windows(mark.len())
            .position(|w| w == mark)
            .unwrap_or(plain.wire.len());
        self.events.chunk(&plain.wire[..split]);
        while bytes > 0 {
            let n = bytes.min(PIECE.len() as u64);
            self.events
                .chunk(&PIECE[..usize::try_from(n).unwrap_or(PIECE.len())]);
            bytes -= n;
            peer.write(&self.events.wire).await?;
            self.events.wire.clear();
        }
        self.events
            .chunk(plain.wire.get(split + mark.len()..).unwrap_or_default());
        Ok(())
    }

    /// Writes what is held, and records it.
    async fn flush(&mut self, peer: &mut Peer, entry: &mut Entry) -> Result<(), Gone> {
        if self.buffered || self.events.wire.is_empty() {
            return Ok(());
        }
        let plain = self.faults.is_empty();
        let wire = &self.events.wire;
        let written = if plain {
            peer.write(wire).await?
        } else {
            write_events(peer, wire, self.faults).await?
        };
        self.record(entry, written);
        self.events.wire.clear();
        Ok(())
    }

    fn record(&mut self, entry: &mut Entry, written: Written) {
        let share = self.events.wire.len() / self.held.len().max(1);
        let several = self.opened.len() > 1;
        for (due, tokens, choice) in self.held.drain(..) {
            entry.event(due, written.before_ns, written.after_ns);
            entry.tokens.push(tokens);
            entry.bytes.push(u32::try_from(share).unwrap_or(u32::MAX));
            if several {
                entry.choice.push(choice);
            }
        }
    }

    async fn close(&mut self, peer: &mut Peer, entry: &mut Entry) -> Result<(), Gone> {
        let summary = self.generation.summary(self.faults);
        if self.faults.has(K::EmptyStream) {
            self.events.data(b"[DONE]");
        } else {
            self.dialect.close(&mut self.events, &summary);
        }
        if self.faults.has(K::GarbageAfterDone) {
            self.events.chunk(b"garbage {\"choices\":[{\"index\":0,\"text\":\"late\",\"delta\":{\"content\":\"late\"}}]}\n\ndata: {\"cho");
        }
        self.events.end();
        if self.buffered {
            let length = self.events.wire.len() as u64;
            self.head(peer, entry, Some(length)).await?;
        }
        let written = write_events(peer, &self.events.wire, self.faults).await?;
        if self.buffered {
            self.record(entry, written);
        }
        entry.end_ns = Some(written.after_ns);
        Ok(())
    }

    /// Ends the stream in the way that was planned.
    async fn cut(&mut self, cut: Cut, mut peer: Peer, entry: &mut Entry) -> Left {
        match cut {
            Cut::Reset => peer.reset().await,
            Cut::Close => peer.close().await,
            Cut::Stall(ms) => stall(self.generation.local, peer, ms).await,
            Cut::HalfClose => {
                if let Peer::H1 { conn, .. } = &mut peer {
                    conn.shut().await;
                }
                stall(self.generation.local, peer, 3_600_000).await;
            }
            Cut::BadChunk => {
                // The client may be gone; there is nothing more to say to it.
                peer.write(b"zz\r\nnot a chunk\r\n").await.ok();
                peer.close().await;
            }
            Cut::Truncate | Cut::Error => {
                if cut == Cut::Error {
                    self.dialect
                        .error(&mut self.events, "a planned fault: the engine gave up");
                    if !self.faults.has(K::NoDone) {
                        self.events.data(b"[DONE]");
                    }
                }
                self.events.end();
                let written = peer.write(&self.events.wire).await.ok()?;
                entry.end_ns = Some(written.after_ns);
                return Some(peer);
            }
        }
        None
    }
}

// Faults that lie in how bytes are written, not in which.

/// Pieces that a slow head is cut into.
const SLOW_PIECES: usize = 12;

/// Writes the response head, slowly if that is the fault.
pub(crate) async fn write_head(
    local: &Local,
    peer: &mut Peer,
    mut head: Head,
    faults: &FaultSet,
    entry: &mut Entry,
) -> Result<(), Gone> {
    if let Some(length) = &mut head.length {
        *length = length.saturating_add(faults.get(K::LengthLong).unwrap_or(0));
        *length = length.saturating_sub(faults.get(K::LengthShort).unwrap_or(0));
    }
    let slow = faults.get(K::SlowHeaders);
    let written = match (slow, &mut *peer) {
        (
            Some(ms),
            Peer::H1 {
                conn,
                chunked,
                keep_alive,
            },
        ) => {
            let bytes = head.bytes(*chunked, !*keep_alive);
            let gap = ms.saturating_mul(1_000_000) / SLOW_PIECES as u64;
            for piece in bytes.chunks(bytes.len().div_ceil(SLOW_PIECES).max(1)) {
                local.pacer.pause(gap).await;
                conn.write(piece).await.map_err(|_| Gone)?;
            }
            crate::clock::now_ns()
        }
        _ => peer.head(&head).await?.after_ns,
    };
    entry.headers_ns = Some(written);
    Ok(())
}

/// Writes framed bytes, cut where a fault wants them cut.
async fn write_events(peer: &mut Peer, bytes: &[u8], faults: &FaultSet) -> Result<Written, Gone> {
    let cut = if faults.has(K::SplitUtf8) {
        // After the first byte of the last character that has several.
        bytes
            .iter()
            .rposition(|b| *b >= 0xc0)
            .map(|at| vec![at + 1])
    } else {
        let size = faults
            .get(K::Split)
            .map(|n| usize::try_from(n).unwrap_or(usize::MAX).max(1));
        size.map(|size| {
            (1..)
                .map_while(|k| size.checked_mul(k))
                .take_while(|at| *at < bytes.len())
                .collect()
        })
    };
    let Some(cuts) = cut else {
        return peer.write(bytes).await;
    };
    let mut from = 0;
    let mut first = None;
    for at in cuts {
        let written = peer.write(&bytes[from..at]).await?;
        first.get_or_insert(written.before_ns);
        // Let the reader run, so that the pieces are seen apart more often than not.
        tokio::task::yield_now().await;
        from = at;
    }
    let last = peer.write(&bytes[from..]).await?;
    Ok(Written {
        before_ns: first.unwrap_or(last.before_ns),
        after_ns: last.after_ns,
    })
}
