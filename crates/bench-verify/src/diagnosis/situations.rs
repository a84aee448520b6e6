//! The situations. Speeds are of a server that gives a token every 8 to 20 ms, so that a run of some seconds holds enough.

use bench_schema::TrustVerdict::{Doubtful, Trusted, Untrusted};

use super::{Situation, Starved};

/// Tokens every 10 ms, the first after 40 ms, as many at a time as come.
const PLAIN: &str = "engine = { kind = 'fixed', ttft_ms = 40.0, itl_ms = 10.0 }\n";
/// A batch of 16: about 40 requests/s of 64 and 32 tokens.
const GPU: &str = "engine = { kind = 'scheduler', step_ms = 8.0, prefill_tokens_per_s = 16000.0, scheduler = { max_num_seqs = 16 } }\n";
/// The same with 64 at a time.
const WIDE: &str = "engine = { kind = 'scheduler', step_ms = 8.0, prefill_tokens_per_s = 16000.0, scheduler = { max_num_seqs = 64, num_blocks = 16384 } }\n";
/// Four at a time.
const NARROW: &str = "engine = { kind = 'scheduler', step_ms = 8.0, prefill_tokens_per_s = 16000.0, scheduler = { max_num_seqs = 4 } }\n";

const HEALTHY: Situation = Situation {
    name: "",
    engines: &[PLAIN],
    program: "bench-throughput",
    arguments: "",
    starve: None,
    causes: &["healthy"],
    hidden: None,
    also: &["prefix_cache"],
    trust: &[Trusted],
    advice: &[],
};

const FAULTY: Situation = Situation {
    causes: &[],
    also: &[],
    trust: &[Trusted, Doubtful],
    ..HEALTHY
};

const BROKEN: Situation = Situation {
    trust: &[Untrusted],
    ..FAULTY
};

