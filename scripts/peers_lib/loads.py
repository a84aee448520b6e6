"""What the clients are asked to do: the loads of docs/peers.md, and the streams that are legal but odd, or broken."""

import dataclasses

# Lognormal, so the *median* gap is the one named (docs/engine.md).
JITTER = 0.1
PROMPT_TOKENS = 32


@dataclasses.dataclass(frozen=True)
class Load:
    """One load against one engine."""

    name: str
    title: str
    requests: int
    warmup: int
    streams: int | None = None
    rate: float | None = None
    tokens: int = 128
    ttft_ms: float = 50.0
    itl_ms: float = 10.0
    fault: str | None = None

    def profile(self):
        """The engine's configuration file."""
        lines = [
            f"ledger_capacity = {2 * (self.requests + self.warmup) + 1000}",
            "seed = 1",
            "[engine]",
            'kind = "fixed"',
            f"ttft_ms = {self.ttft_ms}",
            f"itl_ms = {self.itl_ms}",
            f"jitter = {JITTER}",
        ]
        if self.fault:
            lines += ["[[faults]]", f'fault = "{self.fault}"']
        return "\n".join(lines) + "\n"


LOADS = {
    load.name: load
    for load in (
        Load("64x10", "64 streams, a token each 10 ms", requests=512, warmup=64, streams=64),
        Load("256x5", "256 streams, a token each 5 ms", requests=2560, warmup=256, streams=256, itl_ms=5.0),
        Load(
            "open1000",
            "open loop, Poisson, 1,000 requests/s asked, 8 tokens each 5 ms",
            requests=5000,
            warmup=64,
            rate=1000.0,
            tokens=8,
            itl_ms=5.0,
        ),
        Load("start", "four requests of 8 tokens, one after the other", requests=4, warmup=1, streams=1, tokens=8),
    )
}

# What has to come out: "ok" is a complete answer (docs/protocols.md), whose tokens and first token have to be right; "failed" is none, and a
# client that counts it as a success has lost a failure.
ODD = {
    "crlf": "ok",
    "cr": "ok",
    "no-space": "ok",
    "bom": "ok",
    "fields": "ok",
    "multi-data": "ok",
    "pings:1": "ok",
    "split:7": "ok",
    "split-utf8": "ok",
    "coalesce:4": "ok",
    "tokens-per-chunk:4": "ok",
    "role-early:50": "ok",
    "null-role": "ok",
    "bare-role": "ok",
    "empty-first": "ok",
    "usage-on-last": "ok",
    "continuous-usage": "ok",
    "no-usage": "ok",
    "no-done": "ok",
    "finish-apart": "ok",
    "reasoning:4": "ok",
    "reasoning-only": "ok",
    "tool-call": "ok",
    "slow-headers:300": "ok",
    "close-after": "ok",
    "garbage-after-done": "ok",
    "status-500": "failed",
    "html": "failed",
    "empty-200": "failed",
    "empty-stream": "failed",
    "error-in-stream:2": "failed",
    "reset-mid:3": "failed",
    "close-mid:3": "failed",
    "truncate:3": "failed",
    "invalid-json:2": "failed",
}


def odd(fault):
    """The load of one odd stream: a few requests, one after the other, all with the fault."""
    return Load(f"odd-{fault}", fault, requests=10, warmup=0, streams=1, tokens=16, itl_ms=10.0, fault=fault)


def named(name):
    """The load called `name`."""
    if name.startswith("odd-"):
        return odd(name.removeprefix("odd-"))
    if name not in LOADS:
        raise SystemExit(f"no load called {name}: {', '.join(LOADS)}, or odd-FAULT")
    return LOADS[name]
