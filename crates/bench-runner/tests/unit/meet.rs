//! Tests of `src/meet.rs`: shards that meet over loopback, strangers, and shards that go.

use std::future::Future;
use std::sync::atomic::Ordering;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::link::Side;
use super::roll_call::{gather, introduced, places_to_listen};
use super::*;
use crate::redact::Secrets;

type Shard<'a> = LocalBoxFuture<'a, Result<Meeting, RunError>>;
type Shards = Vec<Result<Meeting, RunError>>;

fn facts(of: &[(&str, &str)]) -> Facts {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    of.iter().map(own).collect()
}

fn token(text: &str) -> Secret {
    Secret::new(text)
}

fn meet<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, what)
}

/// Shards with these facts and tokens that call shard 0, after `before` has been done to its address.
async fn called(shards: &[(Facts, &str)], before: impl AsyncFnOnce(String)) -> Shards {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let count = u32::try_from(shards.len()).unwrap();
    let mut listener = Some(listener);
    let ready: Vec<Shard<'_>> = (0..count)
        .zip(shards)
        .map(|(index, (facts, secret))| {
            let (invitation, facts) = (
                Invitation {
                    index,
                    count,
                    at: at.clone(),
                    token: token(secret),
                },
                facts.clone(),
            );
            let listener = listener.take();
            let shard = async move {
                let progress = Progress::new(false, Secrets::default());
                let part = match listener {
                    Some(listener) => gather(listener, &invitation, &facts, &progress).await?,
                    None => other(&invitation, facts, &progress).await?,
                };
                Ok(Meeting::of(&invitation, part, Rc::new(Clock::start()), &Stop::new()).await)
            };
            shard.boxed_local()
        })
        .collect();
    let (all, ()) = tokio::join!(join_all(ready), before(at));
    all
}

/// So many shards that agree.
async fn shards(count: usize) -> Vec<Meeting> {
    let same = (facts(&[("`seed`", "7")]), "a token of the tests");
    let all = called(&vec![same; count], async |_| ()).await;
    all.into_iter().map(Result::unwrap).collect()
}

fn said(of: &Result<Meeting, RunError>) -> String {
    of.as_ref()
        .err()
        .map_or_else(String::new, ToString::to_string)
}

const CELLS: [&str; 3] = ["c1", "c2", "c4"];

fn doubts(of: &Meeting) -> Vec<(Option<String>, usize, String)> {
    let reasons = of.doubts(&CELLS.map(str::to_owned));
    reasons
        .into_iter()
        .map(|reason| (reason.cell, reason.also_in.len(), reason.message))
        .collect()
}

#[test]
fn a_name_is_listened_for_at_all_addresses_and_an_address_at_itself() {
    for itself in ["127.0.0.1:7077", "[::1]:7077", "localhost:7077"] {
        assert_eq!(places_to_listen(itself), [itself]);
    }
    assert_eq!(
        places_to_listen("node-1:7077"),
        ["[::]:7077", "0.0.0.0:7077"]
    );
}

#[test]
fn all_begin_a_phase_at_one_instant_of_shard_0s_clock() {
    meet(async {
        let mut all = shards(4).await;
        for place in [
            Place::of(0, 0, Step::WarmUp),
            Place::of(0, 0, Step::Measure),
            Place::of(1, 0, Step::Measure),
        ] {
            let starts = join_all(all.iter_mut().map(|shard| shard.at(place))).await;
            let on_first = |(shard, start): (&Meeting, &Option<Stamp>)| {
                let clock = shard.exchanges().last().unwrap();
                (start.unwrap() + clock.offset, clock.bound)
            };
            let starts: Vec<_> = all.iter().zip(&starts).map(on_first).collect();
            assert!(
                starts.iter().all(|(start, _)| *start == starts[0].0),
                "{starts:?}"
            );
            assert!(starts[0].1 == Nanos::ZERO && starts[1].1 > Nanos::ZERO);
        }
        for (index, shard) in all.iter_mut().enumerate() {
            shard.writes_to(format!("shard-{index}"));
        }
        let over = Place::of(1, 0, Step::Over);
        join_all(all.iter_mut().map(|shard| shard.at(over))).await;
        assert_eq!(
            all[0].folders(),
            ["shard-0", "shard-1", "shard-2", "shard-3"]
        );
        assert!(
            all.iter()
                .all(|shard| shard.exchanges().len() == 5 && doubts(shard).is_empty())
        );
        // all on one machine: its readings enclose how far the clocks are apart
        for shard in &all {
            let (before, between, after) =
                (all[0].clock.now(), shard.clock.now(), all[0].clock.now());
            for exchange in shard.exchanges() {
                let (least, most) = (before - between, after - between);
                assert!(
                    exchange.offset + exchange.bound >= least
                        && exchange.offset - exchange.bound <= most,
                    "{exchange:?} between {least} and {most}"
                );
            }
        }
    });
}

