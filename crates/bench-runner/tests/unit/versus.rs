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
