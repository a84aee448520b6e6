#!/usr/bin/env python3
"""Writes docs/peers.md from what was measured: page.py RESULTS PAGE

The words are in page.md beside this file, the figures come from the results.
"""

import collections
import datetime
import json
import pathlib
import platform
import statistics
import sys

import loads
import tools

VERSIONS = {
    "ours": "this repository",
    "ours-bare": "this repository",
    "ours-eager": "this repository",
    "sglang-rust": "sglang 0.5.23",
    "sglang-python": "sglang 0.5.23",
    "vllm-rust": "vllm 0.33.0",
    "aiperf": "aiperf 0.13.0",
    "guidellm": "guidellm 0.8.1",
}
LATENCIES = (("TTFT p50", "ttft_p50"), ("TTFT p99", "ttft_p99"), ("ITL p50", "itl_p50"), ("ITL p99", "itl_p99"))


def table(head, rows):
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"


def middle(values):
    """The median of what is there; nothing where nothing is."""
    there = [value for value in values if value is not None]
    return statistics.median(there) if there else None


def number(value, digits=2):
    """A figure, or a dash."""
    return "–" if value is None else f"{value:,.{digits}f}"


# Most that anything else may have worked meanwhile, in processors, for the figures of time to count; what the load itself takes in interrupts is 0.05 to 0.1.
OTHERS = 0.15
TIMED = ("64x10", "256x5", "open1000")


class Results:
    """All runs that had the machine to themselves, by load and client."""

    def __init__(self, path):
        self.runs, self.passed_over = collections.defaultdict(list), 0
        for line in path.read_text().splitlines():
            run = json.loads(line)
            if run["load"] in TIMED and run["used"]["others"] > OTHERS:
                self.passed_over += 1
            else:
                self.runs[run["load"], run["tool"]].append(run)

    def of(self, load):
        """Clients in order, with their runs of a load."""
        return [(tools.TOOLS[name], self.runs[load, name]) for name in tools.TOOLS if self.runs.get((load, name))]

    def start(self, tool):
        """What the client costs before it does anything, in CPU-seconds."""
        return middle(run["used"]["cpu_s"] for run in self.runs.get(("start", tool.name), []))


def pair(runs, key, true_key):
    """Reported beside true: medians over the runs."""
    said = middle(run["said"].get(key) for run in runs)
    return "–" if said is None else f"{number(said)} / {number(middle(run['true'][true_key] for run in runs))}"


def off(runs, key, true_key):
    """How far off, in the median over the runs and at most, in milliseconds."""
    errors = [run["said"][key] - run["true"][true_key] for run in runs if run["said"].get(key) is not None]
    if not errors:
        return "–"
    worst = max(errors, key=abs)
    return f"{statistics.median(errors):+.3f} ({worst:+.3f})"


def true_key(tool, key):
    """Which truth a figure is held against: a client that reports means of requests is held against means."""
    return f"mean_{key}" if tool.itl == "mean" and key.startswith("itl") else key


def latency_table(results, load):
    """Reported and true latencies."""
    rows = []
    for tool, runs in results.of(load.name):
        mark = " ¹" if tool.itl == "mean" else ""
        cells = [pair(runs, key, true_key(tool, key)) + (mark if key.startswith("itl") else "") for _, key in LATENCIES]
        errors = [off(runs, key, true_key(tool, key)) for key in ("ttft_p99", "itl_p99")]
        rows.append([tool.title, *cells, *errors])
    return table(["client", *(title for title, _ in LATENCIES), "TTFT p99 off", "ITL p99 off"], rows)


def cost_table(results, load):
    """What it took, and whether all of it was counted."""
    rows = []
    for tool, runs in results.of(load.name):
        start = results.start(tool)
        whole = middle(run["used"]["cpu_s"] / run["true"]["all_tokens"] * 1e6 for run in runs if run["true"]["all_tokens"])
        running = (
            middle((run["used"]["cpu_s"] - start) / run["true"]["all_tokens"] * 1e6 for run in runs if run["true"]["all_tokens"])
            if start is not None
            else None
        )
        verdicts = collections.Counter(run["said"].get("verdict", "–") for run in runs)
        rows.append(
            [
                tool.title,
                number(running, 1),
                number(whole, 1),
                number(middle(run["used"]["wall_s"] for run in runs), 1),
                number(middle(run["used"]["rss_mib"] for run in runs), 0),
                counted(runs, "completed"),
                counted(runs, "tokens"),
                ", ".join(f"{verdict} ×{count}" if count > 1 else verdict for verdict, count in verdicts.items() if verdict != "–") or "–",
                len(runs),
            ]
        )
    head = ["client", "CPU s per million tokens, running", "with its start", "wall, s", "memory, MiB", "requests", "tokens", "its verdict", "runs"]
    return table(head, rows)


def counted(runs, key):
    """Reported beside true, of the last run."""
    said, true = runs[-1]["said"].get(key), runs[-1]["true"][key]
    return "–" if said is None else f"{said:,} / {true:,}"


