//! Tables as Markdown, HTML and CSV.

use std::collections::BTreeSet;

use super::{Align, Mark, Table, Tone, Value};
use crate::text;

impl Table {
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
    pub(crate) fn to_html(&self) -> String {
        let title = text::html(&self.title);
        let is_number = |i: usize| self.columns.get(i).is_some_and(|c| c.align == Align::Right);
        let heads = self.columns.iter().enumerate().map(|(i, column)| {
            let class = if is_number(i) { " class=\"n\"" } else { "" };
            let unit = match column.unit {
                "" => String::new(),
                unit => format!(" <small>{}</small>", text::html(unit)),
            };
            format!(
                "<th scope=\"col\"{class}>{}{unit}</th>",
                text::html(&column.name())
            )
        });
        // The visible title stands outside of what scrolls sideways; the caption is for those who hear the table.
        let mut out = format!(
            "<p class=\"title\">{title}</p><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\">\
             <table><caption>{title}</caption><thead><tr>{}</tr></thead><tbody>",
            heads.collect::<String>()
        );
        for row in self.shown() {
            out.push_str("<tr>");
            for (i, cell) in row.iter().enumerate() {
                let class = match cell.tone {
                    _ if is_number(i) => " class=\"n\"",
                    None => "",
                    Some(Tone::Good) => " class=\"good\"",
                    Some(Tone::Warn) => " class=\"warn\"",
                    Some(Tone::Bad) => " class=\"bad\"",
                };
                let signs = match cell.signs.as_str() {
                    "" => String::new(),
                    signs => format!("<span class=\"mark\">{}</span>", text::html(signs)),
                };
                let inner = format!("<bdi>{}</bdi>{signs}", text::html(&cell.text));
                out.push_str(&match i {
                    0 => format!("<th scope=\"row\"{class}>{inner}</th>"),
                    _ => format!("<td{class}>{inner}</td>"),
                });
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>");
        let entry = |mark: &Mark| {
            let (sign, meaning) = (mark.sign(), text::html(mark.meaning()));
            format!("<span class=\"mark\">{sign}</span> {meaning}")
        };
        let legend: Vec<String> = self.marks().iter().map(entry).collect();
        if !legend.is_empty() {
            out.push_str(&format!("<p class=\"legend\">{}</p>", legend.join("<br>")));
        }
        out
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
    let safe = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if safe.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", safe.replace('"', "\"\""))
    } else {
        safe
    }
}
