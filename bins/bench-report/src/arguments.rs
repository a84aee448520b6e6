//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::baseline::{Baseline, FromBaseline};
use crate::capacity::Capacity;
use crate::run_folder::Reads;

/// Reports, comparisons and exports of the results of bench-latency, bench-throughput and bench-seqlen.
///
/// A killed run is read like any other: its cells are rebuilt from requests.jsonl.
/// Exit codes: 0 done; 1 failed; 2 invalid usage; 3 the runs cannot be trusted; 4 a gate was missed.
#[derive(Debug, Parser)]
#[command(name = "bench-report", version, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write report.md and report.html again, optionally with figures, and print the result.
    Render(Render),
    /// Compare runs with a base run or a baseline: what changed, by how much, and whether the difference is significant.
    Compare(Compare),
    /// Show one metric of many runs as a table: --rows model --columns concurrency --value e2e.p95.
    Pivot(Pivot),
    /// Fail on regressions: exit code 4 if a metric got worse by more than allowed, 3 if the runs cannot be trusted.
    Gate(Gate),
    /// Save runs under a name, to compare later runs with them.
    Baseline(Baseline),
    /// Capacity planning from a run: requests per day, users, replicas, cost and energy.
    Capacity(Capacity),
    /// Export a run in another tool's format, or as tables.
    Export(Export),
    /// Merge the run directories of shards into one result; records are merged, percentiles are never averaged.
    Merge(Merge),
    /// Rebuild run.json and the reports of a killed run from its records.
    Recover(Recover),
    /// Write a static site for a folder of runs: a list with a filter, and the report of each run.
    Site(Site),
    /// Serve the same pages over HTTP, generated on request; select two runs to compare them.
    Serve(Serve),
}

/// Format of stdout.
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
    /// Format of stdout.
    #[arg(long, default_value = "table")]
    pub(crate) output: Output,
    /// Print all tables and findings, not only one screen.
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
    /// The base, followed by one or more runs that are each compared with it: run directories, or folders of repeated runs. With
    /// --baseline, only the new runs.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) from: FromBaseline,
    /// Tag along which the runs differ (gpus, model, …): runs with the same value are repeats; the lowest value is the base.
    #[arg(long, value_name = "TAG", conflicts_with = "baseline")]
    pub(crate) axis: Option<String>,
    /// Also write the comparison as a self-contained HTML page.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Format of stdout.
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
    /// What the rows are: a tag, a factor, model, server, run, cell, concurrency, `rate_per_s`, ….
    #[arg(long, default_value = "run", value_name = "NAME")]
    pub(crate) rows: String,
    /// What the columns are: the same choices as for --rows.
    #[arg(long, default_value = "cell", value_name = "NAME")]
    pub(crate) columns: String,
    /// The value: METRIC.mean, .p50, .p90, .p95 or .p99 (times in milliseconds), `requests_per_s`, `output_tokens_per_s`, failed, …. If
    /// several runs measured the same cell, the mean of their values.
    #[arg(long, default_value = "e2e.p95", value_name = "FIGURE")]
    pub(crate) value: String,
    /// Format of stdout.
    #[arg(long, default_value = "table")]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) reads: Reads,
}

#[derive(Debug, Args)]
pub(crate) struct Test {
    /// Probability of any false alarm over all rows together, in percent.
    #[arg(long, default_value_t = 5.0, value_name = "PERCENT")]
    pub(crate) alpha: f64,
    /// Relative difference that is considered irrelevant, in percent.
    #[arg(long, default_value_t = 5.0, value_name = "PERCENT")]
    pub(crate) margin: f64,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "bench-report gate [OPTIONS] --max-regression <LIST> <BASE> <NEW>\n       bench-report gate [OPTIONS] --max-regression <LIST> --baseline <NAME> <NEW>"
)]
pub(crate) struct Gate {
    /// The base and the new run: run directories, or folders of repeated runs. With --baseline, only the new run.
    #[arg(required = true, num_args = 1..=2, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) from: FromBaseline,
    /// Maximum allowed regressions, in every cell, such as `e2e:5%,ttft.p95:10%,output_tokens_per_s:3%`; a metric alone is compared
    /// request by request (runs of the same plan); `all` means every quantity.
    #[arg(long, required = true, value_name = "LIST")]
    pub(crate) max_regression: Vec<String>,
    /// Pass only if the whole confidence interval is within the allowed regression.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Format of stdout.
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
    /// vllm-CELL.json: the keys of `vllm bench serve --save-result --save-detailed`, with vLLM's definitions.
    Vllm,
    /// aiperf-CELL.json: the layout of `profile_export_aiperf.json`.
    Aiperf,
    /// cells, metrics, requests, tokens and readings as .csv.
    Csv,
    /// requests, tokens, readings, cells and histograms as .parquet.
    Parquet,
    /// run.json, rebuilt if the run was killed.
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// A run directory.
    pub(crate) run: PathBuf,
    /// The format to write.
    #[arg(long)]
    pub(crate) format: Format,
    /// Output folder; default: RUN/export. The paths are printed.
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
    /// Analyse a run that ended normally again, from its records, with this version
    #[arg(long)]
    pub(crate) anew: bool,
    #[command(flatten)]
    pub(crate) reads: Reads,
}

#[derive(Debug, Args)]
pub(crate) struct Site {
    /// A folder of run directories, which may lie up to two folders further down.
    pub(crate) folder: PathBuf,
    /// Where to write index.html and runs/; existing pages there are replaced.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// A folder of run directories, which may lie up to two folders further down.
    pub(crate) folder: PathBuf,
    /// Address to listen on. On an address that is not loopback, anyone who can reach it can read every report.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8420")]
    pub(crate) listen: SocketAddr,
}
