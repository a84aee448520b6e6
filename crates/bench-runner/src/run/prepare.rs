//! Before the first request: the engine, the server, what sizes prompts, what is sampled, and how many files may be open.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bench_client::{Clock, Fetcher};
use bench_hardware::{Gpus, Sampler, SamplerConfig, ServerProcess};
use bench_insight::{Asked, PlannedCell, Target};
use bench_schema::{Factor, Load, Metric, Origin};
use bench_workload::{DatasetSpec, Draw, HfTokenizer, LengthSpec, Seed, TokenCounter, Words};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Run, aside};
use crate::config::{self, Place, Problem, Settings, Values};
use crate::entry::{Engine, Program};
use crate::folder;
use crate::launch::{self, Launched};
use crate::progress::Progress;
use crate::recorder::Recorder;
use crate::redact::Secrets;
use crate::server::{self, Server};
use crate::stop::Stop;
use crate::{Cell, RunError};

/// Requests of a cell up to which the server may be asked for the length of each prompt.
const MOST_ASKED: u64 = 10_000;

/// A longer wait before the first request is explained.
const SILENCE: Duration = Duration::from_secs(1);

/// What is to be measured, and what keeps it alive.
struct Servers {
    engine: Option<Engine>,
    launched: Option<Launched>,
    urls: Vec<String>,
    server: Server,
}

impl Servers {
    /// Start it where it has to be started, and wait until it answers.
    async fn by(
        program: &Program,
        settings: &Settings,
        clock: &Clock,
        progress: &Progress,
    ) -> Result<Self, RunError> {
        let urls = settings.target.urls();
        let of = |urls, server| Self {
            engine: None,
            launched: None,
            urls,
            server,
        };
        if settings.output.dry_run {
            return Ok(of(urls, Server::imagined(settings)?));
        }
        if settings.is_embedded() {
            progress.note(&format!(
                "no --url: starting the embedded engine ({})",
                settings.engine
            ));
            let running = (program.start_engine)(&settings.engine).map_err(RunError::Engine)?;
            let urls = vec![running.url.clone()];
            let mut server = Server::find(settings, &urls, clock, progress).await?;
            server.record.embedded = true;
            let engine = Some(running);
            return Ok(Self {
                engine,
                ..of(urls, server)
            });
        }
        launch::refuse_a_taken_port(settings, clock, progress).await?;
        let out = folder::wanted(settings, super::wall_clock());
        let Some(mut starting) = Launched::start(settings, &out)? else {
            let server = Server::find(settings, &urls, clock, progress).await?;
            return Ok(of(urls, server));
        };
        let server = starting.ready(settings, clock, progress).await?;
        let urls = starting.urls.clone();
        let launched = Some(starting);
        Ok(Self {
            launched,
            ..of(urls, server)
        })
    }
}

impl<'a> Run<'a> {
    /// Start what has to be started, find out what has to be known, and design the cells from it. A dry run touches no network.
    pub(super) async fn prepare(
        program: &'a Program,
        settings: &'a Settings,
    ) -> Result<(Self, Vec<Cell>), RunError> {
        let output = &settings.output;
        let wanted = output.progress && !output.quiet && !output.dry_run;
        let secrets = Secrets::of(settings);
        let progress = Progress::new(wanted, secrets.clone());
        let started = super::wall_clock();
        let clock = Clock::start();
        let found = Servers::by(program, settings, &clock, &progress).await?;
        let Servers {
            engine,
            launched,
            urls,
            mut server,
        } = found;
        let cells = told_apart(designed(program, settings, server.context()));
        let mut cells = of_all_shards(cells, settings)?;
        targets_are_of(&cells, server.target.endpoints.len(), settings)?;
        objectives_are_of(&cells, settings)?;
        secrets.hide_in_server(&mut server.record);
        // The settings were checked; what cannot be read all the same is told when the run is concluded.
        let asked = Asked::of(&settings.stored()).unwrap_or_default();
        if !output.dry_run {
            let keep_going = settings.limits.keep_going;
            match make_room_for(&cells, settings) {
                Some(few) if keep_going => progress.note(&format!("warning: {few}; requests that find none fail: raise the hard limit (ulimit -Hn), or use fewer streams")),
                Some(few) => return Err(RunError::Client(format!("{few}\n  help: raise the hard limit (ulimit -Hn), or use fewer streams; use --keep-going to measure anyway"))),
                None => {}
            }
        }
        let mut run = Self {
            program,
            settings,
            secrets,
            engine,
            launched,
            urls,
            server,
            token_counter: Arc::new(Words),
            started,
            clock,
            stop: Stop::new(),
            progress,
            live: None,
        };
        if let Some(search) = &asked.search {
            let first = search.next(&asked.all_slos(), &[]);
            let first = first.and_then(|first| run.stage(search, first, 0));
            cells = first.into_iter().collect();
        }
        // what does not go together is said before the first request, and leaves no folder
        let mut specs = cells.iter().map(|cell| run.spec(cell, 0));
        let checked = specs.try_for_each(|spec| spec.check());
        checked.map_err(RunError::Workload)?;
        run.token_counter = run.choose_token_counter(&cells).await?;
        Ok((run, cells))
    }

