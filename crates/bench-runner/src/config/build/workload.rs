//! What to ask.

use bench_schema::{Benchmark, Sampling};
use bench_workload::{DatasetSpec, LengthCategory, LengthSpec, Salt, Study};
use serde_json::{Map, Value};

use super::{one_of, path};
use crate::config::entries::split;
use crate::config::parse;
use crate::config::reader::Reader;
use crate::config::settings::WorkloadSettings;

pub(super) fn workload(r: &mut Reader, benchmark: Benchmark) -> Option<WorkloadSettings> {
    let grid = r.switch("grid");
    let output_is_grid = benchmark == Benchmark::Latency || grid;
    let length = |text: &str| {
        text.parse::<LengthSpec>()
            .map_err(|error| error.to_string())
    };
    let tokens = |text: &str| {
        split(text)
            .iter()
            .map(|part| parse::whole(part, 1, 10_000_000))
            .collect::<Result<Vec<u32>, _>>()
    };
    Some(WorkloadSettings {
        dataset: r.one("dataset", |text| {
            text.parse::<DatasetSpec>()
                .map_err(|error| error.to_string())
        }),
        prompts: r.list("prompts", study),
        prompt_tokens: r.list("prompt_tokens", |text| parse::whole(text, 1, 10_000_000)),
        input: if grid {
            None
        } else {
            r.one("input_tokens", length)
        },
        output: if output_is_grid {
            None
        } else {
            r.one("output_tokens", length)
        },
        input_grid: if grid {
            r.one("input_tokens", tokens).unwrap_or_default()
        } else {
            Vec::new()
        },
        output_grid: if output_is_grid {
            r.one("output_tokens", tokens).unwrap_or_default()
        } else {
            Vec::new()
        },
        categories: r.list("categories", |text| {
            text.parse::<LengthCategory>()
                .map_err(|error| error.to_string())
        }),
        grid,
        tokenizer: r.one("tokenizer", path),
        skip_bad_lines: r.one("bad_lines", one_of(&["stop", "skip"]))? == "skip",
        salt: match r.one("salt", one_of(&["auto", "never"]))?.as_str() {
            "never" => Salt::Never,
            _ => Salt::Auto,
        },
        cycle: r.switch("cycle"),
        ignore_eos: r.switch("ignore_eos"),
        min_tokens: r.one("min_tokens", |text| parse::whole(text, 0, 10_000_000)),
        sampling: sampling(r),
        extra_body: r.one("extra_body", |text| {
            serde_json::from_str::<Map<String, Value>>(text)
                .map_err(|error| format!("must be a JSON object: {error}"))
        }),
        keep_text: r.switch("keep_text"),
    })
}

fn sampling(r: &mut Reader) -> Sampling {
    Sampling {
        temperature: r.one("temperature", |text| parse::number(text, 0.0, 100.0)),
        top_p: r.one("top_p", |text| parse::number(text, 0.0, 1.0)),
        top_k: r.one("top_k", |text| parse::whole(text, -1, 1_000_000)),
        ..Sampling::default()
    }
}

fn study(text: &str) -> Result<Study, String> {
    let known = [Study::Short, Study::Medium, Study::Long];
    known
        .into_iter()
        .find(|study| study.name() == text)
        .ok_or_else(|| format!("must be short, medium or long (got `{text}`)"))
}
