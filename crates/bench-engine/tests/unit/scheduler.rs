use super::*;
use proptest::prelude::*;

fn limits() -> Limits {
    Limits {
        max_num_seqs: 2,
        max_num_batched_tokens: 10,
        enable_prefix_caching: false,
        block_size: 4,
        num_blocks: 100,
        ..Limits::default()
    }
}

fn run(scheduler: &mut Scheduler, plan: &Plan) {
    for item in &plan.items {
        scheduler.advance(item, item.sample.then_some(7));
    }
}

#[test]
fn prompts_are_cut_to_what_is_left_beside_the_decodes() {
    let mut scheduler = Scheduler::new(limits());
    scheduler.add(1, vec![0; 4]);
    let plan = scheduler.plan();
    assert_eq!(
        plan.items,
        [Item {
            id: 1,
            from: 0,
            count: 4,
            sample: true
        }]
    );
    run(&mut scheduler, &plan);
    scheduler.add(2, vec![0; 15]);
    let plan = scheduler.plan();
    let chunk = Item {
        id: 2,
        from: 0,
        count: 9,
        sample: false,
    };
    assert_eq!(
        plan.items,
        [
            Item {
                id: 1,
                from: 4,
                count: 1,
                sample: true
            },
            chunk
        ]
    );
    run(&mut scheduler, &plan);
    assert_eq!(
        scheduler.plan().items[1],
        Item {
            id: 2,
            from: 9,
            count: 6,
            sample: true
        }
    );
}

#[test]
fn without_chunks_a_step_is_whole_prompts_or_decodes() {
    let mut scheduler = Scheduler::new(Limits {
        enable_chunked_prefill: false,
        ..limits()
    });
    scheduler.add(1, vec![0; 4]);
    let plan = scheduler.plan();
    run(&mut scheduler, &plan);
    scheduler.add(2, vec![0; 15]);
    let plan = scheduler.plan();
    assert_eq!(
        plan.items,
        [Item {
            id: 2,
            from: 0,
            count: 15,
            sample: true
        }],
        "the decode of 1 stands still"
    );
    run(&mut scheduler, &plan);
    assert_eq!(scheduler.plan().items.len(), 2);
}

#[test]
fn no_more_sequences_run_than_there_are_places() {
    let mut scheduler = Scheduler::new(limits());
    (1..=3).for_each(|id| scheduler.add(id, vec![0; 2]));
    let plan = scheduler.plan();
    assert_eq!(
        plan.items.iter().map(|item| item.id).collect::<Vec<_>>(),
        [1, 2]
    );
    run(&mut scheduler, &plan);
    scheduler.remove(1);
    assert_eq!(scheduler.plan().admitted, [(3, 0)]);
}

#[test]
fn the_youngest_is_preempted_when_blocks_run_out_and_computed_again_whole() {
    let mut scheduler = Scheduler::new(Limits {
        num_blocks: 3,
        max_num_batched_tokens: 100,
        ..limits()
    });
    scheduler.add(1, vec![0; 4]);
    scheduler.add(2, vec![0; 8]);
    let plan = scheduler.plan();
    assert_eq!(plan.items.len(), 2);
    run(&mut scheduler, &plan);
    let plan = scheduler.plan();
    assert_eq!(
        (plan.preempted.as_slice(), plan.items.len()),
        ([2].as_slice(), 1)
    );
    run(&mut scheduler, &plan);
    scheduler.remove(1);
    let again = scheduler.plan();
    assert_eq!(
        again.items,
        [Item {
            id: 2,
            from: 0,
            count: 9,
            sample: true
        }],
        "its own token is computed again too"
    );
    assert!(again.admitted.is_empty(), "admitted once only");
}

#[test]
fn a_sequence_that_outgrows_all_blocks_is_given_up() {
    let mut scheduler = Scheduler::new(Limits {
        num_blocks: 1,
        ..limits()
    });
    scheduler.add(1, vec![0; 4]);
    let plan = scheduler.plan();
    run(&mut scheduler, &plan);
    assert_eq!(scheduler.plan().starved, [1]);
    scheduler.add(2, vec![0; 9]);
    scheduler.remove(1);
    assert_eq!(scheduler.plan().starved, [2]);
}

#[test]
fn a_known_prefix_is_not_computed_again() {
    let mut scheduler = Scheduler::new(Limits {
        enable_prefix_caching: true,
        max_num_batched_tokens: 100,
        ..limits()
    });
    scheduler.add(1, (0..12).collect());
    let plan = scheduler.plan();
    run(&mut scheduler, &plan);
    scheduler.add(2, (0..13).collect());
    let plan = scheduler.plan();
    assert_eq!(plan.admitted, [(2, 12)]);
    assert_eq!(
        plan.items[1],
        Item {
            id: 2,
            from: 12,
            count: 1,
            sample: true
        }
    );
}

proptest! {
    #[test]
    fn every_sequence_gets_all_its_tokens_within_the_limits_whatever_comes(
        prompts in proptest::collection::vec(1usize..30, 1..12),
        wanted in 1usize..20,
        chunked in any::<bool>(),
        caching in any::<bool>(),
        num_blocks in 13usize..40,
    ) {
        let limits = Limits { num_blocks, enable_chunked_prefill: chunked, enable_prefix_caching: caching, ..limits() };
        let mut scheduler = Scheduler::new(limits);
        let mut got: HashMap<Id, usize> = HashMap::new();
        for (id, size) in prompts.iter().enumerate() {
            scheduler.add(id as Id, (0u32..).take(*size).map(|t| t % 5).collect());
        }
        let mut steps = 0;
        while !scheduler.is_idle() {
            let plan = scheduler.plan();
            steps += 1;
            prop_assert!(steps < 100_000, "no progress");
            prop_assert!(plan.starved.is_empty());
            prop_assert!(!plan.items.is_empty() || !plan.preempted.is_empty());
            prop_assert!(plan.items.len() <= 2);
            if chunked {
                prop_assert!(plan.items.iter().map(|item| item.count).sum::<usize>() <= 10);
            }
            prop_assert!(scheduler.pool().used() <= num_blocks);
            for item in &plan.items {
                scheduler.advance(item, item.sample.then_some(3));
                if item.sample {
                    let so_far = got.entry(item.id).or_default();
                    *so_far += 1;
                    if *so_far == wanted {
                        scheduler.remove(item.id);
                    }
                }
            }
        }
        prop_assert_eq!(got.len(), prompts.len());
        prop_assert_eq!(scheduler.pool().used(), 0);
    }
}
