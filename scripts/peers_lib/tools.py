"""The clients: how each is called for a load, with the settings its documentation recommends for it, and how its result is read.

A reader gives what the client reports, in milliseconds, and leaves out what it does not report.
"""

import json
import pathlib

from loads import PROMPT_TOKENS

USAGE = json.dumps({"stream_options": {"include_usage": True}})


class Tool:
    """A client. `work` is where it was installed."""

    name = ""
    title = ""
    # What its figure called ITL is: "gap" (each gap between two events) or "mean" (one mean for each request).
    itl = "gap"
    # What it needs to know: nothing is to be fetched.
    environment = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "NO_COLOR": "1"}

    def __init__(self, work, bench):
        self.work, self.bench = work, bench

    def command(self, load, url, out):
        """Its command line."""
        raise NotImplementedError

    def read(self, load, out):
        """What it reports."""
        raise NotImplementedError


def milliseconds(value, per=1.0):
    """A figure, or nothing where the client wrote none."""
    return None if value is None else value * per


class Ours(Tool):
    """bench-throughput of this repository."""

    name = "ours"
    title = "bench-throughput"
    extra = ()

    def command(self, load, url, out):
        how = ["--rate", f"{load.rate:g}", "--arrival", "poisson"] if load.rate else ["--concurrency", str(load.streams)]
        return [
            f"{self.bench}/bench-throughput", "--url", url, "--dataset", "random", "--input-tokens", str(PROMPT_TOKENS),
            "--output-tokens", str(load.tokens), *how, "--requests", str(load.requests), "--warmup", str(load.warmup),
            "--tokenizer", f"{self.work}/tokenizer", "--no-html", "--no-progress", "--out", str(out / "run"), *self.extra,
        ]  # fmt: skip

    def read(self, load, out):
        run = json.loads((out / "run/run.json").read_text())
        cell = run["cells"][0]
        counts, metrics, windows = cell["counts"], cell["metrics"], cell["windows"]
        chosen = windows.get("steady") or windows["whole"]
        epoch = run["clock"]["monotonic_epoch_ns"]
        report = {
            "completed": counts["completed"],
            "failed": counts["failed"] + counts["timed_out"] + counts["truncated"],
            "tokens": self.tokens(out),
            "rate": cell["plan"].get("offered_rate_per_s"),
            "verdict": run["trust"]["verdict"],
            "reasons": [reason["code"] for reason in run["trust"]["reasons"]],
            # Its percentiles are of the requests that were sent within the steady part: so have the true ones to be.
            "window": [epoch + chosen["window"]["from"], epoch + chosen["window"]["to"]],
        }
        for metric in ("ttft", "itl"):
            for at in (metrics.get(metric) or {}).get("quantiles", []):
                if at["q"] in (0.5, 0.99):
                    report[f"{metric}_p{at['q'] * 100:.0f}"] = at["value"] / 1e6
        return report

    @staticmethod
    def tokens(out):
        """Tokens of the measured answers; nothing where it says of none how many it had."""
        with open(out / "run/requests.jsonl") as lines:
            records = (json.loads(line) for line in lines)
            known = [r["output_tokens"] for r in records if r["phase"] == "measure" and r.get("output_tokens") is not None]
        return sum(known) if known else None


class OursBare(Ours):
    """The same, sampling no hardware, as the others sample none."""

    name = "ours-bare"
    title = "bench-throughput --no-hardware"
    extra = ("--no-hardware",)


class OursEager(Ours):
    """The same, waking for each token, as the others do."""

    name = "ours-eager"
    title = "bench-throughput --no-hardware --no-late-read"
    extra = ("--no-hardware", "--no-late-read")


class SglangRust(Tool):
    """sglang-bench, the Rust client inside sglang's wheel."""

    name = "sglang-rust"
    title = "sglang-bench (Rust)"
    module = "sglang.benchmark.rust_client"
    extra = ("--disable-retokenize",)

    def command(self, load, url, out):
        how = ["--request-rate", f"{load.rate:g}"] if load.rate else ["--max-concurrency", str(load.streams)]
        return [
            f"{self.work}/sglang/bin/python", "scripts/peers_lib/sglang_light.py", self.module, "--backend", "vllm-chat",
            "--base-url", url, "--model", "simulated", "--tokenizer", f"{self.work}/tokenizer", "--dataset-name", "random-ids",
            "--random-input-len", str(PROMPT_TOKENS), "--random-output-len", str(load.tokens), "--random-range-ratio", "1",
            "--num-prompts", str(load.requests), *how, "--warmup-requests", str(load.warmup),
            "--extra-request-body", USAGE, "--output-file", str(out / "result.jsonl"), "--disable-tqdm", *self.extra,
        ]  # fmt: skip

    def read(self, load, out):
        result = json.loads((out / "result.jsonl").read_text().splitlines()[-1])
        return {
            "completed": result["completed"],
            "failed": load.requests - result["completed"],
            "tokens": result["total_output_tokens"],
            "rate": result["request_throughput"],
            **{f"{m}_p50": result[f"median_{m}_ms"] for m in ("ttft", "itl")},
            **{f"{m}_p99": result[f"p99_{m}_ms"] for m in ("ttft", "itl")},
        }


class SglangPython(SglangRust):
    """sglang's bench_serving."""

    name = "sglang-python"
    title = "sglang bench_serving"
    module = "sglang.benchmark.serving"
    extra = ()


