//! Objects with more holes than data: what finding and freeing costs.

use dmu::{Dnode, Estimate, SeekTo};

use super::world::{World, file};

const BLOCK: u64 = 128 << 10;
/// The last block that a file may have, and some before it that are far apart.
const FAR: [u64; 5] = [0, 1 << 20, 1 << 33, 1 << 45, (1 << 46) - 1];

/// Writes blocks of one object and syncs them.
async fn write_blocks(world: &World, dnode: &Dnode, blocks: impl IntoIterator<Item = u64>) {
    let tx = world.gate.forming();
    let bytes = u64::from(dnode.block_bytes());
    for block in blocks {
        dnode.write(&tx, block * bytes, &[block as u8 | 1; 100]).await.unwrap();
    }
    world.sync().await;
}

async fn new_file(world: &World, block_bytes: u32) -> std::sync::Arc<Dnode> {
    let tx = world.gate.forming();
    world.objset.allocate(&tx, &file(block_bytes)).await.unwrap()
}

#[test]
fn a_hole_of_any_size_costs_no_more_than_what_is_beside_it() {
    let world = World::new();
    world.env.block_on(async {
        let dnode = new_file(&world, BLOCK as u32).await;
        write_blocks(&world, &dnode, FAR).await;
        let before = world.reads();
        for pair in FAR.windows(2) {
            let found = dnode.seek((pair[0] + 1) * BLOCK, SeekTo::Data).await.unwrap();
            assert_eq!(found, Some(pair[1] * BLOCK));
        }
        let tx = world.gate.forming();
        dnode.free_range(&tx, BLOCK, u64::MAX).await.unwrap();
        // Known to be freed, and not yet synced.
        assert_eq!(dnode.seek(BLOCK, SeekTo::Data).await.unwrap(), None);
        drop(tx);
        world.sync().await;
        assert_eq!(dnode.seek(BLOCK, SeekTo::Data).await.unwrap(), None);
        let reads = world.reads() - before;
        assert!(reads < 100_000, "{reads} reads for {} blocks", FAR.len());
    });
}

#[test]
fn a_hole_is_found_behind_much_data_without_reading_all_its_pointers() {
    let world = World::new();
    world.env.block_on(async {
        let dnode = new_file(&world, 512).await;
        write_blocks(&world, &dnode, (0..20_000).chain([30_000])).await;
        let before = world.reads();
        assert_eq!(dnode.seek(0, SeekTo::Hole).await.unwrap(), Some(20_000 * 512));
        let reads = world.reads() - before;
        assert!(reads < 4000, "{reads} reads");
    });
}

#[test]
fn a_free_is_cut_by_what_there_is_to_free() {
    let world = World::new();
    world.env.block_on(async {
        let empty = new_file(&world, BLOCK as u32).await;
        write_blocks(&world, &empty, FAR).await;
        let piece = empty.last_piece(0, u64::MAX).await.unwrap();
        assert_eq!(piece.offset, 0, "five blocks are one piece, however far apart");
        assert!((5..1000).contains(&piece.blocks), "{piece:?}");

        let full = new_file(&world, 512).await;
        write_blocks(&world, &full, 0..70_000).await;
        write_blocks(&world, &full, [1 << 40]).await;
        let (mut end, mut pieces, mut blocks) = (u64::MAX, 0, 0);
        while end > 1000 {
            let piece = full.last_piece(1000, end).await.unwrap();
            assert!(piece.offset < end && piece.blocks < 35_000, "{piece:?}");
            (end, pieces, blocks) = (piece.offset, pieces + 1, blocks + piece.blocks);
        }
        assert_eq!((end, pieces), (1000, 3));
        assert!((70_000..80_000).contains(&blocks), "{blocks}");
    });
}

#[test]
fn what_is_not_yet_synced_counts_in_a_piece_too() {
    let world = World::new();
    world.env.block_on(async {
        let dnode = new_file(&world, 512).await;
        let tx = world.gate.forming();
        dnode.write(&tx, 1 << 40, &vec![7; 50_000 * 512]).await.unwrap();
        let piece = dnode.last_piece(0, u64::MAX).await.unwrap();
        assert!(piece.offset > 1 << 40, "{piece:?}");
        assert!(dnode.blocks_to_free() >= 50_000);
        dnode.free_piece(&tx, &piece).await.unwrap();
        let rest = dnode.last_piece(0, piece.offset).await.unwrap();
        assert_eq!(rest.offset, 0);
        assert!((50_000..52_000).contains(&(piece.blocks + rest.blocks)));
    });
}

#[test]
fn a_txg_takes_only_so_much_freeing() {
    let world = World::new();
    world.env.block_on(async {
        let freeing = Estimate { frees: true, freed_blocks: 100_000, ..Estimate::default() };
        let dnode = new_file(&world, 512).await;
        write_blocks(&world, &dnode, 0..100).await;
        let plan = world.objset.plan(freeing).await.unwrap();
        let piece = dmu::FreePiece { offset: 0, end: u64::MAX, blocks: 100_000 };
        dnode.free_piece(&plan, &piece).await.unwrap();
        let txg = plan.apply().unwrap();
        let mut waiting = std::pin::pin!(world.objset.plan(freeing));
        assert!(futures::poll!(&mut waiting).is_pending(), "the txg has enough to free");
        drop(world.objset.plan(Estimate::default()).await.unwrap());
        drop(world.objset.plan(Estimate { freed_blocks: 100, ..freeing }).await.unwrap());
        world.sync().await;
        assert!(waiting.await.unwrap().apply().unwrap() > txg);
    });
}
