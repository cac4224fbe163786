//! What the accounts should hold: for checking them.

use std::collections::BTreeMap;

use env::boxed;
use units::ObjectId;

use super::{ACCOUNTS, Bill, Charge};
use crate::{DmuError, Objset};

impl Objset {
    /// The accounts as the sums over all objects, as of the last synced group: entries by account
    /// and name. Reads every dnode.
    ///
    /// # Errors
    /// When a block of dnodes cannot be read.
    #[boxed]
    pub async fn recount(&self) -> Result<BTreeMap<(ObjectId, String), u64>, DmuError> {
        let mut bill = Bill::default();
        let mut at = ObjectId::META_DNODE;
        while let Some(object) = self.next_object(at).await? {
            let image = self.load(object).await?;
            bill.change(None, image.as_ref().and_then(Charge::of));
            at = object;
        }
        let accounts = ACCOUNTS.into_iter().filter(|account| self.has_account(*account));
        let entries = accounts.flat_map(|account| {
            bill.entries(account).map(move |(name, sum)| ((account, name), sum as u64)).collect::<Vec<_>>()
        });
        Ok(entries.collect())
    }

    /// All accounts as they are, in the same form.
    ///
    /// # Errors
    /// When an account cannot be read.
    #[boxed]
    pub async fn accounts(&self) -> Result<BTreeMap<(ObjectId, String), u64>, DmuError> {
        let mut all = BTreeMap::new();
        for account in ACCOUNTS {
            let entries = self.account(account).await?;
            all.extend(entries.into_iter().map(|(name, sum)| ((account, name), sum)));
        }
        Ok(all)
    }
}
