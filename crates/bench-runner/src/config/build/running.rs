//! When to give up, the client's own shape, what to watch and what to write.

use super::path;
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

pub(super) fn machines(r: &mut Reader) -> MachineSettings {
    MachineSettings {
        server_metrics: r.text("server_metrics"),
        dcgm: r.text("dcgm"),
        prometheus: r.text("prometheus"),
        prometheus_queries: r.list("prometheus_query", |text| parse::pair(text, '=')),
        server_pid: r.one("server_pid", |text| parse::whole(text, 1, u32::MAX)),
        enabled: r.switch("hardware"),
        nvml: r.one("nvml", path),
    }
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
