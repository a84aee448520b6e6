//! Static figures: the page's charts as SVG or PNG, made without a browser.
//!
//! The same option JSON is drawn by the same embedded ECharts, in its server-side mode, on a small JavaScript engine
//! (`QuickJS`); PNG comes from resvg with an embedded font. The same run gives the same bytes.

mod dashboard;

use std::sync::Arc;

use bench_schema::RunRecord;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, Options, Tree};
use rquickjs::{CatchResultExt, Context, Function, Runtime};

use crate::figure::Figure;
use crate::files::RunFiles;
use crate::html::{DRAW, ECHARTS};
use crate::markdown::FigureLink;
use crate::{ReportError, charts, text, trace};

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
    if let Some(svg) = dashboard::compose(run, &drawn) {
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
        let failed = |reason: String| ReportError::Figure {
            figure: "all".to_owned(),
            reason,
        };
        let runtime = Runtime::new().map_err(|error| failed(error.to_string()))?;
        runtime.set_max_stack_size(STACK);
        let context = Context::full(&runtime).map_err(|error| failed(error.to_string()))?;
        context.with(|js| {
            for script in [STATIC, ECHARTS, DRAW] {
                js.eval::<(), _>(script)
                    .catch(&js)
                    .map_err(|error| failed(error.to_string()))?;
            }
            Ok(())
        })?;
        Ok(Self {
            context,
            _runtime: runtime,
        })
    }

    /// One chart with its title above it.
    fn svg(&self, figure: &Figure, width: u32) -> Result<String, ReportError> {
        let failed = |reason: String| ReportError::Figure {
            figure: figure.id.clone(),
            reason,
        };
        let json = figure.option.to_string();
        let (title, note) = (
            text::shortened(&figure.title, LONGEST),
            text::shortened(&figure.note, LONGEST + 30),
        );
        let svg: String = self.context.with(|js| {
            let draw: Function<'_> = js
                .globals()
                .get("benchDraw")
                .catch(&js)
                .map_err(|e| failed(e.to_string()))?;
            draw.call((json, width, figure.height, title, note))
                .catch(&js)
                .map_err(|e| failed(e.to_string()))
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
    let failed = |reason: String| ReportError::Figure {
        figure: id.to_owned(),
        reason,
    };
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.load_font_data(dejavu::sans::bold().to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    let options = Options {
        fontdb: Arc::new(fonts),
        font_family: "DejaVu Sans".to_owned(),
        ..Options::default()
    };
    let tree = Tree::from_str(svg, &options).map_err(|error| failed(error.to_string()))?;
    let size = tree
        .size()
        .to_int_size()
        .scale_by(SCALE)
        .ok_or_else(|| failed("it has no size".to_owned()))?;
    let mut pixels = Pixmap::new(size.width(), size.height())
        .ok_or_else(|| failed("it is too large for a picture".to_owned()))?;
    resvg::render(
        &tree,
        Transform::from_scale(SCALE, SCALE),
        &mut pixels.as_mut(),
    );
    pixels
        .encode_png()
        .map_err(|error| failed(error.to_string()))
}