#[test]
fn a_shard_that_is_about_to_do_something_else_is_refused_and_named_on_all_sides() {
    let one = facts(&[("`requests`", "100"), ("`seed`", "7")]);
    let other = facts(&[("`requests`", "100"), ("`seed`", "8")]);
    let more = facts(&[("`requests`", "100"), ("`seed`", "7"), ("the sum", "x")]);
    let secret = "a token of the tests";
    for (other, what) in [
        (other, "`seed` is 8 in shard 2 and 7 in shard 0"),
        (more, "the sum is x in shard 2 and absent in shard 0"),
    ] {
        let all = [
            (one.clone(), secret),
            (one.clone(), secret),
            (other, secret),
        ];
        for shard in meet(called(&all, async |_| ())) {
            let said = said(&shard);
            assert!(said.contains("shard 2") && said.contains(what), "{said}");
        }
    }
}

#[test]
fn two_shards_of_one_number_are_refused() {
    let same = facts(&[("`seed`", "7")]);
    let secret = "a token of the tests";
    let twin = async |at: String| {
        let invitation = Invitation {
            index: 1,
            count: 3,
            at,
            token: token(secret),
        };
        let progress = Progress::new(false, Secrets::default());
        let refused = other(&invitation, same.clone(), &progress).await;
        let said = refused.err().unwrap().to_string();
        assert!(said.contains("two shards have the number 1 of 3"), "{said}");
    };
    // the third never comes: the twin takes its place among those who hear of it
    meet(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap().to_string();
        let invitation = Invitation {
            index: 0,
            count: 3,
            at: at.clone(),
            token: token(secret),
        };
        let progress = Progress::new(false, Secrets::default());
        let (first, (), ()) = tokio::join!(
            gather(listener, &invitation, &same, &progress),
            twin(at.clone()),
            twin(at)
        );
        assert!(
            first
                .err()
                .unwrap()
                .to_string()
                .contains("two shards have the number 1 of 3")
        );
    });
}

#[test]
fn strangers_are_turned_away_and_the_run_goes_on() {
    let same = (facts(&[("`seed`", "7")]), "a token of the tests");
    let strangers = async |at: String| {
        let spoke = async |bytes: &[u8]| {
            let mut stream = TcpStream::connect(&at).await.unwrap();
            stream.write_all(bytes).await.unwrap();
            let mut answer = Vec::new();
            // it may be reset: what was sent is not read to its end
            let _ended = stream.read_to_end(&mut answer).await;
            answer
        };
        assert_eq!(
            spoke(b"GET / HTTP/1.1\r\nhost: somebody\r\naccept: */*\r\n\r\n").await,
            b""
        );
        let hello = [&b"bmeet\0\0\x03"[..], &[7; 32]].concat();
        // a message that is longer than any, one without a code that fits, and one that ends early
        for message in [
            &[0xff; 4][..],
            &[&[0, 0, 0, 2][..], &[9; 32], b"{}"].concat(),
            &[0, 0],
        ] {
            let mut stream = TcpStream::connect(&at).await.unwrap();
            stream.write_all(&[&hello, message].concat()).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut answer = Vec::new();
            let _ended = stream.read_to_end(&mut answer).await;
            let text = String::from_utf8_lossy(&answer).into_owned();
            assert!(!text.contains("seed") && !text.contains("agreed"), "{text}");
        }
        let invitation = Invitation {
            index: 1,
            count: 2,
            at: at.clone(),
            token: token("somebody else's token"),
        };
        let progress = Progress::new(false, Secrets::default());
        let refused = other(&invitation, facts(&[("`seed`", "7")]), &progress).await;
        let said = refused.err().unwrap().to_string();
        assert!(said.contains("has a different BENCH_MEET_TOKEN"), "{said}");
    };
    meet(async {
        // the second shard comes when they have gone
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap().to_string();
        let progress = Progress::new(false, Secrets::default());
        let invited = |index| Invitation {
            index,
            count: 2,
            at: at.clone(),
            token: token(same.1),
        };
        let (zero, one) = (invited(0), invited(1));
        let later = async {
            strangers(at.clone()).await;
            other(&one, same.0.clone(), &progress).await
        };
        let (first, second) = tokio::join!(gather(listener, &zero, &same.0, &progress), later);
        assert!(first.is_ok() && second.is_ok());
    });
}

