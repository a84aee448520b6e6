//! The matrix of truth: the benchmarks as users start them, against engines that know what was so.
//!
//! The ways a run can go are the factors of `Row`; `rows::pairwise` selects rows in which every two levels meet. To them come those
//! of `SPECIAL`, one row of bench-latency and one of bench-seqlen. Each row's figures stand beside those of the servers' ledgers, with a limit.

mod checks;
mod rows;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use bench_engine::EngineConfig;
use bench_engine::config::{EngineKind, Fixed, TlsFiles};

use crate::VerifyError;
use crate::programs::{Engines, Programs};
use crate::truth::{Check, Matched};
use checks::{Dropped, Expected};
use rows::{Load, Row, Transport};

/// Requests a second of the open loop.
const RATE: f64 = 200.0;
/// Slots of closed loops.
const SLOTS: usize = 8;

/// A closed loop that is no level of a factor. Times decide nothing where servers drop requests.
#[derive(Debug, Clone, Copy)]
struct Special {
    name: &'static str,
    /// Its levels, each a cell.
    levels: &'static [usize],
    workers: usize,
    urls: usize,
    /// What the servers drop, and the faults by which they do, in TOML.
    dropped: (Dropped, &'static str),
}

const PLAIN: Special = Special {
    name: "",
    levels: &[SLOTS],
    workers: 1,
    urls: 1,
    dropped: (Dropped::None, ""),
};

const SPECIAL: [Special; 4] = [
    Special {
        name: "the same level twice",
        levels: &[SLOTS, SLOTS],
        ..PLAIN
    },
    Special {
        name: "8 workers, 2 urls, cold",
        workers: 8,
        urls: 2,
        ..PLAIN
    },
    Special {
        name: "closes on requests it has read",
        dropped: (
            Dropped::AtOnce,
            "faults = [{ fault = 'close-head', from = 12, every = 5 }]",
        ),
        ..PLAIN
    },
    Special {
        name: "closes on requests it has held",
        dropped: (
            Dropped::Held,
            "faults = [{ fault = 'stall-head:1000', from = 12, every = 6 }]",
        ),
        ..PLAIN
    },
];

/// How much is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// A few rows of a second each; times decide nothing.
    Small,
    /// Every row; times decide.
    Full,
}

/// One run that is to be made.
#[derive(Debug, Clone)]
pub struct Case {
    /// What it is called in the table.
    pub name: String,
    program: &'static str,
    row: Row,
    special: Option<Special>,
    size: Size,
}

/// A run that was made.
#[derive(Debug)]
pub struct Judged {
    /// What it is called in the table.
    pub name: String,
    /// Its command line, without the server.
    pub command: String,
    /// What it said, beside what was so. The worst of each name, where there are several cells.
    pub checks: Vec<Check>,
    /// Whether times decide.
    pub timing: bool,
    /// Streams at once, connections that carried them, connections nobody used.
    pub connections: (usize, usize, usize),
}

impl Judged {
    /// The checks that decide and do not hold.
    pub fn failed(&self) -> impl Iterator<Item = &Check> {
        self.checks
            .iter()
            .filter(|check| (self.timing || !check.timing) && !check.holds())
    }
}

/// The rows of a size.
pub fn cases(size: Size) -> Vec<Case> {
    let rows = match size {
        Size::Full => rows::pairwise(),
        Size::Small => rows::each_level(),
    };
    let plain = Case {
        name: String::new(),
        program: "bench-throughput",
        row: Row::plain(),
        special: None,
        size,
    };
    let named = |name: &str| Case {
        name: name.to_owned(),
        ..plain.clone()
    };
    let mut all = Vec::new();
    for row in rows {
        all.push(Case {
            row,
            ..named(&row.to_string())
        });
    }
    for special in SPECIAL {
        all.push(Case {
            special: Some(special),
            ..named(special.name)
        });
    }
    // The three share all but their design, and CI builds one of them for its tests.
    if size == Size::Full {
        for program in ["bench-latency", "bench-seqlen"] {
            let name = program.trim_start_matches("bench-");
            all.push(Case {
                program,
                ..named(name)
            });
        }
    }
    all
}

