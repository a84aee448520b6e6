//! The sampler as the runner uses it: real threads, real `/proc`, real sockets on the loopback.

use std::sync::Arc;
use std::time::Duration;

use bench_hardware::{Fetch, FetchLimits, NoFetch, Sampler, SamplerConfig, ServerProcess};
use bench_schema::{Reading, ReadingSource};

use crate::common::{sample, without_gpus};
use crate::pages::{Manner, PlainHttp, serve};

fn fast() -> SamplerConfig {
    SamplerConfig {
        host_every: Duration::from_millis(20),
        scrape_every: Duration::from_millis(20),
        scrape_timeout: Duration::from_millis(300),
        scrape_max_bytes: 1 << 20,
        ..without_gpus()
    }
}

fn of(readings: &[Reading], source: ReadingSource) -> Vec<&Reading> {
    readings
        .iter()
        .filter(|r| r.source == source && !r.instance.starts_with("sampler."))
        .collect()
}

#[test]
#[cfg(target_os = "linux")]
fn host_and_client_are_read_with_windows_that_move_forward_and_counters_that_do_not_fall() {
    let enough = |readings: &[Reading]| of(readings, ReadingSource::Host).len() >= 10;
    let (readings, report) = sample(&fast(), Arc::new(NoFetch), enough);
    for source in [ReadingSource::Host, ReadingSource::Client] {
        let readings = of(&readings, source);
        assert!(readings.iter().all(|r| r.from <= r.to));
        for pair in readings.windows(2) {
            assert!(pair[0].to <= pair[1].from);
            for (name, value) in &pair[0].values {
                let later = pair[1].values.get(name);
                let counter = bench_schema::is_counter(name) && name != "cpu_iowait_s_total";
                assert!(
                    !counter || later.is_none_or(|later| later >= value),
                    "{name} fell"
                );
            }
        }
    }
    assert!(report.unknown.is_empty(), "{:?}", report.unknown);
    assert_eq!(report.dropped(), 0);
    assert!(report.cpu().get() > 0 && report.cpu_share().unwrap() < 1.0);
    let own_cost = readings
        .iter()
        .filter(|r| r.instance == "sampler.host")
        .count();
    assert!(
        own_cost >= 2,
        "the cost is said at the start and at the end"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn a_server_is_found_by_the_port_it_listens_on() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let config = SamplerConfig {
        server: Some(ServerProcess::Port(listener.local_addr().unwrap().port())),
        ..fast()
    };
    let enough = |readings: &[Reading]| of(readings, ReadingSource::ServerProcess).len() >= 3;
    let (readings, _) = sample(&config, Arc::new(NoFetch), enough);
    let server = of(&readings, ReadingSource::ServerProcess)[0];
    assert_eq!(server.instance, std::process::id().to_string());
    assert!(server.values["memory_resident_bytes"] > 1e5);
    assert!(server.values["processes"] >= 1.0);
}

#[test]
fn a_server_that_is_not_there_is_named_once_and_costs_nothing_else() {
    let config = SamplerConfig {
        server: Some(ServerProcess::Pid(u32::MAX)),
        ..fast()
    };
    let enough = |readings: &[Reading]| of(readings, ReadingSource::Client).len() >= 5;
    let (readings, _) = sample(&config, Arc::new(NoFetch), enough);
    let server = of(&readings, ReadingSource::ServerProcess);
    assert_eq!(server.len(), 1, "{server:?}");
    assert!(server[0].values.is_empty() && server[0].unknown.contains_key("process"));
}

/// Why the page at `url` could not be used, as far as that has been said.
fn said(readings: &[Reading], url: &str) -> Option<String> {
    of(readings, ReadingSource::ServerMetrics)
        .iter()
        .filter(|r| r.instance == url)
        .find_map(|r| r.unknown.get("page").cloned())
}

fn good_pages(readings: &[Reading]) -> usize {
    of(readings, ReadingSource::ServerMetrics)
        .iter()
        .filter(|r| r.values.contains_key("running"))
        .count()
}

/// Servers that misbehave, and the word that their pages' failure is described with.
fn misbehaving() -> [(Manner, &'static str); 5] {
    let page = |text: &'static str| Manner::Page(Box::new(move |_| text.into()));
    [
        (Manner::Silent, "no answer in time"),
        (
            page("<html><body>hello</body></html>"),
            "not a metrics page",
        ),
        (Manner::Endless, "longer than 1048576 bytes"),
        (Manner::Status("500 Oh"), "a status other than 200"),
        (
            page("# TYPE go_threads gauge\ngo_threads 9\n"),
            "none of its metrics",
        ),
    ]
}

#[test]
fn pages_that_are_slow_wrong_huge_or_absent_lose_nothing_else_and_are_said() {
    let (good, _good) = serve(Manner::Page(Box::new(|number| {
        format!(
            "vllm:num_requests_running 1\nvllm:generation_tokens_total {}\n",
            number * 10
        )
        .into()
    })));
    let mut guards = Vec::new();
    let mut bad: Vec<(String, &str)> = Vec::new();
    for (manner, word) in misbehaving() {
        let (url, guard) = serve(manner);
        guards.push(guard);
        bad.push((url, word));
    }
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    bad.push((
        format!("http://{nobody}/metrics"),
        "connect: ConnectionRefused",
    ));
    let urls: Vec<String> = bad.iter().map(|(url, _)| url.clone()).collect();
    let config = SamplerConfig {
        server_metrics: urls.iter().chain([&good]).cloned().collect(),
        // only the silent one may be out of time, however busy this machine is
        scrape_timeout: Duration::from_secs(3),
        ..fast()
    };
    let (readings, report) = sample(&config, Arc::new(PlainHttp), move |readings| {
        good_pages(readings) >= 5
            && of(readings, ReadingSource::Host).len() >= 5
            && urls.iter().all(|url| said(readings, url).is_some())
    });
    for (url, word) in &bad {
        let reason = said(&readings, url).unwrap();
        assert!(reason.contains(word), "{reason:?} lacks {word:?}");
    }
    let silent = readings.iter().rfind(|r| r.instance == bad[0].0).unwrap();
    assert!(silent.values["scrape_failures_total"] >= 1.0);
    assert_eq!(report.unknown, [].into());
}

#[test]
fn a_slow_page_does_not_hold_up_the_host() {
    let (url, _server) = serve(Manner::Silent);
    let config = SamplerConfig {
        server_metrics: vec![url],
        scrape_timeout: Duration::from_secs(1),
        ..fast()
    };
    // While the first scrape waits for its second, the host is read at every tick.
    let enough = |readings: &[Reading]| !of(readings, ReadingSource::ServerMetrics).is_empty();
    let (readings, report) = sample(&config, Arc::new(PlainHttp), enough);
    let scrape = of(&readings, ReadingSource::ServerMetrics)[0];
    let meanwhile = of(&readings, ReadingSource::Host)
        .iter()
        .filter(|r| r.from >= scrape.from && r.to <= scrape.to)
        .count();
    assert!(
        meanwhile >= 3,
        "{meanwhile} host readings during the scrape"
    );
    let page = report
        .sources
        .iter()
        .find(|s| s.source == "server_metrics")
        .unwrap();
    assert!(page.missed_ticks > 0 && page.longest.as_secs_f64() > 0.5);
}

/// A page that is answered only when the test says so.
struct Held(std::sync::Mutex<std::sync::mpsc::Receiver<()>>);

impl Fetch for Held {
    fn get(&self, _url: &str, _limits: FetchLimits) -> Result<Vec<u8>, String> {
        let held = self.0.lock().map_err(|error| error.to_string())?;
        let released = held.recv();
        released.map_or_else(
            |gone| Err(gone.to_string()),
            |()| Ok(b"vllm:num_requests_running 1\n".to_vec()),
        )
    }
}

#[test]
fn what_is_read_on_demand_has_been_handed_on_when_the_call_returns() {
    let taken = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = taken.clone();
    let hour = Duration::from_hours(1);
    let config = SamplerConfig {
        host_every: hour,
        scrape_every: hour,
        ..fast()
    };
    let keep = move |reading| sink.lock().unwrap().push(reading);
    let sampler = Sampler::start(&config, crate::common::clock(), Arc::new(NoFetch), keep).unwrap();
    let hosts = || of(&taken.lock().unwrap(), ReadingSource::Host).len();
    let patience = Duration::from_secs(30);
    sampler.read_now(patience);
    // the first tick may be among them or not, but each call adds one
    let before = hosts();
    sampler.read_now(patience);
    assert_eq!(hosts(), before + 1);
    sampler.stop();
    // each is whole, also in what ticks read once a second: a window that ends here ends within readings of all series
    let taken = taken.lock().unwrap();
    let named = |reading: &Reading| {
        let names = reading.values.keys().chain(reading.unknown.keys());
        names.cloned().collect::<std::collections::BTreeSet<_>>()
    };
    let named: Vec<_> = of(&taken, ReadingSource::Host)
        .into_iter()
        .map(named)
        .collect();
    assert!(named.len() > before);
    assert!(
        named[..=before].iter().all(|names| *names == named[0]),
        "{named:?}"
    );
}

#[test]
fn a_page_that_does_not_answer_is_not_waited_for_beyond_the_patience() {
    let (release, held) = std::sync::mpsc::channel();
    let config = SamplerConfig {
        server_metrics: vec!["http://h/metrics".to_owned()],
        ..fast()
    };
    let fetch = Arc::new(Held(held.into()));
    let sampler = Sampler::start(&config, crate::common::clock(), fetch, drop).unwrap();
    // returns although the page is still held, or the test would never end
    sampler.read_now(Duration::from_millis(20));
    drop(release);
    assert_eq!(sampler.stop().unknown, [].into());
}

#[test]
fn a_sink_that_panics_is_said_and_the_sampler_still_stops() {
    let sampler = Sampler::start(&fast(), crate::common::clock(), Arc::new(NoFetch), |_| {
        panic!("the sink's own fault")
    })
    .unwrap();
    let report = sampler.stop();
    assert!(report.unknown.contains_key("sink"), "{report:?}");
}

struct Panics;

impl Fetch for Panics {
    fn get(&self, _url: &str, _limits: FetchLimits) -> Result<Vec<u8>, String> {
        // Without the hook: on a busy machine its backtrace takes longer than a thread has to end.
        std::panic::resume_unwind(Box::new("the fetcher's own fault"))
    }
}

#[test]
fn a_fetch_that_panics_ends_its_own_thread_and_is_said() {
    let config = SamplerConfig {
        server_metrics: vec!["http://h/metrics".to_owned()],
        scrape_timeout: Duration::from_secs(10), // how long the others have to end
        ..fast()
    };
    let enough = |readings: &[Reading]| of(readings, ReadingSource::Client).len() >= 5;
    let (_, report) = sample(&config, Arc::new(Panics), enough);
    let said: Vec<&String> = report.unknown.values().collect();
    assert!(
        said.len() == 1 && said[0].contains("panicked"),
        "{report:?}"
    );
    let mut reported: Vec<&str> = report.sources.iter().map(|s| s.source.as_str()).collect();
    reported.sort_unstable();
    assert_eq!(reported, ["client", "gpu", "host"], "the others' threads");
}

#[test]
fn the_longest_a_stop_may_take_is_bounded_by_the_scrape_in_progress() {
    let (url, _server) = serve(Manner::Silent);
    let config = SamplerConfig {
        server_metrics: vec![url],
        ..fast()
    };
    let (_, report) = sample(&config, Arc::new(PlainHttp), |readings| {
        !readings.is_empty()
    });
    // The last reading is a scrape too: at most the one in progress and the last one.
    let page = report
        .sources
        .iter()
        .find(|s| s.source == "server_metrics")
        .unwrap();
    assert!(page.ticks >= 1 && report.unknown.is_empty(), "{report:?}");
}
