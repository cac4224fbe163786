//! What a dataset is beside its objset and its log: files, or a volume's bytes.
//!
//! ```text
//!             ┌─ objset, log handle     what txgs sync: alike for all datasets
//!  OpenDataset┤
//!             └─ dyn Dataset ─┬─ zpl::Zfs      (`files`)
//!                             └─ zvol::Volume  (`volume`)
//! ```
//! Replay, properties and the end are the dataset's own. The pool asks for them through this trait; which kind an
//! objset is, is looked at where it is opened ([`Pool::open_contents`]) and nowhere else.

use std::any::Any;
use std::sync::Arc;

use env::BoxFuture;
use ondisk::objset::ObjsetType;
use units::ObjectId;
use zil::{Claimed, IntentLog, Live, ReplayStopped};
use zvol::Volume;

use crate::dataset::open::OpenDataset;
use crate::dataset::props::{Allowed, DatasetProps};
use crate::{Pool, PoolError};

/// See the module.
pub(crate) trait Dataset: Any + Send + Sync {
    /// Replays the log before anybody uses the dataset, and uses it from then on.
    ///
    /// # Errors
    /// The log is handed back when a record cannot be applied.
    fn replay(&self, log: IntentLog<Claimed>) -> BoxFuture<'_, Result<(), Box<ReplayStopped>>>;

    /// Uses a log that has nothing to replay.
    fn start_log(&self, log: IntentLog<Live>);

    /// Does what is left to do between replay and use.
    ///
    /// # Errors
    /// Those of reading and writing.
    fn get_ready<'a>(&'a self, how: GetReady<'a>) -> BoxFuture<'a, Result<(), PoolError>>;

    /// Does the work that no caller waits for, while the dataset is in use. [`Self::close`] ends
    /// it.
    fn tidy_up(self: Arc<Self>) -> BoxFuture<'static, ()>;

    /// Its properties, or what they mean in this pool, have changed.
    fn set_terms(&self, terms: &Terms<'_>);

    /// Makes stable what is only in memory, and gives its log back.
    ///
    /// # Errors
    /// When that is not possible.
    fn close(&self) -> BoxFuture<'_, Result<(), PoolError>>;
}

/// How a dataset is made ready for use.
#[derive(Clone, Copy)]
pub(crate) struct GetReady<'a> {
    /// True if the log begins now. The first commit is then quick, but the dataset has changed.
    pub primes: bool,
    /// Objects that programs have open. Those without a name are not freed.
    pub open: &'a [ObjectId],
}

/// A dataset's properties, and what the pool makes of them.
pub(crate) struct Terms<'a> {
    pub props: &'a DatasetProps,
    /// What of the format it may use.
    pub allowed: Allowed,
    /// The pool, or what is looked at, does not change.
    pub read_only: bool,
    /// Without log devices, data from this length on are written in place.
    pub immediate_write_bytes: u64,
}

impl Pool {
    pub(crate) fn terms<'a>(&self, props: &'a DatasetProps, allowed: Allowed) -> Terms<'a> {
        let immediate_write_bytes = self.tuning.immediate_write_bytes;
        Terms { props, allowed, read_only: self.read_only, immediate_write_bytes }
    }

    /// What is in an objset.
    ///
    /// # Errors
    /// When it cannot be read; [`PoolError::NotFilesystem`] when it is neither files nor a volume.
    pub(crate) async fn open_contents(&self, open: &OpenDataset) -> Result<Arc<dyn Dataset>, PoolError> {
        match open.objset.kind() {
            ObjsetType::Zfs => Ok(self.open_files(open).await?),
            ObjsetType::Zvol => Ok(Arc::new(Volume::open(&open.objset).await?)),
            _ => Err(PoolError::NotFilesystem { name: open.name().name }),
        }
    }
}
