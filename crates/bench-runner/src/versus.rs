//! Which of two is better: whole runs of the same load in turns (`--versus`), compared block by block.
//!
//! Each turn is a run like any other, in a folder of its own, so that everything that is known of a run is known of it. A block has four turns,
//! ABBA or BAAB as drawn: what drifts steadily over a block falls on both sides alike. The n-th turns of both sides have the same lengths and
//! due times, and other words.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bench_insight::{BLOCK, ComparedSamples, RunComparison, compare};
use bench_metrics::{CompareOptions, FEWEST_BLOCKS};
use bench_schema::RunRecord;
use bench_workload::{Draw, Seed};

use crate::RunError;
use crate::config::Settings;
use crate::entry::Program;
use crate::folder::RunDirectory;
use crate::progress::Progress;
use crate::redact::Secrets;
use crate::run::{self, Outcome, wall_clock};
use crate::stop::was_interrupted;

/// Blocks where nothing is said.
const BLOCKS: u32 = 6;
/// Difference that does not matter, a share.
const MARGIN: f64 = 0.02;
/// Turns of each side in a block.
const EACH: u32 = 2;

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

/// Measure both sides in turns and compare them.
///
/// # Errors
/// [`RunError`] of a turn that could not be made, where there are not blocks enough to compare.
pub(crate) fn run(program: &Program, settings: &Settings) -> Result<Compared, RunError> {
    let secrets = Secrets::of(settings);
    let progress = Progress::new(false, secrets.clone());
    let directory = RunDirectory::create(settings, wall_clock(), progress)?;
    let folder = directory.name();
    let blocks = settings.versus.blocks.unwrap_or(BLOCKS);
    let mut runs = Runs::default();
    let mut trouble = None;
    for (turn, (round, side)) in order(settings.seed, blocks).enumerate() {
        let own = settings_of(settings, side, round, &folder);
        if !settings.output.quiet {
            secrets.note(&format!(
                "turn {} of {}: {} ({})",
                turn + 1,
                2 * EACH * blocks,
                side.name(),
                shown(&own)
            ));
        }
        let mut ended = false;
        match run::run(program, &own) {
            Ok(Outcome::Done {
                record,
                trouble: own_trouble,
                ..
            }) => {
                ended = was_interrupted(&record);
                trouble = own_trouble;
                runs.add(side, record);
            }
            Ok(Outcome::Planned(_)) => {}
            Err(error) => trouble = Some(error),
        }
        trouble = trouble.or_else(|| other_models(settings, &runs));
        if ended || trouble.is_some() {
            break;
        }
    }
    let Some(mut comparison) = compared(settings, &runs) else {
        return Err(trouble.unwrap_or(RunError::TooFewBlocks(folder)));
    };
    comparison.base = format!("a ({})", shown(&settings_of(settings, Side::A, 0, &folder)));
    comparison.new = format!("b ({})", shown(&settings_of(settings, Side::B, 0, &folder)));
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

/// The turns, each with how many its side had before it.
fn order(seed: u64, blocks: u32) -> impl Iterator<Item = (u32, Side)> {
    let mut draw = Draw::new(Seed::new(seed).stream("turns", ""));
    (0..blocks).flat_map(move |block| {
        let first = if draw.below(2) == 0 { Side::A } else { Side::B };
        let (round, other) = (EACH * block, first.other());
        [
            (round, first),
            (round, other),
            (round + 1, other),
            (round + 1, first),
        ]
    })
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
        what: format!("the two sides serve different models: {a} and {b}"),
        help: format!("compare them all the same with --model {a} --versus-model {b}"),
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
        ..CompareOptions::default()
    };
    let blocks = a.len().min(b.len()) / EACH as usize;
    (blocks >= FEWEST_BLOCKS).then(|| compare(&a, &b, samples, &options))?
}

#[cfg(test)]
#[path = "../tests/unit/versus.rs"]
mod tests;
