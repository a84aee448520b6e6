//! The small languages of single values: how they are read, and how the result stores them. What is stored reads back as the same value.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use crate::vary::{Only, Vary, command};
use bench_metrics::Precision;
use bench_schema::{ArrivalKind, ConcurrencyRamp, Factor, Load, Nanos, Secret, Slo, Unit};
use bench_workload::{DatasetSpec, LengthCategory, LengthSpec, Salt, Study};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// An address. It may hold a user, a password or a key: shown and stored it has none of them.
#[derive(Clone, PartialEq, Eq)]
pub struct Address(String);

impl Address {
    /// The address itself. Call it where a connection is made, and nowhere else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Address {
    fn from(text: &str) -> Self {
        Self(text.trim().to_owned())
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "" => Err("must be an address".to_owned()),
            some => Ok(some.into()),
        }
    }
}

impl fmt::Display for Address {
    /// Without user and password, and without query values (keys hide there too).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = match self.0.split_once("://") {
            Some((scheme, rest)) => (format!("{scheme}://"), rest),
            None => (String::new(), self.0.as_str()),
        };
        let (authority, tail) = match rest.find(['/', '?', '#']) {
            Some(end) => rest.split_at(end),
            None => (rest, ""),
        };
        let (user, host) = match authority.rsplit_once('@') {
            Some((_, host)) => ("***@", host),
            // a password that was not escaped may hold what ends an authority
            None if !is_host(authority) && rest.contains('@') => ("***", ""),
            None => ("", authority),
        };
        let tail = if user == "***" { "" } else { tail };
        let (path, query) = match tail.split_once('?') {
            Some((path, _)) => (path, "?***"),
            None => (tail, ""),
        };
        write!(f, "{scheme}{user}{host}{path}{query}")
    }
}

/// Whether this has no port, or one that is a number.
fn is_host(authority: &str) -> bool {
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    authority.ends_with(']') || port.bytes().all(|b| b.is_ascii_digit())
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What brings a server back to a known state before a cell: a page to post to, or a command. `{url}` stands for the server's address in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reset {
    /// `{url}/reset_prefix_cache`, or a whole address.
    Post(Address),
    /// A command line, split into words as a shell does.
    Command(String),
}

impl FromStr for Reset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_page = ["http://", "https://", "{url}"]
            .iter()
            .any(|start| text.trim_start().starts_with(start));
        if is_page {
            return Ok(Self::Post(text.parse()?));
        }
        command(text).map(Self::Command)
    }
}

impl fmt::Display for Reset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Post(page) => page.fmt(f),
            Self::Command(words) => f.write_str(words),
        }
    }
}

/// A header to send. Its value is a secret, whatever its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Name.
    pub name: String,
    /// Value.
    pub value: Secret,
}

impl FromStr for Header {
    type Err = String;

    /// `Name: value`, or `Name=value` as other tools have it. What is wrong is told without the text, which may hold a key.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text
            .split_once([':', '='])
            .ok_or("must be written `Name: value`, with a colon")?;
        let (name, value) = (name.trim(), value.trim());
        let allowed = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(allowed) {
            return Err("must be written `Name: value`, with a valid HTTP header name".to_owned());
        }
        if value.chars().any(char::is_control) {
            return Err(format!("`{name}` has a value that is not valid in HTTP"));
        }
        Ok(Self {
            name: name.to_owned(),
            value: Secret::new(value),
        })
    }
}

/// So many, or so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A number of them.
    Count(u64),
    /// A time.
    Time(Nanos),
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().parse() {
            Ok(count) => Ok(Self::Count(count)),
            Err(_) => time(text)
                .map(Self::Time)
                .map_err(|_| format!("must be a number or a duration such as 5s (got `{text}`)")),
        }
    }
}

/// How well something is to be known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wanted {
    /// A figure of each cell.
    Figure(Precision),
    /// The capacity that is searched: the relative half-width of its interval.
    Capacity(f64),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(percent) = text
            .trim()
            .strip_suffix('%')
            .filter(|text| !text.contains('='))
        else {
            if !text.contains(['=', ':']) {
                return Err(format!(
                    "`{text}` is neither a width, such as 5%, nor a rule, such as p99:ttft=5%"
                ));
            }
            let rule = text.parse().map(Self::Figure);
            return rule.map_err(|error: bench_metrics::MetricsError| error.to_string());
        };
        let width = number(0.5, 50.0)(percent.trim())?;
        Ok(Self::Capacity(width / 100.0))
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Figure(rule) => rule.fmt(f),
            Self::Capacity(width) => write!(f, "{}%", (width * 1e8).round() / 1e6),
        }
    }
}

