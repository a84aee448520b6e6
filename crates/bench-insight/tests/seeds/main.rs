//! The conclusions of the five seed documents come out of their tables by themselves. Each test names its document and table; the
//! inputs are in `fixtures/seeds`.
#![expect(
    clippy::panic,
    reason = "helpers of tests fail by panicking, as tests do"
)]

use bench_insight::{analyse_run, findings};
use bench_schema::{Finding, RunRecord};

use fixtures::FIXTURES;

mod cpu_study;
mod fixtures;
mod load;
mod phases;
mod sweep;
mod week_2;

/// The findings of a fixture's run, its analysis made on the way.
fn found(fixture: &str) -> (RunRecord, Vec<Finding>) {
    let mut run = load::run(fixture);
    run.analysis = analyse_run(&run);
    let all = findings(&run, &[]);
    (run, all)
}

fn one<'a>(all: &'a [Finding], code: &str) -> &'a Finding {
    all.iter().find(|f| f.code == code).unwrap_or_else(|| {
        let codes: Vec<&str> = all.iter().map(|f| f.code.as_str()).collect();
        panic!("no `{code}` among {codes:?}")
    })
}

fn says(finding: &Finding, parts: &[&str]) {
    for part in parts {
        assert!(
            finding.claim.contains(part),
            "`{part}` is not in: {}",
            finding.claim
        );
    }
}

fn evidence(finding: &Finding, name: &str) -> f64 {
    finding
        .evidence
        .iter()
        .find(|e| e.name == name)
        .unwrap_or_else(|| panic!("no `{name}` in {:?}", finding.evidence))
        .value
}

fn near(got: f64, wanted: f64, within: f64) {
    assert!(
        (got - wanted).abs() <= within,
        "{got} is not {wanted} ± {within}"
    );
}

#[test]
fn every_finding_that_the_seeds_raise_is_documented() {
    let page = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/insight.md"
    ))
    .unwrap();
    for fixture in FIXTURES {
        for finding in found(fixture).1 {
            assert!(
                page.contains(&format!("`{}`", finding.code)),
                "docs/insight.md does not list {}",
                finding.code
            );
        }
    }
}

/// What is said of a local server whose host, of two CPUs, showed these figures.
fn of_a_host(figures: &[(&str, f64)]) -> Vec<Finding> {
    let mut run = load::run("gpt2-cpu");
    run.host.cpus = Some(2);
    run.server.embedded = true;
    let quantity = |value| bench_schema::Quantity {
        value,
        unit: bench_schema::Unit::Ratio,
        interval: None,
    };
    run.cells[0].hardware = Some(bench_schema::HardwareSummary {
        derived: figures
            .iter()
            .map(|&(name, value)| (name.to_owned(), quantity(value)))
            .collect(),
        ..bench_schema::HardwareSummary::default()
    });
    findings(&run, &[])
}

#[test]
fn a_host_that_is_busy_with_other_programs_is_not_called_the_servers_limit() {
    // As on a shared build machine: CPUs at 99.8 %, of which server and client used 0.03 cores of 2.
    let with = |server_cores: f64| {
        of_a_host(&[
            ("host_cpu_share", 0.998),
            ("server_cpu_cores", server_cores),
            ("client_cpu_cores", 0.02),
        ])
    };
    says(
        one(&with(0.01), "busy_host"),
        &["100 %", "2 cores", "0.0300"],
    );
    says(
        one(&with(1.9), "cpu_limit"),
        &["the server's CPUs are full"],
    );
}

#[test]
fn a_container_with_too_small_a_quota_is_found_on_an_idle_host() {
    let all = of_a_host(&[
        ("host_cpu_share", 0.3),
        ("server_throttled_share", 0.25),
        ("server_cpu_cores", 0.5),
    ]);
    says(one(&all, "cpu_quota"), &["25 %", "30 % used"]);
    assert!(!all.iter().any(|f| f.code == "cpu_not_limit"));
}

#[test]
fn a_low_mean_is_no_proof_while_tasks_wait_for_a_cpu_or_the_hypervisor_takes_it() {
    for (sign, share, silent) in [
        ("host_cpu_pressure_share", 0.3, true),
        ("host_cpu_pressure_share", 0.1, false),
        ("host_steal_share", 0.06, true),
        ("host_steal_share", 0.01, false),
    ] {
        let all = of_a_host(&[("host_cpu_share", 0.3), (sign, share)]);
        let said = all.iter().any(|f| f.code == "cpu_not_limit");
        assert_eq!(said, !silent, "{sign} {share}");
    }
}
