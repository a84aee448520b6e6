//! What planning costs: a million requests of 550 tokens, and exact lengths with a tokenizer.

use std::hint::black_box;
use std::sync::Arc;

use bench_schema::{ArrivalKind, Load, Prompt};
use bench_workload::{DatasetSpec, HfTokenizer, Plan, PlanSpec, TokenCounter, Words};
use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use tokenizers::Tokenizer;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

const MILLION: u64 = 1_000_000;

fn plan(dataset: &str, requests: u64, token_counter: Arc<dyn TokenCounter>) -> Option<Plan> {
    let spec = PlanSpec {
        dataset: dataset.parse().ok()?,
        input: Some("550".parse().ok()?),
        output: Some("128".parse().ok()?),
        load: Load::Open {
            rate_per_s: Some(1_000.0),
            arrival: ArrivalKind::Poisson,
            in_flight_cap: None,
        },
        requests: Some(requests),
        chat: !dataset.starts_with("random-ids"), // ids go to completions
        ..PlanSpec::default()
    };
    Plan::new(spec, token_counter).ok()
}

/// Bytes of all prompts, so that nothing can be left out.
fn walk(plan: Option<&Plan>) -> usize {
    let planned = plan.into_iter().flat_map(Plan::iter).filter_map(Result::ok);
    planned
        .map(|planned| match planned.item.request.prompt {
            Prompt::Text(text) => text.len(),
            Prompt::TokenIds(ids) => ids.len(),
            Prompt::Messages(messages) => messages.len(),
        })
        .sum()
}

fn bpe() -> Option<Arc<dyn TokenCounter>> {
    let folder = tempfile::tempdir().ok()?;
    let file = folder.path().join("tokenizer.json");
    tokenizer()?.save(&file, false).ok()?;
    Some(Arc::new(HfTokenizer::open(&file).ok()?))
}

/// Byte-level BPE trained on this crate's own texts.
fn tokenizer() -> Option<Tokenizer> {
    let mut tokenizer = Tokenizer::new(BPE::default());
    tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
    tokenizer.with_decoder(Some(ByteLevel::default()));
    let trainer = BpeTrainerBuilder::new()
        .show_progress(false)
        .vocab_size(2_000)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    let texts = [
        include_str!("../src/builtin_prompts/text.txt"),
        include_str!("../src/builtin_prompts/words.txt"),
    ];
    let lines = texts
        .iter()
        .flat_map(|text| text.lines())
        .map(str::to_owned);
    tokenizer
        .train(&mut TrainerWrapper::from(trainer), lines)
        .ok()?;
    Some(tokenizer)
}

/// Most memory that this process has had, as Linux tells it.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.unwrap_or("VmHWM: unknown").to_owned()
}

#[expect(clippy::print_stderr, reason = "criterion has no place for memory")]
fn a_million(c: &mut Criterion) {
    let mut group = c.benchmark_group("plan");
    group
        .sample_size(10)
        .sampling_mode(SamplingMode::Flat)
        .throughput(Throughput::Elements(MILLION));
    eprintln!("before a million requests: {}", peak_memory());
    let random = plan("random", MILLION, Arc::new(Words));
    group.bench_function("a million random requests of 550 words", |b| {
        b.iter(|| black_box(walk(random.as_ref())));
    });
    eprintln!(
        "after a million requests, made one by one: {}",
        peak_memory()
    );
    group.finish();
}

fn smaller(c: &mut Criterion) {
    let mut group = c.benchmark_group("plan of 1000 requests of 550");
    group
        .sample_size(20)
        .throughput(Throughput::Elements(1_000));
    for dataset in ["text", "mixed", "random-ids:32000"] {
        let plan = plan(dataset, 1_000, Arc::new(Words));
        group.bench_function(format!("{dataset} by words"), |b| {
            b.iter(|| black_box(walk(plan.as_ref())));
        });
    }
    if let Some(token_counter) = bpe() {
        for dataset in ["random", "text"] {
            let plan = plan(dataset, 1_000, Arc::clone(&token_counter));
            group.bench_function(format!("{dataset} by tokens, verified"), |b| {
                b.iter(|| black_box(walk(plan.as_ref())));
            });
        }
    }
    group.finish();
}

/// Prompts of 64 tokens, made with a tokenizer; beside them what encoding the same texts once costs.
fn composed(c: &mut Criterion) {
    let Some(token_counter) = bpe() else { return };
    let spec = PlanSpec {
        input: "64".parse().ok(),
        requests: Some(1_000),
        dataset: DatasetSpec::Random,
        ..PlanSpec::default()
    };
    let texts: Vec<Arc<str>> = Plan::new(spec.clone(), Arc::clone(&token_counter))
        .iter()
        .flat_map(Plan::iter)
        .filter_map(Result::ok)
        .filter_map(|planned| match planned.item.request.prompt {
            Prompt::Text(text) => Some(text),
            _ => None,
        })
        .collect();
    let mut group = c.benchmark_group("1000 prompts of 64 tokens");
    group
        .sample_size(20)
        .throughput(Throughput::Elements(1_000));
    for dataset in ["random", "text", "mixed", "prefix:2:40:24"] {
        let spec = PlanSpec {
            dataset: dataset.parse().unwrap_or(DatasetSpec::Random),
            ..spec.clone()
        };
        let plan = Plan::new(spec, Arc::clone(&token_counter)).ok();
        group.bench_function(dataset, |b| b.iter(|| black_box(walk(plan.as_ref()))));
    }
    if let Some(whole) = tokenizer() {
        group.bench_function("encoding each text once", |b| {
            b.iter(|| {
                let tokens =
                    |text: &Arc<str>| whole.encode_fast(&**text, false).map_or(0, |e| e.len());
                black_box(texts.iter().map(tokens).sum::<usize>())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, a_million, smaller, composed);
criterion_main!(benches);
