//! Returns to an older state when the newest state cannot be opened (`zpool import -F`, `-X`,
//! `-T`).
//!
//! ```text
//!   ring of uberblocks   …  N-4   N-3   N-2   N-1   N  the newest: cannot be opened
//!                                 └─────────────┘
//!                        -FX      -F: space that these txgs refer to was not reused before N
//! ```
//! Space that a txg frees is reused [`TXG_DEFER`] txgs later at the earliest. So states up to that
//! age are complete unless devices damaged them; older states may be partly overwritten. Therefore
//! a candidate is verified before it is used. For a recent candidate, the metadata written in the
//! last txgs before it must be readable; for an older candidate, all metadata must be. Data blocks
//! are read and counted too, but a damaged data block does not reject the candidate, because a pool
//! with damaged files is better than no pool. The limits are those of OpenZFS (`spa_load_best`,
//! `spa_load_verify`).
//!
//! A rewind discards the intent logs: see [`zil::IntentLog::claim_to_discard`].
//! (tests: `a_rewind_discards_logs_and_leaves_a_sound_pool`,
//! `a_rewind_goes_no_further_back_than_it_was_allowed`)

use dmu::{Objset, Place, Reach};
use env::BoxFuture;
use futures::future::join_all;
use ondisk::Blkptr;
use units::{ObjsetId, TXG_DEFER, TXG_INITIAL, Txg};
use zio::Bookmark;

use crate::{Pool, PoolError};

/// How far back an import may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rewind {
    /// Only the newest state.
    #[default]
    Never,
    /// A state so recent that no space that it needs was reused (`-F`).
    Recent,
    /// Any state that a label still names (`-FX`).
    Any,
    /// The newest state up to this txg, even if newer states are intact (`-T`).
    UpTo(Txg),
}

/// The number of blocks of an objset that are looked up at a time.
const BLOCKS_AT_ONCE: usize = 4096;
/// The number of blocks that are read at a time.
const READS_AT_ONCE: usize = 32;

impl Rewind {
    /// The first txg to try, unless that is the newest.
    pub(crate) fn first(self) -> Option<Txg> {
        match self {
            Self::UpTo(txg) => Some(txg),
            _ => None,
        }
    }

    /// True if a state older than `tried` may be tried, in a pool whose newest txg is `newest`. As
    /// in OpenZFS, the oldest candidate may be one txg older than the recent txgs.
    pub(crate) fn may_pass(self, tried: Txg, newest: Txg) -> bool {
        match self {
            Self::Never => false,
            Self::Recent => tried.get() + TXG_DEFER >= newest.get(),
            Self::Any | Self::UpTo(_) => tried.get() >= TXG_INITIAL.get(),
        }
    }

    /// Blocks of a candidate that were born after the returned txg must be readable.
    pub(crate) fn verified_since(self, candidate: Txg, newest: Txg) -> Txg {
        let is_recent = candidate.get() + TXG_DEFER >= newest.get();
        match self {
            Self::Never | Self::Recent | Self::Any if is_recent => {
                Txg::new(candidate.get().saturating_sub(TXG_DEFER + 1))
            }
            _ => Txg::ZERO,
        }
    }
}

/// The result of the verification of a candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// The number of blocks that were read.
    pub blocks: u64,
    /// The number of damaged metadata blocks.
    pub metadata_errors: u64,
    /// The number of damaged blocks of files and volumes.
    pub data_errors: u64,
}

impl Verified {
    /// True if the candidate may be used.
    pub(crate) fn is_good(self) -> bool {
        self.metadata_errors == 0
    }
}

impl Pool {
    /// Reads all blocks that were born after `born_after`.
    ///
    /// # Errors
    /// When the list of datasets cannot be read.
    pub(crate) fn verify(&self, born_after: Txg) -> BoxFuture<'_, Result<Verified, PoolError>> {
        Box::pin(async move {
            let mut verified = Verified::default();
            self.verify_objset(ObjsetId::MOS, self.mos.root(), born_after, &mut verified).await;
            let mut datasets = self.dsl.list(&self.name()).await?;
            for head in datasets.clone() {
                datasets.extend(self.dsl.snapshots(&head).await?);
            }
            for dataset in datasets {
                let phys = self.dsl.dataset(dataset.dataset).await?;
                // Older blocks belong to the previous snapshot, which is verified separately.
                let born_after = born_after.max(Txg::new(phys.prev_snapshot_txg.get()));
                self.verify_objset(dataset.objset(), phys.bp, born_after, &mut verified).await;
            }
            Ok(verified)
        })
    }

    async fn verify_objset(&self, id: ObjsetId, root: Blkptr, born_after: Txg, verified: &mut Verified) {
        let mut from = Some(Place::START);
        while let Some(place) = from {
            let reach = Reach { from: place, born_after, limit: BLOCKS_AT_ONCE };
            let visited = Objset::visit(&self.zio, id, &root, reach).await;
            // Each visit starts at the root again, so a damaged block on the path may be counted
            // more than once.
            verified.metadata_errors += visited.lost.len() as u64;
            for blocks in visited.blocks.chunks(READS_AT_ONCE) {
                let reads: Vec<BoxFuture<'_, bool>> =
                    blocks.iter().map(|(bookmark, bp)| self.verify_block(*bookmark, *bp)).collect();
                let are_bad = join_all(reads).await;
                verified.blocks += blocks.len() as u64;
                for ((_, bp), _) in blocks.iter().zip(are_bad).filter(|(_, is_bad)| *is_bad) {
                    match bp.level().get() > 0 || bp.object_type().is_metadata() {
                        true => verified.metadata_errors += 1,
                        false => verified.data_errors += 1,
                    }
                }
            }
            from = visited.next;
        }
    }

    /// True if no copy of the block can be read.
    fn verify_block(&self, bookmark: Bookmark, bp: Blkptr) -> BoxFuture<'_, bool> {
        Box::pin(async move { self.zio.read_stored(&bp, &bookmark).await.is_err() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rewind_goes_no_further_back_than_it_was_allowed() {
        let newest = Txg::new(100);
        let tries = |rewind: Rewind| (4..=100).filter(|&txg| rewind.may_pass(Txg::new(txg), newest)).count();
        assert_eq!(tries(Rewind::Never), 0);
        assert_eq!(tries(Rewind::Recent), 3, "100, 99 and 98 may be passed: 97 is the oldest candidate");
        assert_eq!(tries(Rewind::Any), 97);
        assert_eq!(tries(Rewind::UpTo(Txg::new(50))), 97);
    }

    #[test]
    fn older_states_are_verified_whole() {
        let newest = Txg::new(100);
        let since = |rewind: Rewind, txg| rewind.verified_since(Txg::new(txg), newest).get();
        assert_eq!(since(Rewind::Recent, 99), 96);
        assert_eq!(since(Rewind::Recent, 98), 95);
        assert_eq!(since(Rewind::Recent, 97), 0);
        assert_eq!(since(Rewind::Any, 98), 95);
        assert_eq!(since(Rewind::Any, 60), 0);
        assert_eq!(since(Rewind::UpTo(Txg::new(99)), 99), 0);
    }
}