    /// What sizes prompts: the tokenizer that was given, else the server's, else words. The server is asked before a measurement,
    /// never during it, so its tokenizer is used only where every plan can be walked beforehand.
    async fn choose_token_counter(
        &self,
        cells: &[Cell],
    ) -> Result<Arc<dyn TokenCounter>, RunError> {
        if let Some(path) = &self.settings.workload.tokenizer {
            let path = path.clone();
            let open = move || HfTokenizer::open(&path).map_err(RunError::Workload);
            let counter: Arc<dyn TokenCounter> = Arc::new(aside("tokenizer", open).await??);
            // To free its hundred thousand texts one by one takes longer than to write the reports, and the process is over then.
            std::mem::forget(Arc::clone(&counter));
            return Ok(counter);
        }
        let walkable = |cell: &Cell| cell.stop.requests.is_some_and(|n| n <= MOST_ASKED);
        if let Some(fetcher) = &self.server.fetcher
            && cells.iter().all(walkable)
        {
            let (fetcher, clock) = (fetcher.clone(), self.clock.clone());
            let model = self.server.target.model.clone();
            let ask = move || server::token_counter(&fetcher, &model, &clock);
            let asked = aside("tokenize", ask);
            tokio::pin!(asked);
            let found = tokio::select! {
                found = &mut asked => found,
                () = tokio::time::sleep(SILENCE) => {
                    self.progress.note("waiting for the server to answer /tokenize; --tokenizer makes that unnecessary");
                    asked.await
                }
            };
            return Ok(found??.unwrap_or_else(|| Arc::new(Words)));
        }
        Ok(Arc::new(Words))
    }

    /// Start the sampler, if it is wanted. Its readings go the way of the records.
    pub(super) fn start_sampler(&self, recorder: &Recorder) -> Result<Option<Sampler>, RunError> {
        let machines = &self.settings.machines;
        if !machines.hardware {
            return Ok(None);
        }
        let gpus = if self.serves_here() {
            config::gpus(machines)
        } else {
            Gpus::LeftOut(ELSEWHERE.to_owned())
        };
        let config = SamplerConfig {
            server: machines
                .server_pid
                .or(self.engine.as_ref().map(|engine| engine.pid))
                .map(ServerProcess::Pid)
                .or_else(|| self.server_port()),
            server_metrics: self.metric_pages(),
            dcgm: machines
                .dcgm
                .iter()
                .map(|url| url.expose().to_owned())
                .collect(),
            prometheus: config::prometheus(machines),
            gpus,
            ..SamplerConfig::default()
        };
        let (clock, recorder) = (self.clock.clone(), recorder.clone());
        let fetch = self.pages(&config)?;
        let sampler = Sampler::start(
            &config,
            move || clock.now(),
            fetch,
            move |reading| recorder.reading(reading),
        );
        sampler
            .map(Some)
            .map_err(|error| RunError::Client(error.to_string()))
    }

    /// What brings the sampler its pages: the fetcher that has asked the server what it is.
    fn pages(&self, config: &SamplerConfig) -> Result<Arc<dyn bench_hardware::Fetch>, RunError> {
        let Some(mut fetcher) = self.server.fetcher.clone() else {
            return Ok(Arc::new(bench_hardware::NoFetch));
        };
        if let (Some(server), Some(told)) =
            (&config.prometheus, &self.settings.credentials.prometheus)
        {
            fetcher = fetcher.authorized(&server.url, told)?;
        }
        let _for_the_probe = fetcher.take_cpu();
        Ok(Arc::new(Pages { fetcher }))
    }

    /// The server's pages: those that were named, else the usual place of each URL.
    fn metric_pages(&self) -> Vec<String> {
        if let Some(pages) = self.settings.machines.server_pages() {
            return pages;
        }
        usual_pages(&self.urls, self.server.record.kind.as_deref())
    }

