//! What follows from readings, as the table of a run has it.

use bench_report::terminal;
use bench_schema::{Factor, HardwareSummary, Quantity, RunRecord, Unit};

/// A stored run with so many cells, each with these figures.
fn with(cells: u32, figures: &[(&str, f64, Unit)]) -> RunRecord {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/results/v1/run.json"
    );
    let mut run = RunRecord::from_json(&std::fs::read_to_string(path).unwrap()).unwrap();
    let one = run.cells.swap_remove(0);
    let cell = |i: u32| {
        let mut cell = one.clone();
        cell.id = format!("cell-{i}");
        let of = |&(name, value, unit): &(&str, f64, Unit)| {
            let (value, interval) = (value * f64::from(i + 1), None);
            (
                name.to_owned(),
                Quantity {
                    value,
                    unit,
                    interval,
                },
            )
        };
        cell.hardware = Some(HardwareSummary {
            derived: figures.iter().map(of).collect(),
            ..HardwareSummary::default()
        });
        cell
    };
    run.cells = (0..cells).map(cell).collect();
    run
}

/// The rows of the table, its columns apart by one space.
fn derived(run: &RunRecord) -> Vec<String> {
    let shown = terminal::render_all(run, None);
    let table = shown.split("Derived metrics\n").nth(1);
    let table = table.unwrap_or_default().split("\n\n").next().unwrap();
    let rows = table.lines().filter(|line| !line.contains('─'));
    rows.map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn every_figure_that_was_derived_is_shown_in_its_unit_for_each_cell() {
    let figures = [
        ("correlation_running_latency", 0.41, Unit::Ratio),
        ("energy_per_output_token_j", 1.25, Unit::Joules),
        ("gpu_idle_share", 0.125, Unit::Ratio),
        ("server_queue_mean", 868e6, Unit::Ns),
        ("server_ttft_over_client", 1.03, Unit::Ratio),
    ];
    assert_eq!(
        derived(&with(2, &figures)),
        [
            "figure unit cell-0 cell-1",
            "energy per output token j J 1.25 2.50",
            "gpu idle share % 12.5 25",
            "server queue mean ms 868 1736",
            "server ttft over client 1.03 2.06",
            "correlation running latency 0.41 0.82",
        ]
    );
}

#[test]
fn many_cells_are_shown_by_their_ends_and_none_by_nothing() {
    let figures = [("waiting_mean", 0.5, Unit::Count)];
    let shown = derived(&with(12, &figures));
    assert_eq!(shown, ["figure unit lowest highest", "waiting mean 0.50 6"]);
    assert!(derived(&with(2, &[])).is_empty());
}

#[test]
fn cells_of_several_factors_are_told_apart_in_the_sweep() {
    let mut run = with(4, &[]);
    for (cell, length) in run.cells.iter_mut().zip([8.0, 64.0, 8.0, 64.0]) {
        let factor = Factor::Number(length);
        cell.factors.insert("input_tokens".to_owned(), factor);
    }
    let shown = terminal::render_all(&run, None);
    let sweep = shown.split("sweep").nth(1).unwrap_or_default();
    assert!(sweep.contains("prompt"), "{shown}");
    let lengths = sweep.lines().filter_map(|row| {
        let mut words = row.split_whitespace();
        words.nth(1).filter(|_| row.starts_with("   "))
    });
    let lengths: Vec<&str> = lengths.filter(|word| ["8", "64"].contains(word)).collect();
    assert_eq!(lengths, ["8", "64", "8", "64"], "{sweep}");
}
