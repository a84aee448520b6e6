//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::baseline::{Baseline, FromBaseline};
use crate::capacity::Capacity;
use crate::run_folder::Reads;

/// Works on results of bench-latency, bench-throughput and bench-seqlen; it measures nothing.
///
/// A run that was killed is read like any other: its cells are made again from requests.jsonl.
/// Exit codes: 0 done; 1 failed; 2 wrong usage; 3 the runs cannot be trusted; 4 a gate was missed.
#[derive(Debug, Parser)]
#[command(name = "bench-report", version, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write report.md and report.html again, and figures where asked; print the result.
    Render(Render),
    /// Hold runs against a first one, or against a baseline: what changed, by how much, and whether that can be known.
    Compare(Compare),
    /// One figure of many runs in a grid: --rows model --columns concurrency --value e2e.p95.
    Pivot(Pivot),
    /// Exit with 4 where a quantity got worse by more than allowed, with 3 where the runs cannot be trusted.
    Gate(Gate),
    /// Keep runs under a name, to hold later ones against them.
    Baseline(Baseline),
    /// What a run comes to in days, users, replicas, money and energy.
    Capacity(Capacity),
    /// Write a run in the words of another tool, or as a table.
    Export(Export),
    /// Join the run directories of shards into one result; records are joined, never percentiles averaged.
    Merge(Merge),
    /// Make run.json and the reports again from the records of a run that was killed.
    Recover(Recover),
    /// Write the runs of a folder as pages: a list with a filter, and the report of each.
    Site(Site),
    /// Serve the same pages over HTTP, each made when it is asked for; two ticked runs lead to their comparison.
    Serve(Serve),
}

/// What stdout gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// A table for people.
    #[default]
    Table,
    /// Markdown for a pull request.
    Markdown,
    /// JSON for programs.
    Json,
}

/// What a figure is stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Figures {
    /// Scalable.
    Svg,
    /// 1800 pixels wide.
    Png,
}

#[derive(Debug, Args)]
pub(crate) struct Render {
    /// Run directories.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Also write every chart to RUN/figures, and link them in report.md.
    #[arg(long)]
    pub(crate) figures: Option<Figures>,
    /// What stdout gets.
    #[arg(long, default_value = "table")]
    pub(crate) output: Output,
    /// Print every table and every finding, not only what fits one screen.
    #[arg(long)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) reads: Reads,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "bench-report compare [OPTIONS] <BASE> <NEW>...\n       bench-report compare [OPTIONS] --baseline <NAME> <NEW>..."
)]
pub(crate) struct Compare {
    /// What was there before, then what is there now, of which several are each held against the first: run directories, or
    /// folders of runs that are repeats of each other. With --baseline, only what is there now.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) from: FromBaseline,
    /// A tag along which the runs differ (gpus, model, …): runs that share its value are repeats, the lowest level is the base.
    #[arg(long, value_name = "TAG", conflicts_with = "baseline")]
    pub(crate) axis: Option<String>,
    /// Also write the comparison as one self-contained page.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// What stdout gets.
    #[arg(long, default_value = "table")]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) test: Test,
    #[command(flatten)]
    pub(crate) reads: Reads,
}

#[derive(Debug, Args)]
pub(crate) struct Pivot {
    /// Run directories, or folders of them.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// What tells the rows apart: a tag, a factor, model, server, run, cell, concurrency, `rate_per_s`, ….
    #[arg(long, default_value = "run", value_name = "NAME")]
    pub(crate) rows: String,
    /// What tells the columns apart.
    #[arg(long, default_value = "cell", value_name = "NAME")]
    pub(crate) columns: String,
    /// The figure: METRIC.mean, .p50, .p90, .p95 or .p99 (times in milliseconds), `requests_per_s`, `output_tokens_per_s`, failed, ….
    /// Where several runs measured one cell it is the mean of their figures.
    #[arg(long, default_value = "e2e.p95", value_name = "FIGURE")]
    pub(crate) value: String,
    /// What stdout gets.
    #[arg(long, default_value = "table")]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) reads: Reads,
}

#[derive(Debug, Args)]
pub(crate) struct Test {
    /// Chance of any false alarm over all rows together, in percent.
    #[arg(long, default_value_t = 5.0, value_name = "PERCENT")]
    pub(crate) alpha: f64,
    /// A relative difference that does not matter, in percent.
    #[arg(long, default_value_t = 5.0, value_name = "PERCENT")]
    pub(crate) margin: f64,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "bench-report gate [OPTIONS] --max-regression <LIST> <BASE> <NEW>\n       bench-report gate [OPTIONS] --max-regression <LIST> --baseline <NAME> <NEW>"
)]
pub(crate) struct Gate {
    /// What was there before and what is there now: run directories, or folders of runs that are repeats of each other. With
    /// --baseline, only what is there now.
    #[arg(required = true, num_args = 1..=2, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) from: FromBaseline,
    /// The most that quantities may get worse, in every cell, such as `e2e:5%,ttft.p95:10%,output_tokens_per_s:3%`; a metric alone is
    /// compared request by request (runs of one plan), `all` is every quantity.
    #[arg(long, required = true, value_name = "LIST")]
    pub(crate) max_regression: Vec<String>,
    /// Pass only where a regression beyond what is allowed is excluded: the whole interval has to be within it.
    #[arg(long)]
    pub(crate) strict: bool,
    /// What stdout gets.
    #[arg(long, default_value = "table")]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) test: Test,
    #[command(flatten)]
    pub(crate) reads: Reads,
}

/// What an export looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// vllm-CELL.json: the keys of `vllm bench serve --save-result --save-detailed`, by its definitions.
    Vllm,
    /// aiperf-CELL.json: the shape of `profile_export_aiperf.json`.
    Aiperf,
    /// cells, metrics, requests, tokens and readings as .csv.
    Csv,
    /// requests, tokens, readings, cells and histograms as .parquet.
    Parquet,
    /// run.json, whole also where the run was killed.
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// A run directory.
    pub(crate) run: PathBuf,
    /// The words to write it in.
    #[arg(long)]
    pub(crate) format: Format,
    /// Where to write; RUN/export unless given. The paths are printed.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write Parquet into DIR/date=…/benchmark=…/run=…, a folder for each of many runs, which queries read as columns.
    #[arg(long, requires = "out")]
    pub(crate) partition: bool,
    #[command(flatten)]
    pub(crate) reads: Reads,
}

#[derive(Debug, Args)]
pub(crate) struct Merge {
    /// The shards' run directories.
    #[arg(required = true, num_args = 2.., value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// The new run directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) reads: Reads,
}

#[derive(Debug, Args)]
pub(crate) struct Recover {
    /// The run directory.
    pub(crate) run: PathBuf,
    /// Conclude a run that ended properly again, from its records, with what this version knows
    #[arg(long)]
    pub(crate) anew: bool,
    #[command(flatten)]
    pub(crate) reads: Reads,
}

#[derive(Debug, Args)]
pub(crate) struct Site {
    /// A folder of run directories.
    pub(crate) folder: PathBuf,
    /// Where to write index.html and runs/; pages that lie there are replaced.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// A folder of run directories.
    pub(crate) folder: PathBuf,
    /// Where to listen. Whoever reaches an address that is not a loopback one can read every report.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8420")]
    pub(crate) listen: SocketAddr,
}
