//! One chart: its conclusion, its ECharts option, and the same numbers as a table.

mod axis;
mod kit;

use serde_json::Value;

pub(crate) use axis::{category_axis, level_axis, log_axis, time_axis, value_axis};
pub(crate) use kit::Plot;

use crate::table::Table;

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
