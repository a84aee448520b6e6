//! Whether a server answers no more than so many at once while others wait for a place, by its answers alone.

use std::collections::BTreeMap;

use super::look::{Look, median, quantile};

/// Requests that wait for one of a number of places.
pub(super) struct Places {
    /// Requests that run at once whenever others wait.
    pub(super) running: f64,
    /// Those that wait, on average.
    pub(super) waiting: f64,
    /// Share of the users' time that they wait.
    pub(super) share: f64,
    /// Whether most of the time that they run is before their first token: prompts that are processed so many at once look the same.
    pub(super) may_be_prefill: bool,
}

impl Places {
    /// A request runs from its first token on, and as long before as the quickest of its length take; before that it waits. In a queue as many run whenever
    /// somebody waits, and hardly ever more. What is slow for another reason waits whoever else runs.
    pub(super) fn of(look: &Look<'_>) -> Option<Self> {
        const FEWEST: usize = 20;
        const QUICKEST: f64 = 0.03;
        /// Of the time in which somebody waits, and of all the time.
        const AS_MANY: f64 = 0.75;
        const MORE: f64 = 0.2;
        let with_ttft = || {
            let seen = look.seen.iter().filter(|s| s.first.is_some());
            seen.zip(look.prefills())
        };
        let over = with_ttft().filter_map(|(s, prefill)| Some(s.request.ttft? / prefill.quick));
        let quickest = quantile(over.collect(), QUICKEST)?;
        // when, what it changes of those that run, and of those that wait
        let mut edges: Vec<(f64, i32, i32)> = Vec::new();
        let mut alone = Vec::new();
        for (seen, prefill) in with_ttft() {
            let begins = (seen.first? - quickest * prefill.quick).max(seen.sent);
            edges.extend([(seen.sent, 0, 1), (begins, 1, -1), (seen.end, -1, 0)]);
            alone.push((seen.end - seen.first?) / (seen.first? - begins));
        }
        edges.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut running, mut waiting) = (0, 0);
        let (mut beside_waiting, mut all) = (BTreeMap::new(), BTreeMap::new());
        let (mut waited, mut taken) = (0.0, 0.0);
        for pair in edges.windows(2) {
            let (edge, time) = (pair[0], pair[1].0 - pair[0].0);
            running += edge.1;
            waiting += edge.2;
            waited += f64::from(waiting) * time;
            taken += f64::from(running + waiting) * time;
            *all.entry(running).or_insert(0.0) += time;
            if waiting > 0 {
                *beside_waiting.entry(running).or_insert(0.0) += time;
            }
        }
        let of = |times: &BTreeMap<i32, f64>| times.values().sum::<f64>();
        let most = beside_waiting.iter().max_by(|a, b| a.1.total_cmp(b.1));
        let (places, lasted) = most.map(|(places, lasted)| (*places, *lasted))?;
        let more: f64 = all.range(places + 1..).map(|(_, time)| time).sum();
        let always = lasted >= AS_MANY * of(&beside_waiting) && more <= MORE * of(&all);
        (always && places > 0 && alone.len() >= FEWEST).then_some(())?;
        Some(Self {
            running: f64::from(places),
            waiting: waited / of(&all),
            share: waited / taken,
            may_be_prefill: median(alone)? < 1.0,
        })
    }
}