/// Lengths in tokens: a distribution, or the values of a grid.
#[derive(Clone, Debug, PartialEq)]
pub enum Lengths {
    /// Whole numbers: one is a fixed length or a grid of one, several are a grid.
    These(Vec<u32>),
    /// A distribution.
    Drawn(LengthSpec),
}

impl Lengths {
    /// As one distribution; none where they are several numbers.
    pub fn spec(&self) -> Option<LengthSpec> {
        match self {
            Self::These(lengths) => match lengths.as_slice() {
                &[one] => Some(LengthSpec::Fixed(one.into())),
                _ => None,
            },
            Self::Drawn(spec) => Some(spec.clone()),
        }
    }

    /// As the values of a grid; none where they are a distribution.
    pub fn grid(&self) -> Option<&[u32]> {
        match self {
            Self::These(lengths) => Some(lengths),
            Self::Drawn(_) => None,
        }
    }
}

impl FromStr for Lengths {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = |part: &str| part.trim().parse::<u32>().is_ok();
        if text.split(',').all(numbers) {
            let lengths = text.split(',').map(whole(1, 10_000_000));
            return lengths.collect::<Result<_, _>>().map(Self::These);
        }
        let spec = text.parse::<LengthSpec>();
        spec.map(Self::Drawn).map_err(|error| error.to_string())
    }
}

/// A level of a closed loop, or a ramp of levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// Requests in flight; of a ramp, the most.
    pub most: u32,
    /// How the number moves.
    pub ramp: Option<ConcurrencyRamp>,
}

impl From<u32> for Concurrency {
    fn from(most: u32) -> Self {
        Self { most, ramp: None }
    }
}

impl Concurrency {
    fn text(&self) -> String {
        let ramp = self.ramp.as_ref().map(ToString::to_string);
        ramp.unwrap_or_else(|| self.most.to_string())
    }

    /// For a cell's id: `c8`, `c1-to-32`, `c1-4-16`.
    pub fn id(&self) -> String {
        let text = self.text().replace(" → ", "-").replace(' ', "-");
        format!("c{text}")
    }

    /// For people: `concurrency 8`, `concurrency 1 to 32`.
    pub fn label(&self) -> String {
        format!("concurrency {}", self.text())
    }

    /// What distinguishes its cell. A ramp is no level: nothing scales along it.
    pub fn factors(&self) -> std::collections::BTreeMap<String, Factor> {
        let factor = match &self.ramp {
            None => ("concurrency".to_owned(), Factor::from(self.most)),
            Some(_) => ("ramp".to_owned(), Factor::from(self.text().as_str())),
        };
        [factor].into()
    }

    /// The load of its cell.
    pub fn load(&self, think_time: Option<Nanos>) -> Load {
        Load::Closed {
            concurrency: self.most,
            think_time,
            ramp: self.ramp.clone(),
        }
    }
}

impl FromStr for Concurrency {
    type Err = String;

    /// `8`, `ramp:FROM:TO`, `steps:A:B:…`.
    fn from_str(text: &str) -> Result<Self, String> {
        let level = whole(1, 1_000_000_u32);
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let levels = || rest.split(':').map(&level).collect::<Result<Vec<_>, _>>();
        let ramp = match kind {
            "ramp" => match levels()?.as_slice() {
                &[from, to] => ConcurrencyRamp::Line { from, to },
                _ => return Err(format!("must be written ramp:FROM:TO (got `{text}`)")),
            },
            "steps" => ConcurrencyRamp::Steps { levels: levels()? },
            _ => {
                return level(text)
                    .map(Self::from)
                    .map_err(|wrong| format!("{wrong}, or ramp:FROM:TO, or steps:A:B:…"));
            }
        };
        Ok(Self {
            most: ramp.peak(),
            ramp: Some(ramp),
        })
    }
}

