use std::task::Poll;

use futures::channel::oneshot::{self, Sender};
use futures::executor::block_on;
use futures::poll;

use super::*;

/// A request that ends when the test sends its answer.
fn request() -> (Sender<Answer>, BoxFuture<'static, Answer>) {
    let (sender, receiver) = oneshot::channel();
    (sender, Box::pin(async move { receiver.await.expect("the test answers it") }))
}

const LOST: Answer = Err(DeviceError::Io { op: "write", offset: LeafOffset::new(0), len: 512, errno: 5 });

#[test]
fn a_flush_does_not_end_before_the_stable_writes_that_began_before_it() {
    for (answer, is_good) in [(Ok(()), true), (LOST, false)] {
        block_on(async {
            let stability = Stability::default();
            let ((write_ends, write), (flush_ends, flush)) = (request(), request());
            let mut write = stability.write(write);
            let mut flush = stability.flush(flush);
            assert!(poll!(&mut write).is_pending() && poll!(&mut flush).is_pending());
            flush_ends.send(Ok(())).expect("it is awaited");
            assert!(poll!(&mut flush).is_pending(), "the write may have taken what was to be flushed");
            write_ends.send(answer).expect("it is awaited");
            assert_eq!(flush.await.is_ok(), is_good);
            assert_eq!(write.await.is_ok(), is_good);
        });
    }
}

#[test]
fn a_flush_does_not_wait_for_what_began_after_it() {
    block_on(async {
        let stability = Stability::default();
        let ((flush_ends, flush), (_write_ends, write)) = (request(), request());
        let mut flush = stability.flush(flush);
        let mut write = stability.write(write);
        assert!(poll!(&mut flush).is_pending() && poll!(&mut write).is_pending());
        flush_ends.send(Ok(())).expect("it is awaited");
        assert!(matches!(poll!(&mut flush), Poll::Ready(Ok(()))));
    });
}

#[test]
fn a_stable_write_that_nobody_waits_for_is_not_forgotten() {
    block_on(async {
        let stability = Stability::default();
        let (write_ends, write) = request();
        let mut write = stability.write(write);
        assert!(poll!(&mut write).is_pending());
        drop(write);
        let mut flush = stability.flush(Box::pin(async { Ok(()) }));
        assert!(poll!(&mut flush).is_pending());
        write_ends.send(LOST).expect("the record keeps it");
        assert!(flush.await.is_err());
        assert!(stability.has_failed());
    });
}

#[test]
fn a_device_that_is_opened_anew_owes_nothing() {
    block_on(async {
        let stability = Stability::default();
        stability.write(Box::pin(async { LOST })).await.expect_err("ordered");
        stability.flush(Box::pin(async { Ok(()) })).await.expect_err("no flush counts after it");
        stability.begin_anew();
        stability.flush(Box::pin(async { Ok(()) })).await.expect("the new one has lost nothing");
        let (write_ends, write) = request();
        let mut write = stability.write(write);
        assert!(poll!(&mut write).is_pending());
        stability.let_go();
        stability
            .flush(Box::pin(async { Ok(()) }))
            .await
            .expect("it does not wait for a device that is gone");
        drop((write, write_ends));
    });
}

#[test]
fn what_the_device_has_not_seen_takes_nothing_with_it() {
    block_on(async {
        let stability = Stability::default();
        let refused = DeviceError::OutOfRange { op: "write", offset: LeafOffset::new(1), len: 512 };
        stability.write(Box::pin(async { Err(refused) })).await.expect_err("it does not fit");
        stability.flush(Box::pin(async { Ok(()) })).await.expect("nothing is lost");
        for lost in [DeviceError::Gone, DeviceError::TimedOut] {
            let stability = Stability::default();
            stability.write(Box::pin(async { Err(lost) })).await.expect_err("ordered");
            assert!(stability.has_failed());
        }
    });
}
