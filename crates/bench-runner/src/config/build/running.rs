//! When to give up, the client's own shape, what to watch and what to write.

use bench_client::Endpoint;
use bench_hardware::PrometheusQueries;
use bench_schema::Secret;

use super::{Surroundings, path, variable};
use crate::config::parse;
use crate::config::reader::Reader;
use crate::config::settings::{
    ClientSettings, LimitSettings, MachineSettings, OutputSettings, Stdout,
};

pub(super) fn limits(r: &mut Reader) -> Option<LimitSettings> {
    let whole = r.one("timeout", parse::positive_duration)?;
    Some(LimitSettings {
        whole,
        connect: r.one("connect_timeout", parse::positive_duration)?,
        first_token: r
            .one("first_token_timeout", parse::positive_duration)
            .unwrap_or(whole),
        between_tokens: r
            .one("token_timeout", parse::positive_duration)
            .unwrap_or(whole),
        deadline: r.one("deadline", parse::positive_duration),
        grace: r.one("grace", parse::duration)?,
        keep_going: r.switch("keep_going"),
    })
}

pub(super) fn client(r: &mut Reader) -> ClientSettings {
    let shard = |text: &str| -> Result<(u32, u32), String> {
        let (index, count) = parse::pair(text, '/')
            .map_err(|_| format!("must be written I/N, such as 0/4 (got `{text}`)"))?;
        let count = parse::whole(&count, 1, 100_000)?;
        Ok((parse::whole(&index, 0, count - 1)?, count))
    };
    ClientSettings {
        workers: r.one("workers", |text| parse::whole(text, 1, 1024)),
        late_read: r.switch("late_read"),
        shard: r.one("shard", shard).unwrap_or((0, 1)),
        start_at: r.one("start_at", |text| {
            crate::wall_clock::parse_rfc3339(text).map(|_| text.to_owned())
        }),
    }
}

pub(super) fn machines(r: &mut Reader, around: &dyn Surroundings) -> MachineSettings {
    MachineSettings {
        server_metrics: server_metrics(r),
        dcgm: r.list("dcgm", page),
        prometheus: prometheus(r),
        prometheus_authorization: prometheus_authorization(r, around),
        server_pid: r.one("server_pid", |text| parse::whole(text, 1, u32::MAX)),
        enabled: r.switch("hardware"),
        nvml: r.one("nvml", path),
    }
}

/// The pages that were named: none of them, where that is what was asked for.
fn server_metrics(r: &mut Reader) -> Option<Vec<String>> {
    let pages = r.list("server_metrics", |text| match text {
        "none" => Ok(None),
        url => page(url).map(Some),
    });
    (!pages.is_empty()).then(|| pages.into_iter().flatten().collect())
}

/// The address of a page of metrics.
fn page(url: &str) -> Result<String, String> {
    let usable = Endpoint::parse_page(url).map_err(|error| error.to_string());
    usable.map(|_| url.to_owned())
}

fn prometheus(r: &mut Reader) -> Option<PrometheusQueries> {
    let url = r.one("prometheus", page)?;
    let queries = r.list("prometheus_query", |text| parse::pair(text, '='));
    // Asked for nothing by name, it is asked for the GPUs, which nobody else may know.
    let gpus = r.text("prometheus_gpus");
    let gpus = gpus.or_else(|| queries.is_empty().then(String::new));
    Some(PrometheusQueries { url, gpus, queries })
}

fn prometheus_authorization(r: &mut Reader, around: &dyn Surroundings) -> Option<Secret> {
    let token = variable(r, "prometheus_token_env", around)?;
    let token = token.trim();
    Some(Secret::new(if token.starts_with("Basic ") {
        token.to_owned()
    } else {
        format!("Bearer {token}")
    }))
}

pub(super) fn output(r: &mut Reader) -> Option<OutputSettings> {
    let stdout = r.one("output", |text| match text {
        "table" => Ok(Stdout::Table),
        "json" => Ok(Stdout::Json),
        "markdown" => Ok(Stdout::Markdown),
        other => Err(format!("must be table, json or markdown (got `{other}`)")),
    });
    Some(OutputSettings {
        out: r.one("out", path),
        tags: r.list("tag", |text| parse::pair(text, '=')),
        stdout: stdout?,
        html: r.switch("html"),
        progress: r.switch("progress"),
        quiet: r.switch("quiet"),
        dry_run: r.switch("dry_run"),
    })
}
