//! From the model to a frame.

use bench_schema::{Nanos, is_hidden};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, LineGauge, Paragraph, Sparkline};

use super::model::{Latency, Model, clock};
use crate::recent::{LATEST, Quantiles};

/// The smallest terminal that it all fits.
const SMALLEST: (u16, u16) = (80, 24);
/// From this height on the curves have three lines.
const TALL: u16 = 40;
/// Columns of what stands before each line.
const LABEL: usize = 10;
const KEYS: &str = "p pause display · q end run gracefully · ? help";
const HELP: &str = "\
p  pause or resume the display; the run continues
q  end the run: no new requests; requests in flight may finish within
   the grace period; q or Ctrl-C again cancels them
?  show or hide this help

Rates and percentiles cover the last 10 s, including warm-up. A curve has
one column per second, the newest on the right, with its maximum beside
it. Responses and their tokens count when they end; latencies cover complete
responses and start when the request is sent.

This screen is only for monitoring. The result is computed from the records
when the run is over.";

/// How it is to be shown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    pub(super) paused: bool,
    pub(super) help: bool,
    pub(super) colour: bool,
}

impl Look {
    /// With colours, unless `NO_COLOR` says something.
    pub(super) fn of_the_terminal() -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|said| !said.is_empty());
        Self {
            colour: !plain,
            ..Self::default()
        }
    }

    fn in_colour(self, colour: Color) -> Style {
        if self.colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }
}

/// What stands below each other.
enum Row<'a> {
    Text(Line<'a>),
    Share(f64),
    /// One quantile of a latency, of each second.
    Curve(&'static str, Vec<Option<u64>>, Color),
}

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, look: Look) {
    let area = frame.area();
    let (width, height) = (area.width, area.height);
    if width < SMALLEST.0 || height < SMALLEST.1 {
        let (least, high) = SMALLEST;
        let text = format!(
            "This screen needs at least {least} × {high};\nthe terminal has {width} × {height}.\n{KEYS}"
        );
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let bottom = area.bottom().saturating_sub(1);
    let mut y = area.y;
    for row in rows(model, look, area.width) {
        let tall = match row {
            Row::Curve(..) if height >= TALL => 3,
            _ => 1,
        };
        let place = Rect::new(area.x, y, width, tall);
        y += tall;
        if y > bottom {
            break;
        }
        match row {
            Row::Text(line) => frame.render_widget(line, place),
            Row::Share(share) => frame.render_widget(gauge(share, look), place),
            Row::Curve(name, values, colour) => {
                curve(frame, place, (name, &values), look.in_colour(colour));
            }
        }
    }
    let notes = notes(
        model,
        usize::from(width),
        usize::from(bottom.saturating_sub(y)),
    );
    let place = Rect::new(area.x, y, width, bottom.saturating_sub(y));
    frame.render_widget(Paragraph::new(notes), place);
    let keys = if look.paused {
        let style = look
            .in_colour(Color::Yellow)
            .add_modifier(Modifier::REVERSED);
        Line::from(vec![
            Span::styled(" PAUSED ", style),
            Span::raw(" "),
            Span::raw(KEYS),
        ])
    } else {
        Line::raw(KEYS)
    };
    frame.render_widget(keys, Rect::new(area.x, bottom, width, 1));
    if look.help {
        help(frame, area);
    }
    // a model's name is the server's
    for cell in &mut frame.buffer_mut().content {
        if cell.symbol().contains(is_hidden) {
            let shown = cell.symbol().replace(is_hidden, "");
            cell.set_symbol(if shown.is_empty() { "\u{fffd}" } else { &shown });
        }
    }
}

fn rows(model: &Model, look: Look, width: u16) -> Vec<Row<'_>> {
    let bold = look.in_colour(Color::Cyan).add_modifier(Modifier::BOLD);
    let labelled = |label: &str, text: String| {
        let label = Span::styled(format!("{label:LABEL$}"), bold);
        Row::Text(Line::from(vec![label, Span::raw(text)]))
    };
    let ends = |left: &str, right: String| {
        let width = usize::from(width);
        let room = width.saturating_sub(right.chars().count() + 2);
        let left = cut(left, room);
        Line::raw(format!("{left:room$}  {right}"))
    };
    let blank = || Row::Text(Line::default());
    let mut rows = vec![
        Row::Text(ends(&model.title, clock(model.running)).style(bold)),
        Row::Text(Line::raw(&model.cells)),
        Row::Text(ends(&model.phase, model.phase_so_far.clone())),
    ];
    rows.extend(model.share.map(Row::Share));
    rows.extend([
        blank(),
        labelled("Load", format!("offered: {}", model.offered)),
        labelled(&format!("last {LATEST} s"), load(model)),
        blank(),
    ]);
    for latency in &model.latencies {
        rows.push(labelled(latency.name, now(latency)));
        rows.extend(curves(latency));
    }
    rows.extend([blank(), labelled("Requests", model.requests.clone())]);
    if let Some(failures) = &model.failures {
        let line = format!("{:LABEL$}{failures}", "");
        rows.push(Row::Text(Line::styled(line, look.in_colour(Color::Red))));
    }
    rows.extend(model.gpus.clone().map(|text| labelled("GPUs", text)));
    rows.extend(model.server.clone().map(|text| labelled("Server", text)));
    let mut labels = std::iter::once("Trust").chain(std::iter::repeat(""));
    let judged = "decided at the end of the run; problems so far:".to_owned();
    let unknown = "decided at the end of the run; no problems so far".to_owned();
    let first = if model.against.is_empty() {
        unknown
    } else {
        judged
    };
    let known = std::iter::once(first).chain(model.against.iter().cloned());
    rows.extend(
        known
            .zip(&mut labels)
            .map(|(text, label)| labelled(label, text)),
    );
    rows
}

