//! How fast a server was over time.
//!
//! What a request takes is `s(t) · Σ bᵢxᵢ`: the xᵢ are what load and lengths add (`bᵢ ≥ 0`), and `s(t)` is how slow the server was when it was answered, 1
//! where nothing changed. Both are fitted together, over all cells in order of time, so that neither takes what the other explains: a change of load is no
//! change of the server, and slower answers of which more are in flight are not explained by these. Of the shapes of `s(t)` the one is told that leaves least.

mod parts;
mod series;

use bench_schema::{Cause, Experiment, Finding, Known, Stamp};

use super::fit::{median, quantile};
use super::look::{Look, Seen};
use super::spans::UnderWay;
use super::{first_token, load, over_time};
use crate::draft::Draft;
use crate::samples::FEW;
use crate::view;
use parts::{Span, keep_undisturbed, may_move, spans};
use series::{Columns, Fitted, Point, Series, Shape, each, ends};

/// A speed that changed.
#[derive(Clone, Debug)]
pub(super) struct Change {
    fitted: Fitted,
    from: f64,
    lasted: f64,
    typical: f64,
    finding: Finding,
    /// What it costs in each cell in which it shows, by when that began.
    costs: Vec<(Stamp, f64)>,
}

impl Series {
    /// What is told of a change in some cells.
    fn told(&self, found: Fitted, looks: &[&Look<'_>]) -> Option<Change> {
        let begins_slowly = self.begins_slowly(&found);
        let found = if begins_slowly {
            self.or_at_a_moment(found)
        } else {
            found
        };
        if !begins_slowly && found.is_wavering() {
            return None;
        }
        let typical = median(found.slow.clone())?;
        let (cause, experiment) = match &found.shape {
            _ if begins_slowly => (Cause::ColdStart, Experiment::LongerWarmUp),
            Shape::Levels(_) => (Cause::Step, Experiment::Longer),
            _ => (Cause::Drift, Experiment::Longer),
        };
        // requests that come close together compete with each other
        let first = looks.iter().min_by_key(|look| look.epoch)?;
        let slow = self
            .points
            .partition_point(|p| p.from < self.slow_until(&found));
        let until = slow.checked_sub(1).and_then(|last| self.points.get(last));
        let until = until.map_or(0.0, |last| last.from - self.from);
        if cause == Cause::ColdStart && over_time::are_bursts(first, &[(0.0, until)]) {
            return None;
        }
        let costs = self.costs(&found, cause, looks);
        let most = costs.iter().map(|(_, cost)| *cost).fold(0.0, f64::max);
        let mut draft = Draft::new(cause, most);
        for (figure, value) in self.movement(&found, cause) {
            let is_level = [Known::LevelBefore, Known::LevelAfter].contains(&figure);
            draft = draft.because(figure, value / if is_level { typical } else { 1.0 });
        }
        let requests = self.points.iter().filter(|p| p.once > 0.0).count();
        let draft = draft.because(Known::Requests, requests as f64);
        let finding = draft.refuted_by(experiment).done()?;
        Some(Change {
            costs,
            from: self.from,
            lasted: self.lasted,
            fitted: found,
            typical,
            finding,
        })
    }

    /// What a change costs in each cell in which it shows: the slow first ones; else those whose speed moves while they are measured, or where it moves between two,
    /// all.
    fn costs(&self, found: &Fitted, cause: Cause, looks: &[&Look<'_>]) -> Vec<(Stamp, f64)> {
        let moves = |look: &Look<'_>| {
            let is_own = |p: &Point| looks[p.cell].cell.id == look.cell.id;
            let own = self.points.iter().zip(&found.slow);
            let own: Vec<f64> = own.filter(|(p, _)| is_own(p)).map(|of| *of.1).collect();
            let (low, high) = ends(&own);
            high >= MOVED * low
        };
        let none = cause == Cause::ColdStart || !looks.iter().any(|look| moves(look));
        let shows = looks.iter().enumerate();
        let shows = shows.filter(|(_, look)| none || moves(look));
        shows
            .map(|(cell, look)| (look.epoch, self.cost(found, cell)))
            .collect()
    }
}

/// Times a cell's quickest, from which on its speed moved.
const MOVED: f64 = 1.1;

impl Change {
    /// How slow the server was in some span of the run's clock.
    fn between(&self, from: f64, to: f64) -> f64 {
        let part = (f64::midpoint(from, to) - self.from) / self.lasted;
        let log: f64 = match &self.fitted.shape {
            Shape::One => 0.0,
            Shape::Levels(times) => times
                .iter()
                .zip(&self.fitted.logs)
                .filter(|(at, _)| **at <= f64::midpoint(from, to))
                .map(|(_, log)| log)
                .sum(),
            Shape::Line => part * self.fitted.logs.iter().sum::<f64>(),
            Shape::Decay(of) => (-part / of).exp() * self.fitted.logs.iter().sum::<f64>(),
        };
        log.exp()
    }

