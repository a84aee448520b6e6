//! The pages that say where something is say so truly: a link leads to a file, and the function that it names is in that file.

use std::path::Path;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// `[name](path)` of a Markdown text, but for addresses.
fn links(page: &str) -> Vec<(&str, &str)> {
    let ends = page.match_indices("](");
    let found = ends.filter_map(|(at, _)| {
        let (_, name) = page.get(..at)?.rsplit_once('[')?;
        let (path, _) = page.get(at + 2..)?.split_once(')')?;
        Some((name, path))
    });
    found.filter(|(_, path)| !path.contains("://")).collect()
}

#[test]
fn every_link_of_the_pages_for_contributors_leads_to_what_it_names() -> Result {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut hops = 0;
    for page in ["CONTRIBUTING.md", "docs/architecture.md"] {
        let text = std::fs::read_to_string(root.join(page))?;
        let folder = root.join(page).parent().ok_or("no folder")?.to_owned();
        for (name, path) in links(&text) {
            let file = folder.join(path);
            assert!(file.exists(), "{page}: {path} is not there");
            if file.extension().is_some_and(|end| end == "rs") && !name.contains('.') {
                let function = name.trim_matches('`');
                let code = std::fs::read_to_string(&file)?;
                let is_there =
                    ["(", "<"].map(|next| code.contains(&format!("fn {function}{next}")));
                assert!(
                    is_there.contains(&true),
                    "{page}: no `{function}` in {path}"
                );
                hops += 1;
            }
        }
    }
    assert!(hops > 20, "{hops} functions are named");
    Ok(())
}
