//! The published JSON Schemas are those of the types.

use std::path::Path;

use bench_schema::json_schemas;

#[test]
fn the_published_schemas_are_those_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    #[expect(
        clippy::disallowed_methods,
        reason = "a test that can rewrite its golden files"
    )]
    let update = std::env::var("UPDATE_GOLDEN").is_ok();
    for (name, schema) in json_schemas() {
        let path = folder.join(name);
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if update {
            std::fs::write(&path, &text).unwrap();
        }
        let published = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            published == text,
            "docs/schema/{name} is stale; run `just golden`, and raise the version if the change needs it"
        );
    }
}
