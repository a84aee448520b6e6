//! The command line, and the configuration it stands for.

use std::path::PathBuf;

use bench_engine::config::{EngineKind, TlsFiles};
use bench_engine::{EngineConfig, EngineError};
use clap::{Args, Parser, Subcommand, ValueEnum};

/// An OpenAI-compatible server over a simulated or a real CPU engine.
#[derive(Debug, Parser)]
#[command(name = "bench-engine", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve until interrupted.
    Serve(Box<Serve>),
    /// List the profiles.
    Profiles,
    /// List the faults that a request can trigger with the header `x-fault: NAME[:ARG][;…]`.
    Faults,
}

/// The port that the real servers take.
const DEFAULT_PORT: u16 = 8000;

/// Which engine, where a profile is not named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// Known times, no computation (profile `fixed`).
    Simulated,
    /// A small real model on the CPUs of this machine (profile `tiny`).
    Transformer,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Port to listen on; 0 chooses a free port and prints it [default: 8000, or the port in the profile's file].
    #[arg(long)]
    port: Option<u16>,
    /// Address to listen on [default: 127.0.0.1, or the address in the profile's file].
    #[arg(long)]
    host: Option<String>,
    /// Listen on this Unix socket instead.
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,
    /// Engine to use if no profile is given.
    #[arg(long, value_enum, default_value = "simulated")]
    engine: Engine,
    /// A profile by name, or a TOML file with all settings; overrides --engine.
    #[arg(long, value_name = "NAME|FILE.toml")]
    profile: Option<String>,
    /// Folder with config.json, *.safetensors and tokenizer.json: real weights for the transformer.
    #[arg(long, value_name = "DIR")]
    model_dir: Option<PathBuf>,
    /// Model name in the API.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Certificate chain in PEM format; enables TLS.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key in PEM format.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Threads that serve connections.
    #[arg(long, value_name = "N")]
    io_threads: Option<usize>,
    /// Threads that compute (transformer); 0 means one per CPU.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Seed of all random draws.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Set one configuration key, named as in --print-config: `engine.scheduler.max_num_seqs=32`; overrides the profile.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// Print the configuration as TOML and stop.
    #[arg(long)]
    pub(crate) print_config: bool,
}

impl Serve {
    /// The profile, with the flags on top.
    pub(crate) fn config(&self) -> Result<EngineConfig, EngineError> {
        let transformer = self.engine == Engine::Transformer || self.model_dir.is_some();
        let name = self
            .profile
            .as_deref()
            .unwrap_or(if transformer { "tiny" } else { "fixed" });
        let mut config = EngineConfig::profile_or_file(name)?;
        // A named profile leaves the port open; a file means what it says.
        let named = bench_engine::config::PROFILES
            .iter()
            .any(|(known, ..)| *known == name);
        config.port = self
            .port
            .unwrap_or(if named { DEFAULT_PORT } else { config.port });
        config.host = self.host.clone().unwrap_or(config.host);
        config.unix = self.unix.clone().or(config.unix);
        config.model = self.model.clone().unwrap_or(config.model);
        config.seed = self.seed.unwrap_or(config.seed);
        config.io_threads = self.io_threads.unwrap_or(config.io_threads);
        if let Some((cert, key)) = self.tls_cert.clone().zip(self.tls_key.clone()) {
            config.tls = Some(TlsFiles {
                cert,
                key,
                client_ca: None,
            });
        }
        match &mut config.engine {
            EngineKind::Transformer(transformer) => {
                transformer.threads = self.threads.unwrap_or(transformer.threads);
                transformer.model_dir = self.model_dir.clone().or(transformer.model_dir.take());
            }
            _ if self.model_dir.is_some() || self.threads.is_some() => {
                return Err(EngineError::Config {
                    key: "--model-dir, --threads".into(),
                    reason: format!(
                        "the profile {name} is simulated; choose a transformer, e.g. --profile tiny"
                    ),
                });
            }
            _ => {}
        }
        let mut set = self.set.iter();
        set.try_fold(config, |config, pair| changed(&config, pair))
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("must be written KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// The configuration with one key changed: its value as TOML has it, and what is none is a text.
fn changed(
    config: &EngineConfig,
    (key, text): &(String, String),
) -> Result<EngineConfig, EngineError> {
    let refused = |reason: String| EngineError::Config {
        key: format!("--set {key}"),
        reason,
    };
    let table = toml::Table::try_from(config);
    let mut table = table.map_err(|error| refused(error.to_string()))?;
    let read = toml::from_str::<toml::Table>(&format!("value = {text}"));
    let value = read.ok().and_then(|mut read| read.remove("value"));
    let value = value.unwrap_or_else(|| toml::Value::String(text.clone()));
    let mut place = &mut table;
    let mut parts = key.split('.').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            place.insert(part.to_owned(), value);
            break;
        }
        let inner = place.get_mut(part).and_then(toml::Value::as_table_mut);
        place = inner.ok_or_else(|| refused(format!("there is no table `{part}`")))?;
    }
    let config: Result<EngineConfig, toml::de::Error> = table.try_into();
    let config = config.map_err(|error| refused(error.message().to_owned()))?;
    config.check()?;
    Ok(config)
}
