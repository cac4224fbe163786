//! Space and objects by owner: what `userspace` shows and quotas of users are held against.
//!
//! ```text
//!  sync of an object ─► charge before, charge after ─► bill: changes by id ─► accounting ZAPs
//!                       (owner, used bytes, flags)                            users  −1
//!                                                                             groups −2, projects −3
//! ```
//! A file system has three further objects, whose dnodes lie in the root block itself. They map
//! ids in hexadecimal to bytes, and the same with `obj-` before them to numbers of objects. An
//! object costs its owner what it has allocated and one dnode slot. Its own flags say what of it
//! has been counted, so that accounting may begin at any time, object by object.
//!
//! Invariant: the ZAPs hold the sums over all objects that are flagged as counted
//! (test: `accounts_equal_a_recount_over_all_objects`).

mod recount;

use std::collections::BTreeMap;
use std::sync::Arc;

use env::{boxed, impatient};
use ondisk::dnode::{DNODE_SLOT_BYTES, DnodeImage, flags as dnode_flags};
use ondisk::objset::{
    GROUPUSED_OBJECT, OBJECT_ACCOUNTING_PREFIX, OBJSET_BYTES_V2, OBJSET_BYTES_V3, ObjsetPhys, ObjsetType,
    PROJECTUSED_OBJECT, USERUSED_OBJECT, flags as objset_flags,
};
use ondisk::{ObjectType, Owner};
use units::{ObjectId, Txg};

use crate::dnode::{Dnode, DnodeSpec};
use crate::objset::Shared;
use crate::tree::TreeName;
use crate::zap::{Zap, ZapError};
use crate::{DmuError, Objset, SyncRead, Tx};

/// Names of all accounting objects.
pub(crate) const ACCOUNTS: [ObjectId; 3] = [USERUSED_OBJECT, GROUPUSED_OBJECT, PROJECTUSED_OBJECT];

/// What an objset accounts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub space: bool,
    pub objects: bool,
    pub projects: bool,
}

impl Counts {
    /// What a root block of `bytes` bytes has room for and says is complete. Space is counted
    /// where there is room for it: what was written before is added as it changes.
    pub fn of(phys: &ObjsetPhys, bytes: usize) -> Self {
        let flags = phys.flags.get();
        let space = matches!(phys.kind(), Ok(ObjsetType::Zfs)) && bytes >= OBJSET_BYTES_V2;
        Self {
            space,
            objects: space && flags & objset_flags::USEROBJACCOUNTING_COMPLETE != 0,
            projects: space && bytes >= OBJSET_BYTES_V3 && flags & objset_flags::PROJECTQUOTA_COMPLETE != 0,
        }
    }

    /// The flags of an object that is written from now on.
    pub fn flag(self, object: ObjectId, flags: u8) -> u8 {
        if !self.space || is_special(object) {
            return flags;
        }
        let objects = if self.objects { dnode_flags::USEROBJUSED_ACCOUNTED } else { 0 };
        flags | dnode_flags::USERUSED_ACCOUNTED | objects
    }
}

/// The meta-dnode and the accounting objects are nobody's.
fn is_special(object: ObjectId) -> bool {
    object == ObjectId::META_DNODE || ACCOUNTS.contains(&object)
}

/// Where in the root block an accounting object's dnode lies.
pub(crate) fn slot(phys: &mut ObjsetPhys, account: ObjectId) -> Option<&mut [u8]> {
    match account {
        USERUSED_OBJECT => Some(&mut phys.userused_dnode),
        GROUPUSED_OBJECT => Some(&mut phys.groupused_dnode),
        PROJECTUSED_OBJECT => Some(&mut phys.projectused_dnode),
        _ => None,
    }
}

/// The accounting objects that a root block has.
pub(crate) fn load(
    shared: &Arc<Shared>,
    phys: &ObjsetPhys,
) -> Result<BTreeMap<ObjectId, Arc<Dnode>>, DmuError> {
    let slots = [&phys.userused_dnode, &phys.groupused_dnode, &phys.projectused_dnode];
    let mut found = BTreeMap::new();
    for (object, slot) in ACCOUNTS.into_iter().zip(slots) {
        let name = TreeName { objset: shared.id, object };
        if let Some(image) = ObjsetPhys::dnode(slot).map_err(|e| name.damaged(e.to_string()))? {
            found.insert(object, Dnode::loaded(Arc::clone(shared), object, image));
        }
    }
    Ok(found)
}

/// What one object costs its owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    owner: Owner,
    used_bytes: u64,
    flags: u8,
}

impl Charge {
    /// `None` for what is not a file's, or not counted.
    pub fn of(image: &DnodeImage) -> Option<Self> {
        let counted = dnode_flags::USERUSED_ACCOUNTED | dnode_flags::USEROBJUSED_ACCOUNTED;
        let flags = image.flags & counted;
        let owner = Owner::of_bonus(image.bonus_type, &image.bonus).filter(|_| flags != 0)?;
        Some(Self { owner, used_bytes: image.used_bytes, flags })
    }

    fn bytes(&self) -> i64 {
        if self.flags & dnode_flags::USERUSED_ACCOUNTED == 0 {
            return 0;
        }
        // Of a damaged dnode it may be anything.
        self.used_bytes.saturating_add(DNODE_SLOT_BYTES as u64) as i64
    }

    fn objects(&self) -> i64 {
        i64::from(self.flags & dnode_flags::USEROBJUSED_ACCOUNTED != 0)
    }
}

/// Changes of the accounts: by account and id.
#[derive(Default)]
pub(crate) struct Bill {
    bytes: BTreeMap<(ObjectId, u64), i64>,
    objects: BTreeMap<(ObjectId, u64), i64>,
}

