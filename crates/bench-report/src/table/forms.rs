//! Tables for a terminal, as Markdown, HTML and CSV.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};

use bench_schema::no_formula;
use maud::{Markup, html};
use unicode_width::UnicodeWidthStr;

use super::{Align, Column, Mark, Table, Tone, Value};
use crate::text::{self, Plain, wrapped};

/// Width of a terminal where nobody knows it, and of the widest paragraph.
const USUAL: usize = 100;
/// Narrower tables cannot be read, wider ones are not looked for.
const WIDTHS: RangeInclusive<usize> = 60..=240;
static FITTED: AtomicBool = AtomicBool::new(false);
const INDENT: &str = "  ";
/// To so many columns texts are broken before a column is left out.
const SHORTEST: usize = 28;
/// Characters from which on a text wraps on a page.
const WRAPPED: usize = 24;

/// Columns of a table in a terminal. The terminal is asked each time: it may have got another size during a long run.
fn table_width() -> usize {
    if !FITTED.load(Ordering::Relaxed) {
        return USUAL;
    }
    let said = std::env::var_os("COLUMNS");
    let said = said.and_then(|said| said.to_str()?.parse().ok());
    let asked = || rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let columns = said.or_else(|| Some(usize::from(asked()?.ws_col)));
    columns
        .filter(|columns| *columns > 0)
        .map_or(USUAL, |columns| {
            columns.clamp(*WIDTHS.start(), *WIDTHS.end())
        })
}

/// Columns of a paragraph in a terminal.
pub(crate) fn text_width() -> usize {
    table_width().min(USUAL)
}

/// From now on as wide as the terminal.
pub(crate) fn fit() {
    FITTED.store(true, Ordering::Relaxed);
}

impl Table {
    /// As lines that fit the terminal: a title, headings, rows, and the meaning of the marks that were used. Where they do not fit, long texts
    /// take several lines, then columns at the right are left out; `page` has them.
    pub(crate) fn to_terminal(&self, page: &str) -> String {
        self.fitted(&format!("in {page}"))
    }

    /// The same of a table that no report has.
    pub fn alone(&self) -> String {
        self.fitted("with `--output markdown`")
    }

    fn fitted(&self, whole: &str) -> String {
        let harmless: Vec<Column> = self.columns.iter().map(Column::harmless).collect();
        let mut columns = harmless.as_slice();
        let mut longest = vec![text::LONGEST; columns.len()];
        loop {
            let grid = Grid::of(self, columns, &longest);
            let over = grid.total().saturating_sub(table_width());
            if over > 0 && grid.narrow(&mut longest, over) {
                continue;
            }
            match columns {
                [fewer @ .., _] if over > 0 && fewer.len() >= 2 => columns = fewer,
                _ => {
                    let left_out = harmless.iter().skip(columns.len());
                    let names: Vec<String> = left_out.map(Column::heading).collect();
                    let more = format!("more columns {whole}: {}", names.join(", "));
                    return grid.write((!names.is_empty()).then_some(&more));
                }
            }
        }
    }

    /// As a GitHub table with the legend of its marks under it; the title is the caller's heading.
    pub fn to_markdown(&self) -> String {
        let legend = legend(&self.marks());
        if legend.is_empty() {
            self.rows_to_markdown()
        } else {
            format!("{}\n{legend}", self.rows_to_markdown())
        }
    }

    /// The same without the legend.
    pub(crate) fn rows_to_markdown(&self) -> String {
        let mut out = String::from("|");
        for column in &self.columns {
            out.push_str(&format!(" {} |", text::markdown_cell(&column.heading())));
        }
        out.push_str("\n|");
        for column in &self.columns {
            out.push_str(if column.align == Align::Left {
                " --- |"
            } else {
                " ---: |"
            });
        }
        out.push('\n');
        for row in self.shown() {
            out.push('|');
            for cell in row {
                out.push_str(&format!(
                    " {} |",
                    text::markdown_cell(&format!("{}{}", cell.text, cell.signs))
                ));
            }
            out.push('\n');
        }
        out
    }