    /// Whether this host's GPUs may be the server's: it is ours, its process or the driver's library was named, or its address is
    /// of this host. (An address is, if one can listen on it; a name other than `localhost` is taken to be elsewhere.)
    fn serves_here(&self) -> bool {
        let machines = &self.settings.machines;
        let own = |address| std::net::TcpListener::bind((address, 0)).is_ok();
        self.engine.is_some()
            || machines.server_pid.is_some()
            || machines.nvml.is_some()
            || self
                .server
                .target
                .endpoints
                .iter()
                .all(|endpoint| endpoint.is_loopback() || endpoint.address().is_some_and(own))
    }

    /// A server on this host is found by the port it listens on.
    fn server_port(&self) -> Option<ServerProcess> {
        let endpoint = self.server.target.endpoints.first()?;
        endpoint.loopback_port().map(ServerProcess::Port)
    }
}

/// Where a server of this kind shows its metrics: TensorRT-LLM's has its iterations, as JSON, where others have the page.
fn usual_pages(urls: &[String], kind: Option<&str>) -> Vec<String> {
    let path = match kind {
        Some("tensorrt_llm") => "/prometheus/metrics",
        _ => "/metrics",
    };
    let base = |url: &str| url.trim_end_matches('/').trim_end_matches("/v1").to_owned();
    urls.iter()
        .map(|url| format!("{}{path}", base(url)))
        .collect()
}

/// The cells of the design, or those of the design of each combination of factors.
fn designed(program: &Program, settings: &Settings, context: Option<u64>) -> Vec<Cell> {
    let crossed = &settings.load.crossed;
    if crossed.is_empty() {
        return (program.design)(settings, context);
    }
    let of = |(values, own): &(Values, Settings)| {
        let cells = (program.design)(own, context).into_iter();
        let cells = cells.map(|cell| named_by(cell, values));
        cells.collect::<Vec<_>>()
    };
    let mut cells: Vec<Cell> = crossed.iter().flat_map(of).collect();
    if !settings.load.in_order {
        let mut draw = Draw::new(Seed::new(settings.seed).stream("cells", ""));
        draw.shuffle(&mut cells);
    }
    cells
}

/// A cell with the values that it differs in from others, as far as its design does not name it by them.
fn named_by(mut cell: Cell, values: &Values) -> Cell {
    let own = |name: &str| cell.factors.contains_key(name);
    let more: Vec<_> = values.iter().filter(|(name, _)| !own(name)).collect();
    for (name, value) in more {
        let safe = |c: char| c.is_ascii_alphanumeric() || ".+-_".contains(c);
        let short: String = value.replace(|c| !safe(c), "-").chars().take(24).collect();
        let short = match name.as_str() {
            "input_tokens" => format!("i{short}"),
            "output_tokens" => format!("o{short}"),
            name => format!("{name}-{short}"),
        };
        cell.id = format!("{short}-x-{}", cell.id);
        cell.label = format!("{}, {} {value}", cell.label, name.replace('_', " "));
        let number: Option<f64> = value.parse().ok();
        let factor = number.map_or_else(|| Factor::from(value.as_str()), Factor::from);
        cell.factors.insert(name.clone(), factor);
    }
    cell
}

/// A level that is measured again (a sweep up and back down, to see a drift) is a cell of its own: with the same id its records and prompts
/// could not be told from the first one's.
fn told_apart(mut cells: Vec<Cell>) -> Vec<Cell> {
    let mut seen = BTreeMap::<String, u32>::new();
    for cell in &mut cells {
        let times = seen.entry(cell.id.clone()).or_default();
        *times += 1;
        if *times > 1 {
            cell.id = format!("{}-again{times}", cell.id);
            cell.label = format!("{} (time {times})", cell.label);
        }
    }
    cells
}

/// The cells with the load of all shards together, of which each has at least one slot. A search begins with fewer, which some shards sit out.
fn of_all_shards(mut cells: Vec<Cell>, settings: &Settings) -> Result<Vec<Cell>, RunError> {
    let client = &settings.client;
    let (_, count) = client.part();
    if settings.load.find_capacity {
        return Ok(cells);
    }
    if client.per_shard {
        for cell in &mut cells {
            cell.load = cell.load.times(count);
        }
    }
    let fewest = |cell: &Cell| cell.load.fewest_in_flight().filter(|&least| least < count);
    let short = cells
        .iter()
        .find_map(|cell| Some((cell, fewest(cell)?)))
        .map(|(cell, least)| {
            let message = format!(
                "{count} shards cannot share {least} in flight in cell {} ({})",
                cell.id, cell.label
            );
            let help = "use fewer shards or a higher concurrency; with `per_shard`, each shard uses the full number";
            problem("shard", message, help.to_owned())
        });
    refused(short.into_iter())?;
    Ok(cells)
}

