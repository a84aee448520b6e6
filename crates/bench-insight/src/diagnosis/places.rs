//! Whether a server answers no more than so many at once while others wait for a place, by its answers alone.

use std::collections::BTreeMap;

use super::fit::{median, quantile};
use super::load::gap;
use super::look::{Look, Seen};
use super::prompts::Prefill;

/// Requests that wait for one of a number of places.
pub(super) struct Places {
    /// Requests that run at once whenever others wait.
    pub(super) running: f64,
    /// Those that wait, on average.
    pub(super) waiting: f64,
    /// Share of the users' time that they wait.
    pub(super) share: f64,
    /// Whether they hold their first token while they wait: another part of the server made it.
    pub(super) after_first: bool,
    /// Whether most of the time that they run is before their first token: prompts that are processed so many at once look the same.
    pub(super) may_be_prefill: bool,
}

/// A request that waits from some moment on, then runs, and ends.
type Turn = (f64, f64, f64);

impl Places {
    /// Those before the first token or after it, whichever keep users longer.
    pub(super) fn of(look: &Look<'_>) -> Option<Self> {
        let (turns, may_be_prefill) = until_first(look)?;
        let before = Self::of_turns(look, &turns).map(|places| Self {
            may_be_prefill,
            ..places
        });
        let after = Self::of_turns(look, &until_second(look)).map(|places| Self {
            after_first: true,
            ..places
        });
        let both = before.into_iter().chain(after);
        both.max_by(|a, b| a.share.total_cmp(&b.share))
    }

    /// In a queue as many run whenever somebody waits, and hardly ever more. What is slow for another reason waits whoever else runs.
    fn of_turns(look: &Look<'_>, turns: &[Turn]) -> Option<Self> {
        const FEWEST: usize = 20;
        /// Of the time in which somebody waits, and of all the time.
        const AS_MANY: f64 = 0.75;
        const MORE: f64 = 0.2;
        // when, what it changes of those that run, and of those that wait
        let mut edges: Vec<(f64, i32, i32)> = Vec::new();
        for (from, begins, to) in turns {
            edges.extend([(*from, 0, 1), (*begins, 1, -1), (*to, -1, 0)]);
        }
        edges.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut running, mut waiting, mut waited) = (0, 0, 0.0);
        let (mut beside_waiting, mut all) = (BTreeMap::new(), BTreeMap::new());
        for pair in edges.windows(2) {
            let (edge, time) = (pair[0], pair[1].0 - pair[0].0);
            running += edge.1;
            waiting += edge.2;
            waited += f64::from(waiting) * time;
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
        let several = places > 0 && turns.len() >= FEWEST;
        let share = waited / look.taken();
        (always && several && share >= super::LEAST).then(|| Self {
            running: f64::from(places),
            waiting: waited / of(&all),
            share,
            after_first: false,
            may_be_prefill: false,
        })
    }
}

/// A request runs from its first token on, and as long before as the quickest of its length take; before that it waits. And whether most run for longer before
/// their first token than after it.
fn until_first(look: &Look<'_>) -> Option<(Vec<Turn>, bool)> {
    const QUICKEST: f64 = 0.03;
    let with_ttft = || {
        let seen = look.seen.iter().filter(|s| s.first.is_some());
        seen.zip(look.prefills())
    };
    let over = with_ttft().filter_map(|(s, prefill)| Some(s.request.ttft? / prefill.quick));
    let quickest = quantile(over.collect(), QUICKEST)?;
    let turn = |(s, prefill): (&Seen<'_>, &Prefill)| {
        let begins = (s.first? - quickest * prefill.quick).max(s.sent);
        Some((s.sent, begins, s.end, s.first?))
    };
    let turns: Vec<_> = with_ttft().filter_map(turn).collect();
    let longer = turns
        .iter()
        .map(|(_, begins, end, first)| (end - first) / (first - begins));
    let may_be_prefill = median(longer.collect())? < 1.0;
    let turns = turns
        .iter()
        .map(|(sent, begins, end, _)| (*sent, *begins, *end));
    Some((turns.collect(), may_be_prefill))
}

/// A request holds its first token and waits where the next stands out, but for the usual gap.
fn until_second(look: &Look<'_>) -> Vec<Turn> {
    let usual = gap(look.cell).unwrap_or(0.0);
    let turns = look.seen.iter().filter_map(|s| {
        let first = s.first?;
        let stalls = s.request.stalls.iter();
        let mut stalls = stalls.map(|(at, length)| (look.ns(*at), *length));
        let wait = stalls.find(|(at, _)| *at <= first + 1.0);
        let begins = wait.map_or(first, |(at, length)| (at + length - usual).max(first));
        Some((first, begins, s.end))
    });
    turns.collect()
}
