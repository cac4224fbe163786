//! What a new pool's MOS begins with.
//!
//! ```text
//!  object directory (1): root_dataset, free_bpobj, features_for_read, features_for_write,
//!    feature_descriptions, feature_enabled_txg, sync_bplist, creation_version, deflate,
//!    org.illumos:checksum_salt
//!  dirs: the root; below it $MOS (the MOS's space), $FREE (space being freed),
//!    $ORIGIN, whose snapshot $ORIGIN@$ORIGIN is empty and the origin of all datasets
//!  dataset: the root's head, a clone of $ORIGIN@$ORIGIN
//! ```
//! Configuration, history, and what belongs to vdevs are added by the pool.

use std::sync::Arc;

use dmu::zap::{Zap, ZapSpec, ZapValue};
use dmu::{Objset, Tx};
use env::boxed;
use ondisk::ObjectType;
use units::ObjectId;
use zerocopy::little_endian::U64;

use crate::create::Birth;
use crate::dataset::deadlist::BPOBJ_BLOCK_BYTES;
use crate::features::{
    ALLOCATION_CLASSES, ASYNC_DESTROY, BLAKE3, BLOCK_CLONING, BOOKMARK_V2, BOOKMARK_WRITTEN, BOOKMARKS,
    DEVICE_REMOVAL, DIRECTORY, DRAID, EDONR, EMBEDDED_DATA, EMPTY_BPOBJ, ENABLED_TXG, EXTENSIBLE_DATASET,
    FILESYSTEM_LIMITS, Feature, HOLE_BIRTH, LARGE_BLOCKS, LARGE_DNODE, LIVELIST, LOG_SPACEMAP, LZ4_COMPRESS,
    OBSOLETE_COUNTS, PROJECT_QUOTA, REDACTED_DATASETS, REDACTION_BOOKMARKS, SHA512, SKEIN,
    SPACEMAP_HISTOGRAM, SPACEMAP_V2, USEROBJ_ACCOUNTING, ZILSAXATTR, ZPOOL_CHECKPOINT, ZSTD_COMPRESS,
};
use crate::tree::{FREE_DIR, MOS_DIR, ORIGIN, ROOT_DATASET};
use crate::{Bpobj, Dsl, DslError};

/// The pool version that has feature flags instead of numbers.
const VERSION_FEATURES: u64 = 5000;
/// Where the salt lies in the directory.
const CHECKSUM_SALT: &[u8] = b"org.illumos:checksum_salt";
/// Block size of the list of frees that are put off to the next txg.
const SYNC_BPLIST_BLOCK_BYTES: u32 = 16 << 10;
/// The txg in which the origin snapshot is said to have been made: before every other.
const ORIGIN_TXG: u64 = 1;

/// The features that new pools have: just those that are supported whole and of use. The first
/// notes when the others were enabled. `vdev_zaps_v2` is not among them: GRUB refuses pools that have it,
/// and it says nothing that we need.
pub static NEW_POOL_FEATURES: [&Feature; 33] = [
    &ENABLED_TXG,
    &ASYNC_DESTROY,
    &EMPTY_BPOBJ,
    &LZ4_COMPRESS,
    &SPACEMAP_HISTOGRAM,
    &SPACEMAP_V2,
    &LOG_SPACEMAP,
    &HOLE_BIRTH,
    &ZPOOL_CHECKPOINT,
    &EXTENSIBLE_DATASET,
    &BOOKMARKS,
    &BOOKMARK_V2,
    &BOOKMARK_WRITTEN,
    &REDACTION_BOOKMARKS,
    &REDACTED_DATASETS,
    &FILESYSTEM_LIMITS,
    &EMBEDDED_DATA,
    &LARGE_BLOCKS,
    &LARGE_DNODE,
    &USEROBJ_ACCOUNTING,
    &PROJECT_QUOTA,
    &ZILSAXATTR,
    &SHA512,
    &SKEIN,
    &EDONR,
    &BLAKE3,
    &ZSTD_COMPRESS,
    &ALLOCATION_CLASSES,
    &DEVICE_REMOVAL,
    &OBSOLETE_COUNTS,
    &BLOCK_CLONING,
    &LIVELIST,
    &DRAID,
];

