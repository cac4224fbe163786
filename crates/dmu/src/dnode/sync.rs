//! Writing one txg's changes to one object.

use std::sync::Arc;

use env::IoBuf;
use ondisk::{Blkptr, DnodeImage, ObjectType};
use parking_lot::Mutex;
use units::{BlockId, Level, SECTOR_BYTES, Txg};
use zio::WritePolicy;

use super::above::Reached;
use super::{Dnode, Life, SPILL_BLOCK, shape_of};
use crate::DmuError;
use crate::account::Charge;
use crate::changes::{Changes, Written};
use crate::in_flight::InFlight;
use crate::tree::{BlockPolicy, Outcome, TreeSync};

/// What the sync of one object left.
pub(crate) struct SyncedDnode {
    /// The dnode as it is to be stored; `None` when the object is gone.
    pub image: Option<DnodeImage>,
    /// What it cost its owner before.
    pub before: Option<Charge>,
    pub outcome: Outcome,
}

/// What the sync of one object works on.
struct Taken {
    changes: Arc<Changes>,
    /// Places of blocks written early that are not taken over.
    unused: Vec<Blkptr>,
    old: DnodeImage,
    on_disk: bool,
}

/// A spill block is sized in sectors, at least one.
fn spill_block(contents: &[u8]) -> IoBuf {
    IoBuf::copy_of(contents)
        .resized(contents.len().next_multiple_of(SECTOR_BYTES as usize).max(SECTOR_BYTES as usize))
}

impl Dnode {
    /// Adds a data block from within the sync itself: the meta-dnode's blocks.
    pub(crate) fn put_in_sync(&self, txg: Txg, block: u64, data: Arc<IoBuf>) {
        let mut state = self.state.lock();
        state.newest.max_block = state.newest.max_block.max(block);
        let changes = state.changes_for(txg);
        changes.max_block = changes.max_block.max(block);
        changes.put(block, Written::Data(data));
    }

    /// The dnode as of the last synced txg.
    #[must_use]
    pub fn synced_image(&self) -> DnodeImage {
        self.state.lock().synced.clone()
    }

    /// Frees the object in `txg`.
    pub(crate) fn die(&self, txg: Txg) {
        {
            let mut state = self.state.lock();
            assert_eq!(state.newest.life, Life::Alive, "object {} freed twice", self.object);
            state.newest.life = Life::Freed;
            let changes = state.changes_for(txg);
            changes.dies = true;
            changes.blocks.clear();
        }
        self.mark_dirty(txg, 0);
    }

    /// Writes what `txg` changed: data, indirect blocks, spill. The dnode itself is the
    /// caller's to store.
    pub(crate) async fn sync(
        &self,
        txg: Txg,
        limit: &InFlight,
        fill_of: &(dyn Fn(&[u8]) -> u64 + Sync),
    ) -> Result<SyncedDnode, DmuError> {
        let Taken { changes, unused, old, on_disk } = self.take_changes(txg);
        let result = Mutex::new(Outcome { unused, ..self.shared.outcome() });
        let sync = TreeSync {
            zio: &self.shared.zio,
            limit,
            gate: &self.shared.gate,
            txg,
            name: self.name(),
            policy: self.block_policy(old.object_type),
            shape: shape_of(&old).grown_for(changes.max_block),
            changes: &changes,
            fill_of,
            result: &result,
        };
        let image = if changes.dies { None } else { Some(sync.updated(&old).await?) };
        if image.is_none() && on_disk {
            sync.kill_all(&old).await?;
            result.lock().leak_rest_of(old.used_bytes);
        }
        let outcome = result.into_inner();
        let before = Charge::of(&old).filter(|_| on_disk);
        let image = image.map(|mut image| {
            image.flags = self.shared.counts().flag(self.object, image.flags);
            // What was on disk before may have been wrong.
            image.used_bytes = image.used_bytes.saturating_add_signed(outcome.delta.used);
            image
        });
        self.finish_sync(image.as_ref());
        Ok(SyncedDnode { image, before, outcome })
    }