    /// How slow it was while the requests of a cell were answered, at the median, of its usual; and whether that changed meanwhile.
    pub(super) fn within(&self, look: &Look<'_>) -> (f64, bool) {
        let epoch = look.epoch.get() as f64;
        let all: Vec<f64> = look
            .seen
            .iter()
            .map(|s| self.between(epoch + s.sent, epoch + s.end))
            .collect();
        let (low, high) = ends(&all);
        (
            median(all).unwrap_or(1.0) / self.typical,
            high >= MOVED * low,
        )
    }

    pub(super) fn is_cold_start(&self) -> bool {
        self.finding.cause() == Some(Cause::ColdStart)
    }
}

/// A number as pieces of a line that only rises, bent where a quarter more of the values lie below.
fn rising(values: &[f64], least: f64) -> Vec<Vec<f64>> {
    let mut bends = vec![values.iter().copied().fold(f64::INFINITY, f64::min)];
    for q in [0.25, 0.5, 0.75, 1.0] {
        let next = quantile(values.to_vec(), q).unwrap_or(0.0);
        bends.extend((next - bends[bends.len() - 1] >= least).then_some(next));
    }
    pieces(values, &bends)
}

/// What lies of each value between each two bends.
fn pieces(values: &[f64], bends: &[f64]) -> Vec<Vec<f64>> {
    let piece = |ends: &[f64]| {
        let values = values.iter();
        values
            .map(|v| v.clamp(ends[0], ends[1]) - ends[0])
            .collect()
    };
    bends.windows(2).map(piece).collect()
}

fn column(points: &[Point], of: impl Fn(&Point) -> f64) -> Vec<f64> {
    points.iter().map(of).collect()
}

/// What a time per token follows: answers that stream beside it, prompts that are worked on, what it has to look back at, and what each answer waits for once. Who
/// waits in a queue makes nobody slower.
fn of_tokens(points: &[Point]) -> Vec<Vec<f64>> {
    let mut columns = vec![column(points, |_| 1.0)];
    columns.extend(rising(&column(points, |p| p.beside), 0.5));
    columns.push(column(points, |p| p.prompt));
    columns.push(column(points, |p| p.gaps));
    columns.push(column(points, |p| p.once));
    columns
}

/// The same where neither load nor lengths make a difference.
fn plain_tokens(points: &[Point]) -> Vec<Vec<f64>> {
    vec![column(points, |_| 1.0), column(points, |p| p.once)]
}

/// The same of whole requests: each part takes as long as the other ones.
fn plain_whole(points: &[Point]) -> Vec<Vec<f64>> {
    let each: [fn(&Point) -> f64; 3] = [|_| 1.0, |p| p.gaps, |p| p.prompt];
    each.iter().map(|of| column(points, of)).collect()
}

/// What a whole request's time follows.
fn of_whole(points: &[Point]) -> Vec<Vec<f64>> {
    let (gaps, prompt) = (column(points, |p| p.gaps), column(points, |p| p.prompt));
    let beside = rising(&column(points, |p| p.beside), 0.5);
    let times = |column: &Vec<f64>| each(column, &gaps, |x, gaps| x * gaps);
    let mut columns: Vec<_> = beside.iter().map(times).collect();
    let last = times(&prompt);
    columns.extend(beside);
    columns.push(column(points, |_| 1.0));
    columns.extend(of_lengths(gaps));
    columns.extend(of_lengths(prompt));
    // of those that say the same the last is left out, and a line says less than what bends
    columns.push(last);
    columns
}

/// What lengths add along a line; where there are few of them, along one that bends at each.
fn of_lengths(values: Vec<f64>) -> Vec<Vec<f64>> {
    const FEW: usize = 12;
    let mut known = values.clone();
    known.sort_by(f64::total_cmp);
    known.dedup();
    if known.len() > FEW {
        return vec![values];
    }
    known.insert(0, 0.0);
    pieces(&values, &known)
}

/// Cells that differ in load and lengths only, by their places among all.
pub(super) fn groups(looks: &[Look<'_>]) -> Vec<Vec<usize>> {
    let key = |look: &Look<'_>| {
        let is_known = |name: &String| {
            let of = [
                view::PROMPT_FACTORS,
                view::OUTPUT_FACTORS,
                &["concurrency", "rate"],
            ];
            of.iter().any(|names| names.contains(&name.as_str()))
        };
        let rest = look.cell.factors.iter().filter(|(name, _)| !is_known(name));
        let rest = rest.map(|(name, value)| format!("{name}={value}"));
        // stages of a search are short and lie on both sides of the capacity: what load makes of them does not tell their speed
        let is_stage = look.run.analysis.capacity.is_some();
        let stage = is_stage.then(|| look.cell.id.clone());
        rest.chain(stage).collect::<Vec<_>>()
    };
    let mut groups: Vec<(Vec<String>, Vec<usize>)> = Vec::new();
    for (i, look) in looks.iter().enumerate() {
        let own = key(look);
        match groups.iter_mut().find(|(key, _)| *key == own) {
            Some((_, members)) => members.push(i),
            None => groups.push((own, vec![i])),
        }
    }
    groups.into_iter().map(|(_, members)| members).collect()
}

/// The speed over cells that differ in load and lengths only, with their places among all: that of their tokens, or that of whole requests in those of one
/// at a time.
pub(super) fn of_cells(looks: &[Look<'_>]) -> Vec<(Vec<usize>, Change)> {
    let change = |members: Vec<usize>| {
        let own = |of: &[usize]| of.iter().filter_map(|i| looks.get(*i)).collect::<Vec<_>>();
        if let Some(change) = of_tokens_in(&own(&members)) {
            return Some((members, change));
        }
        let alone = |i: &usize| looks.get(*i).is_some_and(|l| l.concurrency() == Some(1));
        let alone: Vec<usize> = members.into_iter().filter(alone).collect();
        let change = of_requests(&own(&alone)).filter(|_| alone.len() > 1)?;
        Some((alone, change))
    };
    groups(looks).into_iter().filter_map(change).collect()
}

/// Of the time over several cells, the part in which a start is over.
const EARLY_OF_SEVERAL: f64 = 0.3;
/// Of what is off without a change, what a change of the time per token may leave.
const LEFT: f64 = 0.5;

fn of_tokens_in(looks: &[&Look<'_>]) -> Option<Change> {
    let swings = are_of_one_cell(looks) && looks.iter().any(|look| look.rhythm().is_some());
    let told = |in_parts: bool| {
        // of bundles, which tokens share a tick is chance
        let one_by_one = looks.iter().filter(|look| !view::in_bundles(look.cell));
        let mut points = of_each(one_by_one.copied(), |look| tokens(look, in_parts));
        let all: usize = looks.iter().map(|look| look.seen.len()).sum();
        let enough = if in_parts {
            (series::FEWEST..FEW).contains(&all) && points.len() > all
        } else {
            points.len() * 2 >= all
        };
        let is_open = looks.iter().any(|look| look.is_open());
        let enough =
            enough && (!in_parts || keep_undisturbed(&mut points, is_open) && may_move(&points));
        let mut series = enough.then(|| series(points, [of_tokens, plain_tokens], looks))??;
        if in_parts {
            series.are_parts();
        }
        let moves = |of: &Fitted| {
            if in_parts {
                series.is_of_parts(of)
            } else {
                series.moves_most(of)
            }
        };
        series.told(series.change(LEFT).filter(moves)?, looks)
    };
    let told = || told(false).or_else(|| told(true));
    if swings { None } else { told() }
}

/// When the tokens of a look become slower for good, in ns from its first.
pub(super) fn slower_from(look: &Look<'_>) -> Option<f64> {
    let change = of_tokens_in(&[look])?.finding;
    let figure = |figure: Known| change.figure(&figure.into());
    let levels = figure(Known::LevelBefore).zip(figure(Known::LevelAfter));
    let stays = change.cause() == Some(Cause::Step) && figure(Known::Lasted).is_none();
    let slower = levels.is_some_and(|(before, after)| after > before);
    figure(Known::At).filter(|_| stays && slower)
}

/// The points of some cells.
fn of_each<'a, 'b: 'a>(
    looks: impl Iterator<Item = &'a Look<'b>>,
    points: impl Fn(&Look<'_>) -> Vec<Point>,
) -> Vec<Point> {
    let own = |(cell, look)| points(look).into_iter().map(move |p| Point { cell, ..p });
    looks.enumerate().flat_map(own).collect()
}

/// Whether all are repeats of one cell.
fn are_of_one_cell(looks: &[&Look<'_>]) -> bool {
    let mut ids = looks.iter().map(|look| &look.cell.id);
    let first = ids.next();
    ids.all(|id| Some(id) == first)
}

/// How many requests are under way at once: the slots of a closed loop; in an open one as many as there are but for a quarter of the time, without a queue.
fn usual_number(look: &Look<'_>) -> f64 {
    let own = || quantile(look.seen.iter().map(|s| s.in_flight).collect(), 0.25);
    let slots = look.concurrency().map(f64::from);
    slots.or_else(own).unwrap_or(1.0)
}

/// The points of some cells, with what explains them and what is left of that without load and lengths.
fn series(
    points: Vec<Point>,
    [explained_by, plain]: [Columns; 2],
    looks: &[&Look<'_>],
) -> Option<Series> {
    let slots: Vec<f64> = looks.iter().map(|look| usual_number(look)).collect();
    let most = bench_schema::whole(slots.iter().copied().fold(1.0, f64::max));
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut series = Series::of(points, explained_by, plain, most)?;
    let closed = looks.iter().filter_map(|look| look.concurrency()).max();
    series.at_once = f64::from(closed.unwrap_or(1));
    series.several = !are_of_one_cell(looks);
    if series.several {
        series.slots = slots;
    }
    series.one_by_one = looks.iter().all(|look| look.concurrency() == Some(1));
    if series.several && !series.one_by_one {
        series.soon = series.from + EARLY_OF_SEVERAL * series.lasted;
    }
    series.open = looks.iter().any(|look| look.is_open() || look.load_moves());
    // one closed loop has one load
    let has_one = |look: &&Look<'_>| !look.is_open() || look.load_moves();
    if !series.several && looks.iter().any(has_one) {
        series.plain = None;
    }
    Some(series)
}

/// What is told of one cell's speed: the change that the tokens of all show; else a rhythm, or a change of whole requests.
pub(super) fn told(look: &Look<'_>, change: Option<&Change>) -> Option<Finding> {
    match (change, look.rhythm()) {
        (None, Some(rhythm)) => rhythm.finding(look),
        (change, _) => {
            let change = change.or_else(|| look.of_requests())?;
            let own = change
                .costs
                .iter()
                .find(|(epoch, _)| *epoch == look.epoch)?;
            Some(Finding {
                severity: own.1,
                cells: vec![look.cell.id.clone()],
                ..change.finding.clone()
            })
        }
    }
}

/// Whether nothing but whole requests tells of a change: those of answers that stream.
pub(super) fn is_of_whole(look: &Look<'_>, change: Option<&Change>) -> bool {
    change.is_none() && look.rhythm().is_none() && look.tpot().is_some()
}

/// The speed of whole requests in one cell, or in several of one at a time, where tokens do not tell it. A closed loop without a ramp has one load.
pub(super) fn of_requests(looks: &[&Look<'_>]) -> Option<Change> {
    /// Of what is off without a change, what one may leave: load explains less of whole requests than of tokens.
    const LEFT_IN_OPEN_LOOP: f64 = 0.2;
    let series = requests(looks)?;
    let is_open = looks.iter().any(|look| look.is_open());
    let most = if is_open { LEFT_IN_OPEN_LOOP } else { LEFT };
    let change = series.told(series.change(most)?, looks)?;
    // a queue that grows is no slower server
    let steps = matches!(change.fitted.shape, Shape::Levels(_));
    let grows = is_open && !steps && looks.iter().any(|look| load::piles_up(look));
    let starts = !change.is_cold_start() || series.stands_alone(&change.fitted);
    (starts && !grows).then_some(change)
}

/// By how much the logarithms of the times of whole requests rise or fall, along a line, over cells of one request at a time; none where chance does as much.
pub(super) fn drift(looks: &[&Look<'_>]) -> Option<f64> {
    let series = requests(looks)?;
    let [one, line] = [Shape::One, Shape::Line].map(|shape| series.fitted(shape));
    let moves = series.is_over_chance(&one, &line, 1);
    moves.then(|| line.logs.iter().sum())
}

fn requests(looks: &[&Look<'_>]) -> Option<Series> {
    /// Requests of several users, below which a change cannot be told from chance.
    const OF_SEVERAL: usize = 40;
    // of each cell for itself its usual time per token is a level of its own
    let one = are_of_one_cell(looks);
    let points = of_each(looks.iter().copied(), |look| {
        whole(look, usual_token(look).filter(|_| one))
    });
    let one_by_one = looks.iter().all(|look| look.concurrency() == Some(1));
    let enough = one_by_one || points.len() >= OF_SEVERAL;
    let mut series = enough.then(|| series(points, [of_whole, plain_whole], looks))??;
    if !one_by_one {
        // who queues takes longer, and for longer than the queue tells
        series.plain = None;
    }
    Some(series)
}

/// The median time per token, where most tell theirs.
fn usual_token(look: &Look<'_>) -> Option<f64> {
    let points = tokens(look, false);
    let most = !view::in_bundles(look.cell) && points.len() * 2 >= look.seen.len();
    median(points.iter().map(|p| p.value).collect()).filter(|_| most)
}

fn whole(look: &Look<'_>, token: Option<f64>) -> Vec<Point> {
    let known_only = first_token::is_cached(look);
    let beside = look.under_way();
    let drain = over_time::draining(look);
    let epoch = look.epoch.get() as f64;
    let varies = look.is_open() || look.load_moves();
    let (relieved, in_time) = (look.relieved(), read_in_time(look));
    let is_it = |s: &&Seen<'_>| {
        let known = !known_only || first_token::is_known(s.request);
        s.sent < drain && known && !relieved(s.sent) && in_time(s)
    };
    let point = |s: &Seen<'_>| {
        let tokens = f64::from(s.request.streamed_tokens().unwrap_or(0));
        let known = token
            .zip(s.first)
            .map(|(each, first)| first - s.sent + each * tokens);
        let value = known.unwrap_or_else(|| s.end - s.sent - stalls(s));
        (value > 0.0).then(|| Point {
            cell: 0,
            request: 0,
            from: epoch + s.sent,
            to: epoch + s.end,
            value,
            of_it: value,
            taken: s.end - s.sent,
            beside: if varies {
                beside.mean(s.sent, s.end)
            } else {
                0.0
            },
            gaps: tokens,
            once: 1.0,
            prompt: new_tokens(s),
            prompts: 0.0,
            firsts: 0.0,
            undisturbed: true,
        })
    };
    look.seen.iter().filter(is_it).filter_map(point).collect()
}

/// Prompt tokens that the server did not know.
fn new_tokens(s: &Seen<'_>) -> f64 {
    let request = s.request;
    let known = request.cached_tokens.unwrap_or(0);
    f64::from(request.input_tokens.unwrap_or(0).saturating_sub(known))
}

/// The time of a request that its stalls took, which have causes of their own.
fn stalls(s: &Seen<'_>) -> f64 {
    s.request.stalls.iter().map(|(_, length)| length).sum()
}

/// Whether the client read a request in time; of a cell most of whose requests it read late, each.
fn read_in_time(look: &Look<'_>) -> impl Fn(&Seen<'_>) -> bool {
    let late = look.seen.iter().filter(|s| s.request.read_late).count();
    let most = late * 2 > look.seen.len();
    move |s| most || !s.request.read_late
}

/// When prompts were sent and first tokens came, and all prompt tokens until then.
struct Firsts {
    sent: Vec<f64>,
    times: Vec<f64>,
    tokens: Vec<f64>,
}

impl Firsts {
    fn of(look: &Look<'_>) -> Self {
        let firsts = look.seen.iter();
        let firsts = firsts.filter_map(|s| Some((s.first?, new_tokens(s))));
        let mut firsts: Vec<(f64, f64)> = firsts.collect();
        firsts.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sum = 0.0;
        let until = firsts.iter().map(|first| {
            sum += first.1;
            sum
        });
        let mut sent: Vec<f64> = look.seen.iter().map(|s| s.sent).collect();
        sent.sort_by(f64::total_cmp);
        Self {
            sent,
            tokens: std::iter::once(0.0).chain(until).collect(),
            times: firsts.iter().map(|first| first.0).collect(),
        }
    }

    /// Whether a prompt may be worked on meanwhile: one that was sent before the end has no first token before the beginning.
    fn are_awaited(&self, from: f64, to: f64) -> bool {
        let sent = self.sent.partition_point(|sent| *sent < to);
        sent > self.times.partition_point(|first| *first <= from)
    }

    /// How many first tokens came after one moment, and up to another, and the tokens of their prompts.
    fn between(&self, from: f64, to: f64) -> (f64, f64) {
        let until = |at: f64| self.times.partition_point(|time| *time <= at);
        let (before, after) = (until(from), until(to));
        let tokens = self.tokens[after] - self.tokens[before];
        ((after - before) as f64, tokens)
    }
}

/// The requests of a cell whose tokens came one by one, or several at many times, while its load was whole; or the parts of their answers.
fn tokens(look: &Look<'_>, in_parts: bool) -> Vec<Point> {
    const SEVERAL: f64 = 12.0;
    // of an answer too few others go on beside to its end: its parts tell of how many each time
    let drain = if in_parts {
        f64::INFINITY
    } else {
        over_time::draining(look)
    };
    let (relieved, in_time) = (look.relieved(), read_in_time(look));
    let beside = Beside {
        look,
        streaming: look.streams(),
        firsts: Firsts::of(look),
    };
    let points = |(request, s): (usize, &Seen<'_>)| {
        let counts = |first: &f64| s.end > *first && s.sent < drain && in_time(s);
        let first = s.first.filter(counts)?;
        let gaps = f64::from(s.request.streamed_tokens()?) - 1.0;
        let events = f64::from(s.request.events) - 1.0;
        // of tokens that come several at a time, enough of these: whoever guesses more of them right is no other kind of request
        let one_by_one = events * 2.0 >= gaps || events >= SEVERAL;
        let is_told = gaps >= 2.0 && events >= 1.0 && one_by_one;
        let all = is_told.then(|| spans(s, first, look, in_parts))?;
        let points = all.into_iter().filter_map(|span| {
            let shares = !relieved(if span.begins() { s.sent } else { span.from });
            beside.point(s, &span, gaps / events).filter(|_| shares)
        });
        Some(
            points
                .map(move |point| Point { request, ..point })
                .collect::<Vec<_>>(),
        )
    };
    let seen = look.seen.iter().enumerate();
    seen.filter_map(points).flatten().collect()
}

/// What goes on beside an answer.
struct Beside<'a, 'b> {
    look: &'a Look<'b>,
    streaming: UnderWay,
    firsts: Firsts,
}

impl Beside<'_, '_> {
    /// A span of an answer, of so many tokens an event, without what stood still in it.
    fn point(&self, s: &Seen<'_>, span: &Span, tokens: f64) -> Option<Point> {
        let stalls = s.request.stalls.iter();
        let stalls = stalls.map(|(at, length)| (self.look.ns(*at), *length));
        let stalls = stalls.filter(|(at, _)| (span.from..span.to).contains(at));
        let stalls: Vec<(f64, f64)> = stalls.collect();
        let moving = span.events - stalls.len() as f64;
        let stood: f64 = stalls.iter().map(|(_, length)| length).sum();
        let gap = (span.to - span.from - stood) / moving;
        let (mut others, mut prompts) = self.firsts.between(span.from, span.to);
        for (at, length) in stalls {
            let (n, tokens) = self.firsts.between(at, at + length + gap);
            (others, prompts) = (others - n, prompts - tokens);
        }
        let (value, own) = (gap / tokens, span.events * tokens);
        let epoch = self.look.epoch.get() as f64;
        let begins = span.begins();
        (moving >= 1.0 && value > 0.0).then(|| Point {
            cell: 0,
            request: 0,
            from: epoch + span.from,
            to: epoch + span.to,
            value,
            of_it: value * own,
            taken: span.to - if begins { s.sent } else { span.from },
            beside: self.streaming.mean(span.from, span.to),
            gaps: (2.0 * span.before + span.events) * tokens,
            once: if begins { 1.0 / own } else { 0.0 },
            prompt: new_tokens(s),
            prompts: prompts.max(0.0),
            firsts: others.max(0.0),
            undisturbed: !self.firsts.are_awaited(span.from, span.to),
        })
    }
}

/// How many times as long a token took at the end of a cell as at its beginning, where that changed at once, and stayed so.
pub(super) fn step_within(look: &Look<'_>) -> Option<f64> {
    let change = of_tokens_in(&[look])?;
    let is_one = change.finding.cause() == Some(Cause::Step) && change.fitted.logs.len() == 1;
    is_one.then(|| change.fitted.logs.iter().sum::<f64>().exp())
}

/// The time per token of a request, with what it follows.
pub(super) struct TimePerToken {
    pub(super) time: f64,
    /// Others that were answered meanwhile, on average.
    pub(super) beside: f64,
    /// First tokens of others meanwhile and tokens of their prompts, for each token.
    pub(super) firsts: f64,
    pub(super) prompts: f64,
}

/// That of each request.
pub(super) fn times_per_token(look: &Look<'_>) -> Vec<TimePerToken> {
    let points = tokens(look, false);
    let each = points.iter().map(|point| TimePerToken {
        time: point.value,
        beside: point.beside,
        firsts: point.firsts / point.gaps,
        prompts: point.prompts / point.gaps,
    });
    each.collect()
}

#[cfg(test)]
#[path = "../../tests/unit/diagnosis_speed.rs"]
mod tests;