#[test]
fn the_others_go_on_without_a_shard_that_is_lost_and_its_cells_are_doubtful() {
    meet(async {
        let mut all = shards(3).await;
        for (index, shard) in all.iter_mut().enumerate() {
            shard.writes_to(format!("shard-{index}"));
        }
        let place = Place::of(0, 0, Step::Measure);
        join_all(all.iter_mut().map(|shard| shard.at(place))).await;
        let place = Place::of(1, 0, Step::Measure);
        join_all(all.iter_mut().map(|shard| shard.at(place))).await;
        // in the second cell
        drop(all.pop());
        let place = Place::of(2, 0, Step::Measure);
        let starts = join_all(all.iter_mut().map(|shard| shard.at(place))).await;
        assert!(starts.iter().all(Option::is_some));
        let over = Place::of(2, 0, Step::Over);
        join_all(all.iter_mut().map(|shard| shard.at(over))).await;
        assert_eq!(all[0].remaining(), 2);
        // the lost one's too
        assert_eq!(all[0].folders(), ["shard-0", "shard-1", "shard-2"]);
        for shard in &all {
            let doubts = doubts(shard);
            assert_eq!(doubts.len(), 1);
            assert_eq!((doubts[0].0.as_deref(), doubts[0].1), (Some("c2"), 1));
            assert!(doubts[0].2.contains("shard 2 of 3 was lost"), "{doubts:?}");
        }
    });
}

#[test]
fn without_shard_0_each_goes_on_alone() {
    meet(async {
        let mut all = shards(3).await;
        drop(all.remove(0));
        for cell in 0..2 {
            let place = Place::of(cell, 0, Step::Measure);
            let starts = join_all(all.iter_mut().map(|shard| shard.at(place))).await;
            assert_eq!(starts, [None, None]);
        }
        for shard in &all {
            let doubts = doubts(shard);
            assert_eq!((doubts[0].0.as_deref(), doubts[0].1), (Some("c1"), 2));
            assert!(doubts[0].2.contains("shard 0 of 3"), "{doubts:?}");
        }
    });
}

#[test]
fn whoever_has_ended_a_cell_early_is_not_waited_for_and_does_not_wait() {
    meet(async {
        let mut all = shards(3).await;
        // shard 1 leaves out the second repeat, and later shard 0 does
        let ways: [&[Place]; 3] = [
            &[
                Place::of(0, 0, Step::Measure),
                Place::of(0, 1, Step::Measure),
                Place::of(2, 0, Step::Measure),
            ],
            &[
                Place::of(0, 0, Step::Measure),
                Place::of(1, 0, Step::Measure),
                Place::of(2, 0, Step::Measure),
            ],
            &[
                Place::of(0, 0, Step::Measure),
                Place::of(0, 1, Step::Measure),
                Place::of(1, 0, Step::Measure),
                Place::of(2, 0, Step::Measure),
            ],
        ];
        let walks = all.iter_mut().zip(ways).map(async |(shard, way)| {
            let mut starts = Vec::new();
            for &place in way {
                starts.push(shard.at(place).await);
            }
            shard.at(Place::of(2, 0, Step::Over)).await;
            starts
        });
        let starts = join_all(walks).await;
        assert!(starts.iter().flatten().all(Option::is_some), "{starts:?}");
        assert!(all.iter().all(|shard| doubts(shard).is_empty()));
        assert_eq!(all[0].remaining(), 3);
    });
}

