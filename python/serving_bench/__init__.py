"""The results of bench-latency, bench-throughput and bench-seqlen as data frames.

>>> import serving_bench
>>> serving_bench.record("results/RUN")["trust"]["verdict"]
>>> serving_bench.load("results/RUN")                # a row for each cell, a polars frame
>>> serving_bench.load("results/RUN", "requests", "pandas")

Both ask `bench-report export`, so that a figure here is the figure of the reports, and a run that was killed can be read too.
"""

import json
import shutil
import subprocess
import sysconfig
import tempfile
import warnings
from pathlib import Path

__all__ = ["load", "record"]


def load(run, table="cells", frames="polars"):
    """A table of the run in the folder `run`: "cells", "requests", "tokens" or "readings". `frames` is "polars" or "pandas".

    Names and units of the columns are those of docs/schema.md; what is not known is null.
    """
    if frames == "polars":
        from polars import read_parquet
    elif frames == "pandas":
        from pandas import read_parquet
    else:
        raise ValueError(f'frames is "polars" or "pandas", not {frames!r}')
    tables = ("cells", "requests", "tokens", "readings")
    if table not in tables:
        raise ValueError(f"table is one of {', '.join(tables)}, not {table!r}")
    return _exported(run, "parquet", f"{table}.parquet", read_parquet)


def record(run):
    """All that `run.json` says of the run in the folder `run`, as docs/schema.md describes it: title, trust, cells, findings, …."""
    return _exported(run, "json", "run.json", lambda path: json.loads(path.read_text(encoding="utf-8")))


def _exported(run, format, name, read):
    with tempfile.TemporaryDirectory() as folder:
        command = [_bench_report(), "export", str(run), "--format", format, "--out", folder]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        if done.stderr:
            warnings.warn(done.stderr.strip(), stacklevel=3)
        return read(Path(folder) / name)


def _bench_report():
    """The program that this package installed, before one that the PATH may have."""
    beside = Path(sysconfig.get_path("scripts")) / "bench-report"
    found = str(beside) if beside.exists() else shutil.which("bench-report")
    if found is None:
        raise FileNotFoundError(f"bench-report is neither {beside} nor on the PATH")
    return found
