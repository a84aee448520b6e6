#!/usr/bin/env python3
"""Runs one client under one load against the embedded engine, and appends what it said and what was true to a file:

    measure.py --bench FOLDER --work FOLDER LOAD CLIENT

The engine runs alone on one processor and the client on another; the engine's ledger, of that run alone, is the truth. A line of
`results.jsonl` in the work folder is one run.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

import loads
import tools
import truth

PR_SET_CHILD_SUBREAPER = 36
LIMIT = 170


def fetch(url):
    """What it answers."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


@contextlib.contextmanager
def engine(bench, load, core, out):
    """The engine for a load, on a processor of its own; gives its address and its process."""
    profile = out / "engine.toml"
    profile.write_text(load.profile())
    command = ["taskset", "-c", str(core), f"{bench}/bench-engine", "serve", "--port", "0", "--profile", str(profile)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            if "listening on " not in line:
                raise SystemExit(f"the engine did not start: {' '.join(command)}")
            yield line.split("listening on ")[1].strip(), process.pid
        finally:
            process.terminate()


def worked(process):
    """Seconds that a process has run so far, by the same account."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{process}/task").iterdir()) / 1e9


def reap(command, log):
    """In a process of its own: runs the command, waits for all its descendants, and gives what they used."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began = time.monotonic()
    with open(log, "w") as file:
        client = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        # Popen's own bookkeeping must not see the exit code first: every child is waited for here.
        signal.signal(signal.SIGALRM, lambda *_: os.killpg(client.pid, signal.SIGKILL))
        signal.alarm(LIMIT)
        code, wall = None, None
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.wait()
                if pid == client.pid:
                    code, wall = os.waitstatus_to_exitcode(status), time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"code": code, "wall_s": wall, "cpu_s": used.ru_utime + used.ru_stime, "rss_mib": used.ru_maxrss / 1024}


def idle():
    """Seconds that all processors have been idle so far. Idle time is measured, while work is counted by ticks, which miss short work."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def run(command, environment, core, log):
    """The command on a processor; what it used."""
    wrapped = [sys.executable, __file__, "--reap", str(log), "--", "taskset", "-c", str(core), *command]
    done = subprocess.run(wrapped, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def measure(options, load, tool):
    """One run: a line of the results."""
    out = options.work / "runs" / f"{load.name}-{tool.name}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with engine(options.bench, load, options.engine_core, out) as (url, process):
        command = tool.command(load, url, out)
        began, rested, served = time.monotonic(), idle(), worked(process)
        used = run(command, tool.environment, options.client_core, out / "log.txt")
        # What anything else took, in processors: a run beside other work is none.
        seconds = time.monotonic() - began
        known = idle() - rested + worked(process) - served + used["cpu_s"]
        used["others"] = os.cpu_count() - known / seconds
        ledger = [json.loads(line) for line in fetch(f"{url}/ledger").splitlines()]
    try:
        said = tool.read(load, out)
    except (OSError, KeyError, ValueError, IndexError, TypeError) as error:
        said = {"nothing": f"exit code {used['code']}, {type(error).__name__}: {error}"}
    shown = [part.replace(url, "URL").replace(str(out), "OUT").replace(str(options.work), "WORK").replace(str(options.bench), "BENCH") for part in command]
    true = truth.of(ledger, load, said.get("window"))
    return {"load": load.name, "tool": tool.name, "at": time.time(), "command": shown, "used": used, "said": said, "true": true}


def stillness(core, seconds=5.0):
    """What a loop that does nothing on the client's processor sees of the machine: its pauses, in milliseconds. A virtual machine that
    was not run by its host for a while shows here, and perhaps nowhere else."""
    os.sched_setaffinity(0, {core})
    began = last = time.perf_counter()
    pauses = []
    while last - began < seconds:
        now = time.perf_counter()
        if now - last > 0.0005:
            pauses.append((now - last) * 1e3)
        last = now
    return {"load": "still", "tool": "none", "at": time.time(), "seconds": seconds, "pauses_ms": pauses}


def brief(line):
    """A line for the terminal."""
    if line["load"] == "still":
        return f"pauses of the machine in {line['seconds']} s, ms: {', '.join(f'{pause:.1f}' for pause in line['pauses_ms'])}"
    said, true, used = line["said"], line["true"], line["used"]

    def pair(key):
        return f"{key} " + "/".join("-" if side.get(key) is None else f"{side[key]:.3f}" for side in (said, true))

    cost = used["cpu_s"] / true["all_tokens"] * 1e6 if true["all_tokens"] else float("nan")
    figures = "  ".join(pair(key) for key in ("ttft_p50", "ttft_p99", "itl_p50", "itl_p99"))
    counts = f"{said.get('completed')}/{true['completed']} done, {said.get('tokens')}/{true['tokens']} tokens"
    return (
        f"{line['load']:>12} {line['tool']:<14} {figures}  {counts}  CPU {cost:.1f} s/M  wall {used['wall_s']:.1f} s  "
        f"{used['rss_mib']:.0f} MiB  others {used['others']:.3f}  {said.get('verdict', '')}{said.get('nothing', '')}"
    )


def main():
    """One run for each load and client named."""
    if sys.argv[1:2] == ["--reap"]:
        json.dump(reap(sys.argv[4:], sys.argv[2]), sys.stdout)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=pathlib.Path, required=True, help="folder of bench-engine and bench-throughput")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder of the installed clients")
    parser.add_argument("--engine-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    parser.add_argument("load", help=f"{', '.join(loads.LOADS)}, odd (all odd streams), odd-FAULT, or still (no load: the machine's own pauses)")
    parser.add_argument("client", choices=[*tools.TOOLS, "none"])
    options = parser.parse_args()
    for line in lines(options):
        with open(options.work / "results.jsonl", "a") as results:
            results.write(json.dumps(line) + "\n")
        print(brief(line), flush=True)


def lines(options):
    """What the arguments ask for, run by run."""
    if options.load == "still":
        yield stillness(options.client_core)
        return
    tool = tools.TOOLS[options.client](options.work, options.bench)
    chosen = [loads.odd(fault) for fault in loads.ODD] if options.load == "odd" else [loads.named(options.load)]
    for load in chosen:
        yield measure(options, load, tool)


if __name__ == "__main__":
    main()