#[test]
fn a_run_that_is_ended_waits_for_nobody() {
    meet(async {
        let mut all = shards(2).await;
        let one = &mut all[1];
        one.stop.advance(Ending::Draining);
        assert_eq!(one.at(Place::of(0, 0, Step::Measure)).await, None);
        assert!(doubts(one).is_empty());
    });
}

/// A cell with this rule.
fn cell_until(rule: &str) -> CellRecord {
    let stored = include_str!("../../../../fixtures/results/v1.2/run.json");
    let run = bench_schema::RunRecord::from_json(stored).unwrap();
    let mut cell = run.cells.into_iter().next().unwrap();
    cell.stop.precision = vec![rule.to_owned()];
    cell
}

#[test]
fn the_requests_of_all_shards_end_a_cell_and_all_hear_it_before_the_next_repeat() {
    meet(async {
        let mut all = shards(3).await;
        let cell = cell_until("mean:ttft=50%");
        let enough: Vec<Arc<AtomicBool>> = all.iter().map(|_| Arc::default()).collect();
        let mut own = Vec::new();
        for (shard, enough) in all.iter_mut().zip(&enough) {
            own.push(shard.pool((&cell, &Asked::default()), 0, enough).unwrap());
        }
        let heard = |flag: &&Arc<AtomicBool>| flag.load(Ordering::Relaxed);
        let is_enough = || enough.iter().filter(heard).count();
        let put = |own: &Ended, count: i64| {
            for at in 0..count {
                own.push(EndedRequest {
                    at: Stamp::new(at),
                    values: vec![Some(100.0)],
                    record: None,
                });
            }
        };
        // fewer than a hundred of all, told of on the way into the next meeting
        for own in &own {
            put(own, 30);
        }
        let over = Place::of(0, 0, Step::Over);
        join_all(all.iter_mut().map(|shard| shard.at(over))).await;
        assert_eq!(is_enough(), 0);
        // enough together while the second repeat goes on: every shard hears it
        for own in &own {
            put(own, 30);
        }
        let over = Place::of(0, 1, Step::Over);
        {
            let heard = async {
                while is_enough() < 3 {
                    tokio::task::yield_now().await;
                }
            };
            let confer = join_all(all.iter_mut().map(|shard| shard.confer(over)));
            tokio::select! {
                () = heard => {}
                _ = confer => unreachable!("it never ends by itself"),
            }
        }
        join_all(all.iter_mut().map(|shard| shard.at(over))).await;
        // the next cell begins anew, and one without a rule says nothing
        let anew: Vec<Arc<AtomicBool>> = all.iter().map(|_| Arc::default()).collect();
        for (shard, anew) in all.iter_mut().zip(&anew) {
            assert!(shard.pool((&cell, &Asked::default()), 1, anew).is_some());
        }
        let over = Place::of(1, 0, Step::Over);
        join_all(all.iter_mut().map(|shard| shard.at(over))).await;
        assert!(anew.iter().all(|flag| !flag.load(Ordering::Relaxed)));
        let mut without = cell.clone();
        without.stop.precision.clear();
        assert!(
            all[0]
                .pool((&without, &Asked::default()), 2, &anew[0])
                .is_none()
        );
        assert!(all.iter().all(|shard| doubts(shard).is_empty()));
    });
}

#[test]
fn what_one_shard_learns_only_at_a_meeting_is_the_same_for_all() {
    meet(async {
        let mut all = shards(2).await;
        let cell = cell_until("mean:ttft=50%");
        let enough: Vec<Arc<AtomicBool>> = all.iter().map(|_| Arc::default()).collect();
        for (shard, enough) in all.iter_mut().zip(&enough) {
            let own = shard.pool((&cell, &Asked::default()), 0, enough).unwrap();
            for at in 0..60 {
                own.push(EndedRequest {
                    at: Stamp::new(at),
                    values: vec![Some(100.0)],
                    record: None,
                });
            }
        }
        let over = Place::of(0, 0, Step::Over);
        join_all(all.iter_mut().map(|shard| shard.at(over))).await;
        assert!(enough.iter().all(|flag| flag.load(Ordering::Relaxed)));
    });
}