/// All situations, the healthy ones first.
pub fn situations() -> Vec<Situation> {
    let mut all = Vec::new();
    all.extend(healthy());
    all.extend(loaded());
    all.extend(over_time());
    all.extend(failing());
    all.extend(machines());
    all
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn healthy() -> [Situation; 22] {
    let of = |name, engines, arguments| Situation {
        name,
        engines,
        arguments,
        ..HEALTHY
    };
    [
        of(
            "low rate",
            &[GPU],
            "--rate 3 --duration 10s --dataset random --input-tokens 64 --output-tokens 32",
        ),
        of(
            "half of capacity",
            &[GPU],
            "--rate 20 --duration 8s --dataset random --input-tokens 64 --output-tokens 32",
        ),
        of(
            "rates below capacity",
            &[GPU],
            "--rate 5,10,20 --duration 5s --dataset random --input-tokens 64 --output-tokens 32",
        ),
        of(
            "one at a time",
            &[PLAIN],
            "--concurrency 1 --duration 8s --dataset random --input-tokens 64 --output-tokens 16",
        ),
        of(
            "half a batch",
            &[GPU],
            "--concurrency 8 --duration 7s --dataset random --input-tokens 64 --output-tokens 32",
        ),
        of(
            "sweep up to the batch",
            &[GPU],
            "--concurrency 1,4,16 --duration 4s --dataset random --input-tokens 64 --output-tokens 32",
        ),
        of(
            "high concurrency",
            &["engine = { kind = 'fixed', ttft_ms = 80.0, itl_ms = 40.0 }"],
            "--concurrency 64 --duration 8s --dataset random --input-tokens 64 --output-tokens 24",
        ),
        of(
            "mixed use cases",
            &[PLAIN],
            "--concurrency 8 --duration 8s --dataset mixed",
        ),
        of(
            "mixed lengths, open",
            &[WIDE],
            "--rate 8 --duration 9s --dataset random --input-tokens lognormal:4.0:0.8 --output-tokens lognormal:3.5:0.8",
        ),
        of(
            "bursts that drain",
            &[WIDE],
            "--rate 16 --arrival burst:16 --duration 9s --dataset random --input-tokens 32 --output-tokens 24",
        ),
        of(
            "long prompts, quick",
            &[
                "engine = { kind = 'fixed', ttft_ms = 30.0, itl_ms = 10.0, prefill_us_per_token = 1.0 }",
            ],
            "--concurrency 4 --duration 7s --dataset random --input-tokens 500..3000 --output-tokens 48",
        ),
        of(
            "conversations",
            &[PLAIN],
            "--concurrency 8 --duration 7s --dataset multiturn:3:64:32 --output-tokens 32",
        ),
        of(
            "answers of three tokens",
            &[PLAIN],
            "--concurrency 8 --duration 6s --dataset random --input-tokens 64 --output-tokens 3",
        ),
        of(
            "two equal replicas",
            &[PLAIN, PLAIN],
            "--concurrency 8 --duration 7s --dataset random --input-tokens 64 --output-tokens 32",
        ),
        of(
            "repeats",
            &[PLAIN],
            "--concurrency 4 --requests 60 --repeat 3 --dataset random --input-tokens 64 --output-tokens 24",
        ),
        of(
            "users who pause",
            &[PLAIN],
            "--concurrency 12 --think-time 300ms --duration 8s --dataset random --input-tokens 64 --output-tokens 24",
        ),
        of(
            "uneven arrivals",
            &[WIDE],
            "--rate 12 --arrival gamma:2 --duration 10s --dataset random --input-tokens 64 --output-tokens 32",
        ),
        of(
            "long answers",
            &[PLAIN],
            "--concurrency 6 --duration 9s --dataset random --input-tokens 64 --output-tokens 150..250",
        ),
        of(
            "slow and steady",
            &["engine = { kind = 'fixed', ttft_ms = 300.0, itl_ms = 60.0 }"],
            "--concurrency 6 --duration 12s --dataset random --input-tokens 64 --output-tokens 24",
        ),
        of(
            "wide jitter",
            &["engine = { kind = 'fixed', ttft_ms = 40.0, itl_ms = 10.0, jitter = 0.5 }"],
            "--concurrency 8 --duration 8s --dataset random --input-tokens 64 --output-tokens 32",
        ),
        Situation {
            program: "bench-latency",
            ..of(
                "latency grid",
                &[PLAIN],
                "--prompts short,medium --output-tokens 10,20 --repeat 15",
            )
        },
        Situation {
            program: "bench-seqlen",
            ..of(
                "lengths",
                &[PLAIN],
                "--categories tiny,short,medium --concurrency 8 --requests 80",
            )
        },
    ]
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn loaded() -> [Situation; 13] {
    const QUEUE: Situation = Situation {
        causes: &["queueing"],
        hidden: Some(&["queueing", "waiting_or_prefill"]),
        advice: &["run_more_at_once", "replica", "run_fewer_at_once"],
        ..FAULTY
    };
    const OVERLOAD: Situation = Situation {
        causes: &["overload"],
        also: &["queueing", "waiting_or_prefill"],
        advice: &["replica", "run_more_at_once"],
        ..FAULTY
    };
    let over = |name, arguments| Situation {
        name,
        engines: &[GPU],
        arguments,
        ..OVERLOAD
    };
    let queue = |name, engines, arguments| Situation {
        name,
        engines,
        arguments,
        ..QUEUE
    };
    [
        over(
            "overload 1.5 ×",
            "--rate 60 --duration 7s --dataset random --input-tokens 64 --output-tokens 32",
        ),
        over(
            "overload 2.5 ×",
            "--rate 100 --duration 4s --dataset random --input-tokens 64 --output-tokens 32",
        ),
        over(
            "rates beyond capacity",
            "--rate 10,60 --duration 5s --dataset random --input-tokens 64 --output-tokens 32",
        ),
        queue(
            "queue, closed",
            &[NARROW],
            "--concurrency 16 --duration 8s --dataset random --input-tokens 64 --output-tokens 32",
        ),
        queue(
            "queue, sweep",
            &[NARROW],
            "--concurrency 1,4,16 --duration 4s --dataset random --input-tokens 64 --output-tokens 32",
        ),
        queue(
            "queue, open",
            &[NARROW],
            "--rate 10 --arrival burst:20 --duration 10s --dataset random --input-tokens 64 --output-tokens 24",
        ),
        Situation {
            name: "prefill of long prompts",
            engines: &[
                "engine = { kind = 'scheduler', step_ms = 8.0, prefill_tokens_per_s = 4000.0, scheduler = { max_num_seqs = 16, num_blocks = 16384 } }",
            ],
            arguments: "--concurrency 1 --duration 9s --dataset random --input-tokens 500..3000 --output-tokens 16",
            causes: &["prefill"],
            hidden: Some(&["prefill"]),
            advice: &["prefill", "prefix", "prompt"],
            ..FAULTY
        },
        Situation {
            name: "prefill, fixed engine",
            engines: &[
                "engine = { kind = 'fixed', ttft_ms = 20.0, itl_ms = 10.0, prefill_us_per_token = 300.0 }",
            ],
            arguments: "--concurrency 4 --duration 9s --dataset random --input-tokens 200..3000 --output-tokens 24",
            causes: &["prefill"],
            hidden: Some(&["prefill", "waiting_or_prefill"]),
            advice: &["prefill", "prefix", "prompt"],
            ..FAULTY
        },
        Situation {
            name: "decode slows, closed sweep",
            engines: &[
                "engine = { kind = 'scheduler', step_ms = 6.0, step_ms_per_sequence = 2.0, prefill_tokens_per_s = 100000.0, scheduler = { max_num_seqs = 32 } }",
            ],
            arguments: "--concurrency 1,4,16 --duration 4s --dataset random --input-tokens 32 --output-tokens 32",
            causes: &["decode_slows_with_load"],
            ..FAULTY
        },
        Situation {
            name: "decode slows, rates",
            engines: &[
                "engine = { kind = 'scheduler', step_ms = 6.0, step_ms_per_sequence = 2.0, prefill_tokens_per_s = 100000.0, scheduler = { max_num_seqs = 64 } }",
            ],
            arguments: "--rate 2,8 --duration 7s --dataset random --input-tokens 32 --output-tokens 40",
            causes: &["decode_slows_with_load"],
            ..FAULTY
        },
        Situation {
            name: "head of line, closed",
            engines: &[
                "engine = { kind = 'scheduler', step_ms = 8.0, prefill_tokens_per_s = 8000.0, scheduler = { max_num_seqs = 32, max_num_batched_tokens = 8192, num_blocks = 16384, enable_chunked_prefill = false } }",
            ],
            arguments: "--concurrency 8 --duration 12s --dataset joint:12*32/24+1*5000/8",
            causes: &["head_of_line"],
            also: &["prefill", "waiting_or_prefill"],
            advice: &["chunk_prefill", "separate_long_prompts"],
            ..FAULTY
        },
        Situation {
            name: "head of line, open",
            engines: &[
                "engine = { kind = 'scheduler', step_ms = 8.0, prefill_tokens_per_s = 8000.0, scheduler = { max_num_seqs = 64, max_num_batched_tokens = 8192, num_blocks = 16384, enable_chunked_prefill = false } }",
            ],
            arguments: "--rate 12 --duration 13s --dataset joint:14*32/24+1*5000/8",
            causes: &["head_of_line"],
            also: &["prefill", "waiting_or_prefill"],
            advice: &["chunk_prefill", "separate_long_prompts"],
            ..FAULTY
        },
        Situation {
            name: "KV cache too small",
            engines: &[
                "engine = { kind = 'scheduler', step_ms = 8.0, scheduler = { max_num_seqs = 16, num_blocks = 60, enable_prefix_caching = false } }",
            ],
            arguments: "--concurrency 12 --duration 9s --dataset random --input-tokens 64 --output-tokens 96",
            causes: &["memory_pressure"],
            hidden: Some(&["memory_pressure", "queueing", "waiting_or_prefill"]),
            also: &["queueing", "waiting_or_prefill"],
            advice: &["cache", "shorter_context", "run_fewer_at_once"],
            ..FAULTY
        },
    ]
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn over_time() -> [Situation; 12] {
    const CLOSED: &str =
        "--concurrency 8 --duration 10s --dataset random --input-tokens 64 --output-tokens 32";
    const OPEN: &str =
        "--rate 12 --duration 10s --dataset random --input-tokens 64 --output-tokens 32";
    const STALLS: &str = "engine = { kind = 'fixed', ttft_ms = 40.0, itl_ms = 10.0 }\npauses = [{ what = 'tokens', after_ms = 2000, for_ms = 500, every_ms = 2000 }]";
    const FROZEN: &str = "engine = { kind = 'fixed', ttft_ms = 40.0, itl_ms = 10.0 }\npauses = [{ what = 'tokens', after_ms = 5000, for_ms = 2500 }]";
    const DRIFT: &str = "engine = { kind = 'fixed', ttft_ms = 40.0, itl_ms = 10.0 }\nslowdowns = [{ factor = 2.5, over_ms = 11000 }]";
    const STEP: &str = "engine = { kind = 'fixed', ttft_ms = 40.0, itl_ms = 10.0 }\nslowdowns = [{ factor = 1.8, after_ms = 6000 }]";
    const COLD: &str = "engine = { kind = 'fixed', ttft_ms = 40.0, itl_ms = 10.0 }\ncold = { requests = 10, first_token_ms = 900.0 }";
    const SHAPES: &str = "engine = { kind = 'scheduler', step_ms = 8.0, prefill_tokens_per_s = 16000.0, scheduler = { max_num_seqs = 32 } }\ncold = { shape_ms = 500.0 }";
    let of = |name, engines, arguments, causes| Situation {
        name,
        engines,
        arguments,
        causes,
        hidden: None,
        ..FAULTY
    };
    [
        of("stalls, closed", &[STALLS], CLOSED, &["periodic_stall"]),
        of("stalls, open", &[STALLS], OPEN, &["periodic_stall"]),
        of("frozen once, closed", &[FROZEN], CLOSED, &["frozen"]),
        of("frozen once, open", &[FROZEN], OPEN, &["frozen"]),
        of("drift, closed", &[DRIFT], CLOSED, &["drift"]),
        of("drift, open", &[DRIFT], OPEN, &["drift"]),
        of("step, closed", &[STEP], CLOSED, &["step"]),
        of("step, open", &[STEP], OPEN, &["step"]),
        Situation {
            advice: &["warm_up"],
            ..of(
                "cold start, closed",
                &[COLD],
                "--concurrency 4 --duration 8s --warmup 0 --dataset random --input-tokens 64 --output-tokens 16",
                &["cold_start"],
            )
        },
        Situation {
            advice: &["warm_up"],
            ..of(
                "cold start, open",
                &[COLD],
                "--rate 10 --duration 9s --warmup 0 --dataset random --input-tokens 64 --output-tokens 16",
                &["cold_start"],
            )
        },
        Situation {
            advice: &["warm_up"],
            ..of(
                "cold batch sizes",
                &[SHAPES],
                "--rate 15 --duration 9s --warmup 0 --dataset random --input-tokens 32 --output-tokens 32",
                &["cold_start"],
            )
        },
        Situation {
            also: &["drift"],
            ..of(
                "slow for the first seconds",
                &[
                    "engine = { kind = 'fixed', ttft_ms = 40.0, itl_ms = 10.0 }\nslowdowns = [{ factor = 3.0, until_ms = 3000 }]",
                ],
                "--concurrency 8 --duration 10s --warmup 0 --dataset random --input-tokens 64 --output-tokens 16",
                &["cold_start", "step"],
            )
        },
    ]
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn failing() -> [Situation; 11] {
    const CLOSED: &str =
        "--concurrency 8 --duration 8s --dataset random --input-tokens 64 --output-tokens 24";
    const OPEN: &str =
        "--rate 20 --duration 8s --dataset random --input-tokens 64 --output-tokens 24";
    const LIMIT: &str = "engine = { kind = 'fixed', ttft_ms = 40.0, itl_ms = 10.0 }\nrate_limit = { per_s = 6.0, burst = 6, retry_after_s = 1 }";
    const ERRORS: &str = "engine = { kind = 'fixed', ttft_ms = 40.0, itl_ms = 10.0 }\nfaults = [{ fault = 'status-500', from = 4, share = 0.3 }]";
    const RESETS: &str = "engine = { kind = 'fixed', ttft_ms = 40.0, itl_ms = 10.0 }\nfaults = [{ fault = 'reset-mid:5', from = 4, share = 0.25 }]";
    const BACK: &str = "engine = { kind = 'fixed', ttft_ms = 40.0, itl_ms = 10.0 }\noutages = [{ after_ms = 4000, for_ms = 2000 }]";
    const DEAD: &str = "engine = { kind = 'fixed', ttft_ms = 40.0, itl_ms = 10.0 }\noutages = [{ after_ms = 4000, for_ms = 20000 }]";
    const FULL: &str = "engine = { kind = 'scheduler', step_ms = 8.0, scheduler = { max_num_seqs = 4, max_waiting = 4 } }";
    const LIES: &str = "engine = { kind = 'fixed', ttft_ms = 40.0, itl_ms = 10.0 }\nfaults = [{ fault = 'usage-lies:50' }]";
    const SHORT: &str = "engine = { kind = 'fixed', ttft_ms = 40.0, itl_ms = 10.0 }\nend_of_text = { median_tokens = 10.0, spread = 0.3, always = true }";
    let of = |name, engines, arguments, causes| Situation {
        name,
        engines,
        arguments,
        causes,
        ..BROKEN
    };
    [
        Situation {
            advice: &["stay_below_limit"],
            ..of("429, closed", &[LIMIT], CLOSED, &["rate_limited"])
        },
        Situation {
            advice: &["stay_below_limit"],
            ..of("429, open", &[LIMIT], OPEN, &["rate_limited"])
        },
        of("500, closed", &[ERRORS], CLOSED, &["failing"]),
        of("500, open", &[ERRORS], OPEN, &["failing"]),
        of("cut streams", &[RESETS], CLOSED, &["failing"]),
        Situation {
            also: &["failing", "frozen"],
            trust: &[Doubtful, Untrusted],
            ..of(
                "crash and return, closed",
                &[BACK],
                CLOSED,
                &["server_gone"],
            )
        },
        Situation {
            also: &["failing", "frozen"],
            ..of("crash and return, open", &[BACK], OPEN, &["server_gone"])
        },
        Situation {
            also: &["failing"],
            ..of("dead for ever", &[DEAD], OPEN, &["server_gone"])
        },
        Situation {
            also: &[
                "queueing",
                "waiting_or_prefill",
                "rate_limited",
                "failing",
                "overload",
            ],
            ..of(
                "queue full, 503",
                &[FULL],
                "--rate 40 --duration 7s --dataset random --input-tokens 64 --output-tokens 32",
                &["overload", "failing", "rate_limited"],
            )
        },
        Situation {
            trust: &[Doubtful, Untrusted],
            ..of("usage that lies", &[LIES], CLOSED, &[])
        },
        Situation {
            trust: &[Doubtful, Untrusted],
            ..of("answers shorter than asked", &[SHORT], CLOSED, &[])
        },
    ]
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn machines() -> [Situation; 7] {
    const SLOW: &str = "engine = { kind = 'fixed', ttft_ms = 100.0, itl_ms = 25.0 }\n";
    const SLIGHTLY: &str = "engine = { kind = 'fixed', ttft_ms = 60.0, itl_ms = 15.0 }\n";
    const FAST: &str = "engine = { kind = 'fixed', ttft_ms = 20.0, itl_ms = 4.0 }\n";
    /// Really computes.
    const MODEL: &str = "model = 'tiny'\nmax_model_len = 1024\nengine = { kind = 'transformer', threads = 1, scheduler = { max_num_seqs = 8, enable_prefix_caching = false } }\n";
    const REPLICA: Situation = Situation {
        causes: &["slow_replica"],
        advice: &["look_at_replica"],
        ..FAULTY
    };
    [
        Situation {
            name: "slow replica, closed",
            engines: &[PLAIN, SLOW],
            arguments: "--concurrency 8 --duration 8s --dataset random --input-tokens 64 --output-tokens 32",
            ..REPLICA
        },
        Situation {
            name: "slow replica, open, mixed lengths",
            engines: &[PLAIN, SLOW],
            arguments: "--rate 14 --duration 9s --dataset mixed",
            ..REPLICA
        },
        Situation {
            name: "replica half as fast again",
            engines: &[PLAIN, PLAIN, SLIGHTLY],
            arguments: "--concurrency 9 --duration 8s --dataset random --input-tokens 64 --output-tokens 32",
            ..REPLICA
        },
        Situation {
            name: "server starved of CPU",
            engines: &[FAST],
            arguments: "--concurrency 16 --duration 9s --dataset random --input-tokens 64 --output-tokens 64",
            starve: Some((Starved::Server, 4)),
            causes: &["server_starved"],
            ..FAULTY
        },
        Situation {
            name: "computing server starved of CPU",
            engines: &[MODEL],
            arguments: "--concurrency 4 --duration 9s --dataset random --input-tokens 32 --output-tokens 32",
            starve: Some((Starved::Server, 2)),
            causes: &["server_starved"],
            ..FAULTY
        },
        Situation {
            name: "client starved, open",
            engines: &[FAST],
            arguments: "--rate 60 --duration 9s --dataset random --input-tokens 64 --output-tokens 64",
            starve: Some((Starved::Client, 4)),
            causes: &["client_limited"],
            trust: &[Doubtful, Untrusted],
            ..FAULTY
        },
        Situation {
            name: "client starved, closed",
            engines: &[FAST],
            arguments: "--concurrency 32 --duration 9s --dataset random --input-tokens 64 --output-tokens 64",
            starve: Some((Starved::Client, 4)),
            causes: &["client_limited"],
            trust: &[Doubtful, Untrusted],
            ..FAULTY
        },
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bench_engine::EngineConfig;

    use super::*;

    #[test]
    fn there_are_forty_and_more_a_third_healthy_each_with_its_own_name_and_a_profile_that_can_be_played()
     {
        let all = situations();
        let healthy = all.iter().filter(|one| one.is_healthy()).count();
        assert!(
            all.len() >= 40 && healthy * 3 >= all.len(),
            "{healthy} of {}",
            all.len()
        );
        let names: BTreeSet<_> = all.iter().map(|one| one.name).collect();
        assert_eq!(names.len(), all.len());
        for situation in all {
            for text in situation.engines {
                let config = EngineConfig::from_toml(text).unwrap();
                config.check().unwrap();
            }
        }
    }

    #[test]
    fn every_cause_of_a_label_is_one_that_findings_may_name() {
        for situation in situations() {
            for cause in [
                situation.causes,
                situation.also,
                situation.hidden.unwrap_or(&[]),
            ]
            .concat()
            {
                let known = bench_schema::Cause::ALL
                    .iter()
                    .any(|one| one.as_str() == cause);
                assert!(known, "{cause}");
            }
        }
    }
}
