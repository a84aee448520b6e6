//! Static figures: the page's charts as SVG or PNG, made without a browser.
//!
//! The same option JSON is drawn by the same embedded ECharts, in its server-side mode, on a small JavaScript engine
//! (`QuickJS`); PNG comes from resvg with an embedded font. The same run gives the same bytes.

use std::sync::Arc;

use bench_schema::RunRecord;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, Options, Tree};
use rquickjs::{CatchResultExt, Context, Function, Runtime};

use crate::figure::Figure;
use crate::html::{DRAW, ECHARTS};
use crate::markdown::FigureLink;
use crate::markdown::conclusions::{PLAIN, headline, key_figures};
use crate::terminal::{verdict_meaning, verdict_word};
use crate::text::{html, shortened};
use crate::{ReportError, RunFiles, charts, trace};

/// Width of a figure in CSS pixels; a PNG has twice as many.
const WIDTH: u32 = 900;

/// What a figure is stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureFormat {
    /// Scalable; text stays text.
    Svg,
    /// 1800 pixels wide.
    Png,
}

impl FigureFormat {
    /// The file name's ending.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Svg => "svg",
            Self::Png => "png",
        }
    }
}

/// A figure as a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticFigure {
    /// File name: `throughput.svg`.
    pub name: String,
    /// The conclusion that the figure shows.
    pub title: String,
    /// The file.
    pub bytes: Vec<u8>,
}

impl StaticFigure {
    /// How a Markdown report beside the folder `folder` links it.
    pub fn link(&self, folder: &str) -> FigureLink {
        FigureLink {
            title: self.title.clone(),
            path: format!("{folder}/{}", self.name),
        }
    }
}

/// Every chart that the run has data for, a dashboard of the most telling ones first.
///
/// # Errors
/// [`ReportError::Read`] where a file of the run cannot be read, [`ReportError::Figure`] where a chart cannot be drawn.
pub fn render(
    run: &RunRecord,
    files: &RunFiles,
    format: FigureFormat,
) -> Result<Vec<StaticFigure>, ReportError> {
    let trace = trace::trace(run, files)?;
    let readings = trace::readings(run, files)?;
    let engine = Engine::new()?;
    let mut drawn = Vec::new();
    for figure in charts::all(run, trace.as_ref(), &readings)
        .into_iter()
        .flat_map(|section| section.figures)
    {
        let svg = engine.svg(&figure, WIDTH)?;
        drawn.push((figure, svg));
    }
    let mut all = Vec::new();
    if let Some(svg) = compose(run, &drawn) {
        all.push(stored("dashboard", run.title.clone(), &svg, format)?);
    }
    for (figure, svg) in drawn {
        all.push(stored(&figure.id, figure.title, &svg, format)?);
    }
    Ok(all)
}

fn stored(
    id: &str,
    title: String,
    svg: &str,
    format: FigureFormat,
) -> Result<StaticFigure, ReportError> {
    let bytes = match format {
        FigureFormat::Svg => svg.as_bytes().to_vec(),
        FigureFormat::Png => png(id, svg)?,
    };
    Ok(StaticFigure {
        name: format!("{id}.{}", format.extension()),
        title,
        bytes,
    })
}

const STATIC: &str = include_str!("figures/static.js");
/// ECharts recurses deeply.
const STACK: usize = 4 << 20;
/// Longest text in a figure's head.
const LONGEST: usize = 130;

/// ECharts on `QuickJS`, loaded once.
struct Engine {
    context: Context,
    // The context lives in it.
    _runtime: Runtime,
}

impl Engine {
    fn new() -> Result<Self, ReportError> {
        let runtime = Runtime::new().map_err(failed("all"))?;
        runtime.set_max_stack_size(STACK);
        let context = Context::full(&runtime).map_err(failed("all"))?;
        context.with(|js| {
            let mut scripts = [STATIC, ECHARTS, DRAW].into_iter();
            scripts.try_for_each(|script| js.eval(script).catch(&js).map_err(failed("all")))
        })?;
        Ok(Self {
            context,
            _runtime: runtime,
        })
    }

    /// One chart with its title above it.
    fn svg(&self, figure: &Figure, width: u32) -> Result<String, ReportError> {
        let json = figure.option.to_string();
        let title = shortened(&figure.title, LONGEST);
        let note = shortened(&figure.note, LONGEST + 30);
        let svg: String = self.context.with(|js| {
            let draw = js.globals().get("benchDraw");
            let draw: Function<'_> = draw.catch(&js).map_err(failed(&figure.id))?;
            let drawn = draw.call((json, width, figure.height, title, note));
            drawn.catch(&js).map_err(failed(&figure.id))
        })?;
        Ok(numbered_from_zero(&svg))
    }
}

/// ECharts numbers the charts of a process (`zr7-c0`); a figure must not depend on how many were drawn before it.
fn numbered_from_zero(svg: &str) -> String {
    let mut out = String::with_capacity(svg.len());
    let mut rest = svg;
    while let Some(at) = rest.find("zr") {
        let (before, after) = rest.split_at(at + 2);
        out.push_str(before);
        let digits = after.chars().take_while(char::is_ascii_digit).count();
        rest = after.get(digits..).unwrap_or_default();
        if digits > 0 && rest.starts_with('-') {
            out.push('0');
        } else {
            out.push_str(after.get(..digits).unwrap_or_default());
        }
    }
    out.push_str(rest);
    out
}