/// A clock in virtual time: it moves only when a message is carried.
struct Virtual {
    time: Rc<std::cell::Cell<i64>>,
    ahead: i64,
}

impl Now for Virtual {
    fn now(&self) -> Stamp {
        Stamp::new(self.time.get() + self.ahead)
    }
}

/// Carry whatever comes from one end to the other, which takes as long as `delay` says each time.
async fn carried(
    mut from: impl tokio::io::AsyncRead + Unpin,
    mut to: impl tokio::io::AsyncWrite + Unpin,
    (time, mut delay): (Rc<std::cell::Cell<i64>>, impl FnMut() -> i64),
) {
    let mut some = vec![0; 1 << 16];
    while let Ok(n @ 1..) = from.read(&mut some).await {
        time.set(time.get() + delay());
        if to.write_all(&some[..n]).await.is_err() {
            break;
        }
    }
}

/// Numbers below what is asked for, the same in each run.
fn random_below(state: &std::cell::Cell<u64>, below: i64) -> i64 {
    let next = state.get().wrapping_mul(6_364_136_223_846_793_005);
    state.set(next.wrapping_add(1));
    i64::try_from(state.get() >> 33).unwrap() % below
}

/// What a shard finds of how far shard 0's clock is ahead, where messages there and back take so long, and up to twice that.
fn found_offset(ahead: i64, (there, back): (i64, i64), seed: u64) -> ClockExchange {
    let random = std::cell::Cell::new(seed);
    let takes = |time: i64| time + random_below(&random, time);
    let time = Rc::new(std::cell::Cell::new(1_000_000));
    let clock = |ahead| Virtual {
        time: Rc::clone(&time),
        ahead,
    };
    let (first_clock, other_clock) = (clock(ahead), clock(0));
    let secret = token("a token of the tests");
    let place = Place::of(0, 0, Step::Measure);
    meet(async {
        let (ours, near) = tokio::io::duplex(1 << 16);
        let (far, theirs) = tokio::io::duplex(1 << 16);
        let (near_read, near_write) = tokio::io::split(near);
        let (far_read, far_write) = tokio::io::split(far);
        let carrying = async {
            tokio::join!(
                carried(near_read, far_write, (Rc::clone(&time), || takes(there))),
                carried(far_read, near_write, (Rc::clone(&time), || takes(back)))
            )
        };
        let asks = async {
            let link = Link::over(Box::new(ours), Side::Calls, &secret).await;
            let ready = Ready {
                at: place,
                bound: Nanos::ZERO,
                folder: None,
                client: None,
            };
            let heard = ask(&mut link.ok().unwrap(), ready, &other_clock).await;
            heard.ok().unwrap().exchange.unwrap()
        };
        let answers = async {
            let link = Link::over(Box::new(theirs), Side::Listens, &secret).await;
            let (link, ready) = (link.ok().unwrap(), None);
            let mut others = BTreeMap::from([(1, Other { link, ready })]);
            let tools = (&first_clock as &dyn Now, &Pooled::default(), None);
            call_together(&mut others, place, tools).await;
            others
        };
        tokio::select! {
            (found, _open) = async { tokio::join!(asks, answers) } => found,
            _ = carrying => unreachable!("both ends are open"),
        }
    })
}

