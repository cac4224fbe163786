//! Several actors use a pool at once: some write files and share blocks between them, some
//! administer datasets, some receive streams, and some only read. The seed determines the order of
//! their steps.
//!
//! ```text
//!   writers         ── create, share, unlink ─► [mount, shared]   a step may begin while an older
//!   administrators  ── one at a time ─────────► [mount, alone]    txg syncs, and beside others
//!   readers         ── no turn, no mount
//! ```
//! The name of each file determines its contents, which may be a prefix of the full contents. So
//! every file of every dataset and snapshot can be checked without a model, whatever the order of
//! events. The acknowledged files in the pool's root file system, which no actor rolls back or
//! destroys, exist after each power cut, and all space has an owner. Readers see a dataset before a
//! change or after it, never damage, and never stop the pool.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_lock::{Mutex, RwLock};
use dsl::{DatasetName, DslError, PoolSpace, PropValue};
use env::Env;
use futures::future::{FutureExt, LocalBoxFuture, join, join_all, select};
use ondisk::send::DrrBody;
use pool::{Pool, PoolError, Tuning};
use sim::{DiskModel, Sim};
use stream::{Features, Reader, SendOrder, Target};
use units::{ObjectId, ObjsetId};
use vdev::PoolState;
use zpl::{Cred, FilePlace, NewNode, QuotaFor, QuotaOf, WriteFlags, Zfs, ZplError};

use crate::dice::Dice;
use crate::overlaps::is_syncing;
use crate::shape::{LOG, MIRRORED_LOG, POOL, RAIDZ, STRIPE, Shape, brisk};
use crate::space;
use crate::story::{Tell, drawn, number, run, tell};
use crate::streams::{WHOLE_FORM, order};

const RECORD: u64 = 16 << 10;
/// The number of steps of each actor.
const STEPS: usize = 25;
/// The number of bytes that each txg writes at least.
const CHURN_BYTES: usize = 64 << 10;
/// The number of images of each history that are imported.
const IMAGES: usize = 6;
const HEADS_MAX: usize = 8;
/// A file system that is never destroyed, and whose space is limited by a quota.
const LIMITED: &str = "whirl/limited";
const QUOTA_BYTES: u64 = 1 << 20;
/// A txg that is under way may exceed a quota by this much.
const BEYOND_BYTES: u64 = 512 << 10;

type Done = Result<(), PoolError>;

/// The counts of a history.
#[derive(Default, Debug)]
struct HistoryCounts {
    /// Changes that were made, and changes that were refused.
    made: usize,
    refused: usize,
    /// Changes and writers' steps that began while an older txg was syncing.
    amid_sync: usize,
    written_amid_sync: usize,
    /// Reads during which a change was under way.
    beside_change: usize,
    /// Reads after which the dataset no longer existed.
    gone: usize,
    /// Files that share all blocks of another file.
    shared: usize,
    over_quota: usize,
}

impl HistoryCounts {
    fn add(&mut self, other: &Self) {
        self.made += other.made;
        self.refused += other.refused;
        self.amid_sync += other.amid_sync;
        self.written_amid_sync += other.written_amid_sync;
        self.beside_change += other.beside_change;
        self.gone += other.gone;
        self.shared += other.shared;
        self.over_quota += other.over_quota;
    }
}

/// The state that all actors share.
struct ActorStage<'a> {
    sim: &'a Sim,
    pool: Arc<Pool>,
    turn: Mutex<()>,
    /// Locked shared by users of a file system, and exclusively by whoever unmounts it.
    mounts: RefCell<BTreeMap<ObjsetId, Arc<RwLock<()>>>>,
    names: Cell<u64>,
    changes: Cell<usize>,
    is_changing: Cell<bool>,
    /// The snapshot from which blocks were last shared.
    source: RefCell<Option<String>>,
    promised: RefCell<Vec<String>>,
    seen: RefCell<HistoryCounts>,
}