impl Bill {
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.objects.is_empty()
    }

    /// Adds what an object's sync changed.
    pub fn change(&mut self, before: Option<Charge>, after: Option<Charge>) {
        for (charge, sign) in before.map(|charge| (charge, -1)).into_iter().chain(after.map(|c| (c, 1))) {
            let Owner { user, group, project } = charge.owner;
            for key in ACCOUNTS.into_iter().zip([user, group, project]) {
                *self.bytes.entry(key).or_default() += sign * charge.bytes();
                *self.objects.entry(key).or_default() += sign * charge.objects();
            }
        }
    }

    /// The entries of one account that change, by name.
    fn entries(&self, account: ObjectId) -> impl Iterator<Item = (String, i64)> {
        let of = move |all: &BTreeMap<(ObjectId, u64), i64>| -> Vec<(u64, i64)> {
            let range = all.range((account, 0)..=(account, u64::MAX));
            range.filter(|(_, delta)| **delta != 0).map(|(&(_, id), &delta)| (id, delta)).collect()
        };
        let bytes = of(&self.bytes).into_iter().map(|(id, delta)| (format!("{id:x}"), delta));
        let objects = of(&self.objects)
            .into_iter()
            .map(|(id, delta)| (format!("{OBJECT_ACCOUNTING_PREFIX}{id:x}"), delta));
        bytes.chain(objects)
    }
}

impl Objset {
    /// Has objects counted by owner too, and everything by project, as a new file system does
    /// where the pool's features allow. To be called before the first object is made.
    ///
    /// # Panics
    /// When there are objects already: they would be missing.
    pub fn account_from_birth(&self, objects: bool, projects: bool) {
        let flags = if objects { objset_flags::USEROBJACCOUNTING_COMPLETE } else { 0 }
            | if projects { objset_flags::PROJECTQUOTA_COMPLETE } else { 0 };
        self.add_flags_at_birth(flags);
    }

    /// Whether objects are counted by owner.
    #[must_use]
    pub fn accounts_objects(&self) -> bool {
        self.counts().objects
    }

    /// Whether space is counted by project.
    #[must_use]
    pub fn accounts_projects(&self) -> bool {
        self.counts().projects
    }

    /// Bytes or objects in an account (`obj-` names are numbers of objects); all of its entries.
    ///
    /// # Errors
    /// When the account cannot be read.
    #[boxed]
    pub async fn account(&self, account: ObjectId) -> Result<Vec<(String, u64)>, DmuError> {
        let Some(dnode) = self.account_dnode(account) else { return Ok(Vec::new()) };
        let zap = Zap::open(dnode).await.map_err(|error| self.account_error(account, error))?;
        let all = zap.all().await.map_err(|error| self.account_error(account, error))?;
        Ok(all
            .into_iter()
            .filter_map(|entry| {
                Some((String::from_utf8_lossy(&entry.name).into_owned(), entry.value.as_u64()?))
            })
            .collect())
    }

    /// One entry of an account; 0 where there is none.
    ///
    /// # Errors
    /// When the account cannot be read.
    #[boxed]
    pub async fn account_entry(&self, account: ObjectId, name: &str) -> Result<u64, DmuError> {
        let Some(dnode) = self.account_dnode(account) else { return Ok(0) };
        let zap = Zap::open(dnode).await.map_err(|error| self.account_error(account, error))?;
        let found = zap.lookup_u64(name.as_bytes()).await;
        Ok(found.map_err(|error| self.account_error(account, error))?.unwrap_or(0))
    }

    /// Enters a bill into the accounts, from within the sync of `txg`.
    pub(crate) async fn enter(&self, txg: Txg, bill: &Bill) -> Result<(), DmuError> {
        for account in ACCOUNTS {
            if self.has_account(account) {
                let entered = impatient(self.enter_in(txg, account, bill)).await;
                match entered.map_err(|error| self.account_error(account, error)) {
                    Err(error) if SyncRead::Account.can_lose(&error) => {
                        tracing::error!(%error, "space by owner is no longer exact");
                    }
                    entered => entered?,
                }
            }
        }
        Ok(())
    }

    /// Whether the account is kept.
    fn has_account(&self, account: ObjectId) -> bool {
        let counts = self.counts();
        if account == PROJECTUSED_OBJECT { counts.projects } else { counts.space }
    }

    async fn enter_in(&self, txg: Txg, account: ObjectId, bill: &Bill) -> Result<(), ZapError> {
        let tx = Tx::new(txg);
        let zap = match self.account_dnode(account) {
            Some(dnode) => Zap::open(dnode).await?,
            None => {
                let spec = DnodeSpec::new(ObjectType::USERGROUP_USED, 0);
                let dnode = Dnode::born(self.shared(), account, &spec);
                self.add_account(Arc::clone(&dnode));
                Zap::format(dnode, &tx, self.id().get() ^ account.get() << 1, 0, 0).await?
            }
        };
        for (name, delta) in bill.entries(account) {
            let old = zap.lookup_u64(name.as_bytes()).await?;
            match old.unwrap_or(0).wrapping_add_signed(delta) {
                0 if old.is_none() => {}
                0 => zap.remove(&tx, name.as_bytes()).await?,
                sum => zap.update_u64(&tx, name.as_bytes(), sum).await?,
            }
        }
        Ok(())
    }

    fn account_error(&self, account: ObjectId, error: ZapError) -> DmuError {
        match error {
            ZapError::Dmu(error) => error,
            other => {
                DmuError::Damaged { objset: self.id(), object: account, what: format!("accounts: {other}") }
            }
        }
    }
}