/// That targets name cells, levels and groups that are there, and figures that they have: a run of hours is no place to find a misspelt one.
fn targets_are_of<'a>(
    cells: &'a [Cell],
    endpoints: usize,
    settings: &Settings,
) -> Result<(), RunError> {
    let planned = |cell: &'a Cell| {
        let Cell {
            id, factors, load, ..
        } = cell;
        let open = load.is_open();
        PlannedCell { id, factors, open }
    };
    let planned: Vec<_> = cells.iter().map(planned).collect();
    let has_objectives = !settings.objectives.slo.is_empty();
    let is_factor = |name: &str| cells.iter().any(|cell| cell.factors.contains_key(name));
    let written = settings.objectives.target.iter();
    let targets = written.filter_map(|text| Some((text, Target::parse(text).ok()?)));
    let problems = targets.filter_map(|(text, target)| {
        let of_group = |label| target.level(label).filter(|_| !is_factor(label));
        let no_objectives = || {
            (target.needs_objectives() && !has_objectives).then(|| {
                let message = format!("`{text}`: there are no objectives");
                (message, "set objectives with --slo".to_owned())
            })
        };
        let of_search = || match (settings.load.find_capacity, target.is_of_capacity()) {
            (true, false) => {
                let message = format!(
                    "`{text}`: a search overloads the server on purpose, so this target would be missed"
                );
                Some((message, "write capacity>=LOAD, or remove it".to_owned()))
            }
            (false, true) => {
                let message = format!("`{text}`: there is no capacity search");
                Some((message, "add --find-capacity".to_owned()))
            }
            _ => None,
        };
        let one_endpoint = || {
            of_group("endpoint").filter(|_| endpoints < 2)?;
            let message = format!("`{text}`: there is only one endpoint");
            Some((message, "remove `endpoint=`".to_owned()))
        };
        let no_use_case = || {
            let known = use_cases(cells)?;
            no_use_case(of_group("use_case")?, &known)
        };
        let (message, help) = target
            .misplaced(&planned)
            .or_else(of_search)
            .or_else(no_objectives)
            .or_else(|| unmeasured(target.metric()?, cells, settings))
            .or_else(one_endpoint)
            .or_else(no_use_case)?;
        Some(problem("target", message, help))
    });
    refused(problems)
}

/// Something wrong in a flag.
fn problem(flag: &str, message: String, help: String) -> Problem {
    Problem {
        place: Place::Flag(flag.to_owned()),
        key: flag.to_owned(),
        message,
        help: Some(help),
    }
}

/// What speaks against beginning at all.
fn refused(problems: impl Iterator<Item = Problem>) -> Result<(), RunError> {
    let problems: Vec<_> = problems.collect();
    if problems.is_empty() {
        Ok(())
    } else {
        Err(RunError::Config(problems))
    }
}

/// That no answer will have a metric, where the flags show it, and what could be asked instead.
fn unmeasured(metric: Metric, cells: &[Cell], settings: &Settings) -> Option<(String, String)> {
    let between = matches!(
        metric,
        Metric::Ttst | Metric::Icl | Metric::Itl | Metric::Tpot | Metric::TokensPerSUser
    );
    let streamed = matches!(
        metric.from_origin(Origin::Sent),
        Metric::Ttft | Metric::Ttfa
    ) || matches!(metric, Metric::Prefill | Metric::Decode);
    let one_token = |cell: &Cell| cell.output == Some(LengthSpec::Fixed(1));
    let (why, otherwise) = if !settings.target.stream && (between || streamed) {
        (
            "answers are not streamed (`--no-stream`)",
            "remove `--no-stream`",
        )
    } else if between && !cells.is_empty() && cells.iter().all(one_token) {
        (
            "answers have one token (`--output-tokens 1`)",
            "ask for longer answers",
        )
    } else {
        return None;
    };
    let name = metric.title();
    let message = format!("no request will have {name}: {why}");
    Some((message, format!("limit another metric, or {otherwise}")))
}

/// That some request can have what objectives limit, and be of the use cases which they name, where flags and datasets tell.
fn objectives_are_of(cells: &[Cell], settings: &Settings) -> Result<(), RunError> {
    let slos = settings.objectives.slo.iter();
    refused(slos.clone().filter_map(|slo| {
        let (message, help) = unmeasured(slo.metric, cells, settings)?;
        Some(problem("slo", message, help))
    }))?;
    let mut named = slos.filter_map(|slo| slo.use_case.as_deref()).peekable();
    if named.peek().is_none() {
        return Ok(());
    }
    let Some(known) = use_cases(cells) else {
        return Ok(());
    };
    let unknown = named.filter_map(|name| no_use_case(name, &known));
    refused(unknown.map(|(message, help)| problem("slo", message, help)))
}