#[test]
fn the_true_offset_is_within_the_bound_in_100_of_100_trials_however_unequal_the_ways_are() {
    let random = std::cell::Cell::new(7);
    let mut widest = 0.0_f64;
    for trial in 0..100_u64 {
        // up to a thousand seconds apart; one way takes up to 50 ms, the other up to 200 us
        let ahead = random_below(&random, 2_000_000_000_000) - 1_000_000_000_000;
        let slow = 1 + random_below(&random, 50_000_000);
        let fast = 1 + random_below(&random, 200_000);
        let is_slow_there = trial.is_multiple_of(2);
        let ways = if is_slow_there {
            (slow, fast)
        } else {
            (fast, slow)
        };
        let found = found_offset(ahead, ways, trial);
        let (wrong, bound) = ((found.offset.get() - ahead).abs(), found.bound.get());
        assert!(wrong <= bound, "trial {trial}: {found:?} of {ahead}");
        widest = widest.max(wrong as f64 / bound as f64);
    }
    // the ways were unequal: the middle was wrong by nearly all of the bound
    assert!(widest > 0.9, "{widest}");
}

/// Somebody between a shard and shard 0 who hands on the greetings, and the shard's first message as `changed` leaves it.
async fn heard_between(
    listens: std::net::SocketAddr,
    changed: impl Fn(&mut Vec<u8>),
) -> (Vec<u8>, TcpStream) {
    let ours = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = ours.local_addr().unwrap();
    let calls = async {
        let stream = TcpStream::connect(to).await.unwrap();
        let mut link = Link::open(stream, Side::Calls, &token("a token of the tests"))
            .await
            .unwrap();
        let facts = facts(&[("`seed`", "7"), ("`rate`", "12")]);
        link.send(&Message::Here { index: 1, facts }).await.unwrap();
    };
    let carries = async {
        let (mut from, _) = ours.accept().await.unwrap();
        let mut on = TcpStream::connect(listens).await.unwrap();
        on.set_nodelay(true).unwrap();
        let mut hello = [0; 40];
        from.read_exact(&mut hello).await.unwrap();
        on.write_all(&hello).await.unwrap();
        let mut answer = [0; 40];
        on.read_exact(&mut answer).await.unwrap();
        from.write_all(&answer).await.unwrap();
        let mut message = Vec::new();
        from.read_to_end(&mut message).await.unwrap();
        changed(&mut message);
        on.write_all(&message).await.unwrap();
        ([&hello[..], &message].concat(), on)
    };
    let ((), heard) = tokio::join!(calls, carries);
    heard
}

/// What shard 0 makes of a caller.
async fn taken(listener: &TcpListener) -> Result<(Link, u32, Facts), LinkError> {
    let (stream, _) = listener.accept().await.unwrap();
    introduced(stream, &token("a token of the tests")).await
}

#[test]
fn what_was_heard_on_the_way_cannot_be_said_again() {
    meet(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (first, (heard, _open)) =
            tokio::join!(taken(&listener), heard_between(address, |_| ()));
        assert!(first.is_ok());
        let again = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(&heard).await.unwrap();
            stream
        };
        let (second, _open) = tokio::join!(taken(&listener), again);
        assert!(matches!(second, Err(LinkError::OtherToken)));
    });
}

#[test]
fn a_shard_of_another_version_is_turned_away_and_hears_that() {
    meet(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let older = [&b"bmeet\0\0\x01"[..], &[7; 32]].concat();
        let calls = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(&older).await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            answer
        };
        let (taken, answer) = tokio::join!(taken(&listener), calls);
        assert!(matches!(taken, Err(LinkError::OtherVersion)));
        assert!(
            answer.starts_with(b"bmeet\0\0\x03"),
            "so that it can say why"
        );
        let answers = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(&older).await.unwrap();
            stream
        };
        let stream = TcpStream::connect(address).await.unwrap();
        let secret = token("a token of the tests");
        let opened = Link::open(stream, Side::Calls, &secret);
        let (opened, _open) = tokio::join!(opened, answers);
        assert!(matches!(opened.err(), Some(LinkError::OtherVersion)));
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// After its length, which only says where it ends.
    #[test]
    fn a_message_that_was_changed_on_its_way_is_not_taken(at in 0_usize..1_000, flip in 1_u8..=255) {
        meet(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let changed = heard_between(address, |message| {
                let at = 4 + at % (message.len() - 4);
                message[at] ^= flip;
            });
            let (taken, _open) = tokio::join!(taken(&listener), changed);
            assert!(matches!(taken, Err(LinkError::OtherToken)));
        });
    }
}
