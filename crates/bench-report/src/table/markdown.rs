//! Tables for Markdown.

use super::{Align, Table};
use crate::text;

impl Table {
    /// As a GitHub table with the legend of its marks under it; the title is the caller's heading.
    pub(crate) fn to_markdown(&self) -> String {
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
        for mark in self.marks() {
            out.push_str(&format!(
                "\n{} {}  ",
                text::markdown(&mark.sign().to_string()),
                text::markdown(mark.meaning())
            ));
        }
        if !self.marks().is_empty() {
            out.push('\n');
        }
        out
    }
}
