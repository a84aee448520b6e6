//! The kinds of axes.

use charming::component::Axis;
use charming::element::{AxisType, NameLocation};

use crate::number::rounded;
use crate::text;

/// Longest name under an axis.
const LONGEST_NAME: usize = 36;

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
