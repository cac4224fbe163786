//! Redaction: blocks that a send leaves out, and datasets that were received without them.
//!
//! ```text
//!  p/fs@s ──clone──► p/red, changed, ─► p/red@r      "what p/red@r has changed is nobody's business"
//!     │
//!  p/fs#book: guid of p/red@r, runs of blocks ──send--redact──► received dataset: feature `redacted_datasets`,
//!                                                                                  its value the guid of p/red@r
//! ```
//! What was left out are holes where it was received. Its snapshots and clones say the same of themselves.

use dmu::zap::ZapValue;
use dmu::{DnodeSpec, Tx};
use env::boxed;
use ondisk::ObjectType;
use ondisk::dsl::{REDACTION_LIST_BYTES, RedactBlockPhys, RedactionListPhys};
use units::ObjectId;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

use crate::features::{REDACTED_DATASETS, REDACTION_BOOKMARKS};
use crate::{DatasetName, Dsl, DslError};

/// Bytes of a block of a list.
const BLOCK_BYTES: u32 = 128 << 10;
/// Bytes of a bonus buffer in a dnode of one slot.
const BONUS_MAX_BYTES: usize = 320;
/// A list names so many snapshots at most.
pub const REDACT_SNAPS_MAX: usize = (BONUS_MAX_BYTES - REDACTION_LIST_BYTES) / size_of::<u64>();
/// What is read of a list at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// What a redaction bookmark says beside what others say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedactionList {
    /// Guids of the snapshots by which blocks are left out.
    pub snaps: Vec<u64>,
    /// Nothing is missing: who made it was not interrupted.
    pub is_complete: bool,
    /// Runs of blocks that are left out, by object and block.
    pub blocks: Vec<RedactBlockPhys>,
}

impl Dsl {
    /// Guids of the snapshots by which a dataset was redacted that was received so.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn redact_snaps(&self, dataset: &DatasetName) -> Result<Option<Vec<u64>>, DslError> {
        if !self.dataset_uses(dataset, &REDACTED_DATASETS).await? {
            return Ok(None);
        }
        let fields = self.zap(dataset.dataset.get()).await?;
        Ok(match fields.lookup(REDACTED_DATASETS.guid.as_bytes()).await? {
            Some(ZapValue::U64(guids)) => Some(guids),
            _ => Some(Vec::new()),
        })
    }

    /// A dataset that is being received is redacted by these snapshots, or by none; what it is a clone of may be, too.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn set_redacted(&self, tx: &Tx, dataset: ObjectId, by: Option<&[u64]>) -> Result<(), DslError> {
        let loaded = self.loaded_dataset(dataset).await?;
        if self.features_of(&loaded).await?.contains(REDACTED_DATASETS.guid) {
            self.take_feature(tx, &loaded, &REDACTED_DATASETS).await?;
        }
        match by {
            Some(guids) => {
                let value = ZapValue::U64(guids.to_vec());
                self.activate_feature_saying(tx, dataset, &REDACTED_DATASETS, &value).await
            }
            None => Ok(()),
        }
    }

    /// What a redaction bookmark lists; `None` for another bookmark.
    ///
    /// # Errors
    /// [`DslError::NoSuchDataset`], and those of reading the MOS.
    #[boxed]
    pub async fn redaction_list(&self, bookmark: &str) -> Result<Option<RedactionList>, DslError> {
        let (_, mark) = self.find_bookmark(bookmark).await?;
        let Some(object) = mark.redaction_object() else { return Ok(None) };
        let (phys, snaps) = self.redaction_header(object).await?;
        let dnode = self.mos.hold(object).await?;
        let bytes = phys.entries.get().saturating_mul(size_of::<RedactBlockPhys>() as u64);
        let held = (dnode.max_block().get().saturating_add(1)).saturating_mul(dnode.block_bytes().into());
        if bytes > held {
            return Err(DslError::damaged(object, "redaction list"));
        }
        let mut blocks = Vec::new();
        for start in (0..bytes).step_by(PIECE_BYTES as usize) {
            let piece = dnode.read_part(start..bytes.min(start + PIECE_BYTES)).await?;
            blocks.extend(RedactBlockPhys::decode_all(&piece));
        }
        Ok(Some(RedactionList { snaps, is_complete: phys.is_complete(), blocks }))
    }

    /// Whether a snapshot is one of those that another began from, in its dataset or in what that is a clone of.
    ///
    /// # Errors
    /// [`DslError::NoSuchDataset`], and those of reading the MOS.
    #[boxed]
    pub async fn is_before_snapshot(&self, earlier: &str, later: &str) -> Result<bool, DslError> {
        let earlier = self.resolve(earlier).await?.dataset;
        let later = self.loaded_dataset(self.resolve(later).await?.dataset).await?;
        let mut at = self.before(&later).await?;
        while let Some(snapshot) = at {
            if snapshot.object() == earlier {
                return Ok(true);
            }
            at = self.before(&snapshot).await?;
        }
        Ok(false)
    }

    /// Guids of a redaction list's snapshots, and whether it is complete.
    pub(crate) async fn redaction_snaps(&self, object: ObjectId) -> Result<(Vec<u64>, bool), DslError> {
        let (phys, snaps) = self.redaction_header(object).await?;
        Ok((snaps, phys.is_complete()))
    }

    async fn redaction_header(&self, object: ObjectId) -> Result<(RedactionListPhys, Vec<u64>), DslError> {
        let dnode = self.mos.hold(object).await?;
        let header = match dnode.spill().await? {
            Some(spill) => spill,
            None => dnode.bonus(),
        };
        RedactionListPhys::decode(&header).map_err(|_| DslError::damaged(object, "redaction list"))
    }

    /// Stores a complete list; gives its object.
    pub(crate) async fn create_redaction_list(
        &self,
        tx: &Tx,
        snaps: &[u64],
        blocks: &[RedactBlockPhys],
    ) -> Result<ObjectId, DslError> {
        let phys = RedactionListPhys {
            last_object: U64::new(u64::MAX),
            last_block: U64::new(u64::MAX),
            entries: U64::new(blocks.len() as u64),
            snapshots: U64::new(snaps.len() as u64),
        };
        let bonus = phys.encode(snaps);
        let spec = DnodeSpec::new(ObjectType::OTN_UINT64_METADATA, BLOCK_BYTES)
            .with_bonus(ObjectType::OTN_UINT64_METADATA, bonus.len() as u16);
        let dnode = self.mos.allocate(tx, &spec).await?;
        dnode.set_bonus(tx, ObjectType::OTN_UINT64_METADATA, &bonus)?;
        if !blocks.is_empty() {
            dnode.write(tx, 0, blocks.as_bytes()).await?;
        }
        self.count_feature(tx, &REDACTION_BOOKMARKS, 1).await?;
        Ok(dnode.object())
    }
}
