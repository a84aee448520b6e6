//! Tables for Markdown.

use std::collections::BTreeSet;

use super::{Align, Table};
use crate::mark::Mark;
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
