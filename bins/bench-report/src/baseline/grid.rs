//! Texts in columns, for a terminal and for Markdown.

/// A head and rows of as many cells each; the first column is a name, the others are figures or words.
pub(super) struct Grid {
    rows: Vec<Vec<String>>,
    /// Columns that are read as numbers, from the second on.
    numbers: bool,
}

impl Grid {
    pub(super) fn of_numbers(head: &[&str]) -> Self {
        Self::new(head, true)
    }

    pub(super) fn of_words(head: &[&str]) -> Self {
        Self::new(head, false)
    }

    fn new(head: &[&str], numbers: bool) -> Self {
        let head = head.iter().map(|text| (*text).to_owned()).collect();
        Self {
            rows: vec![head],
            numbers,
        }
    }

    pub(super) fn push(&mut self, row: Vec<String>) {
        self.rows
            .push(row.into_iter().map(|text| clean(&text)).collect());
    }

    /// Whether there is nothing but the head.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    pub(super) fn text(&self) -> String {
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
                    if self.numbers && column > 0 {
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

    pub(super) fn markdown(&self) -> String {
        let line = |row: &Vec<String>| {
            let cells: Vec<String> = row.iter().map(|text| text.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut lines = self.rows.iter().map(line);
        let mut out = lines.next().unwrap_or_default();
        let columns = self.rows.first().map_or(0, Vec::len);
        let rule: Vec<&str> = (0..columns)
            .map(|column| {
                if self.numbers && column > 0 {
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
pub(super) fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_from_a_file_cannot_break_out_of_its_column() {
        let mut grid = Grid::of_numbers(&["cell", "value"]);
        grid.push(vec!["a|b\n\u{1b}[2Jc".to_owned(), "1".to_owned()]);
        assert_eq!(grid.text(), "cell     value\na|b[2Jc      1\n");
        assert_eq!(
            grid.markdown(),
            "| cell | value |\n| --- | ---: |\n| a\\|b[2Jc | 1 |\n"
        );
    }
}