/// Returns the contents of a file with this name: `f`, the seed of its noise, its length, and a
/// number that makes it unique.
fn contents(name: &str) -> Vec<u8> {
    let mut parts = name[1..].split('-').map(|part| part.parse::<u64>().expect("a number"));
    let (seed, len) = (parts.next().expect("a seed"), parts.next().expect("a length"));
    let mut bytes = vec![0; len as usize];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

async fn names_of(zfs: &Zfs) -> Result<Vec<(String, ObjectId)>, ZplError> {
    let listed = zfs.list(zfs.root(), 0, 10_000).await?.into_iter();
    let named = listed.map(|entry| (String::from_utf8(entry.name).expect("text"), entry.object));
    Ok(named.filter(|(name, _)| name.starts_with('f')).collect())
}

/// Checks that the contents of a file are a prefix of what its name determines. Returns their
/// length.
async fn check_file(zfs: &Zfs, of: &str, name: &str, file: ObjectId) -> Result<usize, ZplError> {
    let mut found = vec![0; zfs.attributes(file).await?.size as usize];
    let len = zfs.read(file, 0, &mut found).await?;
    let whole = contents(name);
    assert!(len <= whole.len() && found[..len] == whole[..len], "{of}: what {name} holds");
    Ok(len)
}

fn is_gone(error: &PoolError) -> bool {
    matches!(
        error,
        PoolError::Dsl(DslError::NoSuchDataset { .. })
            | PoolError::HalfReceived { .. }
            | PoolError::NotFilesystem { .. }
    )
}

/// True if a change was refused, false if it failed.
fn is_refusal(error: &PoolError) -> bool {
    match error {
        PoolError::Dsl(error) => {
            !matches!(error, DslError::Damaged { .. } | DslError::Dmu(_) | DslError::Zap(_))
        }
        PoolError::Busy { .. } | PoolError::Receive(_) | PoolError::Stream(_) => true,
        error => is_gone(error),
    }
}

impl ActorStage<'_> {
    fn number(&self) -> u64 {
        self.names.set(self.names.get() + 1);
        self.names.get()
    }

    fn mount(&self, objset: ObjsetId) -> Arc<RwLock<()>> {
        Arc::clone(self.mounts.borrow_mut().entry(objset).or_default())
    }

    async fn heads(&self) -> Vec<DatasetName> {
        let _view = self.pool.view().await;
        self.pool.dsl().list(POOL).await.expect("it lists")
    }

    async fn some_head(&self, dice: &mut Dice) -> DatasetName {
        let heads = self.heads().await;
        dice.pick(&heads).expect("the root is there").clone()
    }

    async fn snapshots(&self) -> Vec<DatasetName> {
        let _view = self.pool.view().await;
        let mut all = Vec::new();
        for head in self.pool.dsl().list(POOL).await.expect("it lists") {
            all.extend(self.pool.dsl().snapshots(&head).await.expect("they are listed"));
        }
        all
    }

    // ---- writers

    async fn write(&self, mut dice: Dice) {
        for _ in 0..STEPS {
            let head = if dice.one_in(2) { None } else { Some(self.some_head(&mut dice).await) };
            let head = match head {
                Some(head) => head,
                None => self.pool.dsl().resolve(POOL).await.expect("the root is there"),
            };
            let mount = self.mount(head.objset());
            let _mounted = mount.read().await;
            let fs = match self.pool.filesystem(&head.name).await {
                Ok(fs) if fs.zfs.objset().id() == head.objset() => fs,
                // The name belongs to another dataset now, or to none.
                Ok(_) => continue,
                Err(error) => {
                    assert!(is_gone(&error), "{}: {error}", head.name);
                    continue;
                }
            };
            if is_syncing(&self.pool) {
                self.seen.borrow_mut().written_amid_sync += 1;
            }
            let done = match dice.below(8) {
                0..3 => self.create(&fs.zfs, &head.name, &mut dice).await,
                3..7 => self.share(&fs.zfs, &head, &mut dice).await,
                _ => self.unlink(&fs.zfs, &head.name, &mut dice).await,
            };
            match done {
                Ok(()) | Err(ZplError::Exists | ZplError::NotFound | ZplError::NoSpace) => {}
                Err(ZplError::QuotaExceeded) => self.seen.borrow_mut().over_quota += 1,
                Err(error) => panic!("{}: {error}", head.name),
            }
        }
    }

    fn promise(&self, head: &str, name: &str, flags: WriteFlags) {
        if head == POOL && flags.sync {
            self.promised.borrow_mut().push(name.to_owned());
            self.sim.mark(name);
        }
    }

    async fn create(&self, zfs: &Zfs, head: &str, dice: &mut Dice) -> Result<(), ZplError> {
        let name = format!("f{}-{}", self.number(), (1 + dice.below(6)) * RECORD - dice.below(2) * 1000);
        let flags = WriteFlags { sync: dice.one_in(3), ..WriteFlags::default() };
        let made = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default()).await?;
        zfs.write(made.object, 0, &contents(&name), flags).await?;
        self.promise(head, &name, flags);
        Ok(())
    }

    /// A new file shares the blocks of another file, most often of one in a snapshot.
    async fn share(&self, zfs: &Zfs, head: &DatasetName, dice: &mut Dice) -> Result<(), ZplError> {
        let snapshots = self.snapshots().await;
        let source = match dice.pick(&snapshots).filter(|_| !dice.one_in(4)) {
            Some(snapshot) => snapshot.clone(),
            None => self.some_head(dice).await,
        };
        let _mounted = match source.is_snapshot() || source.objset() == head.objset() {
            true => None,
            false => Some(self.mount(source.objset()).read_arc().await),
        };
        let opened = match source.is_snapshot() {
            true => self.pool.open_snapshot(&source).await,
            false => self.pool.filesystem(&source.name).await,
        };
        let from = match opened {
            Ok(fs) if fs.zfs.objset().id() == source.objset() => fs,
            Ok(_) => return Ok(()),
            Err(error) => {
                assert!(is_gone(&error), "{}: {error}", source.name);
                return Ok(());
            }
        };
        let names = names_of(&from.zfs).await?;
        let Some((name, file)) = dice.pick(&names) else { return Ok(()) };
        let mut parts = name.split('-');
        let same = (parts.next().expect("a seed"), parts.next().expect("a length"));
        let name = format!("{}-{}-{}", same.0, same.1, self.number());
        let whole = contents(&name).len() as u64;
        let made = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default()).await?;
        let flags = WriteFlags { sync: dice.one_in(2), ..WriteFlags::default() };
        let place = FilePlace { zfs: &from.zfs, object: *file, offset: 0 };
        if zfs.clone_range(place, (made.object, 0), u64::MAX, flags).await? == whole {
            self.seen.borrow_mut().shared += 1;
            self.promise(&head.name, &name, flags);
            if source.is_snapshot() {
                *self.source.borrow_mut() = Some(source.name);
            }
        }
        Ok(())
    }

    async fn unlink(&self, zfs: &Zfs, head: &str, dice: &mut Dice) -> Result<(), ZplError> {
        if head == POOL {
            return Ok(());
        }
        match dice.pick(&names_of(zfs).await?) {
            Some((name, _)) => zfs.unlink(zfs.root(), name.as_bytes()).await,
            None => Ok(()),
        }
    }

    /// Syncs one txg after another, each with some data, while other actors run.
    async fn churn(&self) {
        let fs = self.pool.filesystem(POOL).await.expect("it opens");
        let made = fs.zfs.create(fs.zfs.root(), b"load", NewNode::File, 0o644, Cred::default()).await;
        let file = made.expect("there is room").object;
        let mut noise = vec![0; CHURN_BYTES];
        for round in 0.. {
            fastrand::Rng::with_seed(round).fill(&mut noise);
            match fs.zfs.write(file, 0, &noise, WriteFlags::default()).await {
                Ok(_) | Err(ZplError::NoSpace) => self.pool.sync_now().await.expect("txgs turn"),
                Err(error) => panic!("{error}"),
            }
        }
    }

    // ---- administrators

    async fn administer(&self, mut dice: Dice) {
        for _ in 0..STEPS {
            let _turn = self.turn.lock().await;
            self.sim.sleep(Duration::from_micros(dice.below(4000))).await;
            let is_amid_sync = is_syncing(&self.pool);
            self.is_changing.set(true);
            let done = self.change(&mut dice).await;
            self.is_changing.set(false);
            self.changes.set(self.changes.get() + 1);
            let mut seen = self.seen.borrow_mut();
            seen.amid_sync += usize::from(is_amid_sync);
            match done {
                Ok(()) => seen.made += 1,
                Err(error) => {
                    assert!(is_refusal(&error), "{error}");
                    seen.refused += 1;
                }
            }
        }
    }

    /// Runs an action alone in a file system, as if the file system had been unmounted.
    async fn alone<T>(&self, head: &DatasetName, act: impl Future<Output = T>) -> T {
        let _alone = self.mount(head.objset()).write_arc().await;
        act.await
    }

    async fn change(&self, dice: &mut Dice) -> Done {
        let pool = &self.pool;
        let (heads, snapshots) = (self.heads().await, self.snapshots().await);
        let head = dice.pick(&heads).expect("the root is there").clone();
        let may_go = head.name != POOL && head.name != LIMITED;
        let snapshot = dice.pick(&snapshots).map(|snapshot| snapshot.name.clone());
        let (new, tag) = (format!("{POOL}/n{}", self.number()), "tag".to_owned());
        match (dice.below(16), snapshot) {
            (0, _) => {
                let whole = pool.whole_datasets(POOL).await?;
                let names = whole.iter().map(|name| format!("{name}@{}", &new[6..])).collect();
                pool.snapshot(names, Vec::new()).await
            }
            (1..4, _) | (_, None) => {
                pool.snapshot(vec![format!("{}@{}", head.name, &new[6..])], Vec::new()).await
            }
            (4..9, Some(some)) => {
                // A destroy is most interesting for the snapshot from which blocks were just
                // shared.
                let last = self.source.borrow_mut().take();
                pool.destroy_snapshots(vec![last.unwrap_or(some)], dice.one_in(3)).await
            }
            (9, Some(some)) => match dice.one_in(2) {
                true => pool.hold(tag, vec![some]).await,
                false => pool.release(tag, vec![some]).await,
            },
            (10, Some(some)) if heads.len() < HEADS_MAX => pool.clone_snapshot(some, new, Vec::new()).await,
            (11, _) if may_go => self.alone(&head, pool.promote(head.name.clone())).await,
            (12, _) if may_go => {
                let own = pool.dsl().snapshots(&head).await?.into_iter().map(|snapshot| snapshot.name);
                let own = pool.dsl().oldest_first(&own.collect::<Vec<_>>()).await?;
                let Some(latest) = own.last() else { return Ok(()) };
                self.alone(&head, pool.rollback(head.name.clone(), latest.name.clone())).await
            }
            (13, _) if may_go => pool.rename_dataset(&head.name, &new).await,
            (14, _) if may_go => self.destroy(&head).await,
            _ if heads.len() < HEADS_MAX => pool.create_filesystem(&new, Vec::new()).await,
            _ => self.destroy(heads.last().expect("the root is there")).await,
        }
    }

    async fn destroy(&self, head: &DatasetName) -> Done {
        if head.name == LIMITED {
            return Ok(());
        }
        let own = self.pool.dsl().snapshots(head).await?.into_iter().map(|snapshot| snapshot.name);
        self.pool.destroy_snapshots(own.collect(), false).await?;
        self.alone(head, self.pool.destroy_filesystem(&head.name)).await
    }

    // ---- receivers

    /// Sends snapshots and receives them as new file systems. Some streams break off.
    async fn copy(&self, mut dice: Dice) {
        for _ in 0..STEPS / 4 {
            self.sim.sleep(Duration::from_millis(dice.below(300))).await;
            let snapshots = self.snapshots().await;
            let Some(source) = dice.pick(&snapshots) else { continue };
            let stream = match self.sent(source).await {
                Ok(stream) => stream,
                Err(error) => {
                    assert!(is_gone(&error), "{}: {error}", source.name);
                    continue;
                }
            };
            if self.heads().await.len() >= HEADS_MAX {
                continue;
            }
            let len = if dice.one_in(3) { stream.len() / 2 } else { stream.len() };
            let snapshot = format!("{POOL}/r{}@r", self.number());
            if let Err(error) = self.receive(&stream[..len], &snapshot, dice.one_in(2)).await {
                assert!(is_refusal(&error), "{snapshot}: {error}");
            }
        }
    }

    async fn sent(&self, snapshot: &DatasetName) -> Result<Vec<u8>, PoolError> {
        let gone = || PoolError::Dsl(DslError::NoSuchDataset { name: snapshot.name.clone() });
        let objset = self.pool.open_frozen(snapshot).await?.ok_or_else(gone)?;
        let target = self.pool.dsl().dataset(snapshot.dataset).await?;
        let features = Features { embedded_data: true, lz4: true, ..Features::default() };
        let order = SendOrder {
            target: Target::of(&snapshot.name, &target, features),
            origin: None,
            form: WHOLE_FORM,
            resume: None,
            redaction: Default::default(),
            cut_after: None,
        };
        let mut bytes = Vec::new();
        stream::send(&objset, &order, &mut bytes).await.expect("what is being read stays");
        Ok(bytes)
    }

    async fn receive(&self, stream: &[u8], snapshot: &str, resumable: bool) -> Done {
        let mut reader = Reader::new(stream);
        let Some(first) = reader.next_record().await.expect("a sound BEGIN") else { return Ok(()) };
        let DrrBody::Begin(begin) = first.record.body else { panic!("no BEGIN") };
        let mut order = order(begin, snapshot);
        order.resumable = resumable;
        let received = self.pool.receive(order, &mut reader).await?;
        let _turn = self.turn.lock().await;
        received.finish().await
    }

    // ---- readers

    async fn read(&self, mut dice: Dice) {
        for _ in 0..STEPS * 3 {
            let (changes, was_changing) = (self.changes.get(), self.is_changing.get());
            let looked = match dice.below(4) {
                0 => self.list(&mut dice).await,
                1 => self.accounts(&mut dice).await,
                2 => self.read_file(&mut dice).await,
                _ => self.written(&mut dice).await,
            };
            self.saw(looked, was_changing || self.changes.get() > changes);
            self.sim.sleep(Duration::from_micros(dice.below(8000))).await;
        }
    }

    /// Counts a read, with or without a concurrent change. The dataset may be gone, but nothing
    /// else may be wrong.
    fn saw(&self, looked: Done, is_beside_change: bool) {
        let mut seen = self.seen.borrow_mut();
        seen.beside_change += usize::from(is_beside_change);
        if let Err(error) = looked {
            assert!(is_gone(&error), "a reader met {error}");
            seen.gone += 1;
        }
    }

    /// Reads the names first and then each dataset, as `zfs list` does.
    async fn list(&self, dice: &mut Dice) -> Done {
        let (heads, snapshots) = (self.heads().await, self.snapshots().await);
        let all: Vec<_> = heads.into_iter().chain(snapshots).collect();
        let found = dice.pick(&all).expect("the root is there");
        let (pool, dsl) = (&self.pool, self.pool.dsl());
        let view = pool.view().await;
        let dataset = dsl.resolve(&found.name).await?;
        // A dataset that was found by name stays consistent while it is read.
        let whole = "a dataset that is there is whole";
        pool.frame(&found.name, &view).await.expect(whole);
        let (dir, head) =
            (dsl.dir(dataset.dir).await.expect(whole), dsl.dataset(dataset.dataset).await.expect(whole));
        let space = PoolSpace { usable_bytes: pool.room().usable() };
        dsl.available(dataset.dataset, &space).await.expect(whole);
        dsl.written(&head).await.expect(whole);
        dsl.clones_of(&head, POOL).await.expect(whole);
        dsl.props(&dataset).await.expect(whole);
        dsl.origin_name(&dir, POOL).await.expect(whole);
        dsl.holds(dataset.dataset).await.expect(whole);
        if found.name == LIMITED {
            let used = dir.used_bytes.get();
            assert!(used <= QUOTA_BYTES + BEYOND_BYTES, "{used} bytes are more than the quota");
        }
        Ok(())
    }

    /// Reads the space accounts, as `zfs userspace` does.
    async fn accounts(&self, dice: &mut Dice) -> Done {
        let head = self.some_head(dice).await;
        let fs = self.pool.keep_open(&head.name).await?;
        fs.zfs.used_by_all((QuotaOf::User, QuotaFor::Space)).await.expect("it stays while it is read");
        Ok(())
    }

    async fn read_file(&self, dice: &mut Dice) -> Done {
        let snapshots = self.snapshots().await;
        let Some(snapshot) = dice.pick(&snapshots) else { return Ok(()) };
        let fs = self.pool.open_snapshot(snapshot).await?;
        let names = names_of(&fs.zfs).await.expect("what is being read stays");
        if let Some((name, file)) = dice.pick(&names) {
            check_file(&fs.zfs, &snapshot.name, name, *file).await.expect("what is being read stays");
        }
        Ok(())
    }

    async fn written(&self, dice: &mut Dice) -> Done {
        let snapshots = self.snapshots().await;
        let Some(first) = dice.pick(&snapshots) else { return Ok(()) };
        let _view = self.pool.view().await;
        self.pool.dsl().resolve(&first.name).await?;
        self.pool.reclaimable(&first.name, &first.name).await.expect("a snapshot that is there is whole");
        Ok(())
    }
}