class VllmRust(Tool):
    """vllm-bench, the Rust client inside vllm's wheel."""

    name = "vllm-rust"
    title = "vllm-bench (Rust)"

    def command(self, load, url, out):
        how = ["--request-rate", f"{load.rate:g}"] if load.rate else ["--max-concurrency", str(load.streams)]
        return [
            f"{self.work}/vllm/vllm/vllm-rs", "bench", "serve", "--backend", "openai-chat", "--base-url", url, "--model", "simulated",
            "--tokenizer", f"{self.work}/tokenizer", "--dataset-name", "random", "--random-input-len", str(PROMPT_TOKENS),
            "--random-output-len", str(load.tokens), "--num-prompts", str(load.requests), *how, "--num-warmups", str(load.warmup),
            "--ignore-eos", "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,99",
            "--save-result", "--result-filename", str(out / "result.json"), "--disable-tqdm",
        ]  # fmt: skip

    def read(self, load, out):
        result = json.loads((out / "result.json").read_text())
        return {
            "completed": result["completed"],
            "failed": result["failed"],
            "tokens": result["total_output_tokens"],
            "rate": result["request_throughput"],
            **{f"{m}_{p}": result[f"{p}_{m}_ms"] for m in ("ttft", "itl") for p in ("p50", "p99")},
        }


class Aiperf(Tool):
    """aiperf, with the server's token counts; its inter-chunk latency is the one that is comparable."""

    name = "aiperf"
    title = "aiperf"
    # Where these say that there is no network, it takes no tokenizer from a folder.
    environment = {"NO_COLOR": "1"}

    def command(self, load, url, out):
        how = ["--request-rate", f"{load.rate:g}", "--arrival-pattern", "poisson"] if load.rate else ["--concurrency", str(load.streams)]
        warm = ["--warmup-request-count", str(load.warmup)] if load.warmup else []
        return [
            f"{self.work}/aiperf/bin/aiperf", "profile", "-m", "simulated", "--url", url, "--endpoint-type", "chat", "--streaming",
            "--tokenizer", f"{self.work}/tokenizer", "--use-server-token-count", *how, "--request-count", str(load.requests), *warm,
            "--synthetic-input-tokens-mean", str(PROMPT_TOKENS), "--synthetic-input-tokens-stddev", "0",
            "--output-tokens-mean", str(load.tokens), "--output-tokens-stddev", "0", "--extra-inputs", "ignore_eos:true",
            "--export-level", "summary", "--artifact-dir", str(out / "aiperf"), "--ui", "none",
        ]  # fmt: skip

    def read(self, load, out):
        result = json.loads((out / "aiperf/profile_export_aiperf.json").read_text())

        def of(tag, key):
            return (result.get(tag) or {}).get(key)

        return {
            "completed": int(of("request_count", "avg") or 0),
            "failed": int(of("error_request_count", "avg") or 0),
            "tokens": int(of("total_output_tokens", "avg") or of("total_osl", "avg") or 0),
            "rate": of("request_throughput", "avg"),
            **{f"ttft_{p}": of("time_to_first_token", p) for p in ("p50", "p99")},
            **{f"itl_{p}": of("inter_chunk_latency", p) for p in ("p50", "p99")},
        }


class Guidellm(Tool):
    """guidellm, with prompts from a file: its synthetic ones do not come to an end with a tokenizer of whole words."""

    name = "guidellm"
    title = "guidellm"
    itl = "mean"

    def command(self, load, url, out):
        prompts = pathlib.Path(out / "prompts.jsonl")
        words = list(json.loads((self.work / "tokenizer/tokenizer.json").read_text())["model"]["vocab"])
        count = load.requests + load.warmup
        with open(prompts, "w") as file:
            for at in range(count):
                chosen = (words[(at * 7919 + k * 104729) % len(words)] for k in range(PROMPT_TOKENS))
                file.write(json.dumps({"prompt": " ".join(chosen), "output_tokens_count": load.tokens}) + "\n")
        how = f"kind=poisson,rate={load.rate:g}" if load.rate else f"kind=concurrent,streams={load.streams}"
        return [
            f"{self.work}/guidellm/bin/guidellm", "run",
            "--backend", f"kind=openai_http,target={url},model=simulated,request_format=/v1/chat/completions",
            "--profile", f"{how},warmup.mode=requests,warmup.value={load.warmup}", "--constraint", f"kind=max_requests,count={count}",
            "--tokenizer", f"kind=huggingface_auto,model={self.work}/tokenizer", "--data", f"kind=json_file,path={prompts}",
            "--output", f"kind=json,path={out}/result.json", "--disable-console",
        ]  # fmt: skip

    def read(self, load, out):
        benchmark = json.loads((out / "result.json").read_text())["benchmarks"][0]
        metrics = benchmark["metrics"]

        def of(name, key):
            return metrics[name]["successful"]["percentiles"][key]

        return {
            # What it takes to be after the warm-up, by a rule that is not ours.
            "completed": metrics["request_totals"]["successful"],
            "failed": metrics["request_totals"]["errored"],
            "tokens": int(metrics["output_token_count"]["successful"]["total_sum"]),
            "rate": metrics["requests_per_second"]["successful"]["mean"],
            **{f"ttft_{p}": of("time_to_first_token_ms", p) for p in ("p50", "p99")},
            **{f"itl_{p}": of("inter_token_latency_ms", p) for p in ("p50", "p99")},
        }


TOOLS = {tool.name: tool for tool in (Ours, OursBare, OursEager, SglangRust, VllmRust, SglangPython, Aiperf, Guidellm)}
