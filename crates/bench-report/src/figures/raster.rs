//! SVG to PNG.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, Options, Tree};

use crate::ReportError;

/// Pixels for each CSS pixel.
const SCALE: f32 = 2.0;

/// Draw with the embedded fonts only, so that every machine gives the same bytes.
pub(super) fn png(id: &str, svg: &str) -> Result<Vec<u8>, ReportError> {
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
