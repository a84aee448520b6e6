#!/usr/bin/env python3
"""Holds shards and their merged result against a run of one process with the same seed, and prints a table.

    check_shards.py same ONE MERGED LEDGER_ONE LEDGER_SHARDS SHARD...
    check_shards.py lost MERGED SHARD...
    check_shards.py pooled MERGED SHARD...

`same`: the server saw the same requests (its ledger: name, path, prompt and answer lengths), the shards' plan hashes add up to that of the one
process, counts add up, merged quantiles are those of all shards' requests together, the gaps of Poisson arrivals over all shards are exponential
(Kolmogorov-Smirnov), and the merged result calls them one load on one clock. `lost`: one shard was killed; counts are whole, each request is there
once, and the results say so. `pooled`: `--precision` ended the cells by the requests of all shards. Exit code 1 and one line per problem where something does not hold. Needs nothing but Python.
"""

import collections
import json
import pathlib
import sys

from pacing import against_exponential, quantile

problems = []


def expect(holds, problem):
    """Notes the problem unless it holds."""
    if not holds:
        problems.append(problem)
    return "yes" if holds else "NO"


class Run:
    """A run directory; a last line that is torn is left out."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.run = json.loads((self.path / "run.json").read_text())
        self.cells = {cell["id"]: cell for cell in self.run["cells"]}
        self.records = []
        for part in [self.path / "requests.jsonl", *sorted(self.path.glob("requests.[0-9]*.jsonl"))]:
            self.records += [json.loads(line) for line in part.read_text().split("\n")[:-1] if line]

    def measured(self, cell):
        """The measured requests of a cell."""
        return [r for r in self.records if r["cell"] == cell and r["phase"] == "measure"]

    def reasons(self):
        """Stable names of what speaks against the run."""
        return {reason["code"] for reason in self.run["trust"]["reasons"]}


def ledger(path):
    """What the server saw: how often which request."""
    entries = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines() if line]
    seen = ((e["id"], e["path"], e["prompt_tokens"], e["completion_tokens"]) for e in entries)
    return collections.Counter(entry for entry in seen if not entry[0].startswith("preflight"))


def close(a, b):
    """What is stored has seven figures."""
    return abs(a - b) <= 2e-6 * abs(b)


def headline(merged, cell, shards):
    """The shards' own records of the requests that a merged cell's figures are of: all, or those sent in its steady part."""
    window = (merged.cells[cell]["windows"].get("steady") or merged.cells[cell]["windows"]["whole"])["window"]
    ids = {r["id"] for r in merged.measured(cell) if window["from"] <= r["wire"]["sent"] < window["to"]}
    return [r for shard in shards for r in shard.measured(cell) if r["id"] in ids]


def quantiles_hold(cell, records):
    """Whether a merged cell's quantiles of TTFT and E2E from sending are those of these requests."""
    for metric, instant in (("ttft", "first"), ("e2e", "last")):
        done = (r["wire"] for r in records if r["wire"]["outcome"]["kind"] == "completed")
        values = sorted(wire["events"][instant] - wire["sent"] for wire in done)
        if any(not close(stored["value"], quantile(values, stored["q"])) for stored in cell["metrics"][metric]["quantiles"]):
            return False
    return True


def gaps_p(records, rate):
    """Kolmogorov-Smirnov's p of the gaps between requests as they left, all shards together."""
    sent = sorted(r["wire"]["sent"] for r in records)
    return against_exponential([(b - a) / 1e9 for a, b in zip(sent, sent[1:])], rate)[1]


