//! The named configurations.

/// Name, one line about it, and what it says beside the defaults, for each profile.
pub const PROFILES: &[(&str, &str, &str)] = &[
    (
        "fixed",
        "simulated, TTFT 50 ms, 10 ms between tokens, lognormal jitter 0.1, no queue",
        "engine = { kind = 'fixed' }",
    ),
    (
        "instant",
        "simulated, every token due at once: as fast as the socket takes them",
        "engine = { kind = 'fixed', ttft_ms = 0.0, itl_ms = 0.0, jitter = 0.0 }",
    ),
    (
        "7b",
        "simulated scheduler shaped like a 7B model on one GPU: about 10 ms a token, 8 sequences at a time",
        "engine = { kind = 'scheduler', scheduler = { max_num_seqs = 8 } }",
    ),
    (
        "7b-large-batch",
        "the same with 64 sequences and chunked prefill of 2048 tokens",
        "engine = { kind = 'scheduler', scheduler = { max_num_seqs = 64, num_blocks = 16384 } }",
    ),
    (
        "small-cache",
        "simulated scheduler whose KV cache is too small: preemptions",
        "engine = { kind = 'scheduler', scheduler = { num_blocks = 96 } }",
    ),
    (
        "llama-server",
        "simulated, 4 sequences, and closes the connection after every streamed answer",
        "engine = { kind = 'fixed', max_num_seqs = 4 }\nkeep_alive = { close_after_stream = true }",
    ),
    (
        "tiny",
        "transformer, 14 million parameters, 8-bit weights, random: the default for a first run",
        "model = 'tiny'\nmax_model_len = 4096\nengine = { kind = 'transformer' }",
    ),
    (
        "tiny-f32",
        "the same with 32-bit weights",
        "model = 'tiny'\nmax_model_len = 4096\nengine = { kind = 'transformer', weights = 'f32' }",
    ),
    (
        "gpt2-124m",
        "transformer with the shape of GPT-2 small, 32-bit weights, random unless a folder is given",
        "model = 'gpt2-124m'
max_model_len = 1024
[engine]
kind = 'transformer'
weights = 'f32'
shape = { family = 'gpt2', vocabulary = 50257, width = 768, layers = 12, heads = 12, kv_heads = 12, feed_forward = 3072, positions = 1024, rope_theta = 10000.0, norm_eps = 1e-5 }",
    ),
];
