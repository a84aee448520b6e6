//! Static figures: the page's charts as SVG or PNG, made without a browser.
//!
//! The same option JSON is drawn by the same embedded ECharts, in its server-side mode, on a small JavaScript engine
//! (`QuickJS`); PNG comes from resvg with an embedded font. The same run gives the same bytes.

mod dashboard;
mod engine;
mod raster;

use bench_schema::RunRecord;

use crate::files::RunFiles;
use crate::markdown::FigureLink;
use crate::{ReportError, charts, trace};

use engine::Engine;

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
        FigureFormat::Png => raster::png(id, svg)?,
    };
    Ok(StaticFigure {
        name: format!("{id}.{}", format.extension()),
        title,
        bytes,
    })
}
