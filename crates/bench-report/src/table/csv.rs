//! Tables as CSV.

use super::{Table, Value};

impl Table {
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
