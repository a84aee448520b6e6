#!/usr/bin/env python3
"""One load from several nodes of a Ray cluster, one process on each, and one result of it. docs/scale.md says what is shared and what is not.

    run.py --url http://server:8000 --out /shared/run [--nodes 4] [--cpus 8] [--address auto] [OPTIONS OF THE BENCHMARK]

A placement group takes one bundle of CPUs on each node (STRICT_SPREAD) and each runs bench-throughput as a shard; shard 0 is the first bundle's, and the
others call it at its node's address. OUT is a folder that all nodes see. bench-throughput and bench-report are in the PATH of all nodes.
Without --nodes each alive node gets a shard. Exit code: that of shard 0, which shows and judges the whole.
"""

import argparse
import os
import secrets
import socket
import subprocess
import sys

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy


def meeting_place():
    """This node's address, and a port of it that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return ray.util.get_node_ip_address(), probe.getsockname()[1]


def shard(index, count, meet, token, command, out):
    """Run one shard; gives its exit code, its output and what it said."""
    environment = os.environ | {"BENCH_MEET_TOKEN": token}
    place = f"{out}/shard-{index}-of-{count}" if count > 1 else out
    more = ["--meet", meet] if count > 1 else []
    done = subprocess.run(
        [*command, "--shard", f"{index}/{count}", *more, "--out", place],
        env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )
    return done.returncode, done.stdout, done.stderr


def main():
    """Place the shards, run them, show what shard 0 shows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--cpus", type=int, default=8)
    parser.add_argument("--address", default="auto")
    ours, load = parser.parse_known_args()
    ray.init(address=ours.address, log_to_driver=False)
    count = ours.nodes or sum(node["Alive"] for node in ray.nodes())
    group = placement_group([{"CPU": ours.cpus}] * count, strategy="STRICT_SPREAD")
    if not group.wait(60):
        sys.exit(f"Ray has no {count} nodes with {ours.cpus} free CPUs each: ask for fewer with --nodes or --cpus")

    def on(index):
        strategy = PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=index)
        # a shard that failed is not started again: its part of the load would be sent twice
        return {"num_cpus": ours.cpus, "scheduling_strategy": strategy, "max_retries": 0}

    # each runs to its end before the next asks for the same bundle
    host, port = ray.get(ray.remote(meeting_place).options(**on(0)).remote())
    command = ["bench-throughput", "--url", ours.url, *(load or ["--concurrency", "64,256,1024", "--duration", "2m"])]
    command += ["--no-progress", "--quiet"]
    token = secrets.token_hex(16)
    run = ray.remote(shard)
    shards = [run.options(**on(i)).remote(i, count, f"{host}:{port}", token, command, ours.out) for i in range(count)]
    first = 1
    for index, result in enumerate(shards):
        try:
            code, output, said = ray.get(result)
        except ray.exceptions.RayError as gone:
            # its node, or Ray's process there
            code, output, said = 1, "", f"shard {index} of {count} is gone: {gone}\n"
        sys.stderr.write(said)
        if index == 0:
            sys.stdout.write(output)
            first = code
    remove_placement_group(group)
    sys.exit(first)


if __name__ == "__main__":
    main()