/// Checks that every file has its contents and that all acknowledged files exist.
async fn judge(pool: &Arc<Pool>, promised: &[String]) {
    let mut found = BTreeMap::new();
    for head in pool.dsl().list(POOL).await.expect("it lists") {
        for snapshot in pool.dsl().snapshots(&head).await.expect("they are listed") {
            let fs = pool.open_snapshot(&snapshot).await.expect("it opens");
            for (name, file) in names_of(&fs.zfs).await.expect("readable") {
                check_file(&fs.zfs, &snapshot.name, &name, file).await.expect("readable");
            }
        }
        let fs = match pool.filesystem(&head.name).await {
            Err(PoolError::HalfReceived { .. }) => continue,
            fs => fs.expect("its log is whole"),
        };
        for (name, file) in names_of(&fs.zfs).await.expect("readable") {
            let len = check_file(&fs.zfs, &head.name, &name, file).await.expect("readable");
            if head.name == POOL {
                found.insert(name, len);
            }
        }
    }
    for name in promised {
        assert_eq!(found.get(name).copied(), Some(contents(name).len()), "{name} was promised");
    }
}

/// Discards the kept parts of streams, whose files are incomplete, and checks that all space has an
/// owner.
async fn add_up(pool: &Arc<Pool>) {
    for head in pool.dsl().list(POOL).await.expect("it lists") {
        if pool.resume_state(&head).await.expect("readable").is_some() {
            pool.abort_receive(&head.name).await.expect("nobody receives into it");
        }
    }
    space::check(pool).await;
}

