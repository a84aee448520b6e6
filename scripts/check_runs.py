#!/usr/bin/env python3
"""Checks that run directories account for every request, prints a table: check_runs.py [OPTIONS] RUN...

For each run: it is complete; in every cell the counts add up to what was planned and all of it completed; `requests.jsonl` has one
line for each request, warm-up included, no two the same; each answer has the length that was asked for, by the server's own count;
its stamps are in order. With --served (answers and tokens that the server says it gave) the runs together have to hold exactly those,
but for one answer of one token that each run may have asked for beforehand. Where the server reports its own decode time per answer,
the client's is held against it. Exit code 1 and one line per problem where something does not hold. Needs nothing but Python.
"""

import argparse
import collections
import json
import pathlib
import statistics
import sys

ENDINGS = ("completed", "failed", "timed_out", "truncated", "cancelled", "unsent")
MEANS = ("ttft", "itl", "tpot", "e2e")


class Run:
    """A run directory, and what is wrong with it."""

    def __init__(self, path):
        self.path, self.problems = path, []
        self.run = json.loads((path / "run.json").read_text())
        # a long run goes on in requests.0001.jsonl, requests.0002.jsonl, …
        parts = [path / "requests.jsonl", *sorted(path.glob("requests.[0-9]*.jsonl"))]
        self.records = [json.loads(line) for part in parts for line in part.read_text().splitlines()]

    def expect(self, holds, problem):
        """Notes the problem unless it holds."""
        if not holds:
            self.problems.append(f"{self.path}: {problem}")

    def check(self):
        """All that has to hold within one run."""
        self.expect(self.run["complete"], f"incomplete: {self.run.get('incomplete_reason')}")
        keys = collections.Counter((r["cell"], r["repeat"], r["phase"], r["id"]) for r in self.records)
        twice = [key for key, count in keys.items() if count > 1]
        self.expect(not twice, f"recorded twice: {twice[:3]}")
        for cell in self.run["cells"]:
            self.check_cell(cell)
        for record in self.records:
            self.check_record(record)

    def check_cell(self, cell):
        """The counts of a cell, against each other and against the records."""
        counts, at = cell["counts"], f"cell {cell['id']}"
        ended = sum(counts[ending] for ending in ENDINGS)
        self.expect(counts["planned"] == ended, f"{at}: {counts['planned']} planned, {ended} ended")
        self.expect(counts["completed"] == counts["planned"] > 0, f"{at}: not all completed: {counts}")
        mine = collections.Counter(r["phase"] for r in self.records if r["cell"] == cell["id"])
        self.expect(mine["measure"] == counts["planned"], f"{at}: {mine['measure']} lines for {counts['planned']} requests")
        self.expect(mine["warmup"] == counts["warmup"], f"{at}: {mine['warmup']} lines for {counts['warmup']} warm-up requests")

    def check_record(self, record):
        """One request: ended well, as long as asked, stamps in order."""
        wire, at = record["wire"], f"cell {record['cell']} {record['phase']} request {record['id']}"
        self.expect(wire["outcome"]["kind"] == "completed", f"{at}: {wire['outcome']}")
        self.expect(record["token_source"] == "usage", f"{at}: tokens from {record['token_source']}, not from the server")
        asked, got = record.get("asked_output_tokens"), record.get("output_tokens")
        self.expect(asked == got, f"{at}: {got} tokens for {asked} asked")
        stamps = [wire.get("sent"), wire.get("headers"), wire.get("events", {}).get("first"), wire.get("closed")]
        self.expect(None not in stamps and stamps == sorted(stamps), f"{at}: stamps out of order: {stamps}")

    def tokens(self):
        """Output tokens of all requests, warm-up included."""
        return sum(record.get("output_tokens") or 0 for record in self.records)

    def decode_ratio(self):
        """Median over answers of the client's decode time over the server's own; absent where the server tells none."""
        ratios = []
        for record in self.records:
            events, decode = record["wire"].get("events", {}), (record["wire"].get("server") or {}).get("decode")
            if decode and "last" in events and events["last"] > events["first"] and record["output_tokens"] > 16:
                ratios.append((events["last"] - events["first"]) / decode)
        return statistics.median(ratios) if ratios else None

    def rows(self):
        """A table row per cell, all cells of a latency grid in one."""
        cells = self.run["cells"]
        for group in [cells] if len(cells) > 4 else [[cell] for cell in cells]:
            totals = collections.Counter()
            for cell in group:
                totals.update({key: cell["counts"][key] for key in ("planned", "completed", "replaced_connections")})
            label = group[0]["id"] if len(group) == 1 else f"{len(group)} cells"
            one = group[0] if len(group) == 1 else {"metrics": {}, "windows": {}}
            rate = one["windows"].get("whole", {}).get("output_tokens_per_s")
            yield [
                self.path.name,
                label,
                *(str(totals[key]) for key in ("planned", "completed", "replaced_connections")),
                "" if rate is None else f"{rate:.0f}",
                *(milliseconds(one["metrics"].get(name)) for name in ("ttft", "itl", "e2e")),
                self.run["trust"]["verdict"],
            ]

    def beside_server(self):
        """A row per cell for which the server tells means of its own: its and the client's, in milliseconds.

        The client's is of the requests that the server's histograms counted where the record has that ratio, else of the whole cell.
        """
        for cell in self.run["cells"]:
            derived = {name: figure["value"] for name, figure in (cell.get("hardware") or {}).get("derived", {}).items()}
            theirs = [derived.get(f"server_{name}_mean") for name in MEANS]
            if any(theirs):
                overs = [derived.get(f"server_{name}_over_client") for name in MEANS]
                whole = [cell["metrics"].get(name, {}).get("mean") for name in MEANS]
                ours = [own / over if over else mean for own, over, mean in zip(theirs, overs, whole)]
                pairs = ([f"{value / 1e6:.3f}" if value else "–" for value in pair] for pair in zip(theirs, ours))
                yield [self.path.name, cell["id"], *(" / ".join(pair) for pair in pairs)]