impl Dsl {
    /// Fills the MOS of a new pool, which is empty. `births` are those of the datasets to be
    /// made: `$ORIGIN`, its snapshot, the root.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn format(mos: Arc<Objset>, tx: &Tx, births: [Birth; 3]) -> Result<Self, DslError> {
        Self::format_with(mos, tx, births, &NEW_POOL_FEATURES).await
    }

    /// The same with these features enabled, and those they need.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn format_with(
        mos: Arc<Objset>,
        tx: &Tx,
        births: [Birth; 3],
        features: &[&'static Feature],
    ) -> Result<Self, DslError> {
        let directory =
            Zap::create_at(&mos, tx, DIRECTORY, &ZapSpec::new(ObjectType::OBJECT_DIRECTORY)).await?;
        let mut dsl = Self::of(mos, directory, ObjectId::new(0));
        let now_secs = births[2].now_secs;
        dsl.root = dsl.create_dir(tx, None, "", now_secs).await?;
        dsl.directory.add_u64(tx, ROOT_DATASET, dsl.root.get()).await?;
        dsl.create_dir(tx, Some(dsl.root), MOS_DIR, now_secs).await?;
        dsl.create_dir(tx, Some(dsl.root), FREE_DIR, now_secs).await?;
        dsl.create_listed_bpobj(tx, b"free_bpobj", BPOBJ_BLOCK_BYTES).await?;
        dsl.create_origin(tx, births[0], births[1]).await?;
        dsl.create_features(tx).await?;
        for &feature in features {
            dsl.enable_feature(tx, feature).await?;
        }
        let origin = dsl.origin().await?;
        dsl.create_head(tx, dsl.root, &origin, births[2]).await?;
        dsl.create_listed_bpobj(tx, b"sync_bplist", SYNC_BPLIST_BLOCK_BYTES).await?;
        dsl.directory.add_u64(tx, b"creation_version", VERSION_FEATURES).await?;
        dsl.directory.add_u64(tx, b"deflate", 1).await?;
        dsl.set_checksum_salt(tx, checksum_salt(&births)).await?;
        Ok(dsl)
    }

    /// The pool's salt, which keyed checksums begin with; none in a pool made before there were any.
    ///
    /// # Errors
    /// [`DslError::Damaged`] when it has another size; those of reading the MOS.
    #[boxed]
    pub async fn checksum_salt(&self) -> Result<Option<[u8; 32]>, DslError> {
        match self.directory.lookup(CHECKSUM_SALT).await? {
            None => Ok(None),
            Some(ZapValue::U8(bytes)) => bytes.try_into().map(Some).map_err(|_| bad_salt()),
            Some(_) => Err(bad_salt()),
        }
    }

    /// Gives a pool that has none its salt.
    ///
    /// # Errors
    /// When it has one; those of changing the MOS.
    #[boxed]
    pub async fn set_checksum_salt(&self, tx: &Tx, salt: [u8; 32]) -> Result<(), DslError> {
        Ok(self.directory.add(tx, CHECKSUM_SALT, &ZapValue::U8(salt.to_vec())).await?)
    }

    async fn create_listed_bpobj(&self, tx: &Tx, name: &[u8], block_bytes: u32) -> Result<(), DslError> {
        let list = Bpobj::create(&self.mos, tx, block_bytes).await?;
        Ok(self.directory.add_u64(tx, name, list.object().get()).await?)
    }

    /// Makes `$ORIGIN`, its head without contents, and the snapshot of that.
    async fn create_origin(&self, tx: &Tx, head: Birth, snapshot: Birth) -> Result<(), DslError> {
        let dir = self.create_dir(tx, Some(self.root), ORIGIN, head.now_secs).await?;
        let of_snapshot = self.create_deadlist(tx).await?;
        let of_head = self.create_deadlist(tx).await?;
        self.add_deadlist_keys(tx, &of_head, &[0]).await?;
        let snapshot_names = self.create_snapshot_names(tx).await?;

        let mut snapshot = snapshot.phys(dir, tx);
        snapshot.creation_txg = U64::new(ORIGIN_TXG);
        snapshot.deadlist = U64::new(of_snapshot.object().get());
        snapshot.children = U64::new(1);
        let snapshot = self.create_dataset_object(tx, &snapshot).await?;

        let mut head = head.phys(dir, tx);
        head.creation_txg = U64::new(ORIGIN_TXG);
        head.deadlist = U64::new(of_head.object().get());
        head.prev_snapshot = U64::new(snapshot.get());
        head.prev_snapshot_txg = U64::new(ORIGIN_TXG);
        head.snapshot_names = U64::new(snapshot_names.get());
        let head = self.create_dataset_object(tx, &head).await?;

        let names = self.zap(snapshot_names.get()).await?;
        names.add_u64(tx, ORIGIN.as_bytes(), snapshot.get()).await?;
        let snapshot = self.loaded_dataset(snapshot).await?;
        snapshot.change(tx, |phys| phys.next_snapshot = U64::new(head.get()))?;
        snapshot.dir().change(tx, |phys| phys.head_dataset = U64::new(head.get()))
    }
}

/// 32 bytes that differ from pool to pool: what salted checksums begin with. They lie in the MOS
/// for all to read; that nobody can foretell them follows from the random numbers of the births.
fn checksum_salt(births: &[Birth; 3]) -> [u8; 32] {
    let mut state = births.iter().fold(0_u64, |mixed, birth| mix(mixed ^ birth.guid) ^ mix(!birth.fsid));
    let mut word = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(state)
    };
    let words: [[u8; 8]; 4] = std::array::from_fn(|_| word().to_le_bytes());
    std::array::from_fn(|at| words[at / 8][at % 8])
}

fn bad_salt() -> DslError {
    DslError::damaged(DIRECTORY, "checksum salt")
}

/// A permutation of 64-bit words in which every bit depends on every other (SplitMix64).
fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}