fn tuning() -> Tuning {
    Tuning { freed_blocks: 40, ..brisk() }
}

/// Runs a history of all actors, and checks the state after power cuts.
fn history(shape: &'static Shape, seed: u64) -> HistoryCounts {
    tell(format!("seed {seed}, \"{}\": the history", shape.name));
    let sim = Sim::seed(seed);
    shape.add_disks(&sim, DiskModel::sata_2007());
    sim.stop_recording();
    let stage = run(&sim, async {
        let pool = shape.create_with(&sim, tuning(), &[("recordsize", RECORD), ("compression", 2)]).await;
        pool.create_filesystem("whirl/a", Vec::new()).await.expect("there is room");
        let quota = vec![("quota".to_owned(), PropValue::Number(QUOTA_BYTES))];
        pool.create_filesystem(LIMITED, quota).await.expect("there is room");
        ActorStage {
            sim: &sim,
            pool,
            turn: Mutex::default(),
            mounts: RefCell::default(),
            names: Cell::default(),
            changes: Cell::default(),
            is_changing: Cell::default(),
            source: RefCell::default(),
            promised: RefCell::default(),
            seen: RefCell::default(),
        }
    });
    sim.start_recording();
    run(&sim, async {
        let dice = |stream| Dice::new(seed, stream);
        let actors: Vec<LocalBoxFuture<'_, ()>> = vec![
            stage.write(dice(1)).boxed_local(),
            stage.write(dice(2)).boxed_local(),
            stage.administer(dice(3)).boxed_local(),
            stage.administer(dice(4)).boxed_local(),
            stage.copy(dice(5)).boxed_local(),
            stage.read(dice(6)).boxed_local(),
        ];
        select(join_all(actors), stage.churn().boxed_local()).await;
        assert_eq!(stage.pool.suspended(), None, "nobody stops the pool");
    });
    let promised = stage.promised.borrow().clone();
    let recording = sim.recording();
    for image in drawn(&recording, IMAGES) {
        tell(format!("seed {seed}, \"{}\": {}", shape.name, image.story()));
        let before: Vec<String> = promised.iter().filter(|name| image.is_after(name)).cloned().collect();
        let sim = image.boot(seed);
        sim.stop_recording();
        run(&sim, async {
            let pool = shape.import(&sim, tuning(), false).await.expect("every crash state imports");
            judge(&pool, &before).await;
            add_up(&pool).await;
        });
    }
    tell(format!("seed {seed}, \"{}\": the end", shape.name));
    run(&sim, async {
        sim.stop_recording();
        let closed = stage.pool.close(PoolState::Exported);
        // Readers find the pool closed, and do not prevent the close.
        let reading = async {
            for name in [POOL, LIMITED] {
                _ = stage.pool.keep_open(name).await;
            }
        };
        join(closed, reading).await.0.expect("it closes");
        let pool = shape.import(&sim, tuning(), false).await.expect("a sound pool imports");
        judge(&pool, &promised).await;
        add_up(&pool).await;
    });
    space::judged_by_zdb(shape, &sim);
    stage.seen.into_inner()
}

