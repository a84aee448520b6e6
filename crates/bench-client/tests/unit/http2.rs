//! Which read woke a stream.

use super::*;

#[test]
fn of_the_reads_that_woke_a_stream_the_first_is_kept_until_it_has_looked() {
    let reads = Arc::new(AtomicU64::new(5));
    let woken = Arc::new(WokenAt {
        reads: Arc::clone(&reads),
        first: AtomicU64::new(WokenAt::NOT_YET),
        task: AtomicWaker::new(),
    });
    let waker = Waker::from(Arc::clone(&woken));
    let first = || woken.first.load(Ordering::Relaxed);
    // reads of other streams wake nobody here
    reads.store(7, Ordering::Relaxed);
    waker.wake_by_ref();
    assert_eq!(first(), 7);
    reads.store(8, Ordering::Relaxed);
    waker.wake_by_ref();
    assert_eq!(
        first(),
        7,
        "two reads brought something: they are told together"
    );
    woken.forget();
    waker.wake();
    assert_eq!(first(), 8);
}