fn load(model: &Model) -> String {
    let in_flight = model.in_flight;
    let Some(rates) = model.rates else {
        return format!("{in_flight} in flight now");
    };
    format!(
        "{:.1} req/s started · {:.1} ended · {in_flight} in flight · {:.0} tokens/s",
        rates.taken_up, rates.ended, rates.tokens
    )
}

fn now(latency: &Latency) -> String {
    let time = Nanos::from_f64;
    match latency.now {
        Some((p50, p99)) => format!("p50 {} · p99 {}  (last {LATEST} s)", time(p50), time(p99)),
        None => format!("no values in the last {LATEST} s"),
    }
}

fn curves(latency: &Latency) -> [Row<'static>; 2] {
    let of = |take: fn(Quantiles) -> f64| {
        let values = latency.curve.iter();
        let whole = |value: f64| u64::try_from(Nanos::from_f64(value).get()).unwrap_or(0);
        values
            .map(|one| one.map(|both| whole(take(both))))
            .collect()
    };
    [
        Row::Curve("p50", of(|both| both.0), Color::Green),
        Row::Curve("p99", of(|both| both.1), Color::Yellow),
    ]
}

/// A quantile's name, its curve, and the highest value of it.
fn curve(frame: &mut Frame<'_>, place: Rect, (name, values): (&str, &[Option<u64>]), style: Style) {
    const BEFORE: u16 = 10;
    const BEHIND: u16 = 12;
    let columns = place.width.saturating_sub(BEFORE + BEHIND);
    let shown = values.len().saturating_sub(usize::from(columns));
    let shown = values.get(shown..).unwrap_or_default();
    let highest = shown.iter().flatten().max();
    let gap = usize::from(columns).saturating_sub(shown.len());
    let data = std::iter::repeat_n(None, gap).chain(shown.iter().copied());
    let line = Sparkline::default()
        .data(data.collect::<Vec<_>>())
        .absent_value_symbol(" ")
        .style(style);
    frame.render_widget(Line::raw(format!("      {name}")), place);
    let middle = Rect::new(place.x + BEFORE, place.y, columns, place.height);
    frame.render_widget(line, middle);
    if let Some(highest) = highest {
        let text = format!(" ≤ {}", Nanos::from_f64(*highest as f64));
        let behind = Rect::new(middle.right(), place.y, BEHIND, place.height);
        frame.render_widget(Line::raw(text), behind);
    }
}

fn gauge(share: f64, look: Look) -> LineGauge<'static> {
    LineGauge::default()
        .ratio(share.clamp(0.0, 1.0))
        .label(format!("{:>3.0} %", (share * 100.0).floor()))
        .filled_symbol("━")
        .unfilled_symbol("·")
        .filled_style(look.in_colour(Color::Blue))
        .unfilled_style(Style::new())
}

/// The latest of what was said, as far as there is room; all of it is said again when the screen goes. The last message is cut where there is no room for all of it.
fn notes(model: &Model, width: usize, room: usize) -> Vec<Line<'_>> {
    let mut left = room.saturating_sub(1);
    let mut lines = Vec::new();
    for note in model.notes.iter().rev() {
        let parts = broken(note, width);
        if parts.len() > left {
            if lines.is_empty() && left == 1 {
                lines.push(Line::raw(cut(note, width)));
            } else if lines.is_empty() {
                lines.extend(parts.into_iter().take(left).rev().map(Line::raw));
            }
            break;
        }
        left -= parts.len();
        lines.extend(parts.into_iter().rev().map(Line::raw));
    }
    lines.push(Line::default());
    lines.reverse();
    lines.truncate(room);
    lines
}

/// A text in lines that fit, broken between words where that can be.
fn broken(text: &str, width: usize) -> Vec<&str> {
    let (mut lines, mut rest) = (Vec::new(), text);
    while let Some((end, _)) = rest.char_indices().nth(width.max(1)) {
        let (head, _) = rest.split_at(end);
        let is_whole = rest.get(end..).is_some_and(|tail| tail.starts_with(' '));
        let at = if is_whole {
            end
        } else {
            head.rfind(' ').filter(|at| *at > 0).unwrap_or(end)
        };
        let (line, tail) = rest.split_at(at);
        lines.push(line);
        rest = tail.trim_start();
    }
    lines.push(rest);
    lines
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let (width, height) = (80.min(area.width), 15.min(area.height));
    let place = Rect::new(
        area.x + (area.width - width) / 2,
        area.y + (area.height - height) / 2,
        width,
        height,
    );
    frame.render_widget(Clear, place);
    let block = Block::bordered().title(" Help ");
    frame.render_widget(Paragraph::new(HELP).block(block), place);
}

/// A text that fits, with a mark where it was cut.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

#[cfg(test)]
#[path = "../../tests/unit/screen_view.rs"]
mod tests;