/// Pixels for each CSS pixel.
const SCALE: f32 = 2.0;

/// SVG to PNG, with the embedded fonts only, so that every machine gives the same bytes.
fn png(id: &str, svg: &str) -> Result<Vec<u8>, ReportError> {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.load_font_data(dejavu::sans::bold().to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    let options = Options {
        fontdb: Arc::new(fonts),
        font_family: "DejaVu Sans".to_owned(),
        ..Options::default()
    };
    let tree = Tree::from_str(svg, &options).map_err(failed(id))?;
    let size = tree.size().to_int_size().scale_by(SCALE);
    let pixels = size.and_then(|size| Pixmap::new(size.width(), size.height()));
    let mut pixels = pixels.ok_or_else(|| failed(id)("it has no size, or too large a one"))?;
    let scale = Transform::from_scale(SCALE, SCALE);
    resvg::render(&tree, scale, &mut pixels.as_mut());
    pixels.encode_png().map_err(failed(id))
}

/// What went wrong with a figure.
fn failed<E: ToString>(figure: &str) -> impl Fn(E) -> ReportError {
    move |reason| ReportError::Figure {
        figure: figure.to_owned(),
        reason: reason.to_string(),
    }
}

/// Charts by what they are worth at a glance, where the time goes among them; the first six that exist are shown.
const BEST: [&str; 17] = [
    "capacity",
    "throughput",
    "length-latency",
    "percentiles",
    "use-cases",
    "phases",
    "categories",
    "sweep-e2e",
    "queue",
    "tradeoff",
    "factor-map",
    "factor-pareto",
    "sweep-ttft",
    "length-speed",
    "cov",
    "utilisation",
    "heatmap",
];
const SHOWN: usize = 6;
const PANEL: f64 = 900.0;
/// Title above and air below a chart.
const AROUND: f64 = 96.0;
const HEAD: f64 = 194.0;

/// Two panels a row; `None` where there are fewer than two charts.
fn compose(run: &RunRecord, drawn: &[(Figure, String)]) -> Option<String> {
    let found = BEST
        .iter()
        .filter_map(|id| drawn.iter().find(|(figure, _)| figure.id == *id));
    let panels: Vec<&(Figure, String)> = found.take(SHOWN).collect();
    if panels.len() < 2 {
        return None;
    }
    let row_height = |row: &[&(Figure, String)]| {
        row.iter()
            .map(|(figure, _)| f64::from(figure.height) + AROUND)
            .fold(0.0, f64::max)
    };
    let (width, height) = (
        PANEL * 2.0,
        HEAD + panels.chunks(2).map(row_height).sum::<f64>(),
    );
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>"
    );
    let verdict = run.trust.verdict;
    let verdict = format!("{}: {}", verdict_word(verdict), verdict_meaning(verdict));
    let sentence = headline(run, PLAIN).unwrap_or_default();
    for (y, font, color, words, longest) in [
        (44.0, (28.0, "bold"), DARK, &run.title, 90),
        (74.0, (16.0, "normal"), SOFT, &verdict, LONGEST),
        (100.0, (16.0, "normal"), DARK, &sentence, 190),
    ] {
        out.push_str(&text_at((28.0, y), font, color, &shortened(words, longest)));
    }
    out.push_str(&tiles(run, width));
    let (mut y, mut i) = (HEAD, 0);
    for row in panels.chunks(2) {
        for (column, (_, svg)) in [0.0, PANEL].into_iter().zip(row) {
            out.push_str(&panel(svg, i, (column, y))?);
            i += 1;
        }
        y += row_height(row);
    }
    out.push_str("</svg>");
    Some(out)
}

const DARK: &str = "#1e293b";
const SOFT: &str = "#64748b";

fn text_at((x, y): (f64, f64), (size, weight): (f64, &str), color: &str, words: &str) -> String {
    let words = html(words);
    format!(
        "<text x=\"{x}\" y=\"{y}\" font-family=\"DejaVu Sans, sans-serif\" font-size=\"{size}\" font-weight=\"{weight}\" fill=\"{color}\">{words}</text>"
    )
}

/// The key figures beside each other.
fn tiles(run: &RunRecord, width: f64) -> String {
    let (at, tiles) = key_figures(run);
    let room = (width - 56.0) / tiles.len().max(1) as f64;
    let at = at.map_or_else(String::new, |at| format!("At {at}:"));
    let mut out = text_at((28.0, 130.0), (13.0, "normal"), SOFT, &at);
    for (i, (value, unit, words)) in tiles.iter().enumerate() {
        let x = 28.0 + room * i as f64;
        let words = shortened(words, 34);
        let value = format!("{value} {unit}");
        out.push_str(&text_at((x, 156.0), (22.0, "bold"), DARK, &value));
        out.push_str(&text_at((x, 176.0), (13.0, "normal"), SOFT, &words));
    }
    out
}

/// A chart's SVG at a place, its ids apart from those of the others.
fn panel(svg: &str, i: usize, (x, y): (f64, f64)) -> Option<String> {
    let start = svg.find("<svg")?;
    let own = svg.get(start..)?.replace("zr0-", &format!("panel{i}-"));
    Some(own.replacen("<svg ", &format!("<svg x=\"{x}\" y=\"{y}\" "), 1))
}
