"""What was true of a run, from the engine's ledger (docs/engine.md): times in milliseconds."""

import math


def percentile(ordered, q):
    """Type 7, linear between order statistics, as every client here but one has it."""
    if not ordered:
        return None
    at = q * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def arrivals(entries):
    """How the requests came: their rate, the spread of the gaps, and how far the gaps are from those of a Poisson process of that rate."""
    heads = [entry["head_ns"] for entry in entries]
    gaps = sorted((b - a) / 1e9 for a, b in zip(heads, heads[1:]))
    if len(gaps) < 2 or heads[-1] == heads[0]:
        return {}
    mean = sum(gaps) / len(gaps)
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / (len(gaps) - 1))
    count = len(gaps)
    distance = max(
        max((at + 1) / count - (1 - math.exp(-gap / mean)), (1 - math.exp(-gap / mean)) - at / count) for at, gap in enumerate(gaps)
    )
    return {"rate": 1 / mean, "gap_cov": deviation / mean, "gap_median_ms": percentile(gaps, 0.5) * 1e3, "gap_ks": distance}


def of(ledger, load, window):
    """The truth of the measured requests: the last `load.requests` that generated anything, or those within the window that a client names."""
    generated = [entry for entry in ledger if entry["path"].startswith("/v1/chat")]
    generated.sort(key=lambda entry: entry["head_ns"])
    measured = generated[-load.requests :]
    chosen = [e for e in measured if window[0] <= e["head_ns"] <= window[1]] if window else measured
    ttft, gaps, means = [], [], []
    for entry in chosen:
        written = entry["after_ns"]
        if entry["outcome"] != "completed" or not written:
            continue
        ttft.append((written[0] - entry["body_ns"]) / 1e6)
        own = [(b - a) / 1e6 for a, b in zip(written, written[1:])]
        # A client that reports a window counts the gaps that end within it.
        gaps += [gap for gap, end in zip(own, written[1:]) if not window or end <= window[1]]
        if own:
            means.append(sum(own) / len(own))
    for values in (ttft, gaps, means):
        values.sort()
    late = sorted((before - due) / 1e6 for entry in chosen for due, before in zip(entry["due_ns"], entry["before_ns"]))
    return {
        "asked": load.requests,
        "seen": len(generated),
        "completed": sum(entry["outcome"] == "completed" for entry in measured),
        "tokens": sum(sum(entry["tokens"]) for entry in measured),
        "all_tokens": sum(sum(entry["tokens"]) for entry in generated),
        "n": len(ttft),
        **{f"ttft_p{q}": percentile(ttft, q / 100) for q in (50, 99)},
        **{f"itl_p{q}": percentile(gaps, q / 100) for q in (50, 99)},
        **{f"mean_itl_p{q}": percentile(means, q / 100) for q in (50, 99)},
        "server_late_p99": percentile(late, 0.99),
        **arrivals(measured),
    }
