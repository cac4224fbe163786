use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use futures::executor::block_on;
use futures::stream;
use units::ObjsetId;

use super::*;

/// Reads that are under way, or done and not asked for yet: how many, and how many bytes.
#[derive(Default)]
struct Counts {
    reads: AtomicUsize,
    bytes: AtomicUsize,
}

/// A read that is done when it is looked at for the second time.
fn read(counts: &Arc<Counts>, number: usize, bytes: usize) -> Pending<(usize, usize)> {
    let counts = Arc::clone(counts);
    let read = async move {
        counts.reads.fetch_add(1, SeqCst);
        counts.bytes.fetch_add(bytes, SeqCst);
        let mut is_second = false;
        std::future::poll_fn(|cx| {
            cx.waker().wake_by_ref();
            if std::mem::replace(&mut is_second, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        Ok((number, bytes))
    };
    Pending { bytes, read: Box::pin(read) }
}

/// Takes all; the most reads and the most bytes that were ahead at a time.
fn most_ahead(count: usize, bytes: usize) -> (usize, usize) {
    let counts = Arc::<Counts>::default();
    let source = stream::iter((0..count).map(|number| Ok(read(&counts, number, bytes))));
    let mut ahead = Ahead::new(source);
    let mut most = (0, 0);
    for expected in 0..count {
        let taken = block_on(ahead.next()).expect("as many as there are").expect("no error");
        most = (most.0.max(counts.reads.load(SeqCst)), most.1.max(counts.bytes.load(SeqCst)));
        assert_eq!(taken, (expected, bytes), "in order");
        counts.reads.fetch_sub(1, SeqCst);
        counts.bytes.fetch_sub(bytes, SeqCst);
    }
    assert!(block_on(ahead.next()).is_none());
    most
}

#[test]
fn small_blocks_are_read_several_at_a_time() {
    assert_eq!(most_ahead(1000, 4096).0, AHEAD_MAX);
}

#[test]
fn what_is_ahead_is_bounded_in_bytes() {
    let (reads, bytes) = most_ahead(100, 1 << 20);
    assert_eq!((reads, bytes), (AHEAD_BYTES >> 20, AHEAD_BYTES));
    assert_eq!(most_ahead(5, 2 * AHEAD_BYTES).0, 1, "one that is larger goes alone");
}

#[test]
fn an_error_comes_when_all_before_it_was_told() {
    let counts = Arc::<Counts>::default();
    let error = SendError::LargeMicrozap { objset: ObjsetId::new(7) };
    let found = vec![Ok(read(&counts, 0, 512)), Ok(read(&counts, 1, 512)), Err(error)];
    let mut ahead = Ahead::new(stream::iter(found));
    for number in [0, 1] {
        assert_eq!(block_on(ahead.next()).expect("there").expect("before the error").0, number);
    }
    assert!(matches!(block_on(ahead.next()), Some(Err(SendError::LargeMicrozap { .. }))));
    assert!(block_on(ahead.next()).is_none());
}