/// Makes a run and judges it.
///
/// # Errors
/// [`VerifyError`] where there was nothing to judge.
pub fn judge(programs: &Programs, case: &Case) -> Result<Judged, VerifyError> {
    let folder = tempfile::tempdir().map_err(VerifyError::io("a folder for the run"))?;
    let folder = folder.path();
    let (configs, ca) = case.servers(folder)?;
    let engines = Engines::start(programs, &configs)?;
    let out = folder.join("run");
    let arguments = case.arguments(folder)?;
    let mut all = engines.arguments();
    if let Some(ca) = ca {
        all.extend(["--ca".to_owned(), ca.display().to_string()]);
    }
    all.extend(arguments.iter().cloned());
    let ran = programs.run(case.program, &all, &out)?;
    let known = engines.end()?;
    let matched = Matched::new(&ran.run, &ran.records, &known)?;
    let vllm = match programs.vllm(&out) {
        // A small one runs where only the benchmarks are built.
        Err(VerifyError::Missing { .. }) if case.size == Size::Small => Vec::new(),
        other => other?,
    };
    let checks = checks::of_run(&ran, (&matched, &known), &vllm, case.expected());
    Ok(Judged {
        name: case.name.clone(),
        command: format!("{} {}", case.program, arguments.join(" ")),
        checks: worst(checks),
        timing: case.size == Size::Full,
        connections: (matched.streams(), matched.connections(), known.unused),
    })
}

/// Of checks of the same name the one that is nearest to its limit, or beyond it.
fn worst(checks: Vec<Check>) -> Vec<Check> {
    let mut kept: Vec<Check> = Vec::new();
    let strain = |check: &Check| {
        let off = (check.said - check.so).abs();
        if off.is_nan() {
            f64::INFINITY
        } else if off <= 0.0 {
            0.0
        } else {
            off / check.limit
        }
    };
    for check in checks {
        match kept.iter_mut().find(|before| before.name == check.name) {
            Some(before) if strain(before) < strain(&check) => *before = check,
            Some(_) => {}
            None => kept.push(check),
        }
    }
    kept
}

impl Case {
    /// Server configurations and the certificate that clients have to trust.
    fn servers(&self, folder: &Path) -> Result<(Vec<EngineConfig>, Option<PathBuf>), VerifyError> {
        let (ttft_ms, itl_ms) = match self.size {
            Size::Small => (20.0, 5.0),
            Size::Full => (60.0, 10.0),
        };
        let engine = EngineKind::Fixed(Fixed {
            ttft_ms,
            itl_ms,
            ..Fixed::default()
        });
        let (_, faults) = self.special.unwrap_or(PLAIN).dropped;
        let told = EngineConfig::from_toml(faults)?;
        let tls = match self.row.transport() {
            Transport::Tls => Some(certificate(folder)?),
            _ => None,
        };
        let ca = tls.as_ref().map(|files| files.cert.clone());
        let config = |at: usize| EngineConfig {
            engine: engine.clone(),
            seed: at as u64 + 1,
            tls: tls.clone(),
            unix: (self.row.transport() == Transport::Unix)
                .then(|| folder.join(format!("engine-{at}"))),
            ..told.clone()
        };
        Ok(((0..self.urls()).map(config).collect(), ca))
    }

    fn urls(&self) -> usize {
        self.special.map_or(self.row.urls(), |special| special.urls)
    }

    fn workers(&self) -> usize {
        self.special
            .map_or(self.row.workers(), |special| special.workers)
    }

