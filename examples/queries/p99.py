#!/usr/bin/env python3
"""The p99 of a latency in each cell of many runs, from what `bench-report export RUN --format parquet --partition --out FOLDER` wrote:
exactly from the rows of requests, and within 0.2 % from the histograms, which add up over runs (docs/scale.md).

    p99.py FOLDER [--metric ttft] [--engine polars|duckdb|datafusion]

Percentiles are those of run.json: of completed requests in the headline (`headline` is true), interpolated linearly. The two SQL texts below are the
same for DuckDB and DataFusion but for the names of the tables. Needs the PyPI package of the engine (pip install polars, duckdb or datafusion).
"""

import argparse
import json
import pathlib

# ROWS and HISTOGRAMS stand for the engine's tables.
FROM_ROWS = """
WITH ranked AS (
    SELECT run, cell, METRIC_ms AS value, count(*) OVER (PARTITION BY run, cell) AS n,
           row_number() OVER (PARTITION BY run, cell ORDER BY METRIC_ms) - 1 AS rank
    FROM ROWS WHERE headline AND METRIC_ms IS NOT NULL
), around AS (
    SELECT run, cell, 0.99 * (n - 1) AS h, value, rank FROM ranked
)
SELECT run, cell, sum(value * (1 - abs(h - rank))) AS p99
FROM around WHERE abs(h - rank) < 1 GROUP BY run, cell ORDER BY run, cell
"""

# Buckets of one cell, or of a cell of the same name in many runs, where `run` is left out of the three lists.
FROM_HISTOGRAMS = """
WITH buckets AS (
    SELECT run, cell, value_ms AS value, sum(n) AS n FROM HISTOGRAMS WHERE metric = 'METRIC' GROUP BY run, cell, value_ms
), ranked AS (
    SELECT run, cell, value, sum(n) OVER (PARTITION BY run, cell ORDER BY value) AS upto, n,
           0.99 * (sum(n) OVER (PARTITION BY run, cell) - 1) AS h
    FROM buckets
), ends AS (
    SELECT run, cell, max(h) AS h, min(CASE WHEN upto > floor(h) THEN value END) AS low,
           min(CASE WHEN upto > ceil(h) THEN value END) AS high
    FROM ranked GROUP BY run, cell
)
SELECT run, cell, low + (h - floor(h)) * (high - low) AS p99 FROM ends ORDER BY run, cell
"""


def by_polars(folder, metric):
    """Lazy frames: only the columns that are asked for are read."""
    import polars as pl

    of = ["run", "cell"]
    value = pl.col(f"{metric}_ms")
    rows = (
        pl.scan_parquet(f"{folder}/**/requests.parquet", hive_partitioning=True, missing_columns="insert", extra_columns="ignore")
        .filter(pl.col("headline") & value.is_not_null())
        .group_by(of)
        .agg(value.quantile(0.99, "linear").alias("p99"))
    )
    h = 0.99 * (pl.col("n").sum() - 1)
    at_least = lambda rank: pl.col("value_ms").filter(pl.col("n").cum_sum() > rank).first()
    histograms = (
        pl.scan_parquet(f"{folder}/**/histograms.parquet", hive_partitioning=True)
        .filter(pl.col("metric") == metric)
        .group_by(*of, "value_ms")
        .agg(pl.col("n").sum())
        .sort("value_ms")
        .group_by(of, maintain_order=True)
        .agg((at_least(h.floor()) + (h - h.floor()) * (at_least(h.ceil()) - at_least(h.floor()))).alias("p99"))
    )
    return [{(row["run"], row["cell"]): row["p99"] for row in frame.collect().to_dicts()} for frame in (rows, histograms)]


def of_sql(text, metric, rows, histograms):
    """The text for these tables."""
    return text.replace("METRIC", metric).replace("ROWS", rows).replace("HISTOGRAMS", histograms)


def by_duckdb(folder, metric):
    """Files are tables; columns are matched by name."""
    import duckdb

    table = lambda name: f"read_parquet('{folder}/**/{name}.parquet', hive_partitioning = true, union_by_name = true)"
    tables = (table("requests"), table("histograms"))
    return [{row[:2]: row[2] for row in duckdb.sql(of_sql(text, metric, *tables)).fetchall()} for text in (FROM_ROWS, FROM_HISTOGRAMS)]


def by_datafusion(folder, metric):
    """The files of each kind are one table; only the columns that all runs have are needed."""
    import datafusion

    context = datafusion.SessionContext()
    for name, columns in (("requests", f"run, cell, headline, {metric}_ms"), ("histograms", "run, cell, metric, value_ms, n")):
        parts = []
        for path in sorted(pathlib.Path(folder).glob(f"**/{name}.parquet")):
            parts.append(f"SELECT {columns} FROM {name}_{len(parts)}")
            context.register_parquet(f"{name}_{len(parts) - 1}", str(path))
        context.register_view(name, context.sql(" UNION ALL ".join(parts)))
    found = []
    for text in (FROM_ROWS, FROM_HISTOGRAMS):
        rows = context.sql(of_sql(text, metric, "requests", "histograms")).to_pylist()
        found.append({(row["run"], row["cell"]): row["p99"] for row in rows})
    return found


ENGINES = {"polars": by_polars, "duckdb": by_duckdb, "datafusion": by_datafusion}


def main():
    """Print a line of JSON for each cell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--metric", default="ttft")
    parser.add_argument("--engine", choices=ENGINES, default="duckdb")
    asked = parser.parse_args()
    rows, histograms = ENGINES[asked.engine](asked.folder, asked.metric)
    for run, cell in sorted(rows):
        print(json.dumps({"run": run, "cell": cell, "p99_ms": rows[run, cell], "from_histogram_ms": histograms.get((run, cell))}))


if __name__ == "__main__":
    main()
