//! Reads a folder of runs and pivots a metric by a tag × concurrency.
//!
//! ```text
//! cargo run -p bench-frames --example frames_pivot -- results ttft_ms tag.gpus 0.95
//! ```

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use bench_frames::{FramesError, Statistic, pivot, requests, run_dirs};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| "results".to_owned()));
    let metric = arguments.next().unwrap_or_else(|| "e2e_ms".to_owned());
    let by = arguments.next().unwrap_or_else(|| "run".to_owned());
    let q = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0.95);
    match table(&folder, &metric, &by, q) {
        Ok(text) => {
            writeln!(std::io::stdout().lock(), "{text}").ok();
            ExitCode::SUCCESS
        }
        Err(error) => {
            writeln!(std::io::stderr().lock(), "frames_pivot: {error}").ok();
            ExitCode::FAILURE
        }
    }
}

fn table(folder: &std::path::Path, metric: &str, by: &str, q: f64) -> Result<String, FramesError> {
    let frame = requests(&run_dirs(folder))?;
    let grid = pivot(&frame, by, "concurrency", metric, Statistic::Quantile(q))?;
    Ok(format!(
        "p{} of {metric} by {by} × concurrency\n{grid}",
        q * 100.0
    ))
}
