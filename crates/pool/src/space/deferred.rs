//! Blocks of the meta-objset that the next txg frees: the list `sync_bplist`.
//!
//! A damaged list is replaced by the next txg that needs a list. The blocks on the damaged list are
//! leaked.
//! (test: `a_damaged_list_of_deferred_frees_is_replaced`)

use dmu::Tx;
use dsl::{Bpobj, Dsl};
use env::boxed;
use ondisk::Blkptr;
use ondisk::mos::directory::SYNC_BPOBJ;
use units::Txg;
use zio::{Leak, Zio};

use crate::PoolError;

/// The block size of the list.
pub(crate) const DEFERRED_BLOCK_BYTES: u32 = 128 << 10;
/// The number of block pointers that are read back at a time.
const TAKEN_AT_ONCE: usize = 4096;

/// The list. `None` if the pool's list is damaged and no txg has needed another yet.
pub(crate) struct Deferred(async_lock::Mutex<Option<Bpobj>>);

impl Deferred {
    /// The list of a pool that is being created.
    pub fn new(list: Bpobj) -> Self {
        Self(async_lock::Mutex::new(Some(list)))
    }

    /// Opens the pool's list.
    #[boxed]
    pub async fn load(dsl: &Dsl) -> Result<Self, PoolError> {
        match Self::find(dsl).await {
            Err(error) if error.is_loss() => {
                tracing::error!(%error, "the list of blocks that the next txg frees is damaged and will be replaced");
                Ok(Self(async_lock::Mutex::new(None)))
            }
            found => Ok(Self::new(found?)),
        }
    }

    async fn find(dsl: &Dsl) -> Result<Bpobj, PoolError> {
        Ok(Bpobj::open(dsl.mos(), dsl.directory_object(SYNC_BPOBJ).await?).await?)
    }

    /// Appends blocks to the list.
    #[boxed]
    pub async fn append(&self, dsl: &Dsl, tx: &Tx, bps: &[Blkptr]) -> Result<(), PoolError> {
        let mut list = self.0.lock().await;
        let list = match &mut *list {
            Some(list) => list,
            none => {
                let made = Bpobj::create(dsl.mos(), tx, DEFERRED_BLOCK_BYTES).await?;
                dsl.directory().update_u64(tx, SYNC_BPOBJ.as_bytes(), made.object().get()).await?;
                none.insert(made)
            }
        };
        Ok(list.append(tx, bps).await?)
    }

    /// Frees all blocks on the list.
    #[boxed]
    pub async fn free_all(&self, tx: &Tx, zio: &Zio) -> Result<(), PoolError> {
        let list = self.0.lock().await;
        let Some(list) = &*list else { return Ok(()) };
        while !list.is_empty() {
            for bp in list.take(tx, TAKEN_AT_ONCE).await? {
                zio.free(tx.txg(), &bp).await?;
            }
            let lost = u64::try_from(list.take_lost().used).unwrap_or(0);
            if lost > 0 {
                zio.note_leak(Leak { bookmark: None, birth: Txg::ZERO, bytes: lost });
            }
        }
        Ok(())
    }

    /// Calls `visit` with all blocks on the list.
    #[boxed]
    pub async fn for_each(&self, visit: &mut (dyn FnMut(&[Blkptr]) + Send)) -> Result<(), PoolError> {
        match &*self.0.lock().await {
            Some(list) => Ok(list.for_each(visit).await?),
            None => Ok(()),
        }
    }
}
