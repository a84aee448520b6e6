//! Tables for a terminal.

use unicode_width::UnicodeWidthStr;

use super::{Align, Column, Shown, Table};
use crate::text;

/// Widest table, in columns.
pub(crate) const WIDTH: usize = 100;
const INDENT: &str = "  ";
/// To so many columns texts are cut before a column is left out.
const SHORTEST: usize = 28;

struct Layout {
    widths: Vec<usize>,
    sign_widths: Vec<usize>,
}

impl Table {
    /// As lines of at most 100 columns: a title, headings, rows, and the meaning of the marks that were used.
    /// Where they do not fit, long texts are cut, then columns at the right are left out; the reports of the run have them.
    pub(crate) fn to_terminal(&self) -> String {
        self.fitted("in report.html")
    }

    /// The same of a table that no report has.
    pub fn alone(&self) -> String {
        self.fitted("with `--output markdown`")
    }

    fn fitted(&self, whole: &str) -> String {
        let mut table = self.clone();
        let mut left_out = Vec::new();
        let mut longest = vec![usize::MAX; table.columns.len()];
        loop {
            let shown = table.terminal_cells(&longest);
            let layout = Layout::of(&table, &shown);
            let over = layout.total().saturating_sub(WIDTH);
            if over > 0 && layout.cut(&table, &mut longest, over) {
                continue;
            }
            if over == 0 || table.columns.len() <= 2 {
                left_out.reverse();
                let names = left_out.join(", ");
                let more = (!names.is_empty()).then(|| format!("more columns {whole}: {names}"));
                return table.write_terminal(&shown, &layout, more.as_deref());
            }
            left_out.extend(table.columns.pop().map(|column| column.heading()));
            for row in &mut table.rows {
                row.truncate(table.columns.len());
            }
        }
    }

    fn terminal_cells(&self, longest: &[usize]) -> Vec<Vec<Shown>> {
        let mut shown = self.shown();
        for row in &mut shown {
            for (cell, &longest) in row.iter_mut().zip(longest) {
                cell.text = text::shortened(&cell.text, longest.min(text::LONGEST));
            }
        }
        shown
    }

    fn write_terminal(&self, shown: &[Vec<Shown>], layout: &Layout, more: Option<&str>) -> String {
        let mut lines = vec![self.title.clone()];
        if self.columns.iter().any(|column| !column.group.is_empty()) {
            lines.push(self.group_line(layout));
        }
        let titles = self
            .columns
            .iter()
            .enumerate()
            .map(|(i, c)| layout.place(i, &c.title, "", c.align));
        lines.push(titles.collect::<String>());
        if self.columns.iter().any(|column| !column.unit.is_empty()) {
            let units = self
                .columns
                .iter()
                .enumerate()
                .map(|(i, c)| layout.place(i, c.unit, "", c.align));
            lines.push(units.collect::<String>());
        }
        lines.push(format!(
            "{INDENT}{}",
            "─".repeat(layout.total().saturating_sub(INDENT.len()))
        ));
        for row in shown {
            let cells = row.iter().zip(&self.columns).enumerate();
            lines.push(
                cells
                    .map(|(i, (cell, c))| layout.place(i, &cell.text, &cell.signs, c.align))
                    .collect(),
            );
        }
        for mark in self.marks() {
            lines.extend(hanging(&format!("{} ", mark.sign()), mark.meaning()));
        }
        lines.extend(more.into_iter().flat_map(|more| hanging("", more)));
        lines
            .iter()
            .map(|line| format!("{}\n", line.trim_end()))
            .collect()
    }

    fn group_line(&self, layout: &Layout) -> String {
        let mut line = String::new();
        let mut i = 0;
        while let Some(column) = self.columns.get(i) {
            let same = |c: &&Column| c.group == column.group && !column.group.is_empty();
            let span = self.columns.iter().skip(i).take_while(same).count().max(1);
            let width: usize = (i..i + span).map(|j| layout.slot(j)).sum();
            line.push_str(&pad_right(&column.group, width));
            i += span;
        }
        line
    }
}

impl Layout {
    fn of(table: &Table, shown: &[Vec<Shown>]) -> Self {
        let cells = |i: usize| shown.iter().filter_map(move |row| row.get(i));
        let widths = table.columns.iter().enumerate().map(|(i, column)| {
            let widest = cells(i).map(|cell| cell.text.width()).max().unwrap_or(0);
            let alone = if span(table, i) == 1 {
                column.group.width()
            } else {
                0
            };
            widest
                .max(column.title.width())
                .max(column.unit.width())
                .max(alone)
        });
        let sign_widths =
            (0..table.columns.len()).map(|i| cells(i).map(|c| c.signs.width()).max().unwrap_or(0));
        Self {
            widths: widths.collect(),
            sign_widths: sign_widths.collect(),
        }
    }

    /// Takes what is too much from the longest texts; false where they are short already.
    fn cut(&self, table: &Table, longest: &mut [usize], over: usize) -> bool {
        let texts = table.columns.iter().zip(&self.widths).zip(longest);
        let widest = texts
            .filter(|((column, width), most)| {
                column.align == Align::Left && **width > SHORTEST && **most > SHORTEST
            })
            .max_by_key(|((_, width), _)| **width);
        let Some(((_, width), most)) = widest else {
            return false;
        };
        let less = width.saturating_sub(over).min(most.saturating_sub(1));
        *most = less.max(SHORTEST);
        true
    }

    fn slot(&self, i: usize) -> usize {
        let at = |list: &Vec<usize>| list.get(i).copied().unwrap_or(0);
        INDENT.len() + at(&self.widths) + at(&self.sign_widths)
    }

    fn total(&self) -> usize {
        (0..self.widths.len()).map(|i| self.slot(i)).sum()
    }

    fn place(&self, i: usize, text: &str, signs: &str, align: Align) -> String {
        let width = self.widths.get(i).copied().unwrap_or(0);
        let fill = " ".repeat(width.saturating_sub(text.width()));
        let behind = " ".repeat(
            self.sign_widths
                .get(i)
                .copied()
                .unwrap_or(0)
                .saturating_sub(signs.width()),
        );
        match align {
            Align::Left => format!("{INDENT}{text}{signs}{fill}{behind}"),
            Align::Right => format!("{INDENT}{fill}{text}{signs}{behind}"),
        }
    }
}

fn span(table: &Table, i: usize) -> usize {
    let Some(column) = table.columns.get(i) else {
        return 1;
    };
    table
        .columns
        .iter()
        .filter(|c| c.group == column.group)
        .count()
        .max(1)
}

fn pad_right(text: &str, width: usize) -> String {
    let fill = width.saturating_sub(text.width());
    format!("{}{text}", " ".repeat(fill))
}

/// A paragraph of at most 100 columns whose later lines stand under the first one's text.
pub(crate) fn hanging(lead: &str, text: &str) -> Vec<String> {
    let indent = INDENT.len() + lead.width();
    let lines = text::wrapped(text, WIDTH.saturating_sub(indent));
    let place = |(i, line): (usize, String)| {
        if i == 0 {
            format!("{INDENT}{lead}{line}")
        } else {
            format!("{}{line}", " ".repeat(indent))
        }
    };
    lines.into_iter().enumerate().map(place).collect()
}
