#!/usr/bin/env bash
# One load from several hosts by Open MPI's mpirun, one process on each, and one result of it. docs/scale.md says what is shared and what is not.
#
#   shards.sh http://server:8000 node-1,node-2,node-3,node-4 OUT [OPTIONS OF THE BENCHMARK]
#
# OUT is a folder that all hosts see. bench-throughput and bench-report are in the same place on all of them.
set -euo pipefail
url="$1" hosts="$2" out="$3"
shift 3
load=("$@")
[ $# -gt 0 ] || load=(--concurrency 64,256,1024 --duration 2m)

# Shard 0 is the first of the hosts. The port (PORT, or 7077) has to be free there.
first="${hosts%%,*}"
# A secret of this run alone, which mpirun hands to every rank (-x).
BENCH_MEET_TOKEN="$(openssl rand -hex 16)"
export BENCH_MEET_TOKEN

# In a job of Slurm every rank would have the SLURM_PROCID of whoever called mpirun. A rank whose numbers are not to be trusted ends with code 3:
# that is no reason to end the others (--enable-recovery).
env -u SLURM_PROCID -u SLURM_NTASKS \
    mpirun --host "$hosts" --map-by node --bind-to none --enable-recovery -x BENCH_MEET_TOKEN \
    bench-throughput --url "$url" "${load[@]}" --no-html --no-progress --quiet \
    --shard auto --meet "$first:${PORT:-7077}" --out "$out" || echo "a shard ended with code $?" >&2

# Shard 0 has done this, unless a shard was lost.
[ -e "$out/merged" ] || bench-report merge "$out"/shard-* --out "$out/merged"