def same(one, merged, ledger_one, ledger_shards, *shards):
    """One process and shards asked the same, and the merged result is that of all requests."""
    one, merged, shards = Run(one), Run(merged), [Run(shard) for shard in shards]
    seen = expect(ledger(ledger_one) == ledger(ledger_shards), "the server saw other requests from the shards")
    apart = {"shards_apart", "shard_lost", "clock_bound", "clocks_moved"} & merged.reasons()
    together = expect(not apart, f"{merged.path}: {', '.join(apart)}")
    expect(merged.run["complete"], f"{merged.path}: {merged.run.get('incomplete_reason')}")
    print(f"the server saw the same {sum(ledger(ledger_one).values())} requests: {seen}; one load on one clock: {together}; "
          f"clocks known to {merged.run['host']['facts']['shards.clock_disagreement']}")
    for name, cell in one.cells.items():
        parts = [shard.cells[name] for shard in shards]
        hashes = sum(int(part["plan"]["hash"], 16) for part in parts) % 2**256
        whole = int(cell["plan"]["hash"], 16)
        pooled = [record for shard in shards for record in shard.measured(name)]
        counts = [merged.cells[name]["counts"][key] == cell["counts"][key] == sum(p["counts"][key] for p in parts)
                  for key in ("planned", "completed")]
        facts = {
            "plan hashes add up": hashes == whole == int(merged.cells[name]["plan"]["hash"], 16),
            "counts add up": all(counts) and len(pooled) == cell["counts"]["planned"],
            "load is the whole": merged.cells[name]["load"] == cell["load"],
            "quantiles are of all requests": quantiles_hold(merged.cells[name], headline(merged, name, shards)),
        }
        if cell["load"].get("arrival", {}).get("kind") == "poisson":
            p = gaps_p(merged.measured(name), cell["load"]["rate_per_s"])
            facts[f"gaps are exponential (p {p:.2f})"] = p > 0.01
        told = (f"{what}: {expect(holds, f'{name}: not so: {what}')}" for what, holds in facts.items())
        print(f"  {name} ({cell['counts']['planned']} requests): {'; '.join(told)}")


def lost(merged, *shards):
    """What is left of a load one of whose shards was killed."""
    merged, shards = Run(merged), [Run(shard) for shard in shards]
    killed = [shard for shard in shards if not shard.run["complete"]]
    expect(len(killed) == 1, f"{len(killed)} shards are incomplete")
    for shard in shards:
        if shard in killed:
            continue
        expect("shard_lost" in shard.reasons(), f"{shard.path} does not miss it")
        for cell in shard.cells.values():
            ends = sum(cell["counts"].get(key, 0) for key in ("completed", "failed", "timed_out", "truncated", "cancelled", "unsent"))
            expect(ends == cell["counts"]["planned"] == len(shard.measured(cell["id"])), f"{shard.path}: counts of {cell['id']} do not add up")
    for name, cell in merged.cells.items():
        pooled = [r for shard in shards for r in shard.measured(name)]
        ids = {(r["repeat"], r["id"]) for r in pooled}
        expect(len(ids) == len(pooled) == cell["counts"]["planned"], f"{name}: {cell['counts']['planned']} planned, {len(pooled)} records, {len(ids)} ids")
        print(f"  {name}: {cell['counts']['planned']} requests, each once, "
              f"of which {sum(len(shard.measured(name)) for shard in killed)} were the killed shard's")
    verdict = merged.run["trust"]["verdict"]
    expect(verdict != "trusted" and not merged.run["complete"], f"merged: {verdict}, complete: {merged.run['complete']}")
    print(f"the merged result is {verdict}, and incomplete: {merged.run['incomplete_reason']}")


def pooled(merged, *shards):
    """A rule of --precision was met by all shards' requests, of which none had enough, and all ended by it at one time."""
    merged, shards = Run(merged), [Run(shard) for shard in shards]
    fewest = 100
    for name, cell in merged.cells.items():
        of_each = [len(shard.measured(name)) for shard in shards]
        expect(all(0 < n < fewest for n in of_each), f"{name}: a shard had {of_each} requests")
        expect(fewest <= sum(of_each) == cell["counts"]["planned"], f"{name}: {of_each} are not {cell['counts']['planned']}")
        reached = [outcome["reached"] for outcome in cell["analysis"]["precision"]]
        expect(reached and all(reached), f"{name}: not as precise as asked: {cell['analysis']['precision']}")
        print(f"  {name}: as precise as asked after {sum(of_each)} requests, {of_each} of the shards")
    expect("shards_apart" not in merged.reasons(), "the shards did not end together")


{"same": same, "lost": lost, "pooled": pooled}[sys.argv[1]](*sys.argv[2:])
for problem in problems:
    print(f"not as it should be: {problem}", file=sys.stderr)
sys.exit(bool(problems))