def median(metric):
    """The median of a distribution in milliseconds; absent where there is none."""
    for quantile in (metric or {}).get("quantiles", []):
        if quantile["q"] == 0.5:
            return quantile["value"] / 1e6
    return None


def milliseconds(metric):
    """The median of a distribution in milliseconds, as text."""
    value = median(metric)
    return "" if value is None else f"{value:.3f}"


def token_times(run):
    """The medians of the token gaps, by cell, in milliseconds."""
    medians = {cell["id"]: median(cell["metrics"].get("itl")) for cell in run.run["cells"]}
    return {cell: value for cell, value in medians.items() if value}


def compare(runs, one, other):
    """Prints how the token times of runs relate that took turns: those named `turns-N-ONE` over those named `turns-N-OTHER`.

    The server served them one after the other, so a single ratio is no check; several show how far they scatter by themselves.
    """
    ratios = collections.defaultdict(list)
    for name, run in runs.items():
        partner = runs.get(f"{name.removesuffix(one)}{other}") if name.startswith("turns-") and name.endswith(f"-{one}") else None
        if partner is None:
            continue
        theirs = token_times(partner)
        for cell, value in token_times(run).items():
            if cell in theirs:
                ratios[cell].append(value / theirs[cell])
    for cell, found in ratios.items():
        shown = ", ".join(f"{ratio:.3f}" for ratio in found)
        print(f"{cell}: ITL p50 of {one} over {other}: median {statistics.median(found):.3f} of {len(found)} ({shown})")


def table(head, rows):
    """A Markdown table."""
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def main():
    """Checks, prints, and tells by the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=pathlib.Path, nargs="+")
    parser.add_argument("--served", type=int, nargs=2, metavar=("ANSWERS", "TOKENS"), help="what the server says it gave for all of the runs")
    parser.add_argument("--decode-within", type=float, help="largest relative difference from the server's own decode times")
    parser.add_argument("--server-means", action="store_true", help="print the means that the server tells beside the client's")
    parser.add_argument("--compare", nargs=2, default=[], metavar="NAME", help="runs named turns-N-NAME, whose token times are set side by side")
    options = parser.parse_args()

    runs = [Run(path) for path in options.runs]
    for run in runs:
        run.check()
    head = ["run", "cell", "planned", "completed", "replaced", "tokens/s", "TTFT p50", "ITL p50", "E2E p50", "verdict"]
    table(head, (row for run in runs if not run.path.name.startswith("turns-") for row in run.rows()))
    if options.server_means:
        print("\nMeans in milliseconds, the server's own / the client's:\n")
        table(["run", "cell", *(name.upper() for name in MEANS)], (row for run in runs for row in run.beside_server()))
    problems = [problem for run in runs for problem in run.problems]
    print()
    for run in runs:
        ratio = run.decode_ratio()
        if ratio is not None:
            print(f"{run.path.name}: decode time, client over server, median {ratio:.4f}")
            if options.decode_within is not None and abs(ratio - 1) > options.decode_within:
                problems.append(f"{run.path}: decode times are {ratio:.4f} of the server's own")
    named = {run.path.name: run for run in runs}
    if options.compare:
        compare(named, *options.compare)
    tokens, requests = sum(run.tokens() for run in runs), sum(len(run.records) for run in runs)
    print(f"{requests} requests, {tokens} output tokens recorded")
    if options.served is not None:
        answers, generated = options.served
        print(f"{answers} answers, {generated} tokens generated, says the server")
        # before a run the benchmark may ask for one token, to learn the length of the chat template
        if not 0 <= answers - requests <= len(runs) or generated - tokens != answers - requests:
            problems.append(f"the server gave {answers} answers of {generated} tokens, the runs hold {requests} of {tokens}")
    for problem in problems[:40]:
        print(f"PROBLEM {problem}", file=sys.stderr)
    if problems:
        print(f"{len(problems)} problems", file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
