//! Replay of records that do not depend on each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use env::{BoxFuture, DeviceError};
use event_listener::Event;
use ondisk::zil::LogRecord;
use parking_lot::Mutex;
use units::{ObjectId, Txg};

use super::tasks::Tasks;
use super::world::{MemStore, OBJSET, World, env, now, sync_loop};
use crate::{Applied, Claimed, IntentLog, LogStore, Replay, ReplayCtx, ReplayRecord};

/// What the log holds: writes to objects, and names between them.
const STORY: [(u64, Option<u64>); 9] = [
    (1, Some(5)),
    (2, Some(6)),
    (3, Some(5)),
    (4, None),
    (5, Some(6)),
    (6, Some(7)),
    (7, Some(6)),
    (8, Some(5)),
    (9, None),
];

fn crashed() -> MemStore {
    let mut world = World::primed(&[600, 64]);
    for (tag, object) in STORY {
        match object {
            Some(object) => world.write(tag, object, 100),
            None => world.name(tag),
        }
    }
    world.commit(None);
    world.settle();
    world.crash(false)
}

fn claim(store: &MemStore) -> IntentLog<Claimed> {
    let txg = store.open_txg();
    let log = IntentLog::found(OBJSET, store.header(), Arc::new(store.clone()), env());
    let log = now(log.claim(txg)).expect("a log that can be claimed");
    store.0.lock().open = txg.next();
    store.sync_done(txg, Some(log.header()));
    log
}

fn tag_of(record: &LogRecord) -> u64 {
    match record {
        LogRecord::Remove(remove) => String::from_utf8_lossy(&remove.name).parse().expect("a tag"),
        LogRecord::Write(write) => write.offset >> 32,
        other => panic!("nobody logged {other:?}"),
    }
}

fn object_of(tag: u64) -> Option<ObjectId> {
    let (_, object) = STORY.iter().find(|(of, _)| *of == tag).expect("of the story");
    object.map(ObjectId::new)
}

/// A file system that notes what was done in which txg.
struct Files {
    store: MemStore,
    done: Mutex<Vec<(u64, Txg)>>,
    changed: Event,
    /// This one waits for that one.
    waits: Option<(u64, u64)>,
    /// This one never succeeds.
    fails: Option<u64>,
    /// After this one a txg begins.
    turns_after: Option<u64>,
}

impl Files {
    fn new(store: &MemStore) -> Self {
        Self {
            store: store.clone(),
            done: Mutex::default(),
            changed: Event::new(),
            waits: None,
            fails: None,
            turns_after: None,
        }
    }

    fn order(&self) -> Vec<u64> {
        self.done.lock().iter().map(|(tag, _)| *tag).collect()
    }

    async fn wait_for(&self, tag: u64) {
        loop {
            let changed = self.changed.listen();
            if self.order().contains(&tag) {
                return;
            }
            changed.await;
        }
    }
}

impl Replay for Files {
    fn apply<'a>(
        &'a self,
        record: &'a ReplayRecord,
        ctx: ReplayCtx<'a>,
    ) -> BoxFuture<'a, Result<Applied, Arc<dyn std::error::Error + Send + Sync>>> {
        Box::pin(async move {
            let tag = tag_of(&record.record);
            if self.fails == Some(tag) {
                return Err(Arc::new(DeviceError::Gone) as Arc<dyn std::error::Error + Send + Sync>);
            }
            if let Some((_, other)) = self.waits.filter(|(waiting, _)| *waiting == tag) {
                self.wait_for(other).await;
            }
            let txg = self.store.open_txg();
            ctx.note(txg);
            self.done.lock().push((tag, txg));
            self.changed.notify(usize::MAX);
            if self.turns_after == Some(tag) {
                self.store.0.lock().open = txg.next();
            }
            Ok(Applied::Done)
        })
    }
}

/// Replays with txgs that sync when asked for; whether all of it was done.
fn replay(store: &MemStore, files: &Arc<Files>) -> bool {
    let log = claim(store);
    let mut tasks = Tasks::default();
    tasks.spawn(sync_loop(store.clone(), log.handle()));
    let (into, whole) = (Arc::clone(files), Arc::new(Mutex::new(false)));
    let result = Arc::clone(&whole);
    let task = tasks.spawn(async move { *result.lock() = log.replay(&*into).await.is_ok() });
    tasks.run();
    assert!(tasks.is_done(task), "replay waits for ever");
    *whole.lock()
}

#[test]
fn objects_are_replayed_side_by_side_and_names_alone() {
    let store = crashed();
    // Possible only if object 6 does not wait for object 5, nor 7 for 6.
    for waits in [(1, 2), (5, 6), (6, 7), (5, 8)] {
        let store = store.copy();
        let files = Arc::new(Files { waits: Some(waits), ..Files::new(&store) });
        assert!(replay(&store, &files));
        let order = files.order();
        let at = |tag: u64| order.iter().position(|of| *of == tag).expect("all were done");
        assert_eq!(order.len(), STORY.len());
        for (first, then) in [(1, 3), (5, 7), (3, 4), (2, 4), (4, 5), (4, 6), (4, 8), (7, 9), (8, 9), (6, 9)]
        {
            assert!(at(first) < at(then), "{first} before {then} in {order:?}");
        }
    }
}

/// The pool's contents by object, newest tag; names that were done, in order.
fn contents(done: &[(u64, Txg)], through: Txg) -> (BTreeMap<ObjectId, u64>, Vec<u64>) {
    let (mut objects, mut names) = (BTreeMap::new(), Vec::new());
    for (tag, _) in done.iter().filter(|(_, txg)| *txg <= through) {
        match object_of(*tag) {
            Some(object) => _ = objects.insert(object, *tag),
            None => names.push(*tag),
        }
    }
    (objects, names)
}

/// Whatever fails, wherever a txg ends: what has synced by then and what another attempt does
/// after a crash come to the same contents.
#[test]
fn a_replay_cut_short_anywhere_is_resumed_to_the_same_contents() {
    let store = crashed();
    let last = BTreeMap::from([(5, 8), (6, 7), (7, 6)].map(|(object, tag)| (ObjectId::new(object), tag)));
    for fails in 1..=9 {
        for turns_after in 1..=9 {
            for waits in [None, Some((1, 2)), Some((5, 8)), Some((6, 7))] {
                if waits.is_some_and(|(_, other)| other == fails || object_of(other) == object_of(fails)) {
                    continue;
                }
                let store = store.copy();
                let files =
                    Files { fails: Some(fails), turns_after: Some(turns_after), waits, ..Files::new(&store) };
                let files = Arc::new(files);
                assert!(!replay(&store, &files));
                let (store, synced) = (store.copy(), store.synced_txg());
                let mut done = files.done.lock().clone();
                done.retain(|(_, txg)| *txg <= synced);
                let again = Arc::new(Files::new(&store));
                assert!(replay(&store, &again));
                done.extend(again.done.lock().iter().copied());
                let (objects, names) = contents(&done, Txg::new(u64::MAX));
                let story = format!("fails {fails}, txg ends after {turns_after}, {waits:?}: {done:?}");
                assert_eq!(objects, last, "{story}");
                assert_eq!(names, [4, 9], "{story}");
            }
        }
    }
}
