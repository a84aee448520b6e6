//! `eventsource-stream` over a whole stream, behind the splitter's trait: what the splitter is held against.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bench_client::sse::{SseDecoder, SseError, SseEvent};
use eventsource_stream::{EventStream, EventStreamError};
use futures_util::Stream;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The reference: slower, quadratic in the size of one event, without a limit, and strict about UTF-8. Its one fault that
/// would matter, a panic on a leading byte order mark, is kept from it by cutting the mark off before.
pub(crate) struct ReferenceDecoder {
    inbox: Arc<Mutex<VecDeque<Vec<u8>>>>,
    events: Pin<Box<EventStream<Inbox>>>,
    /// The first bytes, until there are enough of them to know that they are no byte order mark.
    head: Option<Vec<u8>>,
}

/// A body whose frames are pushed by hand.
struct Inbox(Arc<Mutex<VecDeque<Vec<u8>>>>);

impl Stream for Inbox {
    type Item = Result<Vec<u8>, Infallible>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        next.map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(bytes))))
    }
}

impl ReferenceDecoder {
    /// A decoder for one stream.
    pub(crate) fn new() -> Self {
        let inbox = Arc::new(Mutex::new(VecDeque::new()));
        let events = Box::pin(EventStream::new(Inbox(Arc::clone(&inbox))));
        Self {
            inbox,
            events,
            head: Some(Vec::new()),
        }
    }

    /// Cuts off a byte order mark; nothing comes out while it cannot be told.
    fn without_bom(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Some(mut head) = self.head.take() else {
            return bytes.to_vec();
        };
        head.extend_from_slice(bytes);
        if head.len() < BOM.len() && BOM.starts_with(&head) {
            self.head = Some(head);
            return Vec::new();
        }
        // A comment first: it looks for a mark only at the very beginning, and would stumble over a second one.
        [b":\n", head.strip_prefix(BOM).unwrap_or(&head)].concat()
    }
}

impl SseDecoder for ReferenceDecoder {
    fn feed(&mut self, bytes: &[u8], sink: &mut dyn FnMut(SseEvent<'_>)) -> Result<(), SseError> {
        let frame = self.without_bom(bytes);
        if frame.is_empty() {
            return Ok(());
        }
        self.inbox
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(frame);
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(next)) = self.events.as_mut().poll_next(&mut context) {
            let event = match next {
                Ok(event) => event,
                Err(EventStreamError::Transport(never)) => match never {},
                Err(EventStreamError::Utf8(_) | EventStreamError::Parser(_)) => {
                    return Err(SseError::Utf8);
                }
            };
            let kind = event.event.as_str();
            sink(SseEvent {
                event: if kind == "message" { "" } else { kind },
                data: event.data.as_bytes(),
                end: bytes.len(),
            });
        }
        Ok(())
    }

    fn end(&mut self, _: &mut dyn FnMut(SseEvent<'_>)) {
        // It drops what lacks a blank line, as the standard says.
    }
}
