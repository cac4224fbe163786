//! Open and close: what keeps an object without a name alive.

use env::boxed;
use units::ObjectId;

use crate::error::Result;
use crate::zfs::Zfs;
use crate::znode::Attributes;

impl Zfs {
    /// Counts a handle on an object; each is to be followed by one [`Zfs::close`].
    ///
    /// # Errors
    /// [`crate::ZplError::Stale`] when it is gone.
    #[boxed]
    pub async fn open_object(&self, object: ObjectId) -> Result<Attributes> {
        let znode = self.znode(object).await?;
        znode.open()?;
        Ok(znode.attributes())
    }

    /// Counts a handle off. The last one of an object without a name frees it.
    ///
    /// # Errors
    /// Those of writing; the handle is gone all the same. [`crate::ZplError::Invalid`] when nobody has it open.
    #[boxed]
    pub async fn close(&self, object: ObjectId) -> Result<()> {
        let znode = self.znode(object).await?;
        if !znode.close()? {
            return Ok(());
        }
        if znode.check_linked().is_err() {
            return self.reap(&znode).await;
        }
        drop(znode);
        self.make_room(object).await;
        Ok(())
    }
}
