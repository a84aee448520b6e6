//! Which of two is better: whole runs of the same load in turns (`--versus`), compared block by block.
//!
//! Each turn is a run like any other, in a folder of its own, so that everything that is known of a run is known of it. A block has four turns,
//! ABBA or BAAB as drawn: what drifts steadily over a block falls on both sides alike. The n-th turns of both sides have the same lengths and
//! due times, and other words.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bench_insight::{BLOCK, ComparedSamples, RunComparison, compare};
use bench_metrics::{CompareOptions, FEWEST_BLOCKS, Looks};
use bench_schema::{Metric, RunRecord};
use bench_workload::{Draw, Seed};

use crate::RunError;
use crate::config::Settings;
use crate::entry::Program;
use crate::folder::RunDirectory;
use crate::progress::Progress;
use crate::redact::Secrets;
use crate::run::{self, Outcome, wall_clock};
use crate::stop::was_interrupted;

/// Blocks at most where nothing is said.
const BLOCKS: u32 = 12;
/// Difference that does not matter, a share.
const MARGIN: f64 = 0.02;
/// Turns of each side in a block.
const EACH: u32 = 2;
/// Times over which the requests of a turn are alike (their autocorrelation, in requests): a turn lasts for so many of them, so that turns are nearly independent.
const ALIKE: f64 = 10.0;
/// And for so many times as long as what comes between two turns.
const BETWEEN: f64 = 4.0;
/// Requests of a turn at least.
const FEWEST: u64 = 30;
/// Turns are at most so many times as short, or as long, as they would be otherwise; where they are shorter there are as many times more blocks.
const MOST: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    A,
    B,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }
}

/// What two sides in turns came to.
pub(crate) struct Compared {
    pub(crate) comparison: RunComparison,
    /// Where the runs lie, in `a` and `b`.
    pub(crate) folder: PathBuf,
    pub(crate) runs: Runs,
    /// What ended it before all turns were made.
    pub(crate) trouble: Option<RunError>,
}

/// The runs of each side, in order.
#[derive(Default)]
pub(crate) struct Runs {
    a: Vec<Arc<RunRecord>>,
    b: Vec<Arc<RunRecord>>,
}

impl Runs {
    fn add(&mut self, side: Side, record: Arc<RunRecord>) {
        match side {
            Side::A => self.a.push(record),
            Side::B => self.b.push(record),
        }
    }

    /// Of both sides.
    pub(crate) fn all(&self) -> impl Iterator<Item = &RunRecord> {
        self.a.iter().chain(&self.b).map(AsRef::as_ref)
    }
}

/// Measure both sides in turns until the medians are judged, or to the last block, and compare them.
///
/// # Errors
/// [`RunError`] of a turn that could not be made, where there are not blocks enough to compare.
pub(crate) fn run(program: &Program, settings: &Settings) -> Result<Compared, RunError> {
    let secrets = Secrets::of(settings);
    let progress = Progress::new(false, secrets.clone());
    let directory = RunDirectory::create(settings, wall_clock(), progress)?;
    let folder = directory.name();
    let mut experiment = Experiment {
        program,
        settings: settings.clone(),
        folder: folder.clone(),
        secrets: secrets.clone(),
        runs: Runs::default(),
        asked_blocks: settings.versus.blocks,
    };
    experiment.settings.versus.blocks = Some(settings.versus.blocks.unwrap_or(BLOCKS));
    let trouble = experiment.carry_out();
    let Experiment { settings, runs, .. } = experiment;
    let Some(mut comparison) = compared(&settings, &runs) else {
        return Err(trouble.unwrap_or(RunError::TooFewBlocks(folder)));
    };
    comparison.base = format!(
        "a ({})",
        shown(&settings_of(&settings, Side::A, 0, &folder))
    );
    comparison.new = format!(
        "b ({})",
        shown(&settings_of(&settings, Side::B, 0, &folder))
    );
    for name in [&mut comparison.base, &mut comparison.new] {
        secrets.hide(name);
    }
    let json = serde_json::to_string_pretty(&comparison).unwrap_or_default() + "\n";
    directory.write("versus.json", &json)?;
    directory.write("versus.md", &(program.reports.versus_markdown)(&comparison))?;
    Ok(Compared {
        comparison,
        folder,
        runs,
        trouble,
    })
}

