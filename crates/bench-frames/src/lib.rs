//! Many runs as polars frames: Parquet, CSV, pivots.
