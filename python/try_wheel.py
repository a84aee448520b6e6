"""The installed package, tried on a small run: `try_wheel.py FOLDER` measures the embedded engine into FOLDER and loads the run."""

import shutil
import subprocess
import sys
from pathlib import Path

import serving_bench

folder = Path(sys.argv[1])
run = folder / "run"
measured = subprocess.run(
    ["bench-throughput", "--engine", "fixed", "--concurrency", "1,2", "--requests", "6", "--quick", "--quiet", "--out", run]
)
# 3: whether the numbers can be believed depends on what else this machine does
assert measured.returncode in (0, 3), measured
for name in ("latency", "throughput", "seqlen", "report", "engine"):
    said = subprocess.run([f"bench-{name}", "--version"], capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"bench-{name} "), said

record = serving_bench.record(run)
cells = serving_bench.load(run)
requests = serving_bench.load(run, "requests")
assert cells["cell"].to_list() == [cell["id"] for cell in record["cells"]], cells
measured = requests.filter(requests["phase"] == "measure")
assert measured.height == sum(cell["counts"]["planned"] for cell in record["cells"]), requests
assert serving_bench.load(run, "requests", "pandas").shape == requests.shape
assert serving_bench.load(run, "tokens").height > measured.height

for wrong in (lambda: serving_bench.load(run, "cell"), lambda: serving_bench.load(run, "cells", "arrow"), lambda: serving_bench.record(folder / "none")):
    try:
        wrong()
    except (ValueError, RuntimeError) as error:
        assert str(error), error
    else:
        raise AssertionError("that should have been refused")

# where only the records are left, the way back is told
(run / "run.json").unlink()
try:
    serving_bench.load(run)
except RuntimeError as error:
    assert "bench-report recover" in str(error), error
subprocess.run(["bench-report", "recover", run], check=True, capture_output=True)
assert serving_bench.load(run, "requests").equals(requests)
shutil.rmtree(run)
print(f"the wheel works: {requests.height} requests in {cells.height} cells")
