#!/usr/bin/env python3
"""A long run against the embedded engine and what it needed: soak.py [--minutes M] [--rate R] [--tokens N] [--bin FILE] [--out DIR]

An open loop of one cell, as fast as is asked. Afterwards the run's own readings say what the client's memory did, its journal how late it
sent at the beginning and at the end. Prints a table in Markdown and writes DIR/memory.svg. Exit code 1 where a request is missing, where
memory grew by more than 600 bytes for each request beside what a cell may keep, or where requests were sent later and later.
Needs nothing but Python.
"""

import argparse
import json
import pathlib
import subprocess
import sys

BYTES_PER_REQUEST = 600
KEPT_AT_MOST = 300 << 20


def parts(run, stem):
    """The parts of a journal, in order."""
    numbered = sorted(run.glob(f"{stem}.[0-9]*.jsonl"))
    return [run / f"{stem}.jsonl", *numbered]


def lines(run, stem):
    for part in parts(run, stem):
        with part.open() as text:
            for line in text:
                yield json.loads(line)


def memory(run):
    """Seconds and bytes of the client's and of the engine's resident memory."""
    series = {"client": [], "server_process": []}
    for reading in lines(run, "hardware"):
        held = reading.get("values", {}).get("memory_resident_bytes")
        if reading["source"] in series and held is not None:
            series[reading["source"]].append((reading["to"] / 1e9, held))
    return series


def requests(run):
    """Number of measured requests, those that are whole, ids seen twice, and (second, lateness in ms) of each."""
    ids, whole, late = set(), 0, []
    for record in lines(run, "requests"):
        if record["phase"] != "measure":
            continue
        ids.add(record["id"])
        whole += record["wire"]["outcome"]["kind"] == "completed"
        if "sent" in record["wire"]:
            late.append((record["due"] / 1e9, (record["wire"]["sent"] - record["due"]) / 1e6))
    late.sort()
    return len(late), len(ids), whole, late


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(int(q * len(ordered)), len(ordered) - 1)] if ordered else float("nan")


def draw(series, path):
    """Two lines over time, as SVG."""
    width, height, left, bottom = 860, 320, 70, 40
    last = max(at for points in series.values() for at, _ in points)
    most = max(held for points in series.values() for _, held in points) * 1.1
    x = lambda at: left + at / last * (width - left - 20)
    y = lambda held: height - bottom - held / most * (height - bottom - 20)
    colours = {"client": "#1f6f8b", "server_process": "#c4713b"}
    names = {"client": "benchmark", "server_process": "embedded engine"}
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">']
    out.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    for step in range(5):
        held = most * step / 4
        out.append(f'<line x1="{left}" x2="{width - 20}" y1="{y(held):.1f}" y2="{y(held):.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 6}" y="{y(held) + 4:.1f}" text-anchor="end">{held / 2**20:.0f} MiB</text>')
        anchor = "end" if step == 4 else "middle"
        out.append(f'<text x="{x(last * step / 4):.1f}" y="{height - 18}" text-anchor="{anchor}">{last * step / 4 / 60:.1f} min</text>')
    for number, (name, points) in enumerate(series.items()):
        thinned = points[:: max(1, len(points) // 600)]
        path_text = " ".join(f"{x(at):.1f},{y(held):.1f}" for at, held in thinned)
        out.append(f'<polyline fill="none" stroke="{colours[name]}" stroke-width="1.5" points="{path_text}"/>')
        out.append(f'<text x="{left + 10 + 150 * number}" y="14" fill="{colours[name]}">{names[name]}, resident</text>')
    out.append("</svg>\n")
    path.write_text("\n".join(out))


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--minutes", type=float, default=60)
    arguments.add_argument("--rate", type=float, default=200)
    arguments.add_argument("--tokens", type=int, default=64)
    arguments.add_argument("--bin", default="target/release/bench-throughput")
    arguments.add_argument("--out", default="results/soak")
    arguments.add_argument("--read", action="store_true", help="measure nothing, read what is in DIR")
    asked = arguments.parse_args()
    run = pathlib.Path(asked.out)
    command = [
        asked.bin, "--engine", "instant", "--rate", str(asked.rate), "--duration", f"{asked.minutes}m", "--dataset", "random",
        "--input-tokens", "32", "--output-tokens", str(asked.tokens), "--no-html", "--no-progress", "--quiet", "--out", str(run),
    ]
    if not asked.read:
        print("$", " ".join(command), flush=True)
        code = subprocess.run(command).returncode
        if code not in (0, 3):
            sys.exit(f"the run ended with exit code {code}")
    record = json.loads((run / "run.json").read_text())
    series, (count, different, whole, late) = memory(run), requests(run)
    draw(series, run / "memory.svg")
    # What a cell holds is given back when it ends: its last request counts, and the peak while its figures are made.
    client = [point for point in series["client"] if point[0] <= late[-1][0]]
    at_third = next(i for i, point in enumerate(client) if point[0] >= client[-1][0] / 3)
    early, end = client[at_third][1], client[-1][1]
    most = max(held for _, held in series["client"])
    minute = min(60, late[-1][0] / 4)
    first = [ms for at, ms in late if at < late[0][0] + minute]
    final = [ms for at, ms in late if at > late[-1][0] - minute]
    bytes_of = lambda stem: sum(part.stat().st_size for part in parts(run, stem))
    cell = record["cells"][0]
    grown = end - early
    print(f"""
| | |
|---|---|
| length, offered | {asked.minutes:g} min, {asked.rate:g} requests/s of {asked.tokens} tokens |
| requests on disk, completed, planned | {count}, {whole}, {cell['counts']['planned']} |
| client memory after a third of the time, at the last request, while its figures were made | {early / 2**20:.0f}, {end / 2**20:.0f}, {most / 2**20:.0f} MiB |
| growth for each request after the first third | {grown / max(1, 2 / 3 * count):.0f} bytes |
| lateness p50, p99 in the first {minute:.0f} s | {quantile(first, 0.5):.3f}, {quantile(first, 0.99):.3f} ms |
| lateness p50, p99 in the last {minute:.0f} s | {quantile(final, 0.5):.3f}, {quantile(final, 0.99):.3f} ms |
| journals | {bytes_of('requests') / 2**20:.0f} MiB of requests in {len(parts(run, 'requests'))} parts, {bytes_of('hardware') / 2**20:.0f} MiB of readings in {len(parts(run, 'hardware'))} |
| client CPU | {cell['client'].get('cpu_seconds', float('nan')):.0f} s |""")
    problems = []
    if not count == different == cell["counts"]["planned"] - cell["counts"]["unsent"]:
        problems.append(f"{count} requests on disk, {different} different ones, {cell['counts']['planned']} planned")
    if grown > BYTES_PER_REQUEST * count + KEPT_AT_MOST:
        problems.append(f"memory grew by {grown / 2**20:.0f} MiB")
    if quantile(final, 0.5) > 10 * max(quantile(first, 0.5), 1):
        problems.append("requests are sent later and later")
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
