//! Files that are made without a name (`O_TMPFILE`), and get one later or never.
//!
//! Such a file stands in the delete queue from the first moment, so that a crash or its last close frees it. No
//! log record tells of it; giving it a name goes with its txg, which whoever makes anything stable then waits for.

use std::sync::Arc;

use env::boxed;
use units::ObjectId;

use crate::access::Want;
use crate::create::{Birth, NewNode};
use crate::error::Result;
use crate::options::Cred;
use crate::sa::ZplAttr;
use crate::zfs::Zfs;
use crate::znode::{Attributes, Znode};

impl Zfs {
    /// Makes a file that has no name, and opens it; it inherits from `dir` what a file there would.
    ///
    /// # Errors
    /// [`crate::ZplError::AccessDenied`], and those of the layers below.
    #[boxed]
    pub async fn create_unnamed(&self, dir: ObjectId, permissions: u32, cred: Cred) -> Result<Attributes> {
        self.check_writable()?;
        let parent = self.directory(dir).await?;
        self.check_access(dir, Want::ADD_FILE).await?;
        let (birth, acls) = self.birth_in(&parent, NewNode::File, permissions, cred).await?;
        let made = self.bring_up_unnamed(&parent, &birth).await?;
        self.hand_on(made.object, &acls).await?;
        self.attributes(made.object).await
    }

    async fn bring_up_unnamed(&self, parent: &Znode, birth: &Birth) -> Result<Attributes> {
        let mut image = self.newborn(parent, NewNode::File, birth).await?;
        image.set_word(ZplAttr::Links, 0);
        let turn = self.queue.turn().await;
        let plan = self.plan().await?;
        let znode = self.bring_up(&plan, NewNode::File, birth, image).await?;
        turn.add(&plan, znode.object()).await?;
        znode.set_unnamed();
        znode.open()?;
        plan.apply_with(|_| self.cache.insert(Arc::clone(&znode)))?;
        Ok(znode.attributes())
    }
}
