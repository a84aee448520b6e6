//! Values that belong together, one cluster after another.

/// Clusters of values (the gaps of each request) in order; a cluster may be empty. Memory: 8 bytes a value and 8 a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clusters {
    values: Vec<f64>,
    ends: Vec<usize>,
}

impl Clusters {
    pub(crate) fn push(&mut self, cluster: impl IntoIterator<Item = f64>) {
        self.values.extend(cluster);
        self.ends.push(self.values.len());
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[f64]> + Clone {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts
            .zip(&self.ends)
            .map(|(from, to)| &self.values[*from..*to])
    }

    /// All of them.
    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }

    /// All of them.
    pub(crate) fn into_values(self) -> Vec<f64> {
        self.values
    }
}

impl<C: IntoIterator<Item = f64>> FromIterator<C> for Clusters {
    fn from_iter<I: IntoIterator<Item = C>>(clusters: I) -> Self {
        let mut all = Self::default();
        clusters.into_iter().for_each(|cluster| all.push(cluster));
        all
    }
}
