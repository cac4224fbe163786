//! Objects made, altered and freed.
//!
//! An incremental stream has an OBJECT for all objects near one that has changed, most of them as they are. What has
//! the number of another object, told by its type, its slots or its generation, is made anew; of a file that is the same the
//! contents stay, for a stream has only what changed of them.
//!
//! A number is free again when the txg is stable that freed it: who needs it again waits for that.

use std::sync::Arc;

use dmu::{DmuError, Dnode, DnodeSpec, Estimate};
use ondisk::dnode::{DNODE_SLOTS_MAX, OBJECT_SHIFT_MAX};
use ondisk::send::{DrrObject, StreamFeatures, TO_THE_END, record_flags};
use ondisk::{ObjectType, generation_of_bonus};
use units::{ObjectId, SECTOR_BYTES};

use super::{At, ReceiveError, Receiver};

/// The largest block without the feature.
const OLD_BLOCK_MAX_BYTES: u32 = 128 << 10;
/// The largest block of all.
const BLOCK_MAX_BYTES: u32 = 16 << 20;

/// What an object is to be.
struct Wanted<'a> {
    spec: DnodeSpec,
    bonus: &'a [u8],
    has_spill: bool,
}

impl Receiver {
    pub(super) async fn object(
        &mut self,
        at: At,
        object: &DrrObject,
        payload: &[u8],
    ) -> Result<(), ReceiveError> {
        self.current = None;
        let wanted = self.wanted(at, object, payload)?;
        let dnode = match self.objset.hold(at.object).await {
            Ok(dnode) if is_same(&dnode, &wanted) => return self.alter(at, &dnode, &wanted).await,
            Ok(_) => {
                self.free_object(at).await?;
                self.create(at, &wanted).await?
            }
            Err(DmuError::NoSuchObject { .. }) => self.create(at, &wanted).await?,
            Err(error) => return Err(at.of(error)),
        };
        self.current = Some(dnode);
        Ok(())
    }

