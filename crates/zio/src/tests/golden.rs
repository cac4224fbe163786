//! Pools made by OpenZFS. Without the golden pools these tests say so, and fail under CI.

use std::path::Path;
use std::sync::Arc;

use env::{BufSlice, Device, Durability, IoBuf, OpenMode, RamDevice};
use futures::executor::block_on;
use ondisk::ObjsetPhys;
use units::{BlockId, LeafOffset, Level, ObjectId, ObjsetId};
use vdev::{OpenSpec, VdevTree, candidates, scan};

use super::world::World;
use crate::*;

fn ram_of_file(path: &Path) -> Option<RamDevice> {
    const PIECE: usize = 1 << 20;
    let bytes = std::fs::read(path).ok()?;
    let ram = RamDevice::new(bytes.len() as u64);
    for (index, piece) in bytes.chunks(PIECE).enumerate() {
        if piece.iter().any(|byte| *byte != 0) {
            let slice = BufSlice::from(IoBuf::copy_of(piece));
            let at = LeafOffset::new((index * PIECE) as u64);
            block_on(ram.write(at, vec![slice], Durability::Cached)).expect("fits");
        }
    }
    Some(ram)
}

#[test]
fn the_mos_of_a_pool_made_by_openzfs_is_read() {
    let folder = oracle::golden::path("g03-mirror-log");
    let paths = ["a.img", "b.img", "log.img"].map(|file| folder.join(file));
    let world = World::new(paths.iter().map(|path| (path.clone(), ram_of_file(path).expect("an image"))));
    let found = block_on(scan(&(world.clone() as Arc<dyn env::Env>), &paths));
    let pool = candidates(&found).remove(0);
    let spec = OpenSpec {
        gone: &Default::default(),
        behind: &Default::default(),
        vdev_tree: &pool.vdev_tree,
        paths: &pool.paths,
        mode: OpenMode::ReadOnly,
    };
    let tree = block_on(VdevTree::open(world, &spec)).expect("a sound configuration");
    let zio = Zio::new(Arc::new(tree), 1 << 20);
    let bp = pool.uberblock.expect("an uberblock").rootbp;
    let name = Bookmark::new(ObjsetId::MOS, ObjectId::META_DNODE, Level::new(0), BlockId::new(0));
    let block = block_on(zio.read(&bp, &name)).expect("the MOS");
    assert_eq!(block.len() as u64, bp.lsize().get());
    let mos = ObjsetPhys::decode(&block).expect("an objset");
    assert_eq!(mos.objset_type.get(), 1, "the meta-objset");
}
