use super::*;

fn made(args: &str, context: Option<u64>) -> Vec<Cell> {
    let args: Vec<&str> = args.split(' ').collect();
    let settings = bench_runner::config::for_tests(Benchmark::Seqlen, &args);
    cells(&settings, context)
}

fn ids(args: &str, context: Option<u64>) -> Vec<String> {
    let cells = made(&format!("--url http://h {args}"), context);
    cells.into_iter().map(|cell| cell.id).collect()
}

#[test]
fn prompts_go_up_to_the_context_that_the_server_tells() {
    let ids = |args: &str, context| ids(args, Some(context));
    assert_eq!(
        ids("--seed 0", 32_768),
        ["spread-c1", "i1024-x-o16", "i4096-x-o16", "i32688-x-o16"]
    );
    assert_eq!(ids("--seed 0", 2_048), ["spread-c1", "i1968-x-o16"]);
    assert_eq!(ids("--seed 0", 512), ["spread-c1"]);
    assert_eq!(ids("--quick", 8_192), ["spread-c1"]);
    assert_eq!(ids("--categories tiny,short", 8_192), ["spread-c1"]);
    let grid = ids("--grid --output-tokens 8", 8_192);
    assert_eq!(grid.last().map(String::as_str), Some("i8120-x-o8"));
    assert_eq!(grid.len(), 6);
}

#[test]
fn the_default_is_one_cell_over_all_categories() {
    let cells = made("--url http://h", None);
    assert_eq!(cells.len(), 1);
    assert_eq!(cells[0].dataset.to_string(), "spread");
    assert_eq!(cells[0].stop.requests, Some(100));
}

#[test]
fn a_grid_crosses_its_lengths() {
    let grid = "--grid --input-tokens 8,16 --output-tokens 4 --repeat 2";
    assert_eq!(ids(grid, None), ["i8-x-o4", "i16-x-o4"]);
    assert_eq!(made(grid, None)[0].stop.requests, Some(2));
}

#[test]
fn a_grid_ends_its_cells_as_it_is_told() {
    let cells = made("--grid --requests 30 --duration 1m", None);
    assert_eq!(cells[0].stop.requests, Some(30));
    assert!(cells[0].stop.duration.is_some());
}
