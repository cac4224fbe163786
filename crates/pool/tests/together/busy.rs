//! Datasets into which a stream is being received, or was received in part: which operations are
//! refused meanwhile.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use dsl::{DslError, PropValue};
use env::Env;
use futures::channel::oneshot;
use futures::future::{FutureExt, join};
use futures::io::AsyncRead;
use ondisk::send::DrrBody;
use pool::{Pool, PoolError, ReceiveOrder, ReceiveRefusal};
use sim::{DiskModel, Sim};
use stream::Reader;
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags};

use crate::quiet;
use crate::shape::SINGLE;
use crate::space;
use crate::story::{Tell, run};
use crate::streams::{WHOLE_FORM, order, receive, sent};

const FILE_BYTES: usize = 400_000;

/// A stream that stops at a given place until the test lets it continue.
struct Halting {
    bytes: Vec<u8>,
    at: Arc<AtomicUsize>,
    halt: usize,
    let_go: oneshot::Receiver<()>,
}

impl AsyncRead for Halting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<std::io::Result<usize>> {
        let at = self.at.load(Ordering::Relaxed);
        if at >= self.halt {
            if self.let_go.poll_unpin(context).is_pending() {
                return Poll::Pending;
            }
            self.halt = usize::MAX;
        }
        let end = self.bytes.len().min(self.halt).min(at + into.len());
        into[..end - at].copy_from_slice(&self.bytes[at..end]);
        self.at.store(end, Ordering::Relaxed);
        Poll::Ready(Ok(end - at))
    }
}

/// Receives a stream as `snapshot`, and runs an action when half of the stream was received.
async fn amid_receive(
    sim: &Sim,
    pool: &Arc<Pool>,
    stream: &[u8],
    snapshot: &str,
    meanwhile: impl Future<Output = ()>,
) -> Result<(), PoolError> {
    let (let_go, waits) = oneshot::channel();
    let at = Arc::new(AtomicUsize::new(0));
    let half = Halting { bytes: stream.to_vec(), at: Arc::clone(&at), halt: stream.len() / 2, let_go: waits };
    let receiving = async {
        let mut reader = Reader::new(half);
        let first = reader.next_record().await.expect("a sound BEGIN").expect("a record");
        let DrrBody::Begin(begin) = first.record.body else { panic!("no BEGIN") };
        pool.receive(order(begin, snapshot), &mut reader).await?.finish().await
    };
    let meanwhile = async {
        while at.load(Ordering::Relaxed) < stream.len() / 2 {
            sim.sleep(Duration::from_millis(1)).await;
        }
        meanwhile.await;
        let_go.send(()).expect("the receive waits");
    };
    join(receiving, meanwhile).await.0
}

/// Creates `whirl/from` with two snapshots, and `whirl/p/old` with the first of them. Returns the
/// streams of both.
async fn made(sim: &Sim) -> (Arc<Pool>, [Vec<u8>; 2]) {
    SINGLE.add_disks(sim, DiskModel::ssd());
    sim.stop_recording();
    let pool = SINGLE.create(sim, quiet()).await;
    pool.create_filesystem("whirl/from", Vec::new()).await.expect("created");
    pool.create_filesystem("whirl/p", Vec::new()).await.expect("created");
    let fs = pool.filesystem("whirl/from").await.expect("it opens");
    for (number, snapshot) in ["whirl/from@1", "whirl/from@2"].into_iter().enumerate() {
        let name = format!("f{number}");
        let made = fs.zfs.create(fs.zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default());
        let mut noise = vec![0; FILE_BYTES];
        fastrand::Rng::with_seed(number as u64).fill(&mut noise);
        let file = made.await.expect("created").object;
        fs.zfs.write(file, 0, &noise, WriteFlags::default()).await.expect("written");
        pool.snapshot(vec![snapshot.into()], Vec::new()).await.expect("made");
    }
    let full = sent(&pool, "whirl/from@1", None, WHOLE_FORM, None).await;
    let increment = sent(&pool, "whirl/from@2", Some("whirl/from@1"), WHOLE_FORM, None).await;
    receive(&pool, &full, "whirl/p/old@1", |_| ()).await.expect("received");
    (pool, [full, increment])
}