/// Runs histories of one shape: from `first` on, as many as the environment asks for.
fn histories(shape: &'static Shape, first: u64) {
    let _tell = Tell;
    let count = number("SAWMILL_CRASH_RUNS").unwrap_or(1);
    let first = number("SAWMILL_CRASH_SEED").unwrap_or(first);
    let mut all = HistoryCounts::default();
    for seed in first..first + count {
        all.add(&history(shape, seed));
    }
    println!("\"{}\", seeds {first} to {}: {all:?}", shape.name, first + count - 1);
    let each = count as usize;
    assert!(all.made > each * STEPS / 2 && all.refused > 0, "{all:?}");
    assert!(all.amid_sync > each * STEPS / 2, "changes begin while an older txg is syncing: {all:?}");
    assert!(all.written_amid_sync > each * STEPS / 2, "and so do steps of writers: {all:?}");
    assert!(all.beside_change > each * STEPS / 2, "readers run beside changes: {all:?}");
    assert!(all.shared >= each * 2, "files share blocks: {all:?}");
}

#[test]
fn who_reads_without_a_turn_sees_datasets_before_a_change_or_after_it() {
    histories(&STRIPE, 97_000);
}

#[test]
fn several_actors_at_once_on_a_pool_with_a_log_lose_nothing_that_was_promised() {
    histories(&LOG, 97_100);
}

#[test]
fn several_actors_at_once_on_a_raidz_lose_nothing_that_was_promised() {
    histories(&RAIDZ, 97_200);
}

#[test]
fn several_actors_at_once_on_mirrors_lose_nothing_that_was_promised() {
    histories(&MIRRORED_LOG, 97_300);
}
