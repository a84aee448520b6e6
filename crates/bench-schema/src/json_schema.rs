//! The JSON Schemas of the three files of a run, made from the types.

use schemars::{Schema, schema_for};

use crate::{Reading, RequestRecord, RunRecord};

/// File name under `docs/schema/` and schema of each file of a run directory: `run.json`, a line of `requests.jsonl`, a line of
/// `hardware.jsonl`.
pub fn json_schemas() -> [(&'static str, Schema); 3] {
    [
        ("run.schema.json", schema_for!(RunRecord)),
        ("request.schema.json", schema_for!(RequestRecord)),
        ("reading.schema.json", schema_for!(Reading)),
    ]
}
