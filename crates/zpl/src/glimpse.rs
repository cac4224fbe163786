//! What an object is, and where, in one state of a file system: what `zfs diff` compares of two.

use std::sync::Arc;

use dmu::zap::Zap;
use env::boxed;
use ondisk::ObjectType;
use units::ObjectId;

use crate::error::{Result, ZplError};
use crate::mode::FileKind;
use crate::time::Timestamp;
use crate::zfs::{MASTER_NODE, Zfs};
use crate::znode::Znode;

/// The file system's object of shares, which is none of its files.
const SHARES: &[u8] = b"SHARES";

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glimpse {
    /// What it is.
    pub kind: FileKind,
    /// Tells it from earlier objects of its number.
    pub generation: u64,
    /// Its names.
    pub links: u64,
    /// The directory in which the object got its newest name. That name may be gone.
    pub parent: ObjectId,
    /// When anything about it was changed.
    pub ctime: Timestamp,
    /// Where it is.
    pub place: ObjectPath,
}

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectPath {
    /// There, with a leading slash.
    At(Vec<u8>),
    /// In the queue of those that wait for their last close.
    DeleteQueue,
    /// The directory that it says has it does not: it has lost that name, and may have others.
    Unknown,
}

impl Glimpse {
    /// Whether the object has names, and none that the object leads to ([`Zfs::search_paths`]).
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.place == ObjectPath::Unknown && self.links > 0
    }
}

impl Zfs {
    /// What an object is; `None` for what is no file, directory or the like, or not there.
    ///
    /// # Errors
    /// Those of reading.
    #[boxed]
    pub async fn glimpse(&self, object: ObjectId) -> Result<Option<Glimpse>> {
        let Some(znode) = self.if_file(object).await? else { return Ok(None) };
        let of = znode.attributes();
        let place = match self.queue.has(object).await? {
            true => ObjectPath::DeleteQueue,
            false => self.find_path(object).await?.map_or(ObjectPath::Unknown, ObjectPath::At),
        };
        let (generation, links) = (of.generation, of.links.into());
        Ok(Some(Glimpse { kind: of.kind, generation, links, parent: of.parent, ctime: of.ctime, place }))
    }

    /// The object that holds shares, where another system made one.
    ///
    /// # Errors
    /// When the master node cannot be read.
    #[boxed]
    pub async fn shares(&self) -> Result<Option<ObjectId>> {
        let master = Zap::open(self.os.hold(MASTER_NODE).await?).await?;
        Ok(master.lookup_u64(SHARES).await?.map(ObjectId::new))
    }

    /// The object, if it is a file, a directory or the like.
    pub(crate) async fn if_file(&self, object: ObjectId) -> Result<Option<Arc<Znode>>> {
        let kind = match self.os.hold(object).await.map_err(ZplError::from) {
            Ok(dnode) => dnode.bonus_type(),
            Err(ZplError::Stale { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        if kind != ObjectType::SA && kind != ObjectType::ZNODE {
            return Ok(None);
        }
        match self.znode(object).await {
            Ok(znode) => Ok(Some(znode)),
            Err(ZplError::Stale { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
