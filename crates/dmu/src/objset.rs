//! An objset: numbered objects under one root block pointer.
//!
//! ```text
//!   root blkptr ─► ObjsetPhys { meta-dnode, log header, type }
//!                       └─► blocks of 32 dnodes ─► objects' own trees
//! ```
//! A sync goes the other way: objects first, then the blocks of dnodes that hold them, then
//! the meta-dnode's tree, last the objset block, whose pointer is handed up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use env::{IoBuf, boxed};
use futures::stream::{self, StreamExt, TryStreamExt};
use ondisk::dnode::{
    DNODE_BLOCK_BYTES, DNODE_SLOT_BYTES, DNODES_PER_BLOCK, DnodeImage, DnodePhys, dnodes_of_block,
};
use ondisk::objset::{OBJSET_BYTES_V3, ObjsetPhys, ObjsetType, flags as objset_flags};
use ondisk::{Blkptr, ObjectType, ZilHeader};
use parking_lot::{Mutex, RwLock};
use units::{BlockId, Level, ObjectId, ObjsetId, TXG_SLOTS, Txg};
use zio::{Keep, WritePolicy, Zio};

use crate::EarlyBlock;
use crate::account::{self, Bill, Charge, Counts};
use crate::dnode::{Dnode, DnodeSpec, SeekTo};
use crate::in_flight::InFlight;
use crate::known::Known;
use crate::numbers::Numbers;
use crate::space::{ObjsetProps, SpaceDelta};
use crate::stored::Wanted;
use crate::tree::{Outcome, TreeName};
use crate::uses::UseCounters;
use crate::{BlockKinds, DmuError, Estimate, Plan, Step, Transaction, TxgGate};

/// Dnode slots in a block.
pub(crate) const SLOTS_PER_BLOCK: u64 = DNODES_PER_BLOCK as u64;
/// Objects whose changes are written at the same time.
const OBJECTS_IN_FLIGHT: usize = 32;

/// Txgs that a change waits for at most when room is short. What was freed rests for two, and
/// others may get there first.
const GROUPS_AWAITED: usize = 12;

/// Whether a dataset may take more space.
pub trait SpaceCheck: Send + Sync {
    /// Says no, with [`DmuError::NoSpace`] or [`DmuError::QuotaExceeded`], to a change that
    /// would not fit.
    ///
    /// # Errors
    /// Those two.
    fn check(&self, objset: ObjsetId, estimate: &Estimate) -> Result<(), DmuError>;

    /// Whether a change that does not fit may do so when what was changed and freed lately has
    /// come to rest: changes not yet on disk are counted for more than they will come to, and
    /// space freed by the last txgs cannot be used again at once.
    fn may_fit_later(&self, objset: ObjsetId, estimate: &Estimate) -> bool;
}

/// Whether blocks may be written before their txg.
pub trait EarlyCheck: Send + Sync {
    /// Whether so many bytes may be, of `txg`: txgs must find room for what they write themselves.
    fn admits(&self, txg: Txg, bytes: u64) -> bool;
}

/// What an objset and its objects have in common.
pub(crate) struct Shared {
    pub id: ObjsetId,
    pub zio: Arc<Zio>,
    pub gate: Arc<TxgGate>,
    props: RwLock<ObjsetProps>,
    dirty: [Mutex<BTreeMap<ObjectId, Arc<Dnode>>>; TXG_SLOTS],
    counts: RwLock<Counts>,
    tells_births: AtomicBool,
    keeps_no_data: AtomicBool,
}

impl Shared {
    /// Of a sync that has done nothing yet.
    pub fn outcome(&self) -> Outcome {
        Outcome { births: self.tells_births.load(Ordering::Acquire).then(Vec::new), ..Outcome::default() }
    }

    /// What is accounted to owners.
    pub fn counts(&self) -> Counts {
        *self.counts.read()
    }

    /// Whether the object was not on the txg's list before.
    pub fn mark_dirty(&self, txg: Txg, dnode: Arc<Dnode>) -> bool {
        let mut dirty = self.dirty[txg.slot()].lock();
        if dirty.is_empty() {
            self.gate.enter(txg, self.id);
        }
        dirty.insert(dnode.object(), dnode).is_none()
    }

