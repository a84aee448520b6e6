//! Finds the ECharts that charming's package carries, so that the report can embed it without a copy in this repository.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The file inside charming's package.
const ASSET: &str = "src/asset/echarts-5.5.1.min.js";
const PACKAGE: &str = "charming";
const VERSION: &str = "0.6.0";
/// Names the file outright, for build systems that keep sources elsewhere.
const OVERRIDE: &str = "BENCH_REPORT_ECHARTS";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={OVERRIDE}");
    let tried = candidates();
    let file = tried
        .iter()
        .find(|path| path.is_file())
        .ok_or_else(|| missing(&tried))?;
    println!("cargo::rerun-if-changed={}", file.display());
    let text = fs::read_to_string(file)?;
    if !text.contains("Apache") || text.contains("</script") {
        let file = file.display();
        return Err(format!("{file} is not the ECharts that this crate knows: it has no licence header, or an end tag").into());
    }
    let out = env::var_os("OUT_DIR").ok_or("cargo did not name OUT_DIR")?;
    fs::write(PathBuf::from(out).join("echarts.min.js"), text)?;
    Ok(())
}

fn missing(tried: &[PathBuf]) -> String {
    let places: Vec<String> = tried
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let message = format!(
        "{PACKAGE} {VERSION} does not carry {ASSET} where it was looked for ({}); run `cargo fetch`, or name the file in {OVERRIDE}",
        places.join(", ")
    );
    println!("cargo::error={message}");
    message
}

fn candidates() -> Vec<PathBuf> {
    if let Some(named) = env::var_os(OVERRIDE) {
        return vec![named.into()];
    }
    let mut found: Vec<PathBuf> = from_metadata().into_iter().collect();
    found.extend(from_registry());
    found
}

/// Where cargo says the package lies: right for registries, vendored sources and patches alike. Offline, and only for the
/// platform that is built for, so that nothing is downloaded.
fn from_metadata() -> Option<PathBuf> {
    let manifest = Path::new(&env::var_os("CARGO_MANIFEST_DIR")?).join("Cargo.toml");
    let target = env::var_os("TARGET")?.into_string().ok()?;
    let mut command = cargo_metadata::MetadataCommand::new();
    command.manifest_path(manifest).other_options(vec![
        "--offline".into(),
        "--filter-platform".into(),
        target,
    ]);
    let metadata = command.exec().ok()?;
    let package = metadata
        .packages
        .iter()
        .find(|p| p.name.as_str() == PACKAGE && p.version.to_string() == VERSION)?;
    Some(package.manifest_path.parent()?.join(ASSET).into())
}

/// Where cargo unpacks registries, for a build in which metadata cannot be had: it wants every package of the workspace,
/// and only those that are built may have been fetched.
fn from_registry() -> Vec<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let Some(Ok(registries)) = home.map(|home| fs::read_dir(home.join("registry/src"))) else {
        return Vec::new();
    };
    let package = format!("{PACKAGE}-{VERSION}");
    let mut all: Vec<PathBuf> = registries
        .flatten()
        .map(|entry| entry.path().join(&package).join(ASSET))
        .collect();
    all.sort();
    all
}
