//! Texts in columns, for a terminal and for Markdown.

use std::ops::Range;

use bench_report::markdown_cell;

/// Characters of a cell that are shown.
pub(crate) const LONGEST: usize = 300;

/// A head and rows of as many cells each.
pub(crate) struct Grid {
    rows: Vec<Vec<String>>,
    /// Columns that are read as numbers, and end at the same place.
    numbers: Range<usize>,
}

impl Grid {
    /// The first column is a name, the others are numbers.
    pub(crate) fn of_numbers(head: &[&str]) -> Self {
        Self::new(head, 1..head.len())
    }

    /// No column is numbers.
    pub(crate) fn of_words(head: &[&str]) -> Self {
        Self::new(head, 0..0)
    }

    /// Some columns are numbers.
    pub(crate) fn new(head: &[&str], numbers: Range<usize>) -> Self {
        let head = head.iter().map(|text| (*text).to_owned()).collect();
        Self {
            rows: vec![head],
            numbers,
        }
    }

    pub(crate) fn push(&mut self, row: Vec<String>) {
        self.rows
            .push(row.into_iter().map(|text| clean(&text, LONGEST)).collect());
    }

    /// Whether there is nothing but the head.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    pub(crate) fn text(&self) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let texts = self.rows.iter().filter_map(|row| row.get(column));
                texts.map(|text| text.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let line = |row: &Vec<String>| {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (text, &width))| {
                    if self.numbers.contains(&column) {
                        format!("{text:>width$}")
                    } else {
                        format!("{text:<width$}")
                    }
                })
                .collect();
            cells.join("  ").trim_end().to_owned() + "\n"
        };
        self.rows.iter().map(line).collect()
    }

    pub(crate) fn markdown(&self) -> String {
        let line = |row: &Vec<String>| {
            let cells: Vec<String> = row.iter().map(|text| markdown_cell(text)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut lines = self.rows.iter().map(line);
        let mut out = lines.next().unwrap_or_default();
        let columns = self.rows.first().map_or(0, Vec::len);
        let rule: Vec<&str> = (0..columns)
            .map(|column| {
                if self.numbers.contains(&column) {
                    "---:"
                } else {
                    "---"
                }
            })
            .collect();
        out += &format!("| {} |\n", rule.join(" | "));
        lines.for_each(|line| out += &line);
        out
    }
}

/// Names come from files: nothing of them may move the cursor or begin a line.
pub(crate) fn clean(text: &str, most: usize) -> String {
    text.chars()
        .filter(|c| !c.is_control())
        .take(most)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_from_a_file_is_no_markup() {
        let mut grid = Grid::of_words(&["model"]);
        grid.push(vec![
            "<script>x</script> ![i](http://h/i) [l](u)".to_owned(),
        ]);
        let shown = grid.markdown();
        assert!(
            !shown.contains("<script") && !shown.contains("![") && !shown.contains("://"),
            "{shown}"
        );
    }

    #[test]
    fn a_name_from_a_file_cannot_break_out_of_its_column() {
        let mut grid = Grid::of_numbers(&["cell", "value"]);
        grid.push(vec!["a|b\n\u{1b}[2Jc".to_owned(), "1".to_owned()]);
        assert_eq!(grid.text(), "cell     value\na|b[2Jc      1\n");
        assert_eq!(
            grid.markdown(),
            "| cell | value |\n| --- | ---: |\n| a\\|b\\[2Jc | 1 |\n"
        );
    }
}
