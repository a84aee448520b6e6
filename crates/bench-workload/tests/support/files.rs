//! What the tests of files share.

use std::sync::Arc;

use bench_schema::Prompt;
use bench_workload::{Plan, PlanSpec, Planned, Salt, Words, WorkloadError};

pub(crate) type Problem = Box<dyn std::error::Error>;

/// The dataset as it is: read once, no salt.
pub(crate) fn spec(dataset: &str) -> Result<PlanSpec, Problem> {
    let (format, file) = dataset.split_once(':').ok_or("FORMAT:FILE")?;
    let file = if file.starts_with('/') {
        file.to_owned()
    } else {
        format!("../../fixtures/datasets/{file}")
    };
    Ok(PlanSpec {
        dataset: format!("{format}:{file}").parse()?,
        salt: Salt::Never,
        cycle: false,
        ..PlanSpec::default()
    })
}

pub(crate) fn rows(spec: PlanSpec) -> Result<Vec<Planned>, WorkloadError> {
    Plan::new(spec, Arc::new(Words))?.iter().collect()
}

pub(crate) fn text(planned: &Planned) -> String {
    match &planned.item.request.prompt {
        Prompt::Text(text) => text.to_string(),
        Prompt::Messages(messages) => {
            let lines: Vec<String> = messages
                .iter()
                .map(|m| format!("{}: {}", m.role.as_str(), m.content))
                .collect();
            lines.join(
                "
",
            )
        }
        Prompt::TokenIds(ids) => format!("{ids:?}"),
    }
}
