use bench_insight::BLOCK;
use bench_schema::Benchmark;
use bench_workload::Salt;

use super::*;
use crate::config::for_tests;

#[test]
fn a_block_is_abba_or_baab_as_drawn() {
    let mut draw = Draw::new(Seed::new(3).stream("turns", ""));
    let turns: Vec<(u32, Side)> = (0..100).flat_map(|block| turns(block, &mut draw)).collect();
    let mut begun_with_a = 0;
    for (block, turns) in (0..).zip(turns.chunks(4)) {
        let rounds = [2 * block, 2 * block, 2 * block + 1, 2 * block + 1];
        assert_eq!(
            turns.iter().map(|turn| turn.0).collect::<Vec<u32>>(),
            rounds
        );
        let first = turns[0].1;
        let sides: Vec<Side> = turns.iter().map(|turn| turn.1).collect();
        assert_eq!(sides, [first, first.other(), first.other(), first]);
        begun_with_a += u32::from(first == Side::A);
    }
    assert!((35..65).contains(&begun_with_a), "{begun_with_a}");
}

#[test]
fn the_sides_of_a_round_differ_in_what_was_asked_for_and_in_words() {
    let args = "--url http://one --versus http://two --versus-body {\"n\":2} --extra-body {\"n\":1,\"k\":0} --seed 7";
    let args: Vec<&str> = args.split(' ').collect();
    let settings = for_tests(Benchmark::Throughput, &args);
    let of = |side, pair| settings_of(&settings, side, pair, Path::new("out"));
    let (a, b) = (of(Side::A, 2), of(Side::B, 2));
    assert_eq!((a.seed, b.seed), (9, 9));
    assert_ne!(a.workload.wording, b.workload.wording);
    assert_eq!(a.workload.salt, Salt::Auto);
    assert_eq!(shown(&a), "http://one, {\"k\":0,\"n\":1}");
    assert_eq!(shown(&b), "http://two, {\"k\":0,\"n\":2}");
    assert_eq!(b.output.out.unwrap(), Path::new("out/b/003"));
    assert_eq!(b.output.tag, [(BLOCK.to_owned(), "2".to_owned())]);
}

/// Four turns of 256 requests in 27 s each and a second between them, of which so many are independent.
fn wanted(independent: f64) -> u64 {
    let stored = include_str!("../../../../fixtures/results/v1.2/run.json");
    let mut run = RunRecord::from_json(stored).unwrap();
    run.cells.truncate(1);
    let cell = &mut run.cells[0];
    cell.stop.requests = Some(256);
    cell.counts.planned = 256;
    let whole = cell.windows.whole.as_mut().unwrap();
    whole.window.to = whole.window.from + bench_schema::Nanos::from_secs(27);
    let origin = Metric::E2e.from_origin(cell.headline);
    for metric in [Metric::E2e, origin] {
        if let Some(e2e) = cell.metrics.get_mut(&metric) {
            (e2e.n, e2e.effective_n) = (256, Some(independent));
        }
    }
    let (usual, wanted) = requests_of_a_turn(&[&run; 4], Duration::from_secs(112)).unwrap();
    assert_eq!(usual, 256);
    wanted
}

#[test]
fn turns_are_as_long_as_their_requests_are_alike_and_short_where_the_server_drifts() {
    assert_eq!(wanted(256.0), 64);
    assert_eq!(wanted(20.0), 128);
    // alike over the whole turn: no turn is long enough to be independent, and short ones follow what drifts
    assert_eq!(wanted(2.2), 64);
}
