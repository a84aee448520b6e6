use super::*;

fn made(args: &str, context: Option<u64>) -> Vec<Cell> {
    let args: Vec<&str> = args.split(' ').collect();
    let settings = bench_runner::config::for_tests(Benchmark::Throughput, &args);
    cells(&settings, context)
}

fn ids(args: &str) -> Vec<String> {
    let cells = made(&format!("--url http://h {args}"), None).into_iter();
    cells
        .map(|cell| format!("{} {:?}", cell.id, cell.stop.requests))
        .collect()
}

#[test]
fn a_closed_loop_has_a_cell_for_each_concurrency_with_enough_requests_for_it() {
    let two = ids("--concurrency 1,64");
    assert_eq!(two, ["c1 Some(100)", "c64 Some(2100)"]);
}

#[test]
fn a_ramp_of_concurrency_is_a_cell_with_requests_for_its_peak() {
    let three = ids("--concurrency 2,ramp:1:8,steps:4:16:4");
    let expected = ["c2 Some(100)", "c1-to-8 Some(300)", "c4-16-4 Some(600)"];
    assert_eq!(three, expected);
}

#[test]
fn prompts_have_hundreds_of_tokens_unless_the_server_has_no_room_or_something_else_was_asked() {
    let input = |args: &str, context| made(args, context).first().unwrap().input.clone();
    let server = "--url http://h";
    assert_eq!(input(server, None), Some(PROMPTS));
    assert_eq!(input(server, Some(4096)), Some(PROMPTS));
    assert_eq!(input(server, Some(1024)), None);
    assert_eq!(input("--quick --url http://h", None), None);
    assert_eq!(input("--dataset mixed --url http://h", None), None);
    assert_eq!(input("--seed 0", None), None);
}

#[test]
fn an_open_loop_has_a_cell_for_each_rate() {
    let two = ids("--rate 2,0.5 --arrival constant --requests 7");
    assert_eq!(two, ["r2-constant Some(7)", "r0.5-constant Some(7)"]);
}

#[test]
fn a_pace_that_a_file_has_is_no_rate_that_was_asked_for() {
    let trace = concat!(
        "trace:",
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/datasets/azure.csv"
    );
    let replayed = ids(&format!("--arrival trace --dataset {trace}"));
    assert_eq!(replayed, ["trace None"]);
    let twice = format!("--url http://h --arrival trace:2 --dataset {trace}");
    let quick = made(&twice, None);
    assert_eq!((&*quick[0].id, &*quick[0].label), ("trace-x2", "trace × 2"));
    assert!(!quick[0].factors.contains_key("rate"));
    let told = serde_json::to_string(&quick[0].load).unwrap();
    assert!(!told.contains("rate_per_s"), "{told}");
}

#[test]
fn a_ramp_needs_no_rate() {
    let third = ids("--arrival steps:10:40:20 --duration 10s");
    assert_eq!(third, ["r23.333-steps None"]);
    let one = ids("--arrival ramp:1:9 --duration 10s");
    assert_eq!(one, ["r5-ramp None"]);
}