    /// As a `<table>` with a caption, scoped headings and the legend of its marks; it scrolls sideways by itself.
    pub(crate) fn to_html(&self) -> Markup {
        let is_number = |i: usize| self.columns.get(i).is_some_and(|c| c.align == Align::Right);
        let class = |i: usize, text: &str, tone: Option<Tone>| match tone {
            _ if is_number(i) => Some("n"),
            None => (text.chars().count() > WRAPPED).then_some("words"),
            Some(Tone::Good) => Some("good"),
            Some(Tone::Warn) => Some("warn"),
            Some(Tone::Bad) => Some("bad"),
        };
        // The visible title stands outside of what scrolls sideways; the caption is for those who hear the table.
        html! {
            p.title { (Plain(&self.title)) }
            div.scroll tabindex="0" role="region" aria-label=(Plain(&self.title)) {
                table {
                    caption { (Plain(&self.title)) }
                    thead {
                        tr {
                            @for (i, column) in self.columns.iter().enumerate() {
                                th scope="col" class=[class(i, &column.name(), None)] {
                                    (Plain(&column.name()))
                                    @if !column.unit.is_empty() { " " small { (column.unit) } }
                                }
                            }
                        }
                    }
                    tbody {
                        @for row in self.shown() {
                            tr {
                                @for (i, cell) in row.iter().enumerate() {
                                    @let class = class(i, &cell.text, cell.tone);
                                    @let signs = Some(&cell.signs).filter(|signs| !signs.is_empty());
                                    @let inner = html! { bdi { (Plain(&cell.text)) } @if let Some(signs) = signs { span.mark { (signs) } } };
                                    @if i == 0 { th scope="row" class=[class] { (inner) } } @else { td class=[class] { (inner) } }
                                }
                            }
                        }
                    }
                }
            }
            @if !self.marks().is_empty() {
                p.legend {
                    @for (i, mark) in self.marks().iter().enumerate() {
                        @if i > 0 { br; }
                        span.mark { (mark.sign()) } " " (mark.meaning())
                    }
                }
            }
        }
    }

    /// RFC 4180 with full precision; what is not known is an empty field. Text that a spreadsheet would take for a formula
    /// gets a leading apostrophe.
    pub(crate) fn to_csv(&self) -> String {
        let mut out = line(self.columns.iter().map(|column| field(&column.heading())));
        for row in &self.rows {
            out.push_str(&line(row.iter().map(|cell| match &cell.value {
                Value::Text(text) => field(text),
                Value::Number(n) if n.is_finite() => n.to_string(),
                Value::Count(n) => n.to_string(),
                Value::Number(_) | Value::Missing => String::new(),
            })));
        }
        out
    }
}

/// The first columns of a table, its texts broken into lines.
struct Grid<'a> {
    table: &'a Table,
    columns: &'a [Column],
    /// The lines and the signs of each cell.
    rows: Vec<Vec<(Vec<String>, String)>>,
    /// Of the texts and of the signs of each column.
    widths: Vec<(usize, usize)>,
}

impl<'a> Grid<'a> {
    fn of(table: &'a Table, columns: &'a [Column], longest: &[usize]) -> Self {
        let rows: Vec<Vec<_>> = table
            .shown()
            .into_iter()
            .map(|row| {
                let cells = row.into_iter().zip(longest).take(columns.len());
                cells
                    .map(|(cell, most)| (wrapped(&text::plain(&cell.text), *most), cell.signs))
                    .collect()
            })
            .collect();
        let width = |(i, column): (usize, &Column)| {
            let cells = || rows.iter().filter_map(|row| row.get(i));
            let lines = cells()
                .flat_map(|(lines, _)| lines)
                .map(|line| line.width());
            let heads = [column.title.width(), column.unit.width()];
            let signs = cells().map(|(_, signs)| signs.width());
            (
                lines.chain(heads).max().unwrap_or(0),
                signs.max().unwrap_or(0),
            )
        };
        let mut widths: Vec<(usize, usize)> = columns.iter().enumerate().map(width).collect();
        // A heading that is wider than the columns that share it takes the room of its first one.
        let mut from = 0;
        for shared in columns.chunk_by(|a, b| !a.group.is_empty() && a.group == b.group) {
            let own = widths.get_mut(from..from + shared.len());
            from += shared.len();
            let Some(own) = own else { break };
            let there: usize = own.iter().map(slot_of).sum();
            let wanted = shared.first().map_or(0, |column| column.group.width());
            if let Some((text, _)) = own.first_mut() {
                *text += (wanted + INDENT.len()).saturating_sub(there);
            }
        }
        Self {
            table,
            columns,
            rows,
            widths,
        }
    }

    fn total(&self) -> usize {
        self.widths.iter().map(slot_of).sum()
    }

    /// Takes what is too much from the longest texts; false where they are short already.
    fn narrow(&self, longest: &mut [usize], over: usize) -> bool {
        let texts = self.columns.iter().zip(&self.widths).zip(longest);
        let broken = texts.filter(|((column, (width, _)), most)| {
            column.align == Align::Left && *width > SHORTEST && **most > SHORTEST
        });
        let Some(((_, (width, _)), most)) = broken.max_by_key(|((_, (width, _)), _)| *width) else {
            return false;
        };
        let less = width.saturating_sub(over).min(most.saturating_sub(1));
        *most = less.max(SHORTEST);
        true
    }

