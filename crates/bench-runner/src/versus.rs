//! Which of two servers is better (`--versus`): runs of the same load in alternation, compared block by block.
//!
//! Each turn is an ordinary run in its own folder, with everything that a run stores. A block has four turns, ABBA or BAAB at random, so a steady
//! drift within a block affects both sides equally. The n-th turns of both sides have the same lengths and due times, but different words.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bench_insight::{CellSamples, ComparedSamples, RunComparison, compare};
use bench_metrics::{CompareOptions, Looks};
use bench_schema::{Metric, RunRecord, whole};
use bench_workload::{Draw, Seed};

use crate::RunError;
use crate::config::Settings;
use crate::entry::{Program, Several, settings_of_one};
use crate::folder::RunDirectory;
use crate::progress::Progress;
use crate::redact::Secrets;
use crate::run::{self, Outcome, wall_clock};
use crate::stop::was_interrupted;

/// The default of the most blocks.
const BLOCKS: u32 = 12;
/// The default of the difference that is considered irrelevant, a share.
const MARGIN: f64 = 0.02;
/// Turns of each side in a block.
const EACH: u32 = 2;
/// A turn lasts this many autocorrelation times of its requests, so that turns are nearly independent. Where that is longer than the first turns, what they are
/// alike in is drift, which short turns follow.
const ALIKE: f64 = 10.0;
/// A turn lasts at least this many times as long as the pause between two turns.
const BETWEEN: f64 = 4.0;
/// Fewest requests of a turn.
const FEWEST: u64 = 30;
/// Turns become at most this many times shorter than the first ones, and no longer: long turns follow a drift less well. Shorter turns mean proportionally more blocks.
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

/// The runs of each side, in order, with their single requests.
#[derive(Default)]
struct Runs {
    a: Vec<(Arc<RunRecord>, Vec<CellSamples>)>,
    b: Vec<(Arc<RunRecord>, Vec<CellSamples>)>,
}

impl Runs {
    fn add(&mut self, side: Side, run: (Arc<RunRecord>, Vec<CellSamples>)) {
        match side {
            Side::A => self.a.push(run),
            Side::B => self.b.push(run),
        }
    }

    /// Of both sides.
    fn all(&self) -> impl Iterator<Item = &Arc<RunRecord>> {
        self.a.iter().chain(&self.b).map(|(run, _)| run)
    }
}

/// Measure both sides in alternation until TTFT, ITL, TPOT and E2E have a verdict or the last block is over, and compare them. The runs lie in `a` and `b`.
///
/// # Errors
/// The [`RunError`] that ended it early, where there are too few blocks for a comparison.
pub(crate) fn run(
    program: &Program,
    settings: &Settings,
) -> Result<Several<RunComparison>, RunError> {
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
    let sides = [
        (Side::A, &mut comparison.base),
        (Side::B, &mut comparison.new),
    ];
    for (side, name) in sides {
        let own = shown(&settings_of(&settings, side, 0, &folder));
        *name = format!("{} ({own})", side.name());
        secrets.hide(name);
    }
    let json = serde_json::to_string_pretty(&comparison).unwrap_or_default() + "\n";
    let markdown = (program.reports.versus_markdown)(&comparison);
    // what cannot be stored is shown all the same
    let stored = directory.write("versus.json", &json);
    let stored = stored.and_then(|()| directory.write("versus.md", &markdown));
    Ok(Several {
        summary: comparison.summary(),
        found: comparison,
        folder,
        interrupted: runs.all().any(|run| was_interrupted(run)),
        runs: runs.all().cloned().collect(),
        trouble: trouble.or(stored.err()),
    })
}

/// An experiment that is running.
struct Experiment<'a> {
    program: &'a Program,
    /// The settings of a turn, with the most blocks.
    settings: Settings,
    folder: PathBuf,
    secrets: Secrets,
    runs: Runs,
    /// The most blocks, if the user gave a number.
    asked_blocks: Option<u32>,
}

