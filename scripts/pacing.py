"""Prints what a run directory of bench-throughput says about pacing: how late requests left, and whether the gaps between
them are what was planned.

    python3 scripts/pacing.py RUN...
    python3 scripts/pacing.py --stall RUN     TTFT and E2E of one run, from both origins

Lateness is `sent` minus `due` on a connection that was open, microseconds. Gaps are those between the moments at which requests
left, over all workers: held against the exponential distribution of the asked rate (Kolmogorov-Smirnov, its two-sided p value by the
asymptotic series) for Poisson arrivals, against the one gap there is for constant ones.
"""

import json
import math
import sys
from pathlib import Path


def quantile(values, q):
    """Type 7, of a sorted list."""
    at = (len(values) - 1) * q
    low = math.floor(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def kolmogorov_p(distance, n):
    """P(D > distance) for n values, Stephens' correction of the asymptotic series."""
    x = (math.sqrt(n) + 0.12 + 0.11 / math.sqrt(n)) * distance
    if x < 0.3:
        return 1.0
    return max(0.0, min(1.0, 2 * sum((-1) ** (k - 1) * math.exp(-2 * k * k * x * x) for k in range(1, 101))))


def against_exponential(gaps, rate):
    """The largest distance between the gaps' distribution and the exponential one, and its p value."""
    n = len(gaps)
    distance = 0.0
    for index, gap in enumerate(sorted(gaps)):
        expected = 1 - math.exp(-gap * rate)
        distance = max(distance, expected - index / n, (index + 1) / n - expected)
    return distance, kolmogorov_p(distance, n)


def rows(run):
    """One row per cell of a run directory."""
    record = json.loads((run / "run.json").read_text())
    cells = {}
    with (run / "requests.jsonl").open() as lines:
        for line in lines:
            request = json.loads(line)
            if request.get("phase") == "measure":
                cells.setdefault(request["cell"], []).append(request)
    for cell, requests in cells.items():
        rate = next(c["load"]["rate_per_s"] for c in record["cells"] if c["id"] == cell)
        sent = sorted(r["wire"]["sent"] for r in requests if r["wire"].get("sent") is not None)
        dispatch = sorted((r["dispatched"] - r["due"]) / 1e3 for r in requests if r.get("dispatched") is not None)
        late = sorted((r["wire"]["sent"] - r["due"]) / 1e3 for r in requests
                      if r["wire"].get("sent") is not None and r["wire"]["connection"].get("reused"))
        gaps = [(b - a) / 1e9 for a, b in zip(sent, sent[1:])]
        offered = len(gaps) / (sent[-1] - sent[0]) * 1e9
        if "poisson" in cell:
            distance, p = against_exponential(gaps, rate)
            shape = f"KS D {distance:.4f}, p {p:.2f}"
        else:
            off = sorted(abs(gap - 1 / rate) * 1e6 for gap in gaps)
            shape = f"off by {quantile(off, 0.5):.1f} / {quantile(off, 0.99):.1f} / {off[-1]:.0f} µs"
        three = lambda v: " / ".join(f"{quantile(v, q):.1f}" for q in (0.5, 0.99)) + f" / {v[-1]:.0f}"
        yield [cell, str(len(requests)), f"{offered:.1f}", three(dispatch), three(late), shape]


def stall(run):
    """TTFT and E2E from both origins, and how many requests met the stall."""
    with (run / "requests.jsonl").open() as lines:
        requests = [r for r in map(json.loads, lines) if r.get("phase") == "measure"]
    print(f"{len(requests)} requests, {sum(r['wire']['outcome']['kind'] == 'completed' for r in requests)} completed")
    print("| metric | origin | p50, ms | p95, ms | p99, ms | max, ms |")
    print("|---|---|---|---|---|---|")
    ends = {"TTFT": lambda w: w["events"]["first"], "E2E": lambda w: w["closed"]}
    origins = {"due": lambda r: r["due"], "sent": lambda r: r["wire"]["sent"]}
    for metric, end in ends.items():
        for origin, begin in origins.items():
            values = sorted((end(r["wire"]) - begin(r)) / 1e6 for r in requests)
            cells = [f"{quantile(values, q):.1f}" for q in (0.5, 0.95, 0.99, 1)]
            print(f"| {metric} | {origin} | " + " | ".join(cells) + " |")


def main():
    if sys.argv[1:2] == ["--stall"]:
        return stall(Path(sys.argv[2]))
    print("| cell | requests | offered, 1/s | dispatched late p50 / p99 / max, µs | sent late, open connection, µs | gaps |")
    print("|---|---|---|---|---|---|")
    for run in sys.argv[1:]:
        for row in rows(Path(run)):
            print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