    fn take_changes(&self, txg: Txg) -> Taken {
        let mut state = self.state.lock();
        state.reached = Reached::default();
        let first = state.pending.first().is_some_and(|c| c.txg == txg);
        let mut changes = if first {
            let changes = state.pending.remove(0);
            if state.pending.is_empty() {
                // Most objects are not changed again soon, and there may be many.
                state.pending = Vec::new();
            }
            changes
        } else {
            Changes::new(txg, state.newest.block_bytes, state.newest.max_block)
        };
        let unused = changes.early.keep_unchanged(&changes.blocks);
        let changes = Arc::new(changes);
        assert!(state.syncing.replace(Arc::clone(&changes)).is_none(), "two syncs of one object");
        Taken { changes, unused, old: state.synced.clone(), on_disk: state.on_disk }
    }

    fn finish_sync(&self, image: Option<&DnodeImage>) {
        let mut state = self.state.lock();
        state.syncing = None;
        state.on_disk = image.is_some();
        if let Some(image) = image {
            state.synced = image.clone();
        }
    }

    pub(super) fn block_policy(&self, object_type: ObjectType) -> BlockPolicy {
        let props = self.shared.props();
        let data = if object_type.is_metadata() { props.metadata } else { props.data };
        BlockPolicy {
            object_type,
            data,
            metadata: props.metadata,
            redundancy: props.redundancy,
            plain_copies: props.data.copies,
        }
    }
}

impl TreeSync<'_> {
    async fn updated(&self, old: &DnodeImage) -> Result<DnodeImage, DmuError> {
        let mut image = old.clone();
        image.blkptrs = self.run(old.levels, &old.blkptrs).await?;
        image.levels = self.shape.levels;
        image.max_block_id = BlockId::new(self.changes.max_block);
        image.data_block_sectors = (u64::from(self.changes.block_bytes) / SECTOR_BYTES) as u16;
        if let Some((bonus_type, bonus)) = &self.changes.bonus {
            image.bonus_type = *bonus_type;
            image.bonus.clone_from(bonus);
        }
        if let Some(spill) = &self.changes.spill {
            image.spill = self.update_spill(old.spill, spill.as_deref()).await?;
        }
        Ok(image)
    }

    async fn update_spill(
        &self,
        old: Option<Blkptr>,
        contents: Option<&[u8]>,
    ) -> Result<Option<Blkptr>, DmuError> {
        let old = old.unwrap_or_default();
        let new = match contents {
            Some(contents) => self.write_spill(contents).await?,
            None => Blkptr::default(),
        };
        let mut outcome = self.result.lock();
        outcome.bear(self.zio, &new);
        outcome.kill(self.zio, &old);
        Ok(contents.map(|_| new))
    }

    async fn write_spill(&self, contents: &[u8]) -> Result<Blkptr, DmuError> {
        let class = self.policy.metadata;
        let policy = WritePolicy {
            checksum: class.checksum,
            compression: class.compression,
            copies: if self.policy.redundancy.covers_spills() {
                class.copies
            } else {
                self.policy.plain_copies
            },
            keep: class.keep,
            special_small_bytes: class.special_small_bytes,
            object_type: ObjectType::SA,
            level: Level::new(0),
            fill: 1,
            rewrite: None,
            unchanged: None,
        };
        let block = Arc::new(spill_block(contents));
        self.zio
            .write(self.txg, &self.name.bookmark(0, SPILL_BLOCK), block, &policy)
            .await
            .map_err(|source| self.name.io_error(SPILL_BLOCK, source))
    }

    async fn kill_all(&self, old: &DnodeImage) -> Result<(), DmuError> {
        for (index, bp) in old.blkptrs.iter().enumerate() {
            self.kill_tree(old.levels - 1, index as u64, *bp).await?;
        }
        if let Some(spill) = &old.spill {
            self.result.lock().kill(self.zio, spill);
        }
        Ok(())
    }
}