/// The use cases that requests can be of, where the datasets tell.
fn use_cases(cells: &[Cell]) -> Option<BTreeSet<String>> {
    let mut datasets: Vec<(&DatasetSpec, bool)> = Vec::new();
    for cell in cells {
        let of_it = (&cell.dataset, cell.output.is_some());
        if !datasets.contains(&of_it) {
            datasets.push(of_it);
        }
    }
    let known = datasets.iter();
    let known: Option<Vec<_>> = known.map(|(of, sized)| of.use_cases(*sized)).collect();
    Some(known?.into_iter().flatten().collect())
}

/// That no request can be of a use case, and what could be asked instead.
fn no_use_case(name: &str, known: &BTreeSet<String>) -> Option<(String, String)> {
    let (few, more) = (known.iter().take(MOST_NAMED), known.len() > MOST_NAMED);
    let few: Vec<&str> = few.map(String::as_str).collect();
    let help = match few.as_slice() {
        [] => "these requests have no use cases (those of `mixed` have none with `--output-tokens`); remove the use case to include all requests".to_owned(),
        few => format!(
            "the use cases are {}{}",
            few.join(", "),
            if more { ", …" } else { "" }
        ),
    };
    let message = format!("there is no use case `{name}`");
    (!known.contains(name)).then_some((message, help))
}

/// Use cases that are named for help.
const MOST_NAMED: usize = 20;

/// Why this host's GPUs are not read.
const ELSEWHERE: &str = "the server is on another host, so this host's GPUs are not sampled; give its exporter with --dcgm or --prometheus (or this host's library \
     with --nvml, if the server is on this host after all)";

/// The sampler has no HTTP of its own: the client's brings its pages.
struct Pages {
    fetcher: Fetcher,
}

impl bench_hardware::Fetch for Pages {
    fn get(&self, url: &str, limits: bench_hardware::FetchLimits) -> Result<Vec<u8>, String> {
        self.fetcher.get(url, limits.timeout, limits.max_bytes)
    }

    fn take_cpu(&self) -> bench_schema::Nanos {
        self.fetcher.take_cpu()
    }
}

/// Files that are open beside the streams: journals, runtimes, timers, the sampler's.
const BESIDE: u64 = 64;

/// Raise the limit on open files as far as the system allows. Where even that is too low for the streams of a cell, say so now: requests that fail
/// because of it would be taken for the server's.
fn make_room_for(cells: &[Cell], settings: &Settings) -> Option<String> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // a refusal leaves what there was
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let shares_connections = settings.target.http2;
    let (index, count) = settings.client.part();
    let loads = cells.iter().map(|cell| cell.load.part(index, count));
    let streams = loads.filter_map(|load| streams(&load)).max().unwrap_or(0);
    widen_table((streams + BESIDE).max(USUAL), allowed);
    short(streams, allowed).filter(|_| !shares_connections)
}

/// Open files that there is room for whatever is asked: an open loop does not say how many it will need.
const USUAL: u64 = 16_384;

/// Let the kernel's table of this process's open files have its size now. Linux doubles it when it is full (at 64, 128, 256 and so on), and whoever
/// opens the one file too many waits until no processor looks at the old table any more: a worker that did stood still for 10 to 25 ms.
fn widen_table(files: u64, allowed: Option<u64>) {
    let highest = files.min(allowed.unwrap_or(u64::MAX)).saturating_sub(1);
    if let Ok(highest) = i32::try_from(highest) {
        // a refusal leaves what there was
        let _widened = rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), highest);
    }
}

/// The most streams that a load has at once, where it says so.
fn streams(load: &Load) -> Option<u64> {
    match load {
        Load::Closed { concurrency, .. } => Some(u64::from(*concurrency)),
        Load::Open { in_flight_cap, .. } => in_flight_cap.map(u64::from),
    }
}

fn short(streams: u64, allowed: Option<u64>) -> Option<String> {
    let (needed, allowed) = (streams + BESIDE, allowed?);
    let who = match streams {
        0 => "a run needs".to_owned(),
        _ => format!("{streams} streams need"),
    };
    (needed > allowed).then(|| {
        format!(
            "{who} about {needed} open files, but the system allows this process only {allowed}"
        )
    })
}

#[cfg(test)]
#[path = "../../tests/unit/run_prepare.rs"]
mod tests;
