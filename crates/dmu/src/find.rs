//! Finds one block of an objset by the name of the block.
//!
//! ```text
//!  root ─► dnode of the block of dnodes, or of an account
//!            └─► block of dnodes ─► dnode of the object ─► indirect blocks ─► pointer
//! ```

use env::boxed;
use ondisk::Blkptr;
use ondisk::dnode::{DnodeImage, dnodes_of_block};
use ondisk::objset::{GROUPUSED_OBJECT, ObjsetPhys, PROJECTUSED_OBJECT, USERUSED_OBJECT};
use units::{BlockId, Level, ObjectId};
use zio::{Bookmark, Keep, Zio};

use crate::dnode::{SPILL_BLOCK, shape_of};
use crate::objset::SLOTS_PER_BLOCK;
use crate::stored::StoredTree;
use crate::tree::TreeName;
use crate::{DmuError, Objset};

impl Objset {
    /// Returns the pointer to the block of this name in the tree below `root`. Returns `None` if
    /// there is no such block, or a hole in its place.
    ///
    /// # Errors
    /// When a block above it cannot be read.
    #[boxed]
    pub async fn find_block(zio: &Zio, root: &Blkptr, name: &Bookmark) -> Result<Option<Blkptr>, DmuError> {
        if root.is_hole() {
            return Ok(None);
        }
        let finding = Finding { zio, tree: TreeName { objset: name.objset, object: ObjectId::META_DNODE } };
        let phys = finding.objset(root).await?;
        let slot = match name.object {
            ObjectId::META_DNODE => &phys.meta_dnode,
            PROJECTUSED_OBJECT => &phys.projectused_dnode,
            GROUPUSED_OBJECT => &phys.groupused_dnode,
            USERUSED_OBJECT => &phys.userused_dnode,
            object => return finding.below_object(&phys, object, name).await,
        };
        match ObjsetPhys::dnode(slot).map_err(|error| finding.tree.damaged(error.to_string()))? {
            Some(image) => finding.below(&image, name).await,
            None => Ok(None),
        }
    }
}

/// A search for a block.
struct Finding<'a> {
    zio: &'a Zio,
    /// The tree of the blocks of dnodes.
    tree: TreeName,
}

impl Finding<'_> {
    async fn objset(&self, root: &Blkptr) -> Result<ObjsetPhys, DmuError> {
        let read = self.zio.read_as(root, &self.tree.bookmark(0, 0), Keep::InMemory).await;
        let block = read.map_err(|source| self.tree.io_error(0, source))?;
        ObjsetPhys::decode(&block).map_err(|error| self.tree.damaged(error.to_string()))
    }

    async fn below_object(
        &self,
        phys: &ObjsetPhys,
        object: ObjectId,
        name: &Bookmark,
    ) -> Result<Option<Blkptr>, DmuError> {
        let meta =
            ObjsetPhys::dnode(&phys.meta_dnode).map_err(|error| self.tree.damaged(error.to_string()))?;
        let Some(meta) = meta else { return Ok(None) };
        let block = object.get() / SLOTS_PER_BLOCK;
        let dnodes = Bookmark {
            object: ObjectId::META_DNODE,
            level: Level::new(0),
            block: BlockId::new(block),
            ..*name
        };
        let Some(bp) = self.below(&meta, &dnodes).await? else { return Ok(None) };
        let read = self.zio.read_as(&bp, &dnodes, Keep::InMemory).await;
        let data = read.map_err(|source| self.tree.io_error(block, source))?;
        let slot = (object.get() % SLOTS_PER_BLOCK) as usize;
        let Some((_, bytes)) = dnodes_of_block(&data).find(|(found, _)| *found == slot) else {
            return Ok(None);
        };
        let damaged =
            |error: ondisk::OndiskError| TreeName { object, ..self.tree }.damaged(error.to_string());
        self.below(&DnodeImage::decode(bytes).map_err(damaged)?, name).await
    }

    /// Returns the pointer to a block of an object.
    async fn below(&self, image: &DnodeImage, name: &Bookmark) -> Result<Option<Blkptr>, DmuError> {
        if name.block.get() == SPILL_BLOCK {
            return Ok(image.spill);
        }
        let (shape, level) = (shape_of(image), name.level.get());
        if level >= shape.levels {
            return Ok(None);
        }
        let first = shape.covered(level, name.block.get()).start;
        let tree = TreeName { object: name.object, ..self.tree };
        let roots = &image.blkptrs;
        let stored = StoredTree { zio: self.zio, name: tree, keep: Keep::InMemory, shape, roots };
        let found = stored.pointer(level, first).await?;
        Ok(Some(found).filter(|bp| !bp.is_hole()))
    }
}
