//! Tests of `src/meet.rs`: shards that meet over loopback, strangers, and shards that go.

use std::future::Future;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

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
                Ok(Meeting::of(&invitation, part, &Clock::start(), &Stop::new()).await)
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
            Place::of(0, 0, false),
            Place::of(0, 0, true),
            Place::of(1, 0, true),
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
        join_all(all.iter_mut().map(Meeting::end)).await;
        assert_eq!(
            all[0].folders(),
            ["shard-0", "shard-1", "shard-2", "shard-3"]
        );
        assert!(
            all.iter()
                .all(|shard| shard.exchanges().len() == 5 && doubts(shard).is_empty())
        );
        // all on one machine: their epochs say how far the clocks are apart
        let epochs = all.iter().map(|shard| shard.clock.monotonic_epoch_ns());
        let first = all[0].clock.monotonic_epoch_ns();
        for (shard, epoch) in all.iter().zip(epochs) {
            for exchange in shard.exchanges() {
                let wrong = exchange.offset.get() - (epoch - first);
                assert!(
                    wrong.abs() <= exchange.bound.get(),
                    "{exchange:?} for {}",
                    epoch - first
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
        (other, "`seed` is 8 there, and 7 in shard 0"),
        (more, "the sum is x there, and not there in shard 0"),
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
        assert!(said.contains("two shards 1 of 3"), "{said}");
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
                .contains("two shards 1 of 3")
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
        let hello = [&b"bmeet\0\0\x01"[..], &[7; 32]].concat();
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
        assert!(said.contains("BENCH_MEET_TOKEN is another one"), "{said}");
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
        let place = Place::of(0, 0, true);
        join_all(all.iter_mut().map(|shard| shard.at(place))).await;
        let place = Place::of(1, 0, true);
        join_all(all.iter_mut().map(|shard| shard.at(place))).await;
        // in the second cell
        drop(all.pop());
        let place = Place::of(2, 0, true);
        let starts = join_all(all.iter_mut().map(|shard| shard.at(place))).await;
        assert!(starts.iter().all(Option::is_some));
        join_all(all.iter_mut().map(Meeting::end)).await;
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
            let place = Place::of(cell, 0, true);
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
                Place::of(0, 0, true),
                Place::of(0, 1, true),
                Place::of(2, 0, true),
            ],
            &[
                Place::of(0, 0, true),
                Place::of(1, 0, true),
                Place::of(2, 0, true),
            ],
            &[
                Place::of(0, 0, true),
                Place::of(0, 1, true),
                Place::of(1, 0, true),
                Place::of(2, 0, true),
            ],
        ];
        let walks = all.iter_mut().zip(ways).map(async |(shard, way)| {
            let mut starts = Vec::new();
            for &place in way {
                starts.push(shard.at(place).await);
            }
            shard.end().await;
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
        assert_eq!(one.at(Place::of(0, 0, true)).await, None);
        assert!(doubts(one).is_empty());
    });
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