/// Two sides on their way.
struct Experiment<'a> {
    program: &'a Program,
    /// What a turn is asked for, with the most blocks.
    settings: Settings,
    folder: PathBuf,
    secrets: Secrets,
    runs: Runs,
    /// The most blocks, where somebody said so.
    asked_blocks: Option<u32>,
}

impl Experiment<'_> {
    /// Block after block, until it is decided; what ended it before.
    fn carry_out(&mut self) -> Option<RunError> {
        let mut draw = Draw::new(Seed::new(self.settings.seed).stream("turns", ""));
        let began = wall_clock();
        for block in 0.. {
            if block >= self.most() || self.is_decided(block) {
                break;
            }
            for (turn, (round, side)) in turns(block, &mut draw).into_iter().enumerate() {
                let turn = 2 * EACH as usize * block as usize + turn;
                let (ended, trouble) = self.take_turn(turn, round, side);
                if ended || trouble.is_some() {
                    return trouble;
                }
            }
            if block == 0 {
                self.fit_turns(wall_clock().duration_since(began).unwrap_or_default());
            }
        }
        None
    }

    fn most(&self) -> u32 {
        self.settings.versus.blocks.unwrap_or(BLOCKS)
    }

    /// Whether it was asked to end, and what went wrong.
    fn take_turn(&mut self, turn: usize, round: u32, side: Side) -> (bool, Option<RunError>) {
        let own = settings_of(&self.settings, side, round, &self.folder);
        if !self.settings.output.quiet {
            self.secrets.note(&format!(
                "turn {} of at most {}: {} ({})",
                turn + 1,
                2 * EACH * self.most(),
                side.name(),
                shown(&own)
            ));
        }
        let (mut ended, mut trouble) = (false, None);
        match run::run(self.program, &own) {
            Ok(Outcome::Done {
                record,
                trouble: own_trouble,
                ..
            }) => {
                ended = was_interrupted(&record);
                trouble = own_trouble;
                self.runs.add(side, record);
            }
            Ok(Outcome::Planned(_)) => {}
            Err(error) => trouble = Some(error),
        }
        (
            ended,
            trouble.or_else(|| other_models(&self.settings, &self.runs)),
        )
    }

    /// Whether the blocks so far judge every median; they are only looked at where the error allows for it.
    fn is_decided(&self, blocks: u32) -> bool {
        let looks = Looks::new(self.most() as usize);
        if !looks.is_some_and(|looks| looks.at().any(|at| at == blocks as usize)) {
            return false;
        }
        let decided = compared(&self.settings, &self.runs).is_some_and(|found| found.is_decided());
        if decided && !self.settings.output.quiet {
            let most = self.most();
            self.secrets
                .note(&format!("decided after {blocks} of at most {most} blocks"));
        }
        decided
    }

    /// After the first block: turns as long as their own dependence in time and the pauses between them want, and no longer, because what drifts changes short
    /// turns less. Where somebody said how long they are, or how many, it stays.
    fn fit_turns(&mut self, took: Duration) {
        let asked = &self.settings;
        if asked.load.requests.is_some() || asked.load.duration.is_some() {
            return;
        }
        let all: Vec<&RunRecord> = self.runs.all().collect();
        let Some((usual, wanted)) = requests_of_a_turn(&all, took) else {
            return;
        };
        let requests = wanted.clamp(usual.div_ceil(MOST), MOST * usual);
        self.settings.load.requests = Some(requests);
        if requests < usual && self.asked_blocks.is_none() {
            let more = usual * u64::from(BLOCKS) / requests;
            self.settings.versus.blocks = u32::try_from(more).ok();
        }
    }
}

