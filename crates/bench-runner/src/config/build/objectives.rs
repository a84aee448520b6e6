//! What to hold the results against.

use bench_insight::ScenarioSet;

use super::Surroundings;
use crate::config::parse;
use crate::config::reader::Reader;
use crate::config::settings::ObjectiveSettings;

pub(super) fn objectives(r: &mut Reader, around: &dyn Surroundings) -> ObjectiveSettings {
    ObjectiveSettings {
        slos: r.list("slo", bench_insight::parse_slo),
        scenarios: r
            .one("scenarios", |file| scenarios(file, around))
            .unwrap_or_default(),
        targets: r.list("target", |text| {
            bench_insight::Target::parse(text)
                .map(|_| text.to_owned())
                .map_err(|error| error.to_string())
        }),
        price_per_hour: r.one("price_per_hour", |text| parse::number(text, 0.0, 1e9)),
    }
}

fn scenarios(file: &str, around: &dyn Surroundings) -> Result<ScenarioSet, String> {
    let text = around.read(std::path::Path::new(file))?;
    let set: ScenarioSet = toml::from_str(&text)
        .map_err(|error| format!("{file} is not a file of scenarios: {error}"))?;
    set.check().map_err(|error| format!("{file}: {error}"))?;
    Ok(set)
}
