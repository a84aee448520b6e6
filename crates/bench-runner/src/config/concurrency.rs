//! How many are in flight: a number, or one that moves.

use std::collections::BTreeMap;

use bench_schema::{ConcurrencyRamp, Factor, Load, Nanos};

use super::parse;

const MOST: u32 = 1_000_000;

/// A level of a closed loop, or a ramp of levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// Requests in flight; of a ramp, the most.
    pub most: u32,
    /// How the number moves.
    pub ramp: Option<ConcurrencyRamp>,
}

impl From<u32> for Concurrency {
    fn from(most: u32) -> Self {
        Self { most, ramp: None }
    }
}

impl Concurrency {
    /// For a cell's id: `c8`, `c1-to-32`, `c1-4-16`.
    pub fn id(&self) -> String {
        match &self.ramp {
            None => format!("c{}", self.most),
            Some(ramp) => format!(
                "c{}",
                ramp.to_string().replace(" → ", "-").replace(' ', "-")
            ),
        }
    }

    /// For people: `concurrency 8`, `concurrency 1 to 32`.
    pub fn label(&self) -> String {
        match &self.ramp {
            None => format!("concurrency {}", self.most),
            Some(ramp) => format!("concurrency {ramp}"),
        }
    }

    /// What distinguishes its cell. A ramp is no level: nothing scales along it.
    pub fn factors(&self) -> BTreeMap<String, Factor> {
        let factor = match &self.ramp {
            None => ("concurrency".to_owned(), Factor::from(self.most)),
            Some(ramp) => ("ramp".to_owned(), Factor::from(ramp.to_string().as_str())),
        };
        [factor].into()
    }

    /// The load of its cell.
    pub fn load(&self, think_time: Option<Nanos>) -> Load {
        Load::Closed {
            concurrency: self.most,
            think_time,
            ramp: self.ramp.clone(),
        }
    }
}

/// `8`, `ramp:FROM:TO`, `steps:A:B:…`.
///
/// # Errors
/// What is wrong, with the forms there are.
pub(super) fn concurrency(text: &str) -> Result<Concurrency, String> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let levels = || {
        rest.split(':')
            .map(|part| parse::whole(part, 1, MOST))
            .collect::<Result<Vec<u32>, _>>()
    };
    let ramp = match kind {
        "ramp" => match levels()?.as_slice() {
            &[from, to] => ConcurrencyRamp::Line { from, to },
            _ => return Err(format!("must be written ramp:FROM:TO (got `{text}`)")),
        },
        "steps" => ConcurrencyRamp::Steps { levels: levels()? },
        _ => {
            return parse::whole(text, 1, MOST)
                .map(Concurrency::from)
                .map_err(|wrong| format!("{wrong}, or ramp:FROM:TO, or steps:A:B:…"));
        }
    };
    Ok(Concurrency {
        most: ramp.peak(),
        ramp: Some(ramp),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_and_both_kinds_of_ramps_are_understood() {
        let parsed = ["8", "ramp:1:32", "ramp:16:2", "steps:1:8:4"].map(|text| {
            let it = concurrency(text).unwrap();
            (it.most, it.id(), it.label())
        });
        let expected = [
            (8, "c8", "concurrency 8"),
            (32, "c1-to-32", "concurrency 1 to 32"),
            (16, "c16-to-2", "concurrency 16 to 2"),
            (8, "c1-8-4", "concurrency 1 → 8 → 4"),
        ];
        assert_eq!(
            parsed,
            expected.map(|(most, id, label)| (most, id.to_owned(), label.to_owned()))
        );
    }

    #[test]
    fn what_is_neither_is_refused_with_the_forms_there_are() {
        assert_eq!(
            concurrency("many").unwrap_err(),
            "must be a whole number from 1 to 1000000 (got `many`), or ramp:FROM:TO, or steps:A:B:…"
        );
        assert!(concurrency("ramp:1").unwrap_err().contains("ramp:FROM:TO"));
        assert!(concurrency("ramp:0:4").unwrap_err().contains("(got `0`)"));
        assert!(concurrency("steps:").is_err());
    }
}
