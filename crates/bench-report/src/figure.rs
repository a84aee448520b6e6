//! One chart: its conclusion, its ECharts option, and the same numbers as a table.

mod plot;

use charming::component::Axis;
use charming::element::{AxisType, NameLocation};
use serde_json::Value;

pub(crate) use plot::{Bounded, Plot};

use crate::number::rounded;
use crate::table::Table;
use crate::text;

/// Longest name under an axis, and in a legend.
const LONGEST_NAME: usize = 36;

/// A chart as data. The option is pure JSON: functions are named (`@violin`) and colours are roles (`@bad`); the drawing
/// script knows both. No text of a stranger can become code, for no text is ever evaluated.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// Usable as a file name and an anchor.
    pub(crate) id: String,
    /// The conclusion, or what is shown where there is none to draw.
    pub(crate) title: String,
    /// How to read it.
    pub(crate) note: String,
    pub(crate) option: Value,
    /// Height in pixels.
    pub(crate) height: u32,
    /// The numbers behind it.
    pub(crate) table: Option<Table>,
}

impl Figure {
    pub(crate) fn new(id: impl Into<String>, title: impl Into<String>, plot: Plot) -> Self {
        let (option, height) = plot.finish();
        Self {
            id: id.into(),
            title: title.into(),
            note: String::new(),
            option,
            height,
            table: None,
        }
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    pub(crate) fn table(mut self, table: impl Into<Option<Table>>) -> Self {
        self.table = table.into();
        self
    }
}

/// Names under the axis: cells, use cases.
pub(crate) fn category_axis(names: impl IntoIterator<Item = impl AsRef<str>>) -> Axis {
    let names = names
        .into_iter()
        .map(|name| text::shortened(name.as_ref(), LONGEST_NAME))
        .collect();
    Axis::new().type_(AxisType::Category).data(names)
}

/// Numbers under the axis that stand at equal distances: levels of load.
pub(crate) fn level_axis(name: &str, levels: impl IntoIterator<Item = f64>) -> Axis {
    let levels = levels
        .into_iter()
        .map(|level| rounded(level).to_string())
        .collect();
    titled(Axis::new().type_(AxisType::Category).data(levels), name)
}

/// A number line that begins at zero.
pub(crate) fn value_axis(name: &str) -> Axis {
    titled(Axis::new().type_(AxisType::Value), name)
}

/// A logarithmic number line.
pub(crate) fn log_axis(name: &str) -> Axis {
    titled(Axis::new().type_(AxisType::Log), name)
}

/// Seconds since the run began.
pub(crate) fn time_axis(seconds: f64) -> Axis {
    titled(
        Axis::new()
            .type_(AxisType::Value)
            .min(0.0)
            .max(seconds.ceil()),
        "time since the run began (s)",
    )
}

fn titled(axis: Axis, name: &str) -> Axis {
    axis.name(name).name_location(NameLocation::Middle)
}
