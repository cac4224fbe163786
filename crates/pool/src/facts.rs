//! What a pool can tell of itself beside its room: space on its way out, space that is shared, how far
//! it was scrubbed.
//!
//! ```text
//!  $FREE, $LEAK (dirs of the MOS) ─► freeing, leaked
//!  tables of cloned blocks        ─► cloned
//!  tables of deduplicated blocks  ─► deduplicated, and what the tables take themselves
//! ```
//! A pool that is open for writing has the tables in memory. One that is only read has none, and looks
//! at them when asked: what cannot be understood there keeps nobody from reading the pool.
//!
//! Invariants
//! - What is not known is not told as zero.
//!   (test: `a_table_whose_log_was_not_written_out_keeps_the_pool_from_being_changed`)
//! - OpenZFS tells the same. (test: `golden_pools_tell_what_openzfs_told_of_them`, in `cli`)

use env::boxed;
use ondisk::ddt::DDT_ROW_WORDS;
use ondisk::mos::directory::LAST_SCRUBBED_TXG;

use crate::shared::SharedSpace;
use crate::shared::brt::Brt;
use crate::shared::ddt::Ddt;
use crate::{Pool, PoolError};

/// What a pool can tell of itself; nothing where its tables cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Space of destroyed datasets that is still to be freed.
    pub freeing_bytes: Option<u64>,
    /// Space that was to be freed and could not be found.
    pub leaked_bytes: Option<u64>,
    /// Blocks that several files share since one was cloned from another.
    pub cloned: Option<SharedSpace>,
    /// Blocks that were written once.
    pub dedup: Option<DedupFacts>,
    /// Blocks up to this txg were read by the last scrub that went to its end: 0 before the first.
    pub last_scrubbed_txg: Option<u64>,
}

/// What the tables of deduplicated blocks tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DedupFacts {
    /// The blocks in them.
    pub blocks: SharedSpace,
    /// What the tables take themselves, and their logs.
    pub table_bytes: u64,
    /// Entries of all tables.
    pub entries: u64,
    /// What the tables would take in memory.
    pub core_bytes: u64,
    /// The statistics of all tables: blocks with 2^n to 2^(n+1)-1 references are in row n.
    pub rows: Vec<DedupRow>,
}

/// A row of the statistics of tables, as they are stored: number of blocks, bytes of data, bytes as they are stored, bytes
/// that they are charged, and the same four figures with each block counted once for each reference.
pub type DedupRow = [u64; DDT_ROW_WORDS];

impl Pool {
    /// What there is to tell as of now.
    #[boxed]
    pub async fn facts(&self) -> Facts {
        Facts {
            freeing_bytes: self.dsl.freeing_bytes().await.ok(),
            leaked_bytes: self.dsl.leaked_bytes().await.ok(),
            cloned: self.cloned().await.ok(),
            dedup: self.deduplicated().await.ok().flatten(),
            last_scrubbed_txg: self.last_scrubbed().await.ok(),
        }
    }

    /// The newest txg of which the last finished scrub has read everything; 0 if there was no scrub.
    pub(crate) async fn last_scrubbed(&self) -> Result<u64, PoolError> {
        Ok(self.dsl.directory().lookup_u64(LAST_SCRUBBED_TXG.as_bytes()).await?.unwrap_or(0))
    }

    async fn cloned(&self) -> Result<SharedSpace, PoolError> {
        if self.read_only {
            return Ok(Brt::load(&self.dsl).await?.space().await);
        }
        Ok(self.brt.space().await)
    }

    async fn deduplicated(&self) -> Result<Option<DedupFacts>, PoolError> {
        if self.read_only {
            let whole = Ddt::load_whole(&self.dsl).await?;
            return match whole {
                Some(dedup) => Ok(Some(dedup.facts(&self.mos).await?)),
                None => Ok(None),
            };
        }
        Ok(Some(self.ddt.facts(&self.mos).await?))
    }
}