    fn arguments(&self, folder: &Path) -> Result<Vec<String>, VerifyError> {
        let row = self.row;
        let mut words: Vec<String> = Vec::new();
        let mut add = |text: &str| words.extend(text.split(' ').map(str::to_owned));
        add(&format!(
            "--server-metrics none --output json --workers {} --output-tokens {}",
            self.workers(),
            self.tokens()
        ));
        match (self.program, row.load()) {
            ("bench-latency", _) => add(&format!("--prompts short --repeat {}", self.each())),
            ("bench-seqlen", _) => add(&format!(
                "--grid --input-tokens 24 --requests {}",
                self.each()
            )),
            (_, Load::Closed) => {
                let levels = self.special.unwrap_or(PLAIN).levels;
                let levels: Vec<String> = levels.iter().map(usize::to_string).collect();
                add(&format!(
                    "--dataset random --input-tokens 64 --concurrency {} --requests {}",
                    levels.join(","),
                    self.each()
                ));
            }
            (_, Load::Open) => add(&format!(
                "--dataset random --input-tokens 64 --rate {RATE} --requests {}",
                self.each()
            )),
            (_, Load::Sessions) => add(&format!(
                "--dataset multiturn:3:48:16 --concurrency {SLOTS} --requests {}",
                self.each()
            )),
        }
        if self.program == "bench-throughput" {
            add(&format!("--repeat {}", row.cells()));
        }
        if row.cold() || self.special.is_some() {
            add("--warmup 0");
        }
        if row.transport() == Transport::Http2 {
            add("--http2");
        }
        if !row.batching() {
            add("--no-late-read");
        }
        if row.tokenizer() {
            let path = tokenizer(folder)?;
            words.extend(["--tokenizer".to_owned(), path.display().to_string()]);
        }
        Ok(words)
    }

    fn tokens(&self) -> usize {
        match self.size {
            Size::Small => 6,
            Size::Full => 24,
        }
    }

    /// Requests of each repeat.
    fn each(&self) -> usize {
        match (self.program, self.row.load(), self.size) {
            ("bench-throughput", Load::Open, Size::Full) => 400,
            ("bench-throughput", Load::Open, Size::Small) => 60,
            ("bench-throughput", _, Size::Full) => SLOTS * 9,
            ("bench-throughput", _, Size::Small) => SLOTS * 3,
            (_, _, Size::Full) => 30,
            (_, _, Size::Small) => 6,
        }
    }

    fn expected(&self) -> Expected {
        let throughput = self.program == "bench-throughput";
        let open = throughput && self.row.load() == Load::Open;
        let transport = self.row.transport();
        let special = self.special.unwrap_or(PLAIN);
        let (workers, urls) = (self.workers(), self.urls());
        let repeats = if throughput { self.row.cells() } else { 1 };
        Expected {
            planned: self.each() * repeats,
            cells: throughput.then_some(special.levels.len()),
            slots: (!open).then_some(if throughput { SLOTS } else { 1 }),
            rate: open.then_some(RATE),
            connections: (transport == Transport::Http2).then_some(workers * urls),
            kernel_stamps: transport == Transport::Http1,
            turns: (workers, urls),
            dropped: special.dropped.0,
        }
    }
}

fn certificate(folder: &Path) -> Result<TlsFiles, VerifyError> {
    let failed = |error: rcgen::Error| VerifyError::read("a certificate", &error);
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).map_err(failed)?;
    let files = TlsFiles {
        cert: folder.join("cert.pem"),
        key: folder.join("key.pem"),
        client_ca: None,
    };
    let write = |path: &Path, text: String| {
        std::fs::write(path, text).map_err(VerifyError::io(path.display().to_string()))
    };
    write(&files.cert, made.cert.pem())?;
    write(&files.key, made.signing_key.serialize_pem())?;
    Ok(files)
}