    fn write(&self, more: Option<&String>) -> String {
        let mut lines = vec![text::harmless(&self.table.title)];
        if self.columns.iter().any(|column| !column.group.is_empty()) {
            lines.push(self.groups());
        }
        lines.push(self.line(|_, column| (column.title.as_str(), "")));
        if self.columns.iter().any(|column| !column.unit.is_empty()) {
            lines.push(self.line(|_, column| (column.unit, "")));
        }
        let rule = "─".repeat(self.total().saturating_sub(INDENT.len()));
        lines.push(format!("{INDENT}{rule}"));
        for row in &self.rows {
            let height = row.iter().map(|(lines, _)| lines.len()).max();
            lines.extend((0..height.unwrap_or(1)).map(|k| {
                self.line(|i, _| {
                    let cell = row.get(i);
                    let text = cell.and_then(|(lines, _)| lines.get(k));
                    let signs = cell.filter(|_| k == 0).map_or("", |(_, signs)| signs);
                    (text.map_or("", String::as_str), signs)
                })
            }));
        }
        for mark in self.table.marks() {
            lines.extend(hanging(&format!("{} ", mark.sign()), mark.meaning()));
        }
        lines.extend(more.into_iter().flat_map(|more| hanging("", more)));
        let lines = lines.iter().map(|line| line.trim_end().to_owned() + "\n");
        lines.collect()
    }

    /// A text with its signs for each column, each at its place.
    fn line<'t>(&'t self, cell: impl Fn(usize, &'t Column) -> (&'t str, &'t str)) -> String {
        let columns = self.columns.iter().zip(&self.widths).enumerate();
        let place =
            |(i, (column, (width, signs_width))): (usize, (&'t Column, &(usize, usize)))| {
                let (text, signs) = cell(i, column);
                let fill = " ".repeat(width.saturating_sub(text.width()));
                let behind = " ".repeat(signs_width.saturating_sub(signs.width()));
                match column.align {
                    Align::Left => format!("{INDENT}{text}{signs}{fill}{behind}"),
                    Align::Right => format!("{INDENT}{fill}{text}{signs}{behind}"),
                }
            };
        columns.map(place).collect()
    }

    /// Headings that columns beside each other share.
    fn groups(&self) -> String {
        let mut line = String::new();
        let mut rest = self.columns.iter().zip(&self.widths).peekable();
        while let Some((column, mut width)) = rest.next().map(slot) {
            let shared = |next: &(&Column, &(usize, usize))| {
                !column.group.is_empty() && next.0.group == column.group
            };
            while let Some(next) = rest.next_if(shared) {
                width += slot(next).1;
            }
            let fill = " ".repeat(width.saturating_sub(column.group.width()));
            line += &format!("{fill}{}", column.group);
        }
        line
    }
}

fn slot<'t>((column, widths): (&'t Column, &(usize, usize))) -> (&'t Column, usize) {
    (column, slot_of(widths))
}

/// What a column takes of a line.
fn slot_of((text, signs): &(usize, usize)) -> usize {
    INDENT.len() + text + signs
}

/// A paragraph whose later lines stand under the first one's text.
pub(crate) fn hanging(lead: &str, text: &str) -> Vec<String> {
    let indent = INDENT.len() + lead.width();
    let lines = wrapped(text, text_width().saturating_sub(indent));
    let place = |(i, line): (usize, String)| {
        if i == 0 {
            format!("{INDENT}{lead}{line}")
        } else {
            format!("{}{line}", " ".repeat(indent))
        }
    };
    lines.into_iter().enumerate().map(place).collect()
}

/// What signs mean, in a paragraph.
pub(crate) fn legend(marks: &BTreeSet<Mark>) -> String {
    let each = |mark: &Mark| {
        let sign = text::markdown(&mark.sign().to_string());
        format!("{sign} {}", text::markdown(mark.meaning()))
    };
    let said: Vec<String> = marks.iter().map(each).collect();
    if said.is_empty() {
        return String::new();
    }
    said.join(" · ") + "\n"
}

fn line(fields: impl Iterator<Item = String>) -> String {
    let mut line = fields.collect::<Vec<_>>().join(",");
    line.push_str("\r\n");
    line
}

fn field(text: &str) -> String {
    let safe = no_formula(text);
    if safe.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", safe.replace('"', "\"\""))
    } else {
        safe.into_owned()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/table_forms.rs"]
mod tests;