    pub fn props(&self) -> ObjsetProps {
        let mut props = *self.props.read();
        if self.keeps_no_data.load(Ordering::Relaxed) {
            props.data.keep = Keep::No;
        }
        props
    }
}

/// An objset in memory.
pub struct Objset {
    shared: Arc<Shared>,
    meta: Arc<Dnode>,
    root: Mutex<Root>,
    known: Mutex<Known>,
    numbers: Numbers,
    space: RwLock<Option<Arc<dyn SpaceCheck>>>,
    early: RwLock<Option<Arc<dyn EarlyCheck>>>,
    /// The accounting objects there are; their dnodes lie in the root block.
    accounts: Mutex<BTreeMap<ObjectId, Arc<Dnode>>>,
    uses: UseCounters,
}

struct Root {
    bp: Blkptr,
    phys: ObjsetPhys,
    /// Length of the root block: it stays what it was made with.
    bytes: usize,
    /// A log header to go out with a txg.
    log: BTreeMap<Txg, ZilHeader>,
    /// The objset must be written even if no object changed.
    fresh: bool,
}

/// Objects changed by a txg hold what they share, which holds them: nobody else lets go of those of a
/// txg that is never synced. (test: `a_pool_that_dies_dirty_is_let_go`)
impl Drop for Objset {
    fn drop(&mut self) {
        for slot in &self.shared.dirty {
            slot.lock().clear();
        }
    }
}

/// What the sync of an objset left.
#[derive(Debug)]
pub struct SyncedObjset {
    /// Its new root.
    pub root: Blkptr,
    /// Change of its space.
    pub delta: SpaceDelta,
    /// Blocks it no longer refers to, those that lie in their pointers too.
    pub killed: Vec<Blkptr>,
    /// Places that it allocated in this txg ahead of the sync, and never referred to.
    pub unused: Vec<Blkptr>,
    /// Blocks that were there, and to which it refers once more than before.
    pub cloned: Vec<Blkptr>,
    /// Kinds of the blocks it wrote.
    pub born: BlockKinds,
    /// Blocks that it refers to since, those that lie in their pointers too; told where [`Objset::tell_births`] asked for
    /// that. What was written over within the txg is not told again.
    pub births: Option<Vec<Blkptr>>,
    /// Damaged blocks that were freed although the blocks below them cannot be found. The size of
    /// those blocks is given if a whole object was freed. [`Self::delta`] does not count it.
    pub leaks: Vec<zio::Leak>,
}

/// Where an objset lives.
#[derive(Clone)]
pub struct ObjsetContext {
    /// Its number.
    pub id: ObjsetId,
    /// The pool's I/O.
    pub zio: Arc<Zio>,
    /// The pool's transaction groups.
    pub gate: Arc<TxgGate>,
    /// How it stores blocks.
    pub props: ObjsetProps,
}

impl Objset {
    /// A new, empty objset of this kind; it is written with the first txg that changes it.
    #[must_use]
    pub fn create(context: ObjsetContext, kind: ObjsetType) -> Arc<Self> {
        let mut phys = ObjsetPhys::new(kind);
        if kind == ObjsetType::Zfs {
            phys.flags.set(objset_flags::USERACCOUNTING_COMPLETE);
        }
        let meta = DnodeSpec::new(ObjectType::DNODE, DNODE_BLOCK_BYTES as u32);
        let shared = Self::share(context);
        let meta = Dnode::born(Arc::clone(&shared), ObjectId::META_DNODE, &meta);
        let root =
            Root { bp: Blkptr::default(), phys, bytes: OBJSET_BYTES_V3, log: BTreeMap::new(), fresh: true };
        Self::assemble(shared, meta, root, BTreeMap::new())
    }

