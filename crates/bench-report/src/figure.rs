//! One chart: its conclusion, its ECharts option, made of the few shapes that all charts have, and the same numbers as a table.

use charming::Chart;
use charming::component::{Axis, Grid, Legend, LegendType};
use charming::element::{AxisType, NameLocation, Tooltip, Trigger};
use serde_json::{Map, Value, json};

use crate::number::rounded;
use crate::table::Table;
use crate::text;

/// Longest words at a line.
const LONGEST_AT_LINE: usize = 36;
/// Longest name under an axis and in a legend, which holds the settings of a server; the page cuts the middle out of what does not fit.
const LONGEST_NAME: usize = 60;

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

    /// Whether intervals are drawn, in words that follow what they would be of.
    pub(crate) fn within(&self) -> &'static str {
        let shapes = [json!("@whisker"), json!("@span")];
        let series = self.option.get("series").and_then(Value::as_array);
        let drawn = series.into_iter().flatten().any(|series| {
            let shape = series.get("renderItem");
            let data = series.get("data").and_then(Value::as_array);
            shape.is_some_and(|shape| shapes.contains(shape))
                && data.is_some_and(|data| !data.is_empty())
        });
        if drawn {
            "with 95 % confidence intervals where available"
        } else {
            "without confidence intervals (not available)"
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

/// A logarithmic number line around these values.
pub(crate) fn log_axis(name: &str, (low, high): (f64, f64)) -> Axis {
    let (from, to) = log_ends(low, high);
    titled(Axis::new().type_(AxisType::Log).min(from).max(to), name)
}

/// Ends of a logarithmic axis around these values: 1, 2 or 5 times a power of ten, so that the decades at the ends are not drawn whole for
/// nothing. The lower end lies below all values, because bars begin there.
fn log_ends(low: f64, high: f64) -> (f64, f64) {
    const STEPS: [f64; 4] = [1.0, 2.0, 5.0, 10.0];
    let decade = |value: f64| 10_f64.powf(value.log10().floor());
    let (low, high) = (low / 1.15, high * 1.05);
    let mut below = STEPS.iter().rev().map(|step| step * decade(low));
    let mut above = STEPS.iter().map(|step| step * decade(high));
    let from = below.find(|end| *end <= low).unwrap_or(low);
    let to = above.find(|end| *end >= high).unwrap_or(high);
    (rounded(from), rounded(to))
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

/// A chart under construction.
pub(crate) struct Plot {
    chart: Chart,
    series: Vec<Map<String, Value>>,
    root: Map<String, Value>,
    /// Names with what the legend shows of them.
    legend: Vec<(String, String)>,
    lowest: f64,
    highest: f64,
    is_linear: bool,
    height: u32,
}

/// A value with the ends of its interval, where it has one.
pub(crate) type Bounded = (f64, Option<(f64, f64)>);

/// Values, and whiskers at their positions.
type Apart = (Vec<Option<f64>>, Vec<(f64, f64, f64)>);

fn apart(seen: &[Option<Bounded>]) -> Apart {
    let values = seen.iter().map(|seen| seen.map(|(value, _)| value));
    let spans = (0_u32..).zip(seen).filter_map(|(x, seen)| {
        let (low, high) = (*seen)?.1?;
        Some((f64::from(x), low, high))
    });
    (values.collect(), spans.collect())
}

/// Beyond this ratio of the largest to the smallest value an axis is logarithmic.
const WIDE: f64 = 30.0;

impl Plot {
    pub(crate) fn new(x: Axis, y: Axis) -> Self {
        let chart = Chart::new()
            .grid(
                Grid::new()
                    .left(8)
                    .right(20)
                    .top(64)
                    .bottom(36)
                    .contain_label(true),
            )
            .tooltip(Tooltip::new().trigger(Trigger::Axis))
            .x_axis(x)
            .y_axis(y.name_location(NameLocation::End));
        Self {
            chart,
            series: Vec::new(),
            root: Map::new(),
            legend: Vec::new(),
            lowest: f64::INFINITY,
            highest: 0.0,
            is_linear: false,
            height: 340,
        }
    }

    pub(crate) fn height(mut self, height: u32) -> Self {
        self.height = height;
        self
    }

    pub(crate) fn second_y(mut self, axis: Axis) -> Self {
        self.chart = self.chart.y_axis(axis.name_location(NameLocation::End));
        self.linear()
    }

    /// Point at items instead of at positions of the x axis.
    pub(crate) fn point_at_items(mut self) -> Self {
        self.chart = self.chart.tooltip(Tooltip::new().trigger(Trigger::Item));
        self
    }

    fn add(mut self, name: &str, series: Value) -> Self {
        let name = self.in_legend(name);
        if let Value::Object(mut series) = series {
            series.insert("name".into(), Value::String(name));
            self.series.push(series);
        }
        self
    }

    /// What the legend shows of a name: different names are shown differently.
    fn in_legend(&mut self, name: &str) -> String {
        if let Some((_, shown)) = self.legend.iter().find(|(known, _)| known == name) {
            return shown.clone();
        }
        let short = |name: &str| text::shortened(name, LONGEST_NAME);
        let mut shown = short(name);
        let known = self.legend.iter();
        let alike = known.filter(|(other, _)| short(other) == shown).count();
        if alike > 0 {
            shown.push_str(&format!(" ({})", alike + 1));
        }
        if !shown.is_empty() {
            self.legend.push((name.to_owned(), shown.clone()));
        }
        shown
    }

    /// Keep the y axis linear however far its values are apart: parts of a whole, straight lines.
    pub(crate) fn linear(mut self) -> Self {
        self.is_linear = true;
        self
    }

    fn saw(&mut self, values: impl Iterator<Item = f64>) {
        for value in values.filter(|v| v.is_finite()) {
            self.highest = self.highest.max(value);
            self.lowest = self.lowest.min(value);
        }
    }

    /// A line through x, y pairs; `color` is a role such as `@0` or `@bad`.
    pub(crate) fn line(mut self, name: &str, color: &str, points: &[(f64, f64)]) -> Self {
        self.saw(points.iter().map(|p| p.1));
        let line = json!({"type": "line", "symbol": "circle", "symbolSize": 6.0, "showSymbol": points.len() <= 60,
            "itemStyle": {"color": color}, "data": pairs(points)});
        self.add(name, line)
    }

    /// Words beside the points of the line added last, as far as there is room.
    pub(crate) fn label_points(
        self,
        points: impl Iterator<Item = ((f64, f64), impl std::fmt::Display)>,
    ) -> Self {
        let point = |((x, y), words): ((f64, f64), _)| {
            let label = json!({"show": true, "formatter": format!("{words}"), "position": "top", "fontSize": 10, "color": "@soft"});
            json!({"value": [rounded(x), rounded(y)], "label": label})
        };
        self.with("data", points.map(point).collect())
            .with("labelLayout", json!({"hideOverlap": true}))
    }

    /// A line of many points, which are not marked.
    pub(crate) fn curve(self, name: &str, color: &str, points: &[(f64, f64)]) -> Self {
        let plot = self.line(name, color, points);
        plot.with("showSymbol", false.into())
    }

    /// A dashed line without points: a fit, an ideal.
    pub(crate) fn dashed(mut self, name: &str, color: &str, points: &[(f64, f64)]) -> Self {
        self.saw(points.iter().map(|p| p.1));
        let line = json!({"type": "line", "showSymbol": false, "lineStyle": {"type": "dashed", "width": 1.5},
            "itemStyle": {"color": color}, "data": pairs(points)});
        self.add(name, line)
    }

    /// A line over the positions of a category axis; gaps where a value is missing.
    pub(crate) fn levels(mut self, name: &str, color: &str, values: &[Option<f64>]) -> Self {
        self.saw(values.iter().flatten().copied());
        let line = json!({"type": "line", "symbol": "circle", "symbolSize": 7.0, "itemStyle": {"color": color}, "data": numbers(values)});
        self.add(name, line)
    }

    /// Bars over the positions of a category axis.
    pub(crate) fn bars(mut self, name: &str, color: &str, values: &[Option<f64>]) -> Self {
        self.saw(values.iter().flatten().copied());
        let style = json!({"color": color, "borderRadius": 2.0});
        let bars =
            json!({"type": "bar", "itemStyle": style, "data": numbers(values), "barMaxWidth": 44});
        self.add(name, bars)
    }

    /// Bars with their intervals as whiskers; `of` is which of how many bars beside each other they are.
    pub(crate) fn bars_within(
        self,
        name: &str,
        color: &str,
        seen: &[Option<Bounded>],
        of: (usize, usize),
    ) -> Self {
        let (values, spans) = apart(seen);
        self.bars(name, color, &values)
            .whiskers(name, color, &spans, of)
    }

    /// The same as a line over the positions.
    pub(crate) fn levels_within(self, name: &str, color: &str, seen: &[Option<Bounded>]) -> Self {
        let (values, spans) = apart(seen);
        self.levels(name, color, &values)
            .whiskers(name, color, &spans, (0, 1))
    }

    /// Points over the positions, with their intervals.
    pub(crate) fn points_within(self, name: &str, color: &str, seen: &[Option<Bounded>]) -> Self {
        let (values, spans) = apart(seen);
        self.levels(name, color, &values)
            .with("lineStyle", json!({"width": 0}))
            .whiskers(name, color, &spans, (0, 1))
    }

    /// Bars that stand on each other.
    pub(crate) fn stacked(mut self, name: &str, color: &str, values: &[Option<f64>]) -> Self {
        self.is_linear = true;
        self.saw(values.iter().flatten().copied());
        let bars = json!({"type": "bar", "stack": "all", "itemStyle": {"color": color}, "data": numbers(values), "barMaxWidth": 56});
        self.add(name, bars)
    }

    /// Bars that stand on each other with their share of the whole written in them, where there is room.
    pub(crate) fn stacked_shares(self, name: &str, color: &str, parts: &[(f64, f64)]) -> Self {
        let values: Vec<Option<f64>> = parts.iter().map(|part| Some(part.0)).collect();
        let data: Vec<Value> = parts
            .iter()
            .map(|(value, whole)| {
                let share = if *whole > 0.0 { value / whole } else { 0.0 };
                let label = json!({"show": share >= 0.08, "formatter": format!("{} %", (share * 100.0).round()), "color": "@card"});
                json!({"value": rounded(*value), "label": label})
            })
            .collect();
        self.stacked(name, color, &values)
            .with("data", data.into())
            .with("labelLayout", json!({"hideOverlap": true}))
    }

    pub(crate) fn points(mut self, name: &str, color: &str, points: &[(f64, f64)]) -> Self {
        self.saw(points.iter().map(|p| p.1));
        let style = json!({"color": color, "opacity": 0.75});
        let points = json!({"type": "scatter", "symbolSize": 8.0, "itemStyle": style, "data": pairs(points)});
        self.add(name, points)
    }

    /// Whiskers at x from low to high. Under the name of a series they are shown and hidden with it; `of` is which of how
    /// many bars beside each other they belong to.
    pub(crate) fn whiskers(
        mut self,
        name: &str,
        color: &str,
        spans: &[(f64, f64, f64)],
        of: (usize, usize),
    ) -> Self {
        self.saw(spans.iter().flat_map(|s| [s.1, s.2]));
        let data: Vec<Value> = spans
            .iter()
            .map(|s| json!([rounded(s.0), rounded(s.1), rounded(s.2)]))
            .collect();
        let patch = json!({ "data": data, "slot": [of.0, of.1], "encode": {"x": 0, "y": [1, 2]}, "silent": true, "z": 5,
            "tooltip": {"show": false} });
        self.custom(name, color, "whisker", patch)
    }

    /// A shape that the drawing script knows by name.
    pub(crate) fn custom(self, name: &str, color: &str, renderer: &str, patch: Value) -> Self {
        let shape = json!({"type": "custom", "renderItem": format!("@{renderer}"), "itemStyle": {"color": color}});
        let plot = self.add(name, shape);
        match patch {
            Value::Object(patch) => patch
                .into_iter()
                .fold(plot, |plot, (key, value)| plot.with(&key, value)),
            _ => plot,
        }
    }

    /// Cells of a heat map: x index, y index, weight; what most of it and nothing of it is called.
    pub(crate) fn heat(self, cells: &[(usize, usize, f64)], ends: [&str; 2]) -> Self {
        let data: Vec<Value> = cells
            .iter()
            .map(|c| json!([c.0, c.1, rounded(c.2)]))
            .collect();
        let most = cells.iter().map(|c| c.2).fold(1.0, f64::max);
        let mut plot = self.add(
            "",
            json!({"type": "heatmap", "data": data, "progressive": 0}),
        );
        plot.root.insert("visualMap".into(), json!({"min": 0, "max": rounded(most), "calculable": false, "orient": "horizontal",
            "right": 20, "top": 4, "itemHeight": 90, "itemWidth": 12, "inRange": {"color": "@heat"}, "text": ends}));
        plot
    }

    /// A limit as a horizontal line. It widens the axis where it is near; where it is more than four times above
    /// everything shown, it would flatten the chart and is left out.
    pub(crate) fn limit(self, value: f64, words: &str, at_x: f64) -> Self {
        if self.series.is_empty() || value > self.highest * 4.0 || !value.is_finite() {
            return self;
        }
        self.level_line(value, words, "@bad", at_x)
    }

    /// The same for several, the highest first.
    pub(crate) fn limits(self, mut all: Vec<(f64, String)>) -> Self {
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        let add = |plot: Self, (limit, words): (f64, String)| plot.limit(limit, &words, 0.0);
        all.into_iter().fold(self, add)
    }

    /// A horizontal line with its words, always shown.
    pub(crate) fn level_line(self, value: f64, words: &str, color: &str, at_x: f64) -> Self {
        let with_line = |series: &&Map<String, Value>| series.contains_key("markLine");
        let known = self.series.iter().filter(with_line).count();
        // Labels of lines near each other do not overlap: two stand at either end above their lines, the next two, of lower
        // lines, below theirs. Three side by side do not fit into a narrow chart.
        let position = [
            "insideStartTop",
            "insideEndTop",
            "insideStartBottom",
            "insideEndBottom",
        ]
        .get(known % 4)
        .copied()
        .unwrap_or_default();
        self.level_line_at(position, (value, words), color, at_x)
    }

    /// The same with its words at a place on it.
    pub(crate) fn level_line_at(
        mut self,
        position: &str,
        (value, words): (f64, &str),
        color: &str,
        at_x: f64,
    ) -> Self {
        let label = text::shortened(words, LONGEST_AT_LINE);
        let mark = json!({"silent": true, "symbol": "none", "lineStyle": {"color": color, "type": "dashed", "width": 1.5},
            "label": {"formatter": label, "position": position, "color": color, "textBorderColor": "@card", "textBorderWidth": 3, "padding": [1, 4]}, "data": [{"yAxis": rounded(value)}]});
        let line = json!({"type": "line", "data": [[at_x, rounded(value * 1.08)]], "symbol": "none", "silent": true, "tooltip": {"show": false}, "markLine": mark});
        self.saw(std::iter::once(value));
        self.add("", line)
    }

    /// Set something on the series added last.
    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        if let Some(series) = self.series.last_mut() {
            series.insert(key.to_owned(), value);
        }
        self
    }

    /// Set something on the whole option.
    pub(crate) fn root(mut self, key: &str, value: Value) -> Self {
        self.root.insert(key.to_owned(), value);
        self
    }

    /// The option as pure JSON, and the height.
    pub(crate) fn finish(self) -> (Value, u32) {
        let has_legend = !self.legend.is_empty();
        let legend = Legend::new()
            .show(has_legend)
            .type_(LegendType::Plain)
            .top(0)
            .left(0)
            .right(0)
            .data(self.legend.into_iter().map(|(_, shown)| shown).collect());
        let mut option = serde_json::to_value(self.chart.legend(legend)).unwrap_or(Value::Null);
        let is_wide = !self.is_linear && self.lowest > 0.0 && self.highest > WIDE * self.lowest;
        if is_wide {
            let y = option.get_mut("yAxis").and_then(|y| match y {
                Value::Array(axes) => axes.first_mut(),
                axis => Some(axis),
            });
            if let Some(y) = y {
                make_logarithmic(y, log_ends(self.lowest, self.highest));
            }
        }
        let bare = !has_legend && !self.root.contains_key("visualMap");
        if let Some(top) = option.pointer_mut("/grid/0/top").filter(|_| bare) {
            *top = json!(34);
        }
        if let Some(option) = option.as_object_mut() {
            option.insert("series".into(), json!(self.series));
            option.extend(self.root);
        }
        (option, self.height)
    }
}

/// Where an axis of numbers has no ends of its own.
fn make_logarithmic(axis: &mut Value, (from, to): (f64, f64)) {
    let is_plain = axis.get("type").and_then(Value::as_str) == Some("value")
        && axis.get("min").is_none()
        && axis.get("max").is_none();
    if let Some(axis) = axis.as_object_mut().filter(|_| is_plain) {
        axis.insert("type".into(), json!("log"));
        // Bars begin at the axis's lower end (else at 1).
        axis.insert("startValue".into(), json!(from));
        axis.insert("min".into(), json!(from));
        axis.insert("max".into(), json!(to));
    }
}

fn pairs(points: &[(f64, f64)]) -> Vec<Value> {
    points
        .iter()
        .filter(|p| p.0.is_finite() && p.1.is_finite())
        // times of a long run need more figures than values do
        .map(|p| json!([(p.0 * 1e4).round() / 1e4, rounded(p.1)]))
        .collect()
}

fn numbers(values: &[Option<f64>]) -> Vec<Value> {
    values
        .iter()
        .map(|v| {
            v.filter(|v| v.is_finite())
                .map_or(Value::Null, |v| json!(rounded(v)))
        })
        .collect()
}

#[cfg(test)]
#[path = "../tests/unit/figure.rs"]
mod tests;
