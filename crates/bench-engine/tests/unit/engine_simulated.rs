use super::*;
use crate::engine::scheduler::Item;

#[test]
fn a_step_costs_its_base_its_decodes_their_context_and_its_prompt() {
    let config = Simulation {
        step_ms: 5.0,
        step_ms_per_sequence: 1.0,
        step_us_per_context_token: 10.0,
        prefill_tokens_per_s: 1000.0,
        jitter: 0.0,
        ..Simulation::default()
    };
    let decode = Item {
        id: 1,
        from: 100,
        count: 1,
        sample: true,
    };
    let prompt = Item {
        id: 2,
        from: 0,
        count: 20,
        sample: true,
    };
    let plan = Plan {
        items: vec![decode, prompt],
        ..Plan::default()
    };
    let ns = step_ns(&config, &plan, &mut ChaCha12Rng::seed_from_u64(1));
    assert!((ns - (5e6 + 1e6 + 1e6 + 20e6)).abs() < 1e-3, "{ns}");
    let idle = step_ns(
        &config,
        &Plan::default(),
        &mut ChaCha12Rng::seed_from_u64(1),
    );
    assert!(idle.abs() < 1e-9);
}
