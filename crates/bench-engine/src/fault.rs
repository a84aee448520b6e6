//! Planned faults: what a server can do wrong, by name, for a share of the requests or for one that asks for it.
//!
//! A request asks with the header `x-fault: NAME[:ARG][;NAME[:ARG]…]`. `docs/engine.md` lists every name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_with::{DeserializeFromStr, SerializeDisplay};

use crate::EngineError;

macro_rules! faults {
    ($($variant:ident $name:literal $(($default:literal))? $doc:literal;)+) => {
        /// What is done wrong. The number is the argument's default where it takes one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum FaultKind { $(#[doc = $doc] $variant,)+ }

        impl FaultKind {
            /// Every kind, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Name in `x-fault` and in the configuration, argument where none is given (`None`: it takes none), one sentence about it.
            fn row(self) -> (&'static str, Option<u64>, &'static str) {
                match self { $(Self::$variant => ($name, None $(.or(Some($default)))?, $doc),)+ }
            }
        }
    };
}

faults! {
    ResetAccept "reset-accept" "The connection is reset as soon as it is accepted. Only from the plan.";
    CloseAccept "close-accept" "The connection is closed in order as soon as it is accepted. Only from the plan.";
    StallAccept "stall-accept" (3_600_000) "The connection is accepted and nothing is read for ARG ms. Only from the plan.";
    ResetHead "reset-head" "Reset after the request's head was read.";
    CloseHead "close-head" "Closed without a byte after the request was read.";
    StallHead "stall-head" (3_600_000) "No answer for ARG ms after the request was read.";
    ResetHeaders "reset-headers" "Reset right after the response head.";
    CloseHeaders "close-headers" "Closed right after the response head.";
    StallHeaders "stall-headers" (3_600_000) "Nothing for ARG ms after the response head.";
    SlowHeaders "slow-headers" (300) "The response head arrives in small pieces over ARG ms.";
    EndlessHeader "endless-header" (1_073_741_824) "The response head never ends: ARG bytes of one header, then the connection is closed.";
    ResetMid "reset-mid" (3) "Reset after ARG content events.";
    CloseMid "close-mid" (3) "Closed after ARG content events, in the middle of the chunked body.";
    HalfClose "half-close" (3) "The sending side is shut after ARG content events, the receiving side stays open.";
    StallMid "stall-mid" (3) "Nothing more after ARG content events, for an hour or until the client goes.";
    Truncate "truncate" (3) "The body ends properly after ARG content events, without finish reason, usage or `[DONE]`.";
    TooMany "status-429" (1) "429 with `Retry-After: ARG`.";
    Internal "status-500" "500 with an error object.";
    Unavailable "status-503" (1) "503 with `Retry-After: ARG`.";
    Redirect "redirect" "307 to another host, which must not be followed with a key.";
    ContentType "content-type" "The right stream under `content-type: application/octet-stream`.";
    Html "html" "200 with an HTML page.";
    BadChunk "bad-chunk" (3) "A chunk size that is no number after ARG content events.";
    LengthLong "length-long" (100) "`content-length` ARG bytes longer than the body, then closed.";
    LengthShort "length-short" (20) "`content-length` ARG bytes shorter than the body.";
    Endless "endless" "The stream goes on for ever; `max_tokens` is ignored.";
    GiantEvent "giant-event" (16_777_216) "The first content event is ARG bytes long.";
    InvalidUtf8 "invalid-utf8" (2) "Bytes that are not UTF-8 in content event ARG.";
    InvalidJson "invalid-json" (2) "An event that is not JSON in place of content event ARG.";
    GarbageAfterDone "garbage-after-done" "Text and a broken event after `[DONE]`.";
    NoDone "no-done" "The stream ends without `[DONE]`.";
    NoUsage "no-usage" "No usage, although it was asked for.";
    UsageLies "usage-lies" (50) "Usage at the end names ARG percent more answer tokens than there were.";
    NoFinish "no-finish" "No finish reason in any event.";
    ErrorInStream "error-in-stream" (2) "An `error` object after ARG content events inside the 200, then the end.";
    EmptyBody "empty-200" "200 and a body of no bytes.";
    EmptyStream "empty-stream" "A stream of `[DONE]` alone.";
    CloseAfter "close-after" "The connection is closed after the answer without having been announced, as llama-server does.";
    RoleEarly "role-early" (50) "The role event is sent at once, ARG ms before generation begins.";
    Pings "pings" (1) "A `: ping` comment in a write of its own before every ARG-th content event.";
    Crlf "crlf" "Lines end in CR LF.";
    Cr "cr" "Lines end in CR.";
    NoSpace "no-space" "`data:` without the space.";
    Bom "bom" "A byte order mark opens the stream.";
    Fields "fields" "Each event carries `event:`, `id:` and `retry:` lines as well.";
    MultiData "multi-data" "Each event's JSON is spread over two `data:` lines.";
    SplitUtf8 "split-utf8" "Content is a three-byte character, and each write ends inside it.";
    Split "split" (7) "Each event is written in pieces of ARG bytes.";
    Coalesce "coalesce" (4) "ARG content events go out in one write.";
    TokensPerChunk "tokens-per-chunk" (4) "Each content event carries ARG tokens.";
    ContinuousUsage "continuous-usage" "Usage in every event.";
    UsageOnLast "usage-on-last" "Usage on the last content event, none apart.";
    EmptyFirst "empty-first" "The first token's text is empty.";
    NullRole "null-role" "The role event has `content: null`.";
    BareRole "bare-role" "The role event has no `content`.";
    Reasoning "reasoning" (4) "The first ARG tokens are `reasoning_content`, the others content.";
    ReasoningOnly "reasoning-only" "All tokens are `reasoning_content`.";
    ToolCall "tool-call" "All tokens are the arguments of one tool call.";
    Refusal "refusal" "All tokens are `refusal`.";
    FinishApart "finish-apart" "The finish reason comes in an event of its own with an empty delta.";
}