    /// The objset under `root`.
    ///
    /// # Errors
    /// When its block cannot be read or makes no sense.
    #[boxed]
    pub async fn open(context: ObjsetContext, root: Blkptr) -> Result<Arc<Self>, DmuError> {
        let name = TreeName { objset: context.id, object: ObjectId::META_DNODE };
        let block = context
            .zio
            .read_as(&root, &name.bookmark(0, 0), Keep::InMemory)
            .await
            .map_err(|source| name.io_error(0, source))?;
        let phys = ObjsetPhys::decode(&block).map_err(|e| name.damaged(e.to_string()))?;
        let image = ObjsetPhys::dnode(&phys.meta_dnode)
            .map_err(|e| name.damaged(e.to_string()))?
            .filter(|image| image.object_type == ObjectType::DNODE)
            .ok_or_else(|| name.damaged("no meta-dnode"))?;
        if image.data_block_bytes() != DNODE_BLOCK_BYTES as u64 {
            return Err(name.damaged("blocks of dnodes of another size"));
        }
        let bytes = block.len();
        let shared = Self::share(context);
        let accounts = account::load(&shared, &phys)?;
        let meta = Dnode::loaded(Arc::clone(&shared), ObjectId::META_DNODE, image);
        let root = Root { bp: root, phys, bytes, log: BTreeMap::new(), fresh: false };
        Ok(Self::assemble(shared, meta, root, accounts))
    }

    fn share(context: ObjsetContext) -> Arc<Shared> {
        Arc::new(Shared {
            id: context.id,
            zio: context.zio,
            gate: context.gate,
            props: RwLock::new(context.props),
            dirty: Default::default(),
            counts: RwLock::default(),
            tells_births: AtomicBool::new(false),
            keeps_no_data: AtomicBool::new(false),
        })
    }

