//! File capabilities: the extended attribute `security.capability` of a program.
//!
//! A program loses its capabilities when its contents or its owner change, whoever changes them. A
//! Linux kernel removes the attribute itself, with a request of its own, before most of these changes.
//! Before a write that bypasses its cache, it leaves that to the file system
//! (`FUSE_HANDLE_KILLPRIV_V2`). The front knows which request is which, so the front calls
//! [`Zfs::drop_capability`] before such a change.
//!
//! ```text
//!  file without extended attributes ─► nothing to do, nothing is read
//!  with others only                 ─► looked for once, then noted in the znode
//!  with capabilities                ─► removed under the whole lock, in a transaction of its own
//! ```
//! Invariants
//! - No crash leaves the capabilities beside the new contents. The removal joins a txg no later than
//!   that of the change, and its log record precedes that of the change. A crash between the two
//!   leaves the old contents without capabilities.
//!   (test: `no_crash_brings_capabilities_back_beside_new_contents`)

use std::sync::Arc;

use env::boxed;
use journal::Origin;
use units::ObjectId;

use crate::error::Result;
use crate::mode::FileKind;
use crate::zfs::Zfs;
use crate::znode::Znode;

/// Name of the attribute.
pub(crate) const CAPABILITY: &[u8] = b"security.capability";

impl Zfs {
    /// Removes the capabilities of a file whose contents or owner are about to change. Does not check
    /// the rights of the caller, because the change decides about the rights.
    ///
    /// # Errors
    /// Those of removing an attribute; [`crate::ZplError::NotPermitted`] for an immutable file with
    /// capabilities.
    #[boxed]
    pub async fn drop_capability(&self, object: ObjectId) -> Result<()> {
        let znode = self.znode(object).await?;
        if znode.kind() != FileKind::File || !znode.may_have_capability() {
            return Ok(());
        }
        // In a box, because few files get here.
        Box::pin(self.look_and_drop_capability(&znode)).await
    }

    async fn look_and_drop_capability(&self, znode: &Arc<Znode>) -> Result<()> {
        self.check_writable()?;
        let homes = {
            let _lock = znode.lock.whole().await;
            znode.check_alive()?;
            let homes = self.homes(znode, CAPABILITY).await?;
            if homes.system || homes.file {
                znode.check_mutable(Origin::Client)?;
                self.remove_from(znode, CAPABILITY, homes).await?;
            }
            znode.note_no_capability();
            homes
        };
        // Without a record of the removal, a commit that is under way could log the change alone.
        let options = self.options();
        if homes.system && options.sync.is_logged() && !options.log_xattrs {
            let txgs = self.os.txgs();
            txgs.wait_synced(txgs.open_txg()).await?;
        }
        Ok(())
    }
}