/// A duration: `250ms`, `1.5s`, `2m`, `1h`, `800us`; a bare `0` is none.
pub(crate) fn time(text: &str) -> Result<Nanos, String> {
    let text = text.trim();
    if text == "0" {
        return Ok(Nanos::ZERO);
    }
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("must be a duration such as 250ms, 30s or 5m (got `{text}`)");
    let seconds_per_unit = match unit.trim() {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "" => {
            return Err(format!(
                "needs a unit (got `{text}`): write `{text}s` for seconds or `{text}ms` for milliseconds"
            ));
        }
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Ok(Nanos::from_secs_f64(number * seconds_per_unit))
}

/// A duration longer than nothing.
pub(crate) fn positive_time(text: &str) -> Result<Nanos, String> {
    match time(text)? {
        Nanos::ZERO => Err(format!("must be longer than 0 (got `{text}`)")),
        some => Ok(some),
    }
}

/// A whole number within bounds, both ends included.
pub(crate) fn whole<T>(
    low: T,
    high: T,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + fmt::Display + Copy + Send + Sync + 'static,
{
    move |text| {
        let within = |value: &T| (low..=high).contains(value);
        let value = text.trim().replace('_', "").parse().ok();
        value
            .filter(within)
            .ok_or_else(|| format!("must be a whole number from {low} to {high} (got `{text}`)"))
    }
}

/// A number within bounds, both ends included.
pub(crate) fn number(
    low: f64,
    high: f64,
) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let value = text.trim().parse().ok();
        value
            .filter(|value| (low..=high).contains(value))
            .ok_or_else(|| format!("must be a number from {low} to {high} (got `{text}`)"))
    }
}

/// A rate: a number greater than 0. `inf`, which other tools take, is explained.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    if text.trim() == "inf" {
        return Err("`inf` means a closed loop: remove `rate` and set `concurrency`".to_owned());
    }
    let value: f64 = text
        .trim()
        .parse()
        .map_err(|_| format!("must be a number of requests per second (got `{text}`)"))?;
    if value > 0.0 && value <= 1e6 {
        Ok(value)
    } else {
        Err(format!(
            "must be greater than 0 and at most 1000000 (got {text})"
        ))
    }
}

/// The file of this name.
pub(crate) fn path(text: &str) -> Result<PathBuf, String> {
    match text {
        "" => Err("must name a file".to_owned()),
        some => Ok(some.into()),
    }
}

/// `NAME=VALUE`.
pub(crate) fn tag(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("must be written NAME=VALUE (got `{text}`)"))?;
    match name.trim() {
        "" => Err(format!("has no name before `=` (got `{text}`)")),
        name => Ok((name.to_owned(), value.trim().to_owned())),
    }
}

/// `I/N`: part I of N, from 0.
pub(crate) fn shard(text: &str) -> Result<(u32, u32), String> {
    let (index, count) = text
        .split_once('/')
        .ok_or_else(|| format!("must be written I/N, such as 0/4, or auto (got `{text}`)"))?;
    let count = whole(1, 100_000)(count)?;
    Ok((whole(0, count - 1)(index)?, count))
}

/// `HOST:PORT`, kept as it is written.
pub(crate) fn meeting(text: &str) -> Result<String, String> {
    let wrong = || format!("must be written HOST:PORT, such as node-1:7077 (got `{text}`)");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let bare = host.starts_with('[') || !host.contains([':', '/', '@']);
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    if host.is_empty() || !bare || !is_port {
        return Err(wrong());
    }
    Ok(text.to_owned())
}

/// A JSON object.
pub(crate) fn body(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("must be a JSON object: {error}"))
}

/// A prompt of the latency grid.
pub(crate) fn study(text: &str) -> Result<Study, String> {
    let known = [Study::Short, Study::Medium, Study::Long];
    let found = known.into_iter().find(|study| study.name() == text);
    found.ok_or_else(|| format!("must be short, medium or long (got `{text}`)"))
}

/// Whether prompts are made unique.
pub(crate) fn salt(text: &str) -> Result<Salt, String> {
    match text {
        "auto" => Ok(Salt::Auto),
        "never" => Ok(Salt::Never),
        other => Err(format!("must be auto or never (got `{other}`)")),
    }
}