impl Experiment<'_> {
    /// Measures block after block until the result is decided. Returns the error that ended it early.
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

    /// Returns whether the user ended it, and what went wrong.
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
                samples,
                ..
            }) => {
                ended = was_interrupted(&record);
                trouble = own_trouble;
                self.runs.add(side, (record, samples));
            }
            Ok(Outcome::Planned(_)) => {}
            Err(error) => trouble = Some(error),
        }
        (
            ended,
            trouble.or_else(|| other_models(&self.settings, &self.runs)),
        )
    }

    /// Whether everything that decides has a verdict after these blocks. Looks only after the blocks that the sequential test allows for.
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

    /// Chooses the length of turns after the first block, from the autocorrelation of the requests and the pauses between turns. A length or a number of blocks that the user gave is kept.
    fn fit_turns(&mut self, took: Duration) {
        let asked = &self.settings;
        if asked.load.requests.is_some() || asked.load.duration.is_some() {
            return;
        }
        let all: Vec<&RunRecord> = self.runs.all().map(AsRef::as_ref).collect();
        let Some((usual, requests)) = requests_of_a_turn(&all, took) else {
            return;
        };
        self.settings.load.requests = Some(requests);
        if requests < usual && self.asked_blocks.is_none() {
            let more = usual * u64::from(BLOCKS) / requests;
            self.settings.versus.blocks = u32::try_from(more).ok();
        }
    }
}

/// How many requests a turn has, and how many it should have; `None` for several cells, or if the first block is not enough to tell.
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
    let for_pauses = BETWEEN * between * requests / measured;
    let independent = Some(ALIKE * alike).filter(|wanted| *wanted <= usual as f64);
    let wanted = independent
        .unwrap_or(0.0)
        .max(for_pauses)
        .max(FEWEST as f64);
    let wanted = whole(wanted.min(usual as f64).ceil()).max(usual.div_ceil(MOST));
    (measured > 0.0).then_some((usual, wanted))
}

/// The turns of a block, each with the number of earlier turns of its side.
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

/// The settings of one turn: the seed of its round, the server of its side, and its own folder.
fn settings_of(settings: &Settings, side: Side, round: u32, folder: &Path) -> Settings {
    let place = folder.join(side.name()).join(format!("{:03}", round + 1));
    let mut own = settings_of_one(settings, round, place, round / EACH + 1);
    own.workload.wording = match side {
        Side::A => 0,
        Side::B => 1,
    };
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

/// The name of a side, for people.
fn shown(own: &Settings) -> String {
    let urls = own.target.url.iter().map(ToString::to_string);
    let model = own.target.model.clone();
    let body = own.workload.extra_body.as_ref();
    let body = body.map(|body| serde_json::Value::Object(body.clone()).to_string());
    let told: Vec<String> = urls.chain(model).chain(body).collect();
    told.join(", ")
}

/// Servers of different models are only compared if the user asks for it.
fn other_models(settings: &Settings, runs: &Runs) -> Option<RunError> {
    let model = |runs: &[(Arc<RunRecord>, Vec<CellSamples>)]| runs.first()?.0.server.model.clone();
    let (a, b) = (model(&runs.a)?, model(&runs.b)?);
    let told = settings.target.model.is_some() || settings.versus.versus_model.is_some();
    (a != b && !told).then(|| RunError::Server {
        what: format!("the two servers have different models: {a} and {b}"),
        help: format!("to compare them anyway, use --model {a} --versus-model {b}"),
    })
}

/// The comparison of the whole blocks; `None` where there are too few of them.
fn compared(settings: &Settings, runs: &Runs) -> Option<RunComparison> {
    let [(a, of_a), (b, of_b)] = [&runs.a, &runs.b].map(|runs| {
        let parts = runs
            .iter()
            .map(|(run, samples)| (run.as_ref(), samples.as_slice()));
        parts.unzip::<_, _, Vec<&RunRecord>, Vec<&[CellSamples]>>()
    });
    let samples = ComparedSamples {
        base: &of_a,
        new: &of_b,
    };
    let options = CompareOptions {
        margin: settings
            .versus
            .margin
            .map_or(MARGIN, |percent| percent / 100.0),
        most_blocks: settings.versus.blocks.map(|most| most as usize),
        ..CompareOptions::default()
    };
    let found = compare(&a, &b, samples, &options)?;
    found.blocks.is_some().then_some(found)
}

#[cfg(test)]
#[path = "../tests/unit/versus.rs"]
mod tests;