/// Requests of a turn so far, and how many it should have; nothing where there are several cells, or the first block does not tell.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of requests, which is bounded by those of a turn"
)]
fn requests_of_a_turn(turns: &[&RunRecord], took: Duration) -> Option<(u64, u64)> {
    let mut usual = 0;
    let (mut alike, mut measured, mut requests) = (1.0_f64, 0.0, 0.0);
    for run in turns {
        let [cell] = run.cells.as_slice() else {
            return None;
        };
        let e2e = cell.headline(Metric::E2e)?;
        alike = alike.max(e2e.n as f64 / e2e.effective_n?);
        measured += cell.windows.whole.as_ref()?.window.length().as_secs_f64();
        requests += cell.counts.planned as f64;
        usual = cell.stop.requests?;
    }
    let between = (took.as_secs_f64() - measured).max(0.0) / turns.len() as f64;
    // pauses are no reason for turns that are longer than usual: those would follow a drift worse
    let for_pauses = (BETWEEN * between * requests / measured).min(usual as f64);
    let wanted = (ALIKE * alike).max(for_pauses).max(FEWEST as f64);
    (measured > 0.0).then_some((usual, wanted.ceil() as u64))
}

/// The turns of a block, each with how many its side had before it.
fn turns(block: u32, draw: &mut Draw) -> [(u32, Side); 4] {
    let first = if draw.below(2) == 0 { Side::A } else { Side::B };
    let (round, other) = (EACH * block, first.other());
    [
        (round, first),
        (round, other),
        (round + 1, other),
        (round + 1, first),
    ]
}

/// What one turn is asked for: the seed of its round, its side's server, and a folder of its own.
fn settings_of(settings: &Settings, side: Side, round: u32, folder: &Path) -> Settings {
    let mut own = settings.clone();
    own.seed = settings.seed.wrapping_add(u64::from(round));
    own.workload.wording = match side {
        Side::A => 0,
        Side::B => 1,
    };
    own.output.html = false;
    own.output.progress = false;
    own.output.out = Some(folder.join(side.name()).join(format!("{:03}", round + 1)));
    let block = (round / EACH + 1).to_string();
    own.output.tag.retain(|(name, _)| name != BLOCK);
    own.output.tag.push((BLOCK.to_owned(), block));
    if side == Side::B {
        let versus = &settings.versus;
        if let Some(url) = &versus.versus {
            own.target.url = vec![url.clone()];
        }
        own.target.model = versus.versus_model.clone().or(own.target.model);
        if let Some(more) = &versus.versus_body {
            let body = own.workload.extra_body.get_or_insert_default();
            body.extend(more.clone());
        }
    }
    own
}

/// What is asked of a side, for people.
fn shown(own: &Settings) -> String {
    let urls = own.target.url.iter().map(ToString::to_string);
    let model = own.target.model.clone();
    let body = own.workload.extra_body.as_ref();
    let body = body.map(|body| serde_json::Value::Object(body.clone()).to_string());
    let told: Vec<String> = urls.chain(model).chain(body).collect();
    told.join(", ")
}

/// Two servers that serve different models are not compared unless somebody said so.
fn other_models(settings: &Settings, runs: &Runs) -> Option<RunError> {
    let model = |runs: &[Arc<RunRecord>]| runs.first()?.server.model.clone();
    let (a, b) = (model(&runs.a)?, model(&runs.b)?);
    let told = settings.target.model.is_some() || settings.versus.versus_model.is_some();
    (a != b && !told).then(|| RunError::Server {
        what: format!("the two servers have different models: {a} and {b}"),
        help: format!("to compare them anyway, use --model {a} --versus-model {b}"),
    })
}

/// The whole blocks, compared; nothing where they are too few for an interval.
fn compared(settings: &Settings, runs: &Runs) -> Option<RunComparison> {
    let [a, b] = [&runs.a, &runs.b].map(|runs| {
        let runs = runs.iter().map(AsRef::as_ref);
        runs.filter(|run: &&RunRecord| run.complete)
            .collect::<Vec<_>>()
    });
    let samples = ComparedSamples::default();
    let options = CompareOptions {
        margin: settings
            .versus
            .margin
            .map_or(MARGIN, |percent| percent / 100.0),
        most_blocks: settings.versus.blocks.map(|most| most as usize),
        ..CompareOptions::default()
    };
    let blocks = a.len().min(b.len()) / EACH as usize;
    (blocks >= FEWEST_BLOCKS).then(|| compare(&a, &b, samples, &options))?
}

#[cfg(test)]
#[path = "../tests/unit/versus.rs"]
mod tests;
