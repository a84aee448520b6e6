//! Length categories: short and long requests are different workloads.

/// Names with the total tokens (prompt and output) from which they begin, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LengthCategories {
    from: Vec<(u64, String)>,
}

impl Default for LengthCategories {
    /// tiny below 50 tokens, short below 150, medium below 300, long below 500, very-long from there.
    fn default() -> Self {
        let usual = [
            (0, "tiny"),
            (50, "short"),
            (150, "medium"),
            (300, "long"),
            (500, "very-long"),
        ];
        Self::new(usual.map(|(from, name)| (from, name.to_owned())))
    }
}

impl LengthCategories {
    /// From `(least total tokens, name)` pairs in any order; lengths below the first have no category.
    pub fn new(from: impl IntoIterator<Item = (u64, String)>) -> Self {
        let mut from: Vec<(u64, String)> = from.into_iter().collect();
        from.sort();
        Self { from }
    }

    /// The category of a total length.
    pub fn of(&self, total_tokens: u64) -> Option<&str> {
        let after = self
            .from
            .partition_point(|(least, _)| *least <= total_tokens);
        self.from
            .get(after.checked_sub(1)?)
            .map(|(_, name)| name.as_str())
    }

    /// The total tokens from which a category begins and the next one does, by its name whatever its spelling (`VeryLong`, `very long`).
    pub fn bounds(&self, name: &str) -> Option<(u64, Option<u64>)> {
        let plain = |name: &str| {
            name.replace(|c: char| !c.is_ascii_alphabetic(), "")
                .to_lowercase()
        };
        let at = self
            .from
            .iter()
            .position(|(_, own)| plain(own) == plain(name))?;
        let next = self.from.get(at + 1).map(|(from, _)| *from);
        Some((self.from.get(at)?.0, next))
    }
}

#[cfg(test)]
#[path = "../../tests/unit/cell_categories.rs"]
mod tests;
