//! The load in a pool, in process.

use std::path::PathBuf;
use std::sync::Arc;

use device::RealEnv;
use dsl::PropValue;
use pool::{Pool, PoolError, Tuning};
use units::ObjectId;
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use super::store::{Moved, OltpError, Store};
use crate::world::{self, POOL, STABLE, Shape};

/// The pool that has the WAL alone.
const WAL_POOL: &str = "sawmill-bench-wal";
/// Numbers that stand for these words on disk.
const CHECKSUM_OFF: u64 = 2;
const LOGBIAS_THROUGHPUT: u64 = 1;
/// The record size of a dataset that nobody has tuned.
pub(crate) const RECORD_DEFAULT: u64 = 128 << 10;

/// Where the database's own log lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WalIn {
    /// In the dataset of the pages.
    Same,
    /// In a dataset of its own, of records of 128K.
    #[default]
    Own,
    /// In a pool of its own, on the devices that would be logs otherwise.
    Pool,
}

/// How pool and datasets are set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The record size of the pages' dataset.
    pub record: u64,
    /// Where the WAL lies.
    pub wal: WalIn,
    /// The pool has log devices, when there are any.
    pub has_log: bool,
    /// `checksum=off`.
    pub no_checksum: bool,
    /// `logbias=throughput` for the pages' dataset.
    pub throughput: bool,
}

impl Setup {
    /// As is advised for a database with pages of so many bytes: records of a page, or of the next power of two, the
    /// WAL in a dataset of its own, and nothing else.
    #[must_use]
    pub fn matched(block: usize) -> Self {
        let record = block.next_power_of_two() as u64;
        Self { record, wal: WalIn::Own, has_log: false, no_checksum: false, throughput: false }
    }

    fn props(&self) -> Vec<(String, PropValue)> {
        let checksum = self.no_checksum.then_some(("checksum", CHECKSUM_OFF));
        let bias = self.throughput.then_some(("logbias", LOGBIAS_THROUGHPUT));
        // A database's pages are not to be written because somebody has read them.
        let all = checksum.into_iter().chain(bias).chain([("atime", 0)]);
        all.map(|(name, number)| (name.to_owned(), PropValue::Number(number))).collect()
    }

    /// What the WAL's own dataset has otherwise.
    fn wal_props() -> Vec<(String, PropValue)> {
        [("recordsize", RECORD_DEFAULT), ("logbias", 0)]
            .map(|(name, number)| (name.to_owned(), PropValue::Number(number)))
            .into()
    }
}

/// Where the pool lies.
#[derive(Clone, Debug, Default)]
pub struct Devices {
    /// Devices of the pool, striped. The baseline uses the first.
    pub main: Vec<PathBuf>,
    /// Log devices, or those of the WAL's pool.
    pub log: Vec<PathBuf>,
    /// Memory for the cache.
    pub cache: u64,
}

/// A file in a dataset.
struct Place {
    zfs: Arc<Zfs>,
    file: ObjectId,
}

/// Pages and log in pools that are made for it.
pub(crate) struct Pooled {
    env: Arc<RealEnv>,
    pools: Vec<Arc<Pool>>,
    pages: Place,
    wal: Place,
}

impl Pooled {
    /// Makes the pools, whatever was on the devices, with empty files.
    ///
    /// # Errors
    /// When that is not possible.
    pub fn make(env: &Arc<RealEnv>, devices: &Devices, setup: &Setup) -> Result<Self, PoolError> {
        let tuning = Tuning { cache_bytes: devices.cache, ..Tuning::default() };
        let log = if setup.has_log { devices.log.clone() } else { Vec::new() };
        let (main, record, props) = (devices.main.clone(), setup.record, setup.props());
        let mut pools =
            vec![world::make(env, &Shape { main, log, record, props, ..Shape::default() }, tuning.clone())?];
        let wal_name = match setup.wal {
            WalIn::Same => POOL.to_owned(),
            WalIn::Own => {
                let name = format!("{POOL}/wal");
                env.block_on(pools[0].create_filesystem(&name, Setup::wal_props()))?;
                name
            }
            WalIn::Pool => {
                let (main, props) = (devices.log.clone(), setup.props());
                let shape = Shape { main, record: RECORD_DEFAULT, props, ..Shape::default() };
                pools.push(world::make_called(env, WAL_POOL, &shape, tuning)?);
                WAL_POOL.to_owned()
            }
        };
        let last = pools.last().expect("there is one");
        let pages = env.block_on(place(&pools[0], POOL, b"pages"))?;
        let wal = env.block_on(place(last, &wal_name, b"wal"))?;
        Ok(Self { env: Arc::clone(env), pages, wal, pools })
    }

    /// Takes the pools away.
    ///
    /// # Errors
    /// Theirs.
    pub fn destroy(self) -> Result<(), PoolError> {
        let Self { env, pools, pages, wal } = self;
        drop((pages, wal));
        pools.iter().try_for_each(|pool| env.block_on(pool.close(PoolState::Destroyed)))
    }

    fn write_to(&self, place: &Place, offset: u64, data: &[u8], how: WriteFlags) -> Result<(), OltpError> {
        let written = self.env.block_on(place.zfs.write(place.file, offset, data, how));
        written.map(drop).map_err(|error| PoolError::from(error).into())
    }
}

async fn place(pool: &Arc<Pool>, dataset: &str, name: &[u8]) -> Result<Place, PoolError> {
    let zfs = Arc::clone(&pool.filesystem(dataset).await?.zfs);
    let file = zfs.create(zfs.root(), name, NewNode::File, 0o600, Cred::default()).await?.object;
    Ok(Place { zfs, file })
}

impl Store for Pooled {
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), OltpError> {
        let read = self.env.block_on(self.pages.zfs.read(self.pages.file, offset, into));
        read.map(drop).map_err(|error| PoolError::from(error).into())
    }

    fn write(&self, offset: u64, data: &[u8], stable: bool) -> Result<(), OltpError> {
        self.write_to(&self.pages, offset, data, if stable { STABLE } else { WriteFlags::default() })
    }

    fn append(&self, offset: u64, data: &[u8]) -> Result<(), OltpError> {
        self.write_to(&self.wal, offset, data, STABLE)
    }

    fn checkpoint(&self) -> Result<(), OltpError> {
        let synced = self.env.block_on(self.pages.zfs.fsync(self.pages.file, true));
        synced.map_err(|error| PoolError::from(error).into())
    }

    fn settle(&self) -> Result<(), OltpError> {
        Ok(self.pools.iter().try_for_each(|pool| self.env.block_on(pool.sync_now()))?)
    }

    fn moved(&self) -> Moved {
        let leaves = self.pools.iter().flat_map(|pool| pool.vdevs().leaves());
        leaves.fold(Moved::default(), |sum, leaf| {
            let stats = leaf.stats().snapshot();
            sum + Moved { read: stats.read.bytes, written: stats.write.bytes }
        })
    }
}