impl FaultKind {
    /// The name in `x-fault` and in the configuration.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// The argument that is taken when none is given; `None` for a fault without argument.
    pub fn default_argument(self) -> Option<u64> {
        self.row().1
    }

    /// One sentence about it.
    pub fn summary(self) -> &'static str {
        self.row().2
    }

    /// Whether it can only be decided when a connection is accepted.
    pub fn is_connection_level(self) -> bool {
        matches!(
            self,
            Self::ResetAccept | Self::CloseAccept | Self::StallAccept
        )
    }
}

/// One fault with its argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, SerializeDisplay, DeserializeFromStr)]
pub struct Fault {
    /// Which one.
    pub kind: FaultKind,
    /// Its argument, the default one if none was given; 0 for a fault that takes none.
    pub argument: u64,
}

impl FromStr for Fault {
    type Err = EngineError;

    fn from_str(text: &str) -> Result<Self, EngineError> {
        let refuse = |reason: &str| EngineError::Fault {
            given: text.to_owned(),
            reason: reason.to_owned(),
        };
        let (name, argument) = match text.trim().split_once(':') {
            Some((name, argument)) => (name.trim(), Some(argument.trim())),
            None => (text.trim(), None),
        };
        let kind = FaultKind::ALL
            .iter()
            .copied()
            .find(|kind| kind.name() == name);
        let kind = kind.ok_or_else(|| refuse("unknown name"))?;
        let argument = match (argument, kind.default_argument()) {
            (None, default) => default.unwrap_or(0),
            (Some(_), None) => return Err(refuse("it takes no argument")),
            (Some(given), Some(_)) => given
                .parse()
                .map_err(|_| refuse("the argument must be a whole number"))?,
        };
        Ok(Self { kind, argument })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind.default_argument() {
            Some(_) => write!(f, "{}:{}", self.kind.name(), self.argument),
            None => f.write_str(self.kind.name()),
        }
    }
}

/// The faults of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultSet(Vec<Fault>);

impl FaultSet {
    /// Reads the value of an `x-fault` header; empty text is no fault.
    ///
    /// # Errors
    /// [`EngineError::Fault`] names the part that is not known.
    pub fn parse(text: &str) -> Result<Self, EngineError> {
        text.split(';')
            .filter(|part| !part.trim().is_empty())
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The argument of a fault that is in the set.
    pub fn get(&self, kind: FaultKind) -> Option<u64> {
        self.0
            .iter()
            .find(|fault| fault.kind == kind)
            .map(|fault| fault.argument)
    }

    /// The first of these kinds that is in the set.
    pub(crate) fn first_of(&self, kinds: &[FaultKind]) -> Option<Fault> {
        kinds.iter().find_map(|kind| {
            let argument = self.get(*kind)?;
            Some(Fault {
                kind: *kind,
                argument,
            })
        })
    }

    /// Whether a fault is in the set.
    pub fn has(&self, kind: FaultKind) -> bool {
        self.get(kind).is_some()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, fault: Fault) {
        self.0.push(fault);
    }
}

impl fmt::Display for FaultSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(";")?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}

/// A fault that the server plays by itself, for some of the requests (or connections, for those at accepting).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedFault {
    /// Which fault, as `NAME[:ARG]`.
    pub fault: Fault,
    /// First number it applies to, from 0.
    #[serde(default)]
    pub from: u64,
    /// First number it no longer applies to; absent: for ever.
    pub until: Option<u64>,
    /// Of those, every how many-th; 1 is all.
    #[serde(default = "one")]
    pub every: u64,
    /// Of those, the share that is struck, chosen by the seed; 1 is all.
    #[serde(default = "all")]
    pub share: f64,
}

fn one() -> u64 {
    1
}

fn all() -> f64 {
    1.0
}

impl PlannedFault {
    /// Whether it strikes request (or connection) `number` under `seed`. The same answer each time.
    pub fn strikes(&self, number: u64, seed: u64) -> bool {
        let inside = number >= self.from && self.until.is_none_or(|until| number < until);
        inside
            && (number - self.from).is_multiple_of(self.every.max(1))
            && unit(number, seed) < self.share
    }
}

/// A number in [0, 1) from two others (splitmix64's finaliser).
fn unit(number: u64, seed: u64) -> f64 {
    (mix(number ^ mix(seed)) >> 11) as f64 / (1u64 << 53) as f64
}

/// splitmix64: a well-spread number from any number.
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
