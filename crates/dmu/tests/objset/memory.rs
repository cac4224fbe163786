//! The memory of dirty data, as the gate counts it.

use super::world::{World, file};

const BLOCKS: u64 = 100;
const PAGE_BYTES: u64 = env::IO_ALIGN_BYTES as u64;

#[test]
fn dirty_blocks_count_as_the_memory_that_they_take() {
    let world = World::new();
    world.env.block_on(async {
        let tx = world.gate.forming();
        let dnode = world.objset.allocate(&tx, &file(512)).await.unwrap();
        let before = (world.gate.dirty_bytes(), world.gate.bytes_to_write());
        for block in 0..BLOCKS {
            dnode.write(&tx, block * 512, &[1; 512]).await.unwrap();
        }
        let dirty = world.gate.dirty_bytes() - before.0;
        assert!((BLOCKS * PAGE_BYTES..BLOCKS * PAGE_BYTES * 2).contains(&dirty), "{dirty}");
        assert_eq!(world.gate.bytes_to_write() - before.1, BLOCKS * 512);
        // A block that is written again in its txg takes no more.
        dnode.write(&tx, 0, &[2; 512]).await.unwrap();
        assert_eq!(world.gate.dirty_bytes() - before.0, dirty);
        drop(tx);
        world.sync().await;
        assert_eq!((world.gate.dirty_bytes(), world.gate.bytes_to_write()), (0, 0));
    });
}