def open_table(results, load):
    """How the open loop was kept."""
    rows = []
    for tool, runs in results.of(load.name):
        truths = [run["true"] for run in runs]
        count, distance = truths[0]["asked"], middle(true.get("gap_ks") for true in truths)
        rows.append(
            [
                tool.title,
                number(middle(true.get("rate") for true in truths), 0),
                number(middle(run["said"].get("rate") for run in runs), 0),
                number(middle(true.get("gap_cov") for true in truths)),
                number(middle(true.get("gap_median_ms") for true in truths), 3),
                number(distance, 3) + (" ✗" if distance is not None and distance > 1.63 / count**0.5 else ""),
                pair(runs, "ttft_p50", "ttft_p50"),
                pair(runs, "ttft_p99", "ttft_p99"),
                number(middle(run["used"]["cpu_s"] for run in runs)),
                counted(runs, "completed"),
                len(runs),
            ]
        )
    head = ["client", "offered, requests/s", "it reports", "CoV of gaps", "median gap, ms", "KS distance", "TTFT p50", "TTFT p99", "CPU s", "requests", "runs"]
    return table(head, rows)


def judge(run, expected):
    """What a client made of an odd stream: nothing where it is right."""
    said, true = run["said"], run["true"]
    if said.get("nothing"):
        return "right" if expected == "failed" else "no result"
    if expected == "failed":
        return "right" if not said["completed"] else f"{said['completed']} of 10 a success"
    if said["completed"] != true["asked"]:
        return f"{said['completed']} of {true['asked']} done"
    wrong = []
    if said.get("tokens") is not None and said["tokens"] != true["tokens"]:
        wrong.append(f"{said['tokens']} tokens, not {true['tokens']}")
    # One gap between tokens is 10 ms: half of it is a token missed, or one too many.
    if run["load"] != "odd-empty-first" and (said.get("ttft_p50") is None or abs(said["ttft_p50"] - true["ttft_p50"]) > 5):
        wrong.append("no TTFT" if said.get("ttft_p50") is None else f"TTFT {said['ttft_p50'] - true['ttft_p50']:+.0f} ms")
    return "; ".join(wrong) or "right"


def odd_table(results):
    """What each client made of each odd stream, and how many of them it got wrong."""
    asked = [tool for tool in tools.TOOLS.values() if any(results.runs.get((f"odd-{fault}", tool.name)) for fault in loads.ODD)]
    rows, wrong = [], collections.Counter()
    for fault, expected in loads.ODD.items():
        row = [f"`{fault}`", "answer" if expected == "ok" else "failure"]
        for tool in asked:
            runs = results.runs.get((f"odd-{fault}", tool.name))
            verdict = judge(runs[-1], expected) if runs else "–"
            wrong[tool.name] += verdict not in ("right", "–")
            row.append("" if verdict == "right" else verdict)
        rows.append(row)
    rows.append(["**wrong**", f"of {len(loads.ODD)}", *(f"**{wrong[tool.name]}**" for tool in asked)])
    return table(["stream", "is", *(tool.title for tool in asked)], rows)


def machine():
    """Where it was measured."""
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    cores = sum(line.startswith("processor") for line in open("/proc/cpuinfo"))
    return f"{cores} cores of an {model}, {platform.system()} {platform.release().split('-')[0]}, Python {platform.python_version()}"


def pauses(results):
    """What an empty loop saw of the machine itself."""
    runs = results.runs.get(("still", "none"), [])
    if not runs:
        return "(not measured)"
    seen = [pause for run in runs for pause in run["pauses_ms"]]
    seconds = sum(run["seconds"] for run in runs)
    return f"{sum(pause > 1 for pause in seen)} pauses of over 1 ms in {seconds:.0f} s, the longest of {max(seen, default=0):.1f} ms"


def commands(results):
    """The command lines, as run under the first load."""
    lines = []
    for tool, runs in results.of("64x10"):
        lines.append(f"# {tool.title} ({VERSIONS[tool.name]})\n{' '.join(runs[-1]['command'])}")
    return "\n".join(lines)


def write(results, words):
    """The page."""
    at = max(run["at"] for runs in results.runs.values() for run in runs)
    when = datetime.datetime.fromtimestamp(at, datetime.UTC)
    parts = {
        "date": when.strftime("%Y-%m-%d"),
        "machine": machine(),
        "commands": commands(results),
        "pauses": pauses(results),
        "passed_over": str(results.passed_over),
        "odd": odd_table(results),
        "open": open_table(results, loads.LOADS["open1000"]),
        "starts": ", ".join(f"{tool.title} {number(results.start(tool), 2)}" for tool, _ in results.of("start")),
        **{f"latency-{name}": latency_table(results, loads.LOADS[name]) for name in ("64x10", "256x5")},
        **{f"cost-{name}": cost_table(results, loads.LOADS[name]) for name in ("64x10", "256x5")},
    }
    for name, text in parts.items():
        words = words.replace("{{" + name + "}}", text.strip())
    return words


def main():
    """Reads the results and writes the page."""
    source, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    words = (pathlib.Path(__file__).parent / "page.md").read_text()
    target.write_text(write(Results(source), words))
    print(f"{target} written")


if __name__ == "__main__":
    main()