/// A byte-level BPE trained on this project's texts: what a prompt costs with it is what it costs with a model's.
fn tokenizer(folder: &Path) -> Result<PathBuf, VerifyError> {
    use tokenizers::models::TrainerWrapper;
    use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;
    use tokenizers::{DecoderWrapper, Tokenizer};

    let failed = |error| VerifyError::read("the tokenizer", &error);
    let mut tokenizer = Tokenizer::new(BPE::default());
    tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
    tokenizer.with_decoder(Some(DecoderWrapper::from(ByteLevel::default())));
    let trainer = BpeTrainerBuilder::new()
        .show_progress(false)
        .vocab_size(2_000)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    let corpus = [
        include_str!("../../../docs/method.md"),
        include_str!("../../../docs/metrics.md"),
        include_str!("../../../README.md"),
    ];
    let lines = corpus
        .iter()
        .flat_map(|text| text.lines())
        .map(str::to_owned);
    tokenizer
        .train(&mut TrainerWrapper::from(trainer), lines)
        .map_err(failed)?;
    let path = folder.join("tokenizer.json");
    tokenizer.save(&path, false).map_err(failed)?;
    Ok(path)
}

// The matrix as a table for docs/verification.md.

/// The columns that hold times: the names of their checks.
const COLUMNS: [(&str, &[&str]); 8] = [
    ("TTFT p50, p99", &["TTFT p50", "TTFT p99"]),
    ("ITL p50, p99", &["ITL p50", "ITL p99"]),
    ("E2E p50, p99", &["E2E p50", "E2E p99"]),
    (
        "lateness p50, p99, last / first",
        &["lateness p50", "lateness p99"],
    ),
    ("offered/s", &["offered/s"]),
    ("requests/s", &["requests/s"]),
    ("vLLM TTFT p99", &["vLLM TTFT p99"]),
    ("connections", &[]),
];

/// A table of all rows, and what falls short below it.
pub fn markdown(rows: &[Judged]) -> String {
    let mut out = String::from("| row |");
    // Writing to a string cannot fail.
    for (title, _) in COLUMNS {
        write!(out, " {title} |").ok();
    }
    out.push_str(" counts | within |\n|---|");
    out.push_str(&"---|".repeat(COLUMNS.len() + 2));
    out.push('\n');
    for row in rows {
        write!(out, "| {} |", row.name).ok();
        for (_, names) in COLUMNS {
            write!(out, " {} |", cell(row, names)).ok();
        }
        let exact = row.checks.iter().filter(|check| !check.timing);
        let broken = exact.filter(|check| !check.holds()).count();
        let counts = if broken == 0 { "right" } else { "**wrong**" };
        let passed = row.failed().next().is_none();
        let verdict = if passed { "yes" } else { "**no**" };
        writeln!(out, " {counts} | {verdict} |").ok();
    }
    for row in rows {
        for check in row.failed() {
            writeln!(
                out,
                "\n- **{}**: {} {} where {} is so (limit {})",
                row.name,
                check.name,
                number(check.said),
                number(check.so),
                number(check.limit)
            )
            .ok();
        }
    }
    out
}

fn cell(row: &Judged, names: &[&str]) -> String {
    if names.is_empty() {
        let (streams, used, unused) = row.connections;
        return match unused {
            0 => format!("{used} for {streams}"),
            _ => format!("{used} for {streams}, **{unused} unused**"),
        };
    }
    let shown: Vec<String> = names
        .iter()
        .filter_map(|name| row.checks.iter().find(|check| check.name == *name))
        .map(figure)
        .collect();
    shown.join(", ")
}

/// What was said / what was so; bold where it is beyond its limit.
fn figure(check: &Check) -> String {
    let text = format!("{} / {}", number(check.said), number(check.so));
    if check.holds() {
        text
    } else {
        format!("**{text}**")
    }
}

fn number(value: f64) -> String {
    if value.is_nan() {
        "–".to_owned()
    } else if value.abs() >= 100.0 {
        format!("{value:.1}")
    } else if value.abs() >= 1.0 || value.abs() < 1e-9 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}
