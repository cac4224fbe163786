//! The version of a file system's format, and how a file system gets a newer one.
//!
//! ```text
//!  1  names stand for objects              4  quotas of users and groups
//!  2  names know the kinds of objects      5  system attributes in place of old znodes
//!  3  ids of foreign domains
//! ```
//! An upgrade changes the master node alone. Objects and names keep their form until they are changed in a way that
//! needs the newer one.
//!
//! Invariant: nothing in the log needs a newer version than the master node on disk has, because the newer version is
//! in force only when its txg has synced. (test: `what_is_logged_after_an_upgrade_is_replayed`)

use std::sync::atomic::Ordering;

use dmu::zap::Zap;
use env::boxed;

use crate::dirent::Dirent;
use crate::error::{Result, ZplError};
use crate::sa::{Form, SaStore};
use crate::zfs::{MASTER_NODE, SA_ATTRS, VERSION, ZPL_VERSION, Zfs};
use crate::znode::Znode;

/// From here on, a name has the kind of its object.
const WITH_KINDS: u64 = 2;
/// From here on, users and groups have quotas.
const WITH_QUOTAS: u64 = 4;
/// From here on, objects have system attributes.
pub(crate) const WITH_SYSTEM_ATTRIBUTES: u64 = 5;

impl Zfs {
    /// The version of the format.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Gives the file system a newer version of the format. Returns when the change is stable.
    ///
    /// # Errors
    /// [`ZplError::Invalid`] for an older version or one that does not exist; [`ZplError::ReadOnly`]; those of writing.
    #[boxed]
    pub async fn upgrade(&self, to: u64) -> Result<()> {
        self.check_writable()?;
        let _upgrading = self.upgrading.lock().await;
        if !(self.version()..=ZPL_VERSION).contains(&to) {
            return Err(ZplError::Invalid("a version that is older, or unknown"));
        }
        let plan = self.plan().await?;
        let master = Zap::open(self.objset().hold(MASTER_NODE).await?).await?;
        master.update_u64(&plan, VERSION, to).await?;
        let needs_tables = to >= WITH_SYSTEM_ATTRIBUTES && !self.sa.is_system();
        let form = if needs_tables {
            let tables = SaStore::format(self.objset(), &plan, self.random_u64()).await?;
            master.add_u64(&plan, SA_ATTRS, tables.get()).await?;
            Form::System(tables)
        } else {
            Form::old(to)
        };
        plan.apply()?;
        let txgs = self.objset().txgs();
        txgs.wait_synced(txgs.open_txg()).await?;
        if to < WITH_SYSTEM_ATTRIBUTES || needs_tables {
            self.sa.set_form(form);
        }
        self.version.store(to, Ordering::Release);
        Ok(())
    }

    /// The value of a directory entry for an object.
    pub(crate) fn entry_for(&self, znode: &Znode) -> u64 {
        let kind = (self.version() >= WITH_KINDS).then_some(znode.kind());
        Dirent { object: znode.object(), kind }.encode()
    }

    /// Slots of the dnodes of new objects. Old znodes are in dnodes of one slot.
    pub(crate) fn dnode_slots(&self) -> u8 {
        if self.sa.is_system() { self.options().dnode_slots } else { 1 }
    }

    /// True if objects belong to projects.
    pub(crate) fn has_projects(&self) -> bool {
        self.sa.is_system() && self.objset().accounts_projects()
    }

    /// # Errors
    /// [`ZplError::Unsupported`] before version 4.
    pub(crate) fn check_has_quotas(&self) -> Result<()> {
        match self.version() {
            WITH_QUOTAS.. => Ok(()),
            _ => Err(ZplError::Unsupported("quotas before version 4 of the file system")),
        }
    }
}
