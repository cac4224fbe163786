//! Every block of an objset: for destroying it, and for checking space. And one, by its name.

use env::boxed;
use ondisk::Blkptr;
use ondisk::dnode::{DnodeImage, dnodes_of_block};
use units::{BlockId, ObjectId};
use zio::Bookmark;

use crate::account::ACCOUNTS;
use crate::objset::SLOTS_PER_BLOCK;
use crate::tree::{self, TreeName};
use crate::{DmuError, Objset};

impl Objset {
    /// All blocks of the objset as of its last synced txg, the root included; holes and
    /// embedded blocks are not among them.
    ///
    /// # Errors
    /// When one that leads to others cannot be read.
    #[boxed]
    pub async fn all_blocks(&self) -> Result<Vec<Blkptr>, DmuError> {
        let mut found = vec![self.root()];
        let meta = self.meta().synced_image();
        self.blocks_of(ObjectId::META_DNODE, &meta, &mut found).await?;
        for block in 0..=meta.max_block_id.get() {
            let data = self.meta().read_block(BlockId::new(block)).await?;
            for (slot, bytes) in dnodes_of_block(&data) {
                let object = ObjectId::new(block * SLOTS_PER_BLOCK + slot as u64);
                let name = TreeName { objset: self.id(), object };
                let image = DnodeImage::decode(bytes).map_err(|e| name.damaged(e.to_string()))?;
                self.blocks_of(object, &image, &mut found).await?;
            }
        }
        for account in ACCOUNTS {
            if let Some(dnode) = self.account_dnode(account) {
                self.blocks_of(account, &dnode.synced_image(), &mut found).await?;
            }
        }
        found.retain(|bp| !bp.is_hole() && !bp.is_embedded());
        Ok(found)
    }

    /// Whether `bp` is what leads to the block of this name in the last synced tree: whether that
    /// block is alive.
    ///
    /// # Errors
    /// When a block above it cannot be read.
    #[boxed]
    pub async fn is_alive(&self, name: &Bookmark, bp: &Blkptr) -> Result<bool, DmuError> {
        let root = self.root();
        Ok(root == *bp || Self::find_block(self.zio(), &root, name).await? == Some(*bp))
    }

    async fn blocks_of(
        &self,
        object: ObjectId,
        image: &DnodeImage,
        found: &mut Vec<Blkptr>,
    ) -> Result<(), DmuError> {
        let name = TreeName { objset: self.id(), object };
        let shape = crate::dnode::shape_of(image);
        for (index, bp) in image.blkptrs.iter().enumerate() {
            tree::collect(self.zio(), name, shape, shape.levels - 1, index as u64, *bp, found).await?;
        }
        found.extend(image.spill);
        Ok(())
    }
}
