//! The example's few flags.

/// What to measure.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) streams: usize,
    pub(crate) rounds: usize,
    pub(crate) tokens: u32,
    pub(crate) itl_ms: f64,
    pub(crate) ttft_ms: f64,
    pub(crate) jitter: f64,
    /// Longest deliberate pause of the reader, µs; 0 reads at once.
    pub(crate) late_us: i64,
    /// A thread that burns a core beside the client.
    pub(crate) busy: bool,
    pub(crate) bare: bool,
    pub(crate) header: bool,
    pub(crate) engine_core: Option<String>,
}

const USAGE: &str = "truth [--streams N] [--rounds N] [--tokens N] [--itl MS] [--ttft MS] [--jitter X] \
[--late US] [--busy] [--no-bare] [--no-header] [--engine-core N]\n  --itl 0 --ttft 0: as fast as the engine can";

impl Options {
    pub(crate) fn from_arguments(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            streams: 64,
            rounds: 1,
            tokens: 128,
            itl_ms: 10.0,
            ttft_ms: 50.0,
            jitter: 0.1,
            late_us: 0,
            busy: false,
            bare: true,
            header: true,
            engine_core: None,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value\n{USAGE}"));
            match word.as_str() {
                "--streams" => options.streams = parse(&value()?)?,
                "--rounds" => options.rounds = parse(&value()?)?,
                "--tokens" => options.tokens = parse(&value()?)?,
                "--itl" => options.itl_ms = parse(&value()?)?,
                "--ttft" => options.ttft_ms = parse(&value()?)?,
                "--jitter" => options.jitter = parse(&value()?)?,
                "--late" => options.late_us = parse(&value()?)?,
                "--engine-core" => options.engine_core = Some(value()?),
                "--busy" => options.busy = true,
                "--no-bare" => options.bare = false,
                "--no-header" => options.header = false,
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(options)
    }

    /// How the row names its load.
    pub(crate) fn load(&self) -> String {
        let pace = if self.itl_ms > 0.0 {
            format!("{} ms", self.itl_ms)
        } else {
            "unpaced".to_owned()
        };
        let late = if self.late_us > 0 {
            format!(", late ≤ {} µs", self.late_us)
        } else {
            String::new()
        };
        let busy = if self.busy { ", busy core" } else { "" };
        format!("{} × {pace}{late}{busy}", self.streams)
    }
}

fn parse<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a number\n{USAGE}"))
}