fn is_busy(done: Result<(), PoolError>, what: &str) {
    assert!(matches!(done, Err(PoolError::Busy { .. })), "{what}: {done:?}");
}

fn is_in_use(done: Result<(), PoolError>, what: &str) {
    assert!(matches!(done, Err(PoolError::Dsl(DslError::InUse { .. }))), "{what}: {done:?}");
}

/// Checks the operations on `whirl/p` and a dataset below it that are refused while a stream is
/// received into that dataset.
async fn refused_meanwhile(pool: &Arc<Pool>, head: &str) {
    is_busy(pool.destroy_filesystem(head).await, "destroyed");
    is_busy(pool.rename_dataset(head, "whirl/other").await, "renamed");
    is_busy(pool.rename_dataset("whirl/p", "whirl/q").await, "its parent renamed");
    is_busy(pool.rollback(head.to_owned(), format!("{head}@1")).await, "rolled back");
    is_busy(pool.promote(head.to_owned()).await, "promoted");
    is_busy(pool.close(PoolState::Exported).await, "the pool exported");
    let heads = ["whirl/p".to_owned(), head.to_owned()];
    assert_eq!(pool.find_receiving(&heads).await.expect("readable").as_deref(), Some(head));
}

#[test]
fn a_receive_keeps_its_dataset_busy() {
    let _tell = Tell;
    let sim = Sim::seed(95_000);
    run(&sim, async {
        let (pool, [full, increment]) = made(&sim).await;
        let meanwhile = async {
            refused_meanwhile(&pool, "whirl/p/new").await;
            let snapshot = pool.snapshot(vec!["whirl/p/new@torn".into()], Vec::new()).await;
            is_in_use(snapshot, "a snapshot of the half");
            let all = ["whirl/p@r", "whirl/p/new@r"].map(str::to_owned).to_vec();
            is_in_use(pool.snapshot(all, Vec::new()).await, "of the half and others");
            assert!(pool.dsl().resolve("whirl/p@r").await.is_err(), "all of them or none");
            let whole = pool.whole_datasets("whirl/p").await.expect("readable");
            assert_eq!(whole, ["whirl/p", "whirl/p/old"]);
        };
        amid_receive(&sim, &pool, &full, "whirl/p/new@1", meanwhile).await.expect("nothing was in its way");
        let meanwhile = refused_meanwhile(&pool, "whirl/p/old");
        amid_receive(&sim, &pool, &increment, "whirl/p/old@2", meanwhile).await.expect("nor here");
        for head in ["whirl/p/new", "whirl/p/old"] {
            let fs = pool.filesystem(head).await.expect("it is whole");
            fs.zfs.lookup(fs.zfs.root(), b"f0").await.expect("it has come");
        }
        pool.rename_dataset("whirl/p", "whirl/q").await.expect("nothing is received any more");
        pool.destroy_snapshots(vec!["whirl/q/new@1".into()], false).await.expect("nothing keeps it");
        pool.destroy_filesystem("whirl/q/new").await.expect("nobody uses it");
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
    });
}

