use super::*;

fn ids(args: &str) -> Vec<String> {
    let args: Vec<&str> = args.split(' ').collect();
    let settings = bench_runner::config::for_tests(Benchmark::Latency, &args);
    let cells = cells(&settings, None).into_iter();
    cells
        .map(|cell| format!("{} {:?}", cell.id, cell.stop.requests))
        .collect()
}

#[test]
fn the_default_study_has_twelve_scenarios_of_fifteen_repeats() {
    let cells = ids("--url http://127.0.0.1:1");
    assert_eq!(cells.len(), 12);
    assert_eq!(cells[0], "short-x-10 Some(15)");
    assert_eq!(cells[11], "long-x-300 Some(15)");
}

#[test]
fn lists_make_a_full_grid() {
    let cells = ids("--url http://h --prompt-tokens 16,64 --output-tokens 8,32 --repeat 3");
    let lengths = ["p16-x-8", "p16-x-32", "p64-x-8", "p64-x-32"];
    assert_eq!(cells, lengths.map(|id| format!("{id} Some(3)")));
}