/// The name of a protocol; whether there is one of this name the client knows. Backends of `vllm bench serve` and SGLang's `bench_serving` are
/// the protocols that they speak.
#[expect(clippy::unnecessary_wraps, reason = "clap's parsers may fail")]
pub(crate) fn api(text: &str) -> Result<String, String> {
    Ok(match text {
        "vllm" | "openai" | "lmdeploy" | "scalellm" | "sglang-oai" => "openai-completions",
        "vllm-chat" | "sglang-oai-chat" | "lmdeploy-chat" => "openai-chat",
        "sglang" | "sglang-native" => "sglang-generate",
        "tgi" => "tgi-generate",
        other => other,
    }
    .to_owned())
}

/// An objective, `ttft=200ms`, or as `vllm bench serve --goodput` has it, `ttft:200` in milliseconds.
pub(crate) fn slo(text: &str) -> Result<Slo, String> {
    let there = text.split_once(':').and_then(|(metric, limit)| {
        let metric = match metric.trim() {
            "e2el" => "e2e",
            known @ ("ttft" | "tpot") => known,
            _ => return None,
        };
        let limit: f64 = limit.trim().parse().ok()?;
        Some(format!("{metric}={limit}ms"))
    });
    if there.is_none() && !text.contains('=') && text.contains(':') {
        return Err(format!(
            "`{text}` is none of ttft:MS, tpot:MS and e2el:MS; others are written as p95:itl=20ms"
        ));
    }
    bench_insight::parse_slo(there.as_deref().unwrap_or(text))
}

/// A gate, kept as it is written.
pub(crate) fn target(text: &str) -> Result<String, String> {
    let read = bench_insight::Target::parse(text);
    read.map(|_| text.to_owned()).map_err(|e| e.to_string())
}

/// An instant of the wall clock, kept as it is written.
pub(crate) fn instant(text: &str) -> Result<String, String> {
    let read = humantime::parse_rfc3339(text);
    read.map(|_| text.to_owned())
        .map_err(|_| format!("must be a time such as 2026-01-31T12:00:00Z (got `{text}`)"))
}

/// An address of this host to listen on, and a port.
pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("must be an address of this host and a port, such as 127.0.0.1:9464 or [::1]:0 (got `{text}`)")
    })
}

/// `poisson`, `constant`, `gamma:COV`, … as in `docs/workloads.md`.
pub(crate) fn arrival(text: &str) -> Result<ArrivalKind, String> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let parts: Vec<&str> = rest.split(':').filter(|part| !part.is_empty()).collect();
    let known = "poisson, constant, gamma:COV, burst:SIZE, ramp:FROM:TO, steps:A:B:…, series:FILE, trace, trace:SPEED or users:N:EVERY";
    match (kind, parts.as_slice()) {
        ("poisson", []) => Ok(ArrivalKind::Poisson),
        ("constant", []) => Ok(ArrivalKind::Constant),
        ("gamma", [cov]) => Ok(ArrivalKind::Gamma {
            cov: number(0.01, 100.0)(cov)?,
        }),
        ("burst", [size]) => Ok(ArrivalKind::Burst {
            size: whole(1, 1_000_000)(size)?,
        }),
        ("ramp", [from, to]) => Ok(ArrivalKind::Ramp {
            from_per_s: rate(from)?,
            to_per_s: rate(to)?,
        }),
        ("steps", [_, ..]) => Ok(ArrivalKind::Steps {
            rates_per_s: parts
                .iter()
                .map(|part| rate(part))
                .collect::<Result<_, _>>()?,
        }),
        ("series", [_, ..]) => Ok(ArrivalKind::Series {
            file: rest.to_owned(),
        }),
        ("trace", []) => Ok(ArrivalKind::Trace { speed: 1.0 }),
        ("trace", [speed]) => Ok(ArrivalKind::Trace {
            speed: number(1e-3, 1e6)(speed)?,
        }),
        ("users", [users, every]) => Ok(ArrivalKind::Users {
            users: whole(1, 1_000_000)(users)?,
            every: positive_time(every)?,
        }),
        _ => Err(format!("must be {known} (got `{text}`)")),
    }
}

/// Arrival kinds that say themselves how fast.
pub fn carries_its_rate(arrival: &ArrivalKind) -> bool {
    arrival.moves() || matches!(arrival, ArrivalKind::Users { .. })
}