    fn assemble(
        shared: Arc<Shared>,
        meta: Arc<Dnode>,
        root: Root,
        accounts: BTreeMap<ObjectId, Arc<Dnode>>,
    ) -> Arc<Self> {
        *shared.counts.write() = Counts::of(&root.phys, root.bytes);
        Arc::new(Self {
            shared,
            meta,
            root: Mutex::new(root),
            known: Mutex::default(),
            uses: UseCounters::default(),
            numbers: Numbers::default(),
            space: RwLock::new(None),
            early: RwLock::new(None),
            accounts: Mutex::new(accounts),
        })
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    pub(crate) fn counts(&self) -> Counts {
        self.shared.counts()
    }

    pub(crate) fn account_dnode(&self, account: ObjectId) -> Option<Arc<Dnode>> {
        self.accounts.lock().get(&account).cloned()
    }

    pub(crate) fn add_account(&self, dnode: Arc<Dnode>) {
        self.accounts.lock().insert(dnode.object(), dnode);
    }

    pub(crate) fn add_flags_at_birth(&self, flags: u64) {
        let mut root = self.root.lock();
        assert!(root.fresh, "an objset is told what to count when it is made");
        root.phys.flags |= flags;
        *self.shared.counts.write() = Counts::of(&root.phys, root.bytes);
    }

    /// The objset's number.
    #[must_use]
    pub fn id(&self) -> ObjsetId {
        self.shared.id
    }

    pub(crate) fn meta(&self) -> &Dnode {
        &self.meta
    }

    /// The pool's transaction groups.
    #[must_use]
    pub fn txgs(&self) -> &Arc<TxgGate> {
        &self.shared.gate
    }

    /// The pool's I/O.
    #[must_use]
    pub fn zio(&self) -> &Arc<Zio> {
        &self.shared.zio
    }

    /// How it stores blocks.
    #[must_use]
    pub fn props(&self) -> ObjsetProps {
        self.shared.props()
    }

    /// Changes how it stores blocks written from now on.
    pub fn set_props(&self, props: ObjsetProps) {
        *self.shared.props.write() = props;
    }

    /// Data that is read or written from now on does not stay in the cache, whatever properties say: much of it comes once,
    /// and nobody reads it here.
    pub fn keep_no_data(&self) {
        self.shared.keeps_no_data.store(true, Ordering::Relaxed);
    }

    /// Whether syncs from the next one on tell of the blocks that are born ([`SyncedObjset::births`]).
    pub fn tell_births(&self, tells: bool) {
        self.shared.tells_births.store(tells, Ordering::Release);
    }

    /// Who is asked whether there is room.
    pub fn set_space_check(&self, check: Arc<dyn SpaceCheck>) {
        *self.space.write() = Some(check);
    }

    /// Who is asked whether blocks may be written before their txg.
    pub fn set_early_check(&self, check: Arc<dyn EarlyCheck>) {
        *self.early.write() = Some(check);
    }

    /// How much clients use it.
    #[must_use]
    pub fn uses(&self) -> &UseCounters {
        &self.uses
    }

    /// What kind of objset it is; `None` too for a kind unknown to the format.
    #[must_use]
    pub fn kind(&self) -> ObjsetType {
        self.root.lock().phys.kind().unwrap_or(ObjsetType::None)
    }

    /// The root pointer as of the last synced txg.
    #[must_use]
    pub fn root(&self) -> Blkptr {
        self.root.lock().bp
    }

    /// The intent log's header, newest.
    #[must_use]
    pub fn zil_header(&self) -> ZilHeader {
        let root = self.root.lock();
        root.log.values().next_back().copied().unwrap_or(root.phys.zil_header)
    }

    /// Has `header` stored when `txg` syncs.
    pub fn set_zil_header(&self, txg: Txg, header: ZilHeader) {
        self.root.lock().log.insert(txg, header);
        self.shared.gate.enter(txg, self.shared.id);
    }

    /// Begins a change. Where room is short, waits for some txgs to sync before it says no.
    ///
    /// # Errors
    /// [`DmuError::NoSpace`], [`DmuError::QuotaExceeded`], [`DmuError::Suspended`].
    pub async fn plan(self: &Arc<Self>, estimate: Estimate) -> Result<Plan, DmuError> {
        self.admit(&estimate).await?;
        self.shared.gate.admit().await?;
        Ok(Plan::new(Arc::clone(&self.shared.gate)))
    }

    /// Waits until there is room for a change, and others have had their turn.
    async fn admit(&self, estimate: &Estimate) -> Result<(), DmuError> {
        let check = self.space.read().clone();
        if let Some(check) = check {
            self.wait_for_room(&*check, estimate).await?;
        }
        self.slow_down(estimate.write_bytes).await;
        self.shared.gate.wait_to_free(estimate.freed_blocks).await
    }

    /// Waits the longer, the more is dirty.
    async fn slow_down(&self, write_bytes: u64) {
        let env = self.shared.zio.vdevs().env();
        let delay = self.shared.gate.delay(env.now(), write_bytes);
        if !delay.is_zero() {
            env.sleep(delay).await;
        }
    }

    /// Gives a block of an object, as `txg` changed it, places ahead of that txg's sync, for
    /// somebody who writes it at once. `None` where that is not possible; waits for nothing.
    #[must_use]
    pub fn place_early(&self, dnode: &Dnode, txg: Txg, block: BlockId) -> Option<EarlyBlock> {
        let check = self.early.read().clone();
        let admits = |bytes| check.is_none_or(|check| check.admits(txg, bytes));
        dnode.place_early(txg, block, admits)
    }

    async fn wait_for_room(&self, check: &dyn SpaceCheck, estimate: &Estimate) -> Result<(), DmuError> {
        let verdict = self.wait_for_verdict(check, estimate).await;
        if matches!(verdict, Err(DmuError::QuotaExceeded)) {
            self.shared.gate.note_over_quota();
        }
        verdict
    }

    async fn wait_for_verdict(&self, check: &dyn SpaceCheck, estimate: &Estimate) -> Result<(), DmuError> {
        for _ in 0..GROUPS_AWAITED {
            match check.check(self.shared.id, estimate) {
                Err(DmuError::NoSpace | DmuError::QuotaExceeded)
                    if check.may_fit_later(self.shared.id, estimate) =>
                {
                    self.shared.gate.wait_synced(self.shared.gate.open_txg()).await?;
                }
                verdict => return verdict,
            }
        }
        check.check(self.shared.id, estimate)
    }

    /// The object with that number.
    ///
    /// # Errors
    /// [`DmuError::NoSuchObject`], or when its dnode cannot be read.
    pub async fn hold(self: &Arc<Self>, object: ObjectId) -> Result<Arc<Dnode>, DmuError> {
        if let Some(dnode) = self.in_memory(object) {
            return if dnode.is_there() { Ok(dnode) } else { Err(self.no_such(object)) };
        }
        let image = self.load(object).await?.ok_or_else(|| self.no_such(object))?;
        let slots = image.extra_slots.saturating_add(1);
        let mut known = self.known.lock();
        if let Some(dnode) = known.get(object) {
            return if dnode.is_there() { Ok(dnode) } else { Err(self.no_such(object)) };
        }
        let dnode = Dnode::loaded(Arc::clone(&self.shared), object, image);
        known.remember(&dnode, slots);
        Ok(dnode)
    }

    fn in_memory(&self, object: ObjectId) -> Option<Arc<Dnode>> {
        if object == ObjectId::META_DNODE {
            return self.meta.strong();
        }
        if account::ACCOUNTS.contains(&object) {
            return self.account_dnode(object);
        }
        self.known.lock().get(object)
    }

    fn no_such(&self, object: ObjectId) -> DmuError {
        DmuError::NoSuchObject { objset: self.shared.id, object }
    }

    fn name(&self, object: ObjectId) -> TreeName {
        TreeName { objset: self.shared.id, object }
    }

    /// The dnode as stored; `None` where there is none.
    pub(crate) async fn load(&self, object: ObjectId) -> Result<Option<DnodeImage>, DmuError> {
        let block = object.get() / SLOTS_PER_BLOCK;
        if block > self.meta.max_block().get() {
            return Ok(None);
        }
        let data = self.meta.read_block(BlockId::new(block)).await?;
        let slot = (object.get() % SLOTS_PER_BLOCK) as usize;
        let Some((_, bytes)) = dnodes_of_block(&data).find(|&(head, _)| head == slot) else {
            return Ok(None);
        };
        DnodeImage::decode(bytes).map(Some).map_err(|e| self.name(object).damaged(e.to_string()))
    }

    /// A new object, with a number that was free.
    ///
    /// # Errors
    /// When a block of dnodes cannot be read.
    #[boxed]
    pub async fn allocate(
        self: &Arc<Self>,
        tx: &dyn Transaction,
        spec: &DnodeSpec,
    ) -> Result<Arc<Dnode>, DmuError> {
        loop {
            let object = self.numbers.take(self, spec.slots).await?;
            match self.allocate_at(tx, object, spec).await {
                Err(DmuError::ObjectExists { .. }) => {}
                other => return other,
            }
        }
    }

    /// A new object with this number: what replaying a log asks for, and receiving a stream.
    ///
    /// # Errors
    /// [`DmuError::ObjectExists`] when another object takes one of its slots; [`DmuError::Invalid`] when they are not all
    /// in one block; when a block of dnodes cannot be read.
    #[boxed]
    pub async fn allocate_at(
        self: &Arc<Self>,
        tx: &dyn Transaction,
        object: ObjectId,
        spec: &DnodeSpec,
    ) -> Result<Arc<Dnode>, DmuError> {
        let exists = DmuError::ObjectExists { objset: self.shared.id, object };
        if self.in_memory(object).is_some() || self.has_stored(object, spec.slots).await? {
            return Err(exists);
        }
        let dnode = Dnode::unborn(Arc::clone(&self.shared), object, spec);
        {
            // Its number is taken from here on; others do not find the object before it is born.
            let mut known = self.known.lock();
            if known.has_any(object.get(), spec.slots) {
                return Err(exists);
            }
            known.remember(&dnode, spec.slots);
        }
        tx.take(Step::born(Arc::clone(self), Arc::clone(&dnode)));
        Ok(dnode)
    }

    /// Whether an object on disk takes any of so many slots from this number on.
    async fn has_stored(&self, object: ObjectId, slots: u8) -> Result<bool, DmuError> {
        let (block, first) = (object.get() / SLOTS_PER_BLOCK, (object.get() % SLOTS_PER_BLOCK) as usize);
        let wanted = first..first + usize::from(slots);
        if wanted.end > SLOTS_PER_BLOCK as usize {
            let what = "slots in two blocks of dnodes";
            return Err(DmuError::Invalid { objset: self.shared.id, object, what });
        }
        if block > self.meta.max_block().get() {
            return Ok(false);
        }
        let data = self.meta.read_block(BlockId::new(block)).await?;
        let overlaps = |(slot, bytes): (usize, &[u8])| {
            slot < wanted.end && slot + bytes.len() / DNODE_SLOT_BYTES > wanted.start
        };
        Ok(dnodes_of_block(&data).any(overlaps))
    }

    /// A planned object is not made.
    pub(crate) fn withdraw_birth(&self, object: ObjectId) {
        self.forget(&[object]);
    }

    /// Frees an object and all its blocks.
    ///
    /// # Errors
    /// [`DmuError::NoSuchObject`], or when its dnode cannot be read.
    #[boxed]
    pub async fn free_object(
        self: &Arc<Self>,
        tx: &dyn Transaction,
        object: ObjectId,
    ) -> Result<(), DmuError> {
        let dnode = self.hold(object).await?;
        tx.take(Step::note_freed(Arc::clone(&self.shared.gate), dnode.blocks_to_free()));
        tx.take(Step::die(dnode));
        Ok(())
    }

    /// The lowest object number above `after` that is in use; changes not yet synced do not
    /// count.
    ///
    /// # Errors
    /// When a block of dnodes cannot be read.
    #[boxed]
    pub async fn next_object(&self, after: ObjectId) -> Result<Option<ObjectId>, DmuError> {
        let mut from = after.get() + 1;
        while let Some(block) = self.next_block_of_dnodes(from / SLOTS_PER_BLOCK).await? {
            self.meta.look_ahead_anyway(&(block..block + 1));
            let data = self.meta.read_block(BlockId::new(block)).await?;
            let first = block * SLOTS_PER_BLOCK;
            let found = dnodes_of_block(&data)
                .map(|(slot, _)| first + slot as u64)
                .find(|&object| object >= from.max(1));
            if let Some(object) = found {
                return Ok(Some(ObjectId::new(object)));
            }
            from = first + SLOTS_PER_BLOCK;
        }
        Ok(None)
    }

    /// The first block of dnodes at or after `from` that is there.
    async fn next_block_of_dnodes(&self, from: u64) -> Result<Option<u64>, DmuError> {
        let found = self.meta.seek(from * DNODE_BLOCK_BYTES as u64, SeekTo::Data).await?;
        Ok(found.map(|offset| offset / DNODE_BLOCK_BYTES as u64))
    }

    /// The last block of dnodes that was there after the last synced txg; 0 also when there is none.
    pub(crate) async fn last_block_of_dnodes(&self) -> Result<u64, DmuError> {
        Ok(self.meta.last_synced_below(u64::MAX, 0).await?.map_or(0, |last| last.start))
    }

    /// The first block of dnodes from `from` to `end` with so many objects at most, as of the last
    /// synced txg. Where many blocks in a row have more than that on average, none of them is found.
    pub(crate) async fn sparse_block_of_dnodes(
        &self,
        from: u64,
        end: u64,
        objects: u64,
    ) -> Result<Option<u64>, DmuError> {
        self.meta.synced_seek(from, end, Wanted::Sparse { fill: objects }).await
    }

    /// The free numbers of one block of dnodes; those of new objects are not, though nothing is on disk.
    pub(crate) async fn free_slots(&self, block: u64) -> Result<Vec<u64>, DmuError> {
        let first = block * SLOTS_PER_BLOCK;
        let mut used = [false; SLOTS_PER_BLOCK as usize];
        used[0] = block == 0;
        if block <= self.meta.max_block().get() {
            let data = self.meta.read_block(BlockId::new(block)).await?;
            for (slot, bytes) in dnodes_of_block(&data) {
                used[slot..].iter_mut().take(bytes.len() / DNODE_SLOT_BYTES).for_each(|used| *used = true);
            }
        }
        let known = self.known.lock();
        let free = (0..SLOTS_PER_BLOCK).filter(|&slot| !used[slot as usize]).map(|slot| first + slot);
        Ok(free.filter(|&number| !known.has_any(number, 1)).collect())
    }

    /// Objects that are in memory, or were lately.
    #[must_use]
    pub fn objects_known(&self) -> usize {
        self.known.lock().len()
    }

    /// Whether anything is to be written for `txg`.
    #[must_use]
    pub fn is_dirty(&self, txg: Txg) -> bool {
        let root = self.root.lock();
        root.fresh || root.log.contains_key(&txg) || !self.shared.dirty[txg.slot()].lock().is_empty()
    }

    /// Writes everything that `txg` changed. May be called again in the same txg (a later
    /// pass) when that txg's sync has itself changed objects. `None` when nothing changed.
    ///
    /// # Errors
    /// When a block cannot be read or written: the txg cannot become stable then.
    #[boxed]
    pub async fn sync(&self, txg: Txg) -> Result<Option<SyncedObjset>, DmuError> {
        if !self.is_dirty(txg) {
            return Ok(None);
        }
        let limit = self.shared.gate.in_flight();
        let mut outcome = self.shared.outcome();
        let mut bill = Bill::default();
        // Held until their dnodes are stored: who looked for one meanwhile would find the old one.
        let dirty = self.take_dirty(txg);
        let dnodes = self.sync_objects(txg, limit, &dirty, &mut bill, &mut outcome).await?;
        if !bill.is_empty() {
            self.enter(txg, &bill).await?;
        }
        let accounts = self.take_dirty(txg);
        let accounts = self.sync_objects(txg, limit, &accounts, &mut bill, &mut outcome).await?;
        self.store_accounts(accounts);
        let freed: Vec<ObjectId> =
            dnodes.iter().filter(|(_, image)| image.is_none()).map(|&(object, _)| object).collect();
        self.store_dnodes(txg, dnodes).await?;
        let meta = self.meta.sync(txg, limit, &|block| dnodes_of_block(block).count() as u64).await?;
        outcome.absorb(meta.outcome);
        let root = self.write_root(txg, &meta.image.expect("the meta-dnode stays"), &mut outcome).await?;
        self.forget(&freed);
        let Outcome { delta, killed, unused, cloned, born, births, leaks } = outcome;
        Ok(Some(SyncedObjset { root, delta, killed, unused, cloned, born, births, leaks }))
    }

    fn take_dirty(&self, txg: Txg) -> BTreeMap<ObjectId, Arc<Dnode>> {
        std::mem::take(&mut *self.shared.dirty[txg.slot()].lock())
    }

    async fn sync_objects(
        &self,
        txg: Txg,
        limit: &InFlight,
        dirty: &BTreeMap<ObjectId, Arc<Dnode>>,
        bill: &mut Bill,
        outcome: &mut Outcome,
    ) -> Result<Vec<(ObjectId, Option<DnodeImage>)>, DmuError> {
        let mut synced: Vec<_> =
            stream::iter(dirty.values().cloned())
                .map(|dnode| async move {
                    Ok::<_, DmuError>((dnode.object(), dnode.sync(txg, limit, &|_| 1).await?))
                })
                .buffer_unordered(OBJECTS_IN_FLIGHT)
                .try_collect()
                .await?;
        synced.sort_by_key(|(object, _)| *object);
        let mut dnodes = Vec::with_capacity(synced.len());
        for (object, one) in synced {
            outcome.absorb(one.outcome);
            outcome.born.note_dnode(one.image.as_ref().map_or(1, DnodeImage::slots));
            bill.change(one.before, one.image.as_ref().and_then(Charge::of));
            dnodes.push((object, one.image));
        }
        Ok(dnodes)
    }

    /// Puts the accounting objects' dnodes into the root block.
    fn store_accounts(&self, dnodes: Vec<(ObjectId, Option<DnodeImage>)>) {
        let mut root = self.root.lock();
        for (object, image) in dnodes {
            let slot = account::slot(&mut root.phys, object).expect("only accounts change while accounting");
            image.expect("accounts stay").encode(slot);
        }
    }

    /// Puts the dnodes into their blocks.
    async fn store_dnodes(
        &self,
        txg: Txg,
        dnodes: Vec<(ObjectId, Option<DnodeImage>)>,
    ) -> Result<(), DmuError> {
        let mut blocks: BTreeMap<u64, Vec<(ObjectId, Option<DnodeImage>)>> = BTreeMap::new();
        for (object, image) in dnodes {
            blocks.entry(object.get() / SLOTS_PER_BLOCK).or_default().push((object, image));
        }
        for (block, dnodes) in blocks {
            let mut data: IoBuf = (*self.meta.read_block(BlockId::new(block)).await?).clone();
            for (object, image) in dnodes {
                self.store_dnode(&mut data, object, image.as_ref())?;
            }
            self.meta.put_in_sync(txg, block, Arc::new(data));
        }
        Ok(())
    }

    fn store_dnode(
        &self,
        block: &mut [u8],
        object: ObjectId,
        image: Option<&DnodeImage>,
    ) -> Result<(), DmuError> {
        let at = (object.get() % SLOTS_PER_BLOCK) as usize * DNODE_SLOT_BYTES;
        let old = DnodePhys::read(&block[at..]).map_err(|e| self.name(object).damaged(e.to_string()))?;
        let slots = image.map_or(old.slots(), DnodeImage::slots);
        let bytes = block
            .get_mut(at..at + slots * DNODE_SLOT_BYTES)
            .ok_or_else(|| self.name(object).damaged("dnode leaves its block"))?;
        match image {
            Some(image) => image.encode(bytes),
            None => bytes.fill(0),
        }
        Ok(())
    }

    async fn write_root(
        &self,
        txg: Txg,
        meta: &DnodeImage,
        outcome: &mut Outcome,
    ) -> Result<Blkptr, DmuError> {
        let name = self.name(ObjectId::META_DNODE);
        let (block, old, phys) = {
            let mut root = self.root.lock();
            let mut phys = root.phys;
            if let Some(header) = root.log.remove(&txg) {
                phys.zil_header = header;
            }
            if root.log.is_empty() {
                // An emptied tree keeps a node of 2 KiB.
                root.log = BTreeMap::new();
            }
            meta.encode(&mut phys.meta_dnode);
            (IoBuf::copy_of(&phys.encode(root.bytes)), root.bp, phys)
        };
        let ObjsetProps { data, metadata: class, redundancy, .. } = self.shared.props();
        let is_redundant = redundancy.covers(ObjectType::OBJSET, 0);
        let policy = WritePolicy {
            checksum: class.checksum,
            compression: class.compression,
            copies: if is_redundant { class.copies } else { data.copies },
            keep: class.keep,
            special_small_bytes: class.special_small_bytes,
            object_type: ObjectType::OBJSET,
            level: Level::new(0),
            // A forged pointer can have any fill count, so that the sum can overflow.
            fill: meta
                .blkptrs
                .iter()
                .filter(|bp| !bp.is_hole())
                .map(Blkptr::fill)
                .fold(0, u64::saturating_add),
            rewrite: Some(old).filter(|bp| !bp.is_hole() && bp.birth() == txg),
            unchanged: None,
        };
        let written = self.shared.zio.write(txg, &name.bookmark(0, 0), Arc::new(block), &policy).await;
        let new = written.map_err(|source| name.io_error(0, source))?;
        outcome.replace(&self.shared.zio, &old, &new);
        let mut root = self.root.lock();
        (root.bp, root.phys, root.fresh) = (new, phys, false);
        Ok(new)
    }

    /// Freed numbers may be given out again from the next txg on.
    fn forget(&self, freed: &[ObjectId]) {
        let mut known = self.known.lock();
        for object in freed {
            known.forget(*object);
        }
        drop(known);
        self.numbers.give_back(freed);
    }
}
