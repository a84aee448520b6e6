//! ECharts on `QuickJS`.

use rquickjs::{CatchResultExt, Context, Function, Runtime};

use crate::ReportError;
use crate::figure::Figure;
use crate::html::{DRAW, ECHARTS};
use crate::text;

const STATIC: &str = include_str!("static.js");
/// ECharts recurses deeply.
const STACK: usize = 4 << 20;
/// Longest text in a figure's head.
const LONGEST: usize = 130;

/// The library, loaded once.
pub(super) struct Engine {
    context: Context,
    // The context lives in it.
    _runtime: Runtime,
}

impl Engine {
    pub(super) fn new() -> Result<Self, ReportError> {
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
    pub(super) fn svg(&self, figure: &Figure, width: u32) -> Result<String, ReportError> {
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
