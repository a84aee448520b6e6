//! One picture with the verdict, the key sentence and the most telling charts.

use bench_schema::RunRecord;

use crate::figure::Figure;
use crate::markdown::conclusions::{PLAIN, headline, key_figures};
use crate::terminal::{verdict_meaning, verdict_word};
use crate::text::{html, shortened};

/// Charts by what they are worth at a glance, where the time goes among them; the first six that exist are shown.
const BEST: [&str; 14] = [
    "throughput",
    "length-latency",
    "percentiles",
    "use-cases",
    "phases",
    "categories",
    "sweep-e2e",
    "queue",
    "tradeoff",
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
const HEAD: f64 = 180.0;

/// Two panels a row; `None` where there are fewer than two charts.
pub(super) fn compose(run: &RunRecord, drawn: &[(Figure, String)]) -> Option<String> {
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
    let sentence = headline(run, PLAIN).unwrap_or_default();
    let text = |y, font: (f64, &str), color, words: &str| text_at(28.0, y, font, color, words);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>"
    );
    out.push_str(&text(
        44.0,
        (28.0, "bold"),
        "#1e293b",
        &html(&shortened(&run.title, 90)),
    ));
    let verdict = format!(
        "{}: {}",
        verdict_word(run.trust.verdict),
        verdict_meaning(run.trust.verdict)
    );
    out.push_str(&text(74.0, (16.0, "normal"), "#64748b", &html(&verdict)));
    out.push_str(&text(
        100.0,
        (16.0, "normal"),
        "#1e293b",
        &html(&shortened(&sentence, 190)),
    ));
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

fn text_at(x: f64, y: f64, (size, weight): (f64, &str), color: &str, words: &str) -> String {
    format!(
        "<text x=\"{x}\" y=\"{y}\" font-family=\"DejaVu Sans, sans-serif\" font-size=\"{size}\" font-weight=\"{weight}\" fill=\"{color}\">{words}</text>"
    )
}

/// The key figures beside each other.
fn tiles(run: &RunRecord, width: f64) -> String {
    let (at, tiles) = key_figures(run);
    let at = at.map_or_else(String::new, |at| format!(", {at}"));
    let room = (width - 56.0) / tiles.len().max(1) as f64;
    let mut out = String::new();
    for (i, (value, unit, words)) in tiles.iter().enumerate() {
        let x = 28.0 + room * i as f64;
        // The last is of the whole run.
        let at = if i + 1 < tiles.len() { at.as_str() } else { "" };
        let words = shortened(&format!("{words}{at}"), 34);
        let value = format!("{value} {unit}");
        out.push_str(&text_at(x, 140.0, (22.0, "bold"), "#1e293b", &html(&value)));
        out.push_str(&text_at(
            x,
            162.0,
            (13.0, "normal"),
            "#64748b",
            &html(&words),
        ));
    }
    out
}

/// A chart's SVG at a place, its ids apart from those of the others.
fn panel(svg: &str, i: usize, (x, y): (f64, f64)) -> Option<String> {
    let start = svg.find("<svg")?;
    let own = svg.get(start..)?.replace("zr0-", &format!("panel{i}-"));
    Some(own.replacen("<svg ", &format!("<svg x=\"{x}\" y=\"{y}\" "), 1))
}