#[test]
fn what_was_received_in_part_gets_no_snapshot_and_goes_with_its_dataset() {
    let _tell = Tell;
    let sim = Sim::seed(95_001);
    run(&sim, async {
        let (pool, [full, increment]) = made(&sim).await;
        for (stream, snapshot) in [(&full, "whirl/p/new@1"), (&increment, "whirl/p/old@2")] {
            let part = &stream[..stream.len() / 2];
            let broken = receive(&pool, part, snapshot, |order| order.resumable = true).await;
            assert!(matches!(broken, Err(PoolError::Stream(_))), "{broken:?}");
        }
        is_in_use(pool.snapshot(vec!["whirl/p/new@torn".into()], Vec::new()).await, "the part");
        let whole = pool.whole_datasets("whirl/p").await.expect("readable");
        assert_eq!(whole, ["whirl/p", "whirl/p/old"]);
        let names = whole.iter().map(|name| format!("{name}@r")).collect();
        pool.snapshot(names, Vec::new()).await.expect("the others get theirs");
        assert_eq!(pool.find_receiving(&whole).await.expect("readable"), None, "nothing comes");

        let snapshots = ["whirl/p/old@1", "whirl/p/old@r"].map(str::to_owned).to_vec();
        let kept = pool.destroy_snapshots(snapshots.clone(), false).await;
        assert!(matches!(kept, Err(PoolError::Dsl(DslError::HasClones { .. }))), "{kept:?}");
        for head in ["whirl/p/old", "whirl/p/new"] {
            pool.destroy_part_below(head).await.expect("nobody receives into it");
        }
        pool.destroy_snapshots(snapshots, false).await.expect("the part was the clone");
        for head in ["whirl/p/old", "whirl/p/new"] {
            pool.destroy_filesystem(head).await.expect("nobody uses it");
        }
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
    });
}

/// Receives with an invalid property. Returns how many bytes of the stream were read before the
/// error.
async fn refused_at(
    pool: &Arc<Pool>,
    stream: &[u8],
    snapshot: &str,
    change: impl FnOnce(&mut ReceiveOrder),
) -> (PoolError, usize) {
    let (_let_go, let_go) = oneshot::channel();
    let at = Arc::new(AtomicUsize::new(0));
    let bytes = stream.to_vec();
    let mut reader = Reader::new(Halting { bytes, at: Arc::clone(&at), halt: usize::MAX, let_go });
    let first = reader.next_record().await.expect("a sound BEGIN").expect("a record");
    let begun = at.load(Ordering::Relaxed);
    let DrrBody::Begin(begin) = first.record.body else { panic!("no BEGIN") };
    let mut order = order(begin, snapshot);
    change(&mut order);
    let refused = pool.receive(order, &mut reader).await.err().expect("it cannot be");
    (refused, at.load(Ordering::Relaxed) - begun)
}

#[test]
fn what_a_receive_would_reserve_is_checked_before_the_stream_is_read() {
    let _tell = Tell;
    let sim = Sim::seed(95_002);
    run(&sim, async {
        let (pool, [full, increment]) = made(&sim).await;
        let set = |prop: &'static str, bytes: u64| {
            move |order: &mut ReceiveOrder| order.props = vec![(prop.to_owned(), PropValue::Number(bytes))]
        };
        for prop in ["reservation", "refreservation"] {
            let (error, read) = refused_at(&pool, &full, "whirl/p/new@1", set(prop, 1 << 40)).await;
            assert!(matches!(error, PoolError::Dsl(DslError::NoSpace { .. })), "{prop}: {error:?}");
            assert_eq!(read, 0, "{prop}");
            assert!(pool.dsl().resolve("whirl/p/new").await.is_err(), "{prop}: nothing is left");
        }
        for (prop, bytes) in
            [("reservation", 1 << 40), ("refreservation", 1 << 40), ("quota", 1), ("refquota", 1)]
        {
            let (error, read) = refused_at(&pool, &increment, "whirl/p/old@2", set(prop, bytes)).await;
            assert!(matches!(error, PoolError::Dsl(DslError::Limit { .. })), "{prop}: {error:?}");
            assert_eq!(read, 0, "{prop}");
        }
        let dir = pool.dsl().dir(pool.dsl().resolve("whirl").await.expect("there").dir).await.expect("there");
        assert!(dir.used_bytes.get() < 8 << 20, "nothing is set aside: {}", dir.used_bytes.get());
        receive(&pool, &increment, "whirl/p/old@2", set("reservation", 1 << 20)).await.expect("that fits");
        receive(&pool, &full, "whirl/p/new@1", set("reservation", 1 << 20)).await.expect("that fits");
        let again = receive(&pool, &full, "whirl/p/new@1", |_| ()).await;
        assert!(matches!(again, Err(PoolError::Receive(ReceiveRefusal::Exists))), "{again:?}");
        pool.close(PoolState::Exported).await.expect("it closes");
    });
}
