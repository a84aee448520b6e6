//! Tables for HTML.

use super::{Align, Column, Table, Tone};
use crate::text;

impl Table {
    /// As a `<table>` with a caption, scoped headings and the legend of its marks; it scrolls sideways by itself.
    pub(crate) fn to_html(&self) -> String {
        let title = text::html(&self.title);
        // The visible title stands outside of what scrolls sideways; the caption is for those who hear the table.
        let mut out = format!(
            "<p class=\"title\">{title}</p><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\">\
             <table><caption>{title}</caption><thead>"
        );
        out.push_str(&self.heads());
        out.push_str("</thead><tbody>");
        for row in self.shown() {
            out.push_str("<tr>");
            for (i, (cell, column)) in row.iter().zip(&self.columns).enumerate() {
                let class = match (column.align, cell.tone) {
                    (Align::Right, _) => " class=\"n\"",
                    (_, None) => "",
                    (_, Some(Tone::Good)) => " class=\"good\"",
                    (_, Some(Tone::Warn)) => " class=\"warn\"",
                    (_, Some(Tone::Bad)) => " class=\"bad\"",
                };
                let (open, close) = match i {
                    0 => (format!("<th scope=\"row\"{class}>"), "</th>"),
                    _ => (format!("<td{class}>"), "</td>"),
                };
                out.push_str(&open);
                out.push_str(&format!("<bdi>{}</bdi>", text::html(&cell.text)));
                if !cell.signs.is_empty() {
                    out.push_str(&format!(
                        "<span class=\"mark\">{}</span>",
                        text::html(&cell.signs)
                    ));
                }
                out.push_str(close);
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>");
        out.push_str(&self.html_legend());
        out
    }

    fn heads(&self) -> String {
        let cell = |column: &Column, name: &str| {
            let class = if column.align == Align::Right {
                " class=\"n\""
            } else {
                ""
            };
            let unit = if column.unit.is_empty() {
                String::new()
            } else {
                format!(" <small>{}</small>", text::html(column.unit))
            };
            format!("<th scope=\"col\"{class}>{}{unit}</th>", text::html(name))
        };
        let plain = |column: &Column| {
            let name = if column.group.is_empty() {
                column.title.clone()
            } else {
                format!("{} {}", column.group, column.title)
            };
            cell(column, &name)
        };
        format!(
            "<tr>{}</tr>",
            self.columns.iter().map(plain).collect::<String>()
        )
    }

    fn html_legend(&self) -> String {
        let marks = self.marks();
        if marks.is_empty() {
            return String::new();
        }
        let entry = |mark: &crate::mark::Mark| {
            format!(
                "<span class=\"mark\">{}</span> {}",
                mark.sign(),
                text::html(mark.meaning())
            )
        };
        let list: Vec<String> = marks.iter().map(entry).collect();
        format!("<p class=\"legend\">{}</p>", list.join("<br>"))
    }
}
