# What the scripts that verify against a real server share. Sourced by them from the repository root.

# Prints a loopback port that was free a moment ago.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# fetch URL: prints what it answers.
fetch() {
    python3 -c 'import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode())' "$1"
}

# benches DIR: prints the folder of the three benchmarks: DIR where given, else a release build of them.
benches() {
    if [ -n "$1" ]; then
        for name in latency throughput seqlen; do
            [ -x "$1/bench-$name" ] || { echo "no bench-$name in $1: name the folder of the three built benchmarks" >&2; return 1; }
        done
        (cd "$1" && pwd)
    else
        cargo build --release --bin bench-latency --bin bench-throughput --bin bench-seqlen >&2
        echo "${CARGO_TARGET_DIR:-$PWD/target}/release"
    fi
}

# Ends what this script started, and waits for it.
stop_server() {
    local pid
    for pid in ${run:-} ${server_pid:-}; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    run="" server_pid=""
}
trap stop_server EXIT
trap 'exit 130' INT TERM

# measure NAME BENCHMARK ARGS...: one run against $url into $runs/NAME. A doubtful run (exit code 3) is fine here: this is about
# counts, and the machine may be busy. $always holds arguments of every run. A server that ends meanwhile ends all of it.
measure() {
    local name="$1" benchmark="$2" code=0
    shift 2
    echo "--- $name: bench-$benchmark $*"
    ${VERIFY_UNDER:-} "$bench/bench-$benchmark" --url "$url" --wait "${wait_for:-120s}" --out "$runs/$name" --no-html --no-progress --quiet \
        "${always[@]}" "$@" &
    run=$!
    wait -n "$run" "$server_pid" || code=$?
    if ! kill -0 "$server_pid" 2>/dev/null; then
        echo "the server ended by itself; the end of $work/server.log:" >&2
        tail -n 20 "$work/server.log" >&2
        return 1
    fi
    run=""
    if [ "$code" -ne 0 ] && [ "$code" -ne 3 ]; then
        echo "bench-$benchmark ended with exit code $code" >&2
        return 1
    fi
    measured+=("$runs/$name")
}

# The runs of every OpenAI-compatible server: both protocols, streamed and whole, one and eight requests in flight.
measure_openai() {
    local api
    for api in openai-chat openai-completions; do
        measure "throughput-$api" throughput --api "$api" --concurrency 1,8 --requests "$requests"
        measure "throughput-$api-whole" throughput --api "$api" --no-stream --concurrency 1,8 --requests "$requests"
        measure "latency-$api" latency --api "$api" --repeat "$repeats"
        measure "seqlen-$api" seqlen --api "$api" --requests "$requests"
    done
    measure latency-whole latency --no-stream --repeat "$repeats"
    measure seqlen-whole seqlen --no-stream --requests "$requests"
}
