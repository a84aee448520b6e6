//! The keys of `vllm bench serve --save-result --save-detailed`.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, Write};

use bench_schema::{ArrivalKind, CellRecord, Load, RunRecord, index};
use serde_json::{Map, Value, json};

use super::rows::{Row, Rows};
use super::{Figures, Requests, object};

/// Percentiles that vLLM's tool writes.
const PERCENTILES: [f64; 4] = [0.5, 0.9, 0.95, 0.99];

pub(super) fn write(
    (run, cell): (&RunRecord, &CellRecord),
    requests: &Requests,
    rows: &mut Rows<'_, impl Read + Seek>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (span, fullest) = (&requests.span, &mut BTreeMap::new());
    let itls = lists(rows, span.start(), fullest, out)?;
    let (input, output, completed) = (requests.input, requests.output, requests.completed);
    let mut rest = identity(run, cell);
    rest.extend(object(json!({
        "duration": span.seconds(),
        "completed": completed,
        "failed": requests.failed(),
        "total_input_tokens": input,
        "total_output_tokens": output,
        "request_throughput": span.per_s(completed),
        "request_goodput": cell.goodput.as_ref().map(|goodput| span.goodput(goodput)),
        "output_throughput": span.per_s(output),
        "total_token_throughput": span.per_s(input + output),
        "max_output_tokens_per_s": fullest.values().max().copied().unwrap_or(0) as f64,
        "max_concurrent_requests": most_at_once(rows, span.start())?,
        "rtfx": 0.0,
    })));
    let mut add = |name: &str, figures: Figures| {
        rest.insert(format!("mean_{name}_ms"), json!(figures.mean * 1e3));
        rest.insert(format!("std_{name}_ms"), json!(figures.std() * 1e3));
        for (q, value) in PERCENTILES.iter().zip(figures.quantiles(&PERCENTILES)) {
            let ms = json!(value * 1e3);
            if (*q - 0.5).abs() < f64::EPSILON {
                rest.insert(format!("median_{name}_ms"), ms.clone());
            }
            rest.insert(format!("p{}_{name}_ms", (q * 100.0).round()), ms);
        }
    };
    add("itl", itls);
    add("ttft", rows.figures(|row| row.ttft().or(Some(0.0)))?);
    add("tpot", rows.figures(Row::per_token)?);
    add("e2el", rows.figures(|row| row.latency().or(Some(0.0)))?);
    // the lists are the beginning of the same object
    let rest = serde_json::to_string(&rest)?;
    out.write_all(rest.trim_start_matches('{').as_bytes())
}

/// The lists, as the beginning of an object; gives the gaps, and puts the content events of completed requests into the seconds from `start`.
fn lists<S: Read + Seek>(
    rows: &mut Rows<'_, S>,
    start: f64,
    seconds: &mut BTreeMap<usize, u64>,
    out: &mut dyn Write,
) -> io::Result<Figures> {
    let mut itls = Figures::default();
    out.write_all(b"{")?;
    let mut list = |name: &str, value: &mut dyn FnMut(&mut S, &Row) -> io::Result<Value>| {
        write!(out, "\n\"{name}\":[")?;
        let mut between: &[u8] = b"";
        rows.each(|spill, row| {
            out.write_all(between)?;
            between = b",";
            Ok(serde_json::to_writer(&mut *out, &value(spill, row)?)?)
        })?;
        out.write_all(b"],")
    };
    list("input_lens", &mut |_, row| Ok(json!(row.input)))?;
    list("output_lens", &mut |_, row| Ok(json!(row.output)))?;
    let or_zero = |value: Option<f64>| Ok(json!(value.unwrap_or(0.0)));
    list("ttfts", &mut |_, row| or_zero(row.ttft()))?;
    list("latencies", &mut |_, row| or_zero(row.latency()))?;
    list("start_times", &mut |_, row| {
        Ok(json!(row.start.as_secs_f64()))
    })?;
    list("queue_times", &mut |_, row| {
        Ok(json!((row.start - row.due).or_zero().as_secs_f64()))
    })?;
    list("itls", &mut |spill, row| {
        let gaps = row.gaps(spill)?;
        let first = row.ttft().filter(|ttft| *ttft > 0.0);
        let mut at = row.start.as_secs_f64() + first.unwrap_or(0.0) - start;
        if first.is_some() {
            *seconds.entry(index(at)).or_default() += 1;
        }
        for gap in &gaps {
            at += gap;
            *seconds.entry(index(at)).or_default() += 1;
            itls.push(*gap);
        }
        Ok(gaps.into())
    })?;
    list("generated_texts", &mut |spill, row| row.text(spill))?;
    list("errors", &mut |spill, row| row.error(spill))?;
    Ok(itls)
}

fn identity(run: &RunRecord, cell: &CellRecord) -> Map<String, Value> {
    let model = run.server.model.clone().unwrap_or_default();
    let chat = run.server.api == "openai-chat";
    let backend = if chat { "openai-chat" } else { "openai" };
    let (rate, burstiness, concurrency) = match &cell.load {
        Load::Closed { concurrency, .. } => (json!("inf"), 1.0, json!(concurrency)),
        Load::Open {
            rate_per_s,
            arrival,
            in_flight_cap,
        } => (json!(rate_per_s), burstiness(arrival), json!(in_flight_cap)),
    };
    let mut out = object(json!({
        "date": date(&run.started_at),
        "endpoint_type": backend,
        "backend": backend,
        "label": null,
        "model_id": model,
        "tokenizer_id": model,
        "num_prompts": cell.counts.planned,
    }));
    let tags = run.tags.iter();
    out.extend(tags.map(|(key, value)| (key.clone(), value.clone().into())));
    out.extend(object(json!({
        "trust": run.trust.of_cell(&cell.id).as_str(),
        "request_rate": rate,
        "burstiness": burstiness,
        "max_concurrency": concurrency,
    })));
    out
}

/// That tool's burstiness is the shape of the gamma gaps: 1 / `CoV`².
fn burstiness(arrival: &ArrivalKind) -> f64 {
    match arrival {
        ArrivalKind::Gamma { cov } if *cov > 0.0 => 1.0 / (cov * cov),
        _ => 1.0,
    }
}

/// `2026-11-20T10:37:16Z` as `20261120-103716`.
fn date(rfc3339: &str) -> String {
    let digits = rfc3339.chars().filter(char::is_ascii_digit);
    let digits: String = digits.take(14).collect();
    match digits.split_at_checked(8) {
        Some((day, time)) => format!("{day}-{time}"),
        None => digits,
    }
}

/// Requests that touch the fullest second from `start`, which is what vLLM's tool calls concurrent.
fn most_at_once(rows: &mut Rows<'_, impl Read + Seek>, start: f64) -> io::Result<u64> {
    let mut changes = BTreeMap::<usize, (u64, u64)>::new();
    rows.each(|_, row| {
        if row.completed {
            let from = row.start.as_secs_f64() - start;
            let to = from + row.latency().unwrap_or(0.0);
            changes.entry(index(from)).or_default().0 += 1;
            changes.entry(index(to) + 1).or_default().1 += 1;
        }
        Ok(())
    })?;
    let (mut now, mut most) = (0_u64, 0);
    for (begun, ended) in changes.values() {
        now = (now + begun).saturating_sub(*ended);
        most = most.max(now);
    }
    Ok(most)
}