/// How a value of a small language is stored: as the text that reads back as it.
pub(crate) trait Shown {
    /// The text, or texts.
    fn shown(&self) -> Value;
}

pub(crate) fn shown<T: Shown, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.shown().serialize(serializer)
}

impl<T: Shown> Shown for Option<T> {
    fn shown(&self) -> Value {
        self.as_ref().map_or(Value::Null, Shown::shown)
    }
}

impl<T: Shown> Shown for Vec<T> {
    fn shown(&self) -> Value {
        self.iter().map(Shown::shown).collect()
    }
}

macro_rules! shown_as {
    ($($kind:ty: |$value:ident| $text:expr;)*) => {
        $(impl Shown for $kind {
            fn shown(&self) -> Value {
                let $value = self;
                Value::from($text)
            }
        })*
    };
}

shown_as! {
    Nanos: |it| time_text(*it);
    DatasetSpec: |it| it.to_string();
    LengthSpec: |it| it.to_string();
    LengthCategory: |it| it.to_string();
    Wanted: |it| it.to_string();
    Vary: |it| it.to_string();
    Only: |it| it.to_string();
    Reset: |it| it.to_string();
    Study: |it| it.name();
    Slo: |it| slo_text(it);
    ArrivalKind: |it| arrival_text(it);
    Header: |it| format!("{}: ***", it.name);
    (String, String): |it| format!("{}={}", it.0, it.1);
    (u32, u32): |it| format!("{}/{}", it.0, it.1);
    Salt: |it| if *it == Salt::Auto { "auto" } else { "never" };
}

impl Shown for Amount {
    fn shown(&self) -> Value {
        match self {
            Self::Count(count) => (*count).into(),
            Self::Time(time) => time.shown(),
        }
    }
}

impl Shown for Lengths {
    fn shown(&self) -> Value {
        match self {
            Self::These(lengths) => match lengths.as_slice() {
                &[one] => one.into(),
                several => several.into(),
            },
            Self::Drawn(spec) => spec.shown(),
        }
    }
}

impl Shown for Concurrency {
    fn shown(&self) -> Value {
        match &self.ramp {
            None => self.most.into(),
            Some(ConcurrencyRamp::Line { from, to }) => format!("ramp:{from}:{to}").into(),
            Some(ConcurrencyRamp::Steps { levels }) => format!("steps:{}", joined(levels)).into(),
        }
    }
}

fn joined(numbers: &[impl ToString]) -> String {
    let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    texts.join(":")
}

/// Without rounding, in the largest unit that divides it.
fn time_text(time: Nanos) -> String {
    let ns = time.get();
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let whole = units.into_iter().find(|(size, _)| ns % size == 0);
    let (size, unit) = whole.unwrap_or((1, "ns"));
    format!("{}{unit}", ns / size)
}

fn slo_text(slo: &Slo) -> String {
    // Rounded to 1e-6 percent, so that 0.999 is p99.9 and not p99.90000000000001.
    let percent = (slo.q * 1e8).round() / 1e6;
    let limit = match slo.metric.unit() {
        Unit::Ns => format!("{}ms", slo.limit / 1e6),
        _ => slo.limit.to_string(),
    };
    let whose = slo.use_case.as_ref().map(|name| format!("@{name}"));
    let whose = whose.unwrap_or_default();
    format!("p{percent}:{}={limit}{whose}", slo.metric)
}

fn arrival_text(arrival: &ArrivalKind) -> String {
    match arrival {
        ArrivalKind::Poisson => "poisson".to_owned(),
        ArrivalKind::Constant => "constant".to_owned(),
        ArrivalKind::Gamma { cov } => format!("gamma:{cov}"),
        ArrivalKind::Burst { size } => format!("burst:{size}"),
        ArrivalKind::Ramp {
            from_per_s,
            to_per_s,
        } => format!("ramp:{from_per_s}:{to_per_s}"),
        ArrivalKind::Steps { rates_per_s } => format!("steps:{}", joined(rates_per_s)),
        ArrivalKind::Series { file } => format!("series:{file}"),
        ArrivalKind::Trace { speed } => format!("trace:{speed}"),
        ArrivalKind::Users { users, every } => format!("users:{users}:{}", time_text(*every)),
    }
}

#[cfg(test)]
#[path = "../tests/unit/values.rs"]
mod tests;