    /// What the record says, if an object can be so.
    fn wanted<'a>(&self, at: At, object: &DrrObject, payload: &'a [u8]) -> Result<Wanted<'a>, ReceiveError> {
        let kind = |raw: u32| {
            let kind = u8::try_from(raw).map(ObjectType::new).ok();
            kind.filter(|kind| kind.is_valid() || *kind == ObjectType::NONE)
                .ok_or_else(|| at.bad("a type that there is not"))
        };
        let (object_type, bonus_type) = (kind(object.object_type.get())?, kind(object.bonus_type.get())?);
        let slots = object.slots.max(1);
        let block_bytes = object.block_bytes.get();
        let has = |feature| self.features.has(feature);
        let block_max = if has(StreamFeatures::LARGE_BLOCKS) { BLOCK_MAX_BYTES } else { OLD_BLOCK_MAX_BYTES };
        if object_type == ObjectType::NONE {
            return Err(at.bad("an object of no type"));
        }
        if usize::from(slots) > DNODE_SLOTS_MAX || slots > 1 && !has(StreamFeatures::LARGE_DNODE) {
            return Err(at.bad("a dnode of so many slots"));
        }
        if block_bytes == 0 || block_bytes > block_max || !block_bytes.is_multiple_of(SECTOR_BYTES as u32) {
            return Err(at.bad("a block of such a size"));
        }
        let bonus = payload.get(..object.bonus_bytes.get() as usize);
        let bonus = bonus.ok_or_else(|| at.bad("a bonus buffer longer than what came"))?;
        let bonus_bytes = u16::try_from(bonus.len()).map_err(|_| at.bad("bonus buffer too long"))?;
        let spec = DnodeSpec { slots, ..DnodeSpec::new(object_type, block_bytes) };
        let spec = spec.with_bonus(bonus_type, bonus_bytes);
        Ok(Wanted { spec, bonus, has_spill: object.flags & record_flags::OBJECT_SPILL != 0 })
    }

    /// An object with a number that no other has any more.
    async fn create(&self, at: At, wanted: &Wanted<'_>) -> Result<Arc<Dnode>, ReceiveError> {
        // Those that were in the room that it takes.
        for slot in 1..u64::from(wanted.spec.slots) {
            let inside = At { object: ObjectId::new(at.object.get() + slot), ..at };
            match self.free_object(inside).await {
                Ok(()) | Err(ReceiveError::BadRecord { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        match self.try_create(at, wanted).await {
            Err(DmuError::ObjectExists { .. }) => {
                let txgs = self.objset.txgs();
                txgs.wait_synced(txgs.open_txg()).await.map_err(|error| at.of(error))?;
                self.try_create(at, wanted).await.map_err(|error| at.of(error))
            }
            made => made.map_err(|error| at.of(error)),
        }
    }

    async fn try_create(&self, at: At, wanted: &Wanted<'_>) -> Result<Arc<Dnode>, DmuError> {
        let plan = self.objset.plan(Estimate::default()).await?;
        let dnode = self.objset.allocate_at(&plan, at.object, &wanted.spec).await?;
        let spill: Option<&[u8]> = if wanted.has_spill { Some(&[]) } else { None };
        dnode.check_attributes(wanted.bonus.len(), spill)?;
        dnode.set_bonus(&plan, wanted.spec.bonus_type, wanted.bonus)?;
        plan.apply_with(|txg| self.tell(txg, at.object, 0))?;
        Ok(dnode)
    }

    /// The object is there: what is told of it may be new.
    async fn alter(&mut self, at: At, dnode: &Arc<Dnode>, wanted: &Wanted<'_>) -> Result<(), ReceiveError> {
        let plan = self.plan(at, Estimate::default()).await?;
        let changed = async {
            if dnode.block_bytes() != wanted.spec.block_bytes && dnode.max_block().get() == 0 {
                // Its one block comes again, or is a hole.
                dnode.free_range(&plan, 0, TO_THE_END).await?;
                dnode.set_block_bytes(&plan, wanted.spec.block_bytes).await?;
            }
            let drops_spill = self.tells_spills && !wanted.has_spill && dnode.has_spill();
            if drops_spill {
                dnode.set_spill(&plan, None)?;
            }
            let spill: Option<&[u8]> =
                if wanted.has_spill || dnode.has_spill() && !drops_spill { Some(&[]) } else { None };
            dnode.check_attributes(wanted.bonus.len(), spill)?;
            dnode.set_bonus(&plan, wanted.spec.bonus_type, wanted.bonus)
        };
        changed.await.map_err(|error| at.of(error))?;
        self.apply_and_tell(at, 0, plan)?;
        self.current = Some(Arc::clone(dnode));
        Ok(())
    }

    async fn free_object(&self, at: At) -> Result<(), ReceiveError> {
        let dnode = self.objset.hold(at.object).await.map_err(|error| at.of(error))?;
        let estimate = Estimate { frees: true, freed_blocks: dnode.blocks_to_free(), ..Estimate::default() };
        let plan = self.plan(at, estimate).await?;
        self.objset.free_object(&plan, at.object).await.map_err(|error| at.of(error))?;
        Self::apply(at, plan)
    }

    pub(super) async fn free_objects(
        &mut self,
        offset: u64,
        first: u64,
        objects: u64,
    ) -> Result<(), ReceiveError> {
        self.current = None;
        let end = first.saturating_add(objects).min(1 << OBJECT_SHIFT_MAX);
        if first >= end {
            return Ok(());
        }
        let mut before = ObjectId::new(first.saturating_sub(1));
        loop {
            let at = At { offset, object: before };
            let next = self.objset.next_object(before).await.map_err(|error| at.of(error))?;
            let Some(object) = next.filter(|object| object.get() < end) else { return Ok(()) };
            match self.free_object(At { offset, object }).await {
                // One that is being freed already.
                Ok(()) | Err(ReceiveError::BadRecord { .. }) => before = object,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether what is there stays, and is only altered: it is of the same make, and its blocks are of the same size or can
/// become so. A file that came in smaller pieces before goes on in these.
fn is_same(dnode: &Dnode, wanted: &Wanted<'_>) -> bool {
    let spec = &wanted.spec;
    let spill_bytes = if wanted.has_spill { ondisk::BLKPTR_BYTES } else { 0 };
    if dnode.object_type() != spec.object_type
        || dnode.slots() != spec.slots
        || wanted.bonus.len() + spill_bytes > dnode.bonus_capacity()
    {
        return false;
    }
    let generation = |kind, bonus: &[u8]| generation_of_bonus(kind, bonus);
    let is_same_file = || {
        let now = generation(dnode.bonus_type(), &dnode.bonus());
        now.is_some() && now == generation(spec.bonus_type, wanted.bonus)
    };
    dnode.block_bytes() == spec.block_bytes
        || dnode.max_block().get() == 0
        || spec.block_bytes > dnode.block_bytes() && is_same_file()
}
