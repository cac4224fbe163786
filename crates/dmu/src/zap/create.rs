//! ZAPs as objects of an objset.

use std::sync::Arc;

use env::boxed;
use ondisk::ObjectType;
use units::{BlockId, ObjectId};

use super::error::ZapError;
use super::handle::Zap;
use crate::{Dnode, DnodeSpec, Objset, Tx};

/// What a new ZAP is to be.
#[derive(Clone, Debug)]
pub struct ZapSpec {
    /// Type, block size and bonus buffer of the object. A ZAP without flags is best begun with
    /// the smallest block, 512 bytes; one with flags keeps the block size it begins with.
    pub dnode: DnodeSpec,
    /// How names are normalised before they hash, as the format numbers it: 0 or
    /// [`NORM_TOUPPER`](super::NORM_TOUPPER).
    pub normflags: u64,
    /// `ZAP_FLAG_*`; not 0 makes the ZAP fat from the beginning.
    pub flags: u64,
}

impl ZapSpec {
    /// A plain ZAP of this type.
    #[must_use]
    pub fn new(object_type: ObjectType) -> Self {
        Self { dnode: DnodeSpec::new(object_type, 0), normflags: 0, flags: 0 }
    }
}

impl From<DnodeSpec> for ZapSpec {
    fn from(dnode: DnodeSpec) -> Self {
        Self { dnode, normflags: 0, flags: 0 }
    }
}

impl Zap<Dnode> {
    /// A new ZAP in a new object.
    ///
    /// # Errors
    /// Those of allocating an object.
    #[boxed]
    pub async fn create(objset: &Arc<Objset>, tx: &Tx, spec: &ZapSpec) -> Result<Self, ZapError> {
        let dnode = objset.allocate(tx, &spec.dnode).await?;
        Self::of_new(dnode, tx, spec).await
    }

    /// A new ZAP with this object number: replay, and the pool's directory.
    ///
    /// # Errors
    /// [`DmuError::ObjectExists`](crate::DmuError::ObjectExists), and those of reading.
    #[boxed]
    pub async fn create_at(
        objset: &Arc<Objset>,
        tx: &Tx,
        object: ObjectId,
        spec: &ZapSpec,
    ) -> Result<Self, ZapError> {
        let dnode = objset.allocate_at(tx, object, &spec.dnode).await?;
        Self::of_new(dnode, tx, spec).await
    }

    async fn of_new(dnode: Arc<Dnode>, tx: &Tx, spec: &ZapSpec) -> Result<Self, ZapError> {
        let salt = salt(dnode.object(), tx.txg().get());
        Self::format(dnode, tx, salt, spec.normflags, spec.flags).await
    }

    /// Makes a ZAP of an object that exists and has no contents.
    ///
    /// # Errors
    /// Those of writing.
    #[boxed]
    pub async fn make_of(dnode: Arc<Dnode>, tx: &Tx) -> Result<Self, ZapError> {
        let salt = salt(dnode.object(), tx.txg().get());
        Self::format(dnode, tx, salt, 0, 0).await
    }

    /// A new ZAP with the same entries and a bonus buffer of zeros: its blocks are copied as they are, which takes far less
    /// than to add the entries one by one.
    ///
    /// # Errors
    /// Those of reading, and of allocating an object.
    #[boxed]
    pub async fn copy(&self, objset: &Arc<Objset>, tx: &Tx) -> Result<Self, ZapError> {
        let from = self.dnode();
        let spec = DnodeSpec::new(from.object_type(), from.block_bytes())
            .with_bonus(from.bonus_type(), from.bonus().len() as u16);
        let to = objset.allocate(tx, &spec).await?;
        for block in 0..=from.max_block().get() {
            let bytes = from.read_block(BlockId::new(block)).await?;
            to.write(tx, block * u64::from(from.block_bytes()), &bytes).await?;
        }
        Self::open(to).await
    }

    /// The ZAP with this object number.
    ///
    /// # Errors
    /// [`DmuError::NoSuchObject`](crate::DmuError::NoSuchObject), damage, and those of reading.
    pub async fn hold(objset: &Arc<Objset>, object: ObjectId) -> Result<Self, ZapError> {
        Self::open(objset.hold(object).await?).await
    }

    /// The object's number.
    #[must_use]
    pub fn object(&self) -> ObjectId {
        self.blocks().object()
    }

    /// The object.
    #[must_use]
    pub fn dnode(&self) -> &Arc<Dnode> {
        self.blocks()
    }
}

/// A salt for a new ZAP. It only has to differ between ZAPs; that it follows from number and
/// txg lets a run be repeated.
fn salt(object: ObjectId, txg: u64) -> u64 {
    let mixed = (object.get() ^ txg.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}
