//! Objsets over a RAM device: written, synced, read back, emptied.

use std::collections::BTreeMap;
use std::sync::Arc;

use dmu::{DmuError, Dnode, DnodeSpec, Objset, SeekTo, Tx};
use env::{BoxFuture, IoBuf};
use ondisk::ObjectType;
use ondisk::zil::ZilHeader;
use proptest::prelude::*;
use units::{BlockId, ObjectId, Txg};
use zio::PointerForms;

mod damaged;
mod memory;
mod numbers;
mod plans;
mod sparse;

mod world;

use world::{FIRST, World, file};

async fn read(objset: &Arc<Objset>, object: ObjectId, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xee; len];
    objset.hold(object).await.unwrap().read(offset, &mut bytes).await.unwrap();
    bytes
}

#[test]
fn what_a_group_wrote_is_read_before_during_and_after_its_sync() {
    let world = World::new();
    world.env.block_on(async {
        let tx = world.objset.txgs().forming();
        let dnode = world.objset.allocate(&tx, &file(4096)).await.unwrap();
        dnode.write(&tx, 1000, &[7; 10_000]).await.unwrap();
        dnode.set_bonus(&tx, ObjectType::SA, b"attributes").unwrap();
        let object = dnode.object();
        drop(dnode);
        assert_eq!(read(&world.objset, object, 1000, 10_000).await, vec![7; 10_000]);
        world.sync().await;
        assert_eq!(read(&world.objset, object, 999, 3).await, [0, 7, 7]);
        let disk = world.reopened().await;
        assert_eq!(read(&disk, object, 1000, 10_000).await, vec![7; 10_000]);
        assert_eq!(disk.hold(object).await.unwrap().bonus(), b"attributes");
        assert_eq!(disk.next_object(ObjectId::new(0)).await.unwrap(), Some(object));
    });
}

#[test]
fn a_sparse_file_of_many_levels_finds_every_byte_again() {
    let world = World::new();
    world.env.block_on(async {
        let offsets = [0u64, 5 << 20, 1 << 32, (1 << 40) - 3, 1 << 50];
        let tx = world.objset.txgs().forming();
        let dnode = world.objset.allocate(&tx, &file(128 << 10)).await.unwrap();
        for (i, &offset) in offsets.iter().enumerate() {
            dnode.write(&tx, offset, &[i as u8 + 1; 5]).await.unwrap();
            if i == 2 {
                drop(world.gate.join());
            }
        }
        world.sync().await;
        let disk = world.reopened().await;
        for (i, &offset) in offsets.iter().enumerate() {
            assert_eq!(read(&disk, dnode.object(), offset, 5).await, vec![i as u8 + 1; 5], "at {offset}");
        }
        let held = disk.hold(dnode.object()).await.unwrap();
        assert_eq!(held.seek(1, SeekTo::Hole).await.unwrap(), Some(128 << 10));
        assert_eq!(held.seek(6 << 20, SeekTo::Data).await.unwrap(), Some(1 << 32));
        assert_eq!(
            held.seek((1 << 32) + (128 << 10), SeekTo::Data).await.unwrap(),
            Some((1 << 40) - (128 << 10))
        );
    });
}

#[test]
fn a_freed_object_gives_back_all_its_space_and_its_number() {
    let world = World::new();
    world.env.block_on(async {
        let tx = world.objset.txgs().forming();
        let keep = world.objset.allocate(&tx, &file(4096)).await.unwrap();
        world.sync().await;
        let before = world.allocated();
        let tx = world.objset.txgs().forming();
        let big = world.objset.allocate(&tx, &file(4096)).await.unwrap();
        let mut word = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            word as u8
        })
        .take(3_000_000)
        .collect();
        big.write(&tx, 0, &noise).await.unwrap();
        world.sync().await;
        assert!(world.allocated() > before + 2_000_000);
        let tx = world.objset.txgs().forming();
        world.objset.free_object(&tx, big.object()).await.unwrap();
        assert!(matches!(world.objset.hold(big.object()).await, Err(DmuError::NoSuchObject { .. })));
        world.sync().await;
        assert_eq!(world.allocated(), before);
        let tx = world.objset.txgs().forming();
        let again = world.objset.allocate_at(&tx, big.object(), &file(512)).await.unwrap();
        assert_eq!(again.block_bytes(), 512);
        assert!(world.objset.allocate_at(&tx, keep.object(), &file(512)).await.is_err());
    });
}

#[derive(Clone, Debug)]
enum Op {
    Write { offset: u64, len: usize, byte: u8 },
    Free { offset: u64, len: u64 },
    Spill(Option<usize>),
    Sync,
    Half,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0u64..2_000_000, 1usize..40_000, 1u8..).prop_map(|(offset, len, byte)| Op::Write { offset, len, byte }),
        3 => (0u64..2_000_000, prop_oneof![1u64..600_000, Just(u64::MAX)]).prop_map(|(offset, len)| Op::Free { offset, len }),
        1 => proptest::option::of(1usize..9000).prop_map(Op::Spill),
        2 => Just(Op::Sync),
        1 => Just(Op::Half),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn an_object_reads_as_a_plain_array_after_any_operations(ops in prop::collection::vec(op(), 1..40), shift in 9u32..14) {
        let world = World::new();
        world.env.block_on(async {
            let mut model = vec![0u8; 2_100_000];
            let mut spill: Option<Vec<u8>> = None;
            let tx = world.objset.txgs().forming();
            let spec = DnodeSpec { indirect_shift: 12, ..file(1 << shift) };
            let dnode = world.objset.allocate(&tx, &spec).await.unwrap();
            for op in &ops {
                let tx = world.objset.txgs().forming();
                match *op {
                    Op::Write { offset, len, byte } => {
                        dnode.write(&tx, offset, &vec![byte; len]).await.unwrap();
                        model[offset as usize..offset as usize + len].fill(byte);
                    }
                    Op::Free { offset, len } => {
                        dnode.free_range(&tx, offset, len).await.unwrap();
                        let end = offset.saturating_add(len).min(model.len() as u64);
                        model[offset as usize..end as usize].fill(0);
                    }
                    Op::Spill(len) => {
                        spill = len.map(|len| (0..len).map(|i| i as u8 | 1).collect());
                        dnode.set_spill(&tx, spill.as_deref()).unwrap();
                    }
                    Op::Sync => { drop(tx); world.sync().await; }
                    Op::Half => {}
                }
            }
            let mut now = vec![1; model.len()];
            dnode.read(0, &mut now).await.unwrap();
            assert!(now == model, "in memory");
            // Unaligned at both ends: what lies in memory is cut there, too.
            let part = model.len() / 7..model.len() - model.len() / 5;
            let shared = dnode.read_shared(part.start as u64, part.len()).await.unwrap();
            let shared: Vec<&[u8]> = shared.iter().map(env::BufSlice::bytes).collect();
            assert!(shared.concat() == model[part], "shared");
            world.sync().await;
            let disk = world.reopened().await;
            let held = disk.hold(dnode.object()).await.unwrap();
            held.read(0, &mut now).await.unwrap();
            assert!(now == model, "on disk");
            let stored = held.spill().await.unwrap();
            assert_eq!(stored.as_ref().map(|s| &s[..spill.as_ref().map_or(0, Vec::len)]), spill.as_deref());
            // Everything allocated is what the root leads to.
            let blocks: BTreeMap<_, _> = disk.all_blocks().await.unwrap().iter().map(|bp| (format!("{:?}", bp.dva(0)), bp.asize_total().get())).collect();
            assert_eq!(blocks.values().sum::<u64>(), world.allocated());
            // And goes with the object.
            let tx = world.objset.txgs().forming();
            world.objset.free_object(&tx, dnode.object()).await.unwrap();
            world.sync().await;
            let left: u64 = world.objset.all_blocks().await.unwrap().iter().map(|bp| bp.asize_total().get()).sum();
            assert_eq!(left, world.allocated());
        });
    }
}

#[test]
fn visits_of_any_size_see_every_block_once() {
    let world = World::new();
    world.env.block_on(async {
        for (object, blocks) in [(1_u64, 3_u64), (2, 300), (40, 1), (70, 40)] {
            let tx = world.gate.forming();
            let spec = DnodeSpec { indirect_shift: 12, ..file(4096) };
            let dnode = world.objset.allocate_at(&tx, ObjectId::new(object), &spec).await.unwrap();
            for block in 0..blocks {
                dnode.write(&tx, block * 4096 * 3, &[block as u8 ^ 0x55; 4096]).await.unwrap();
            }
            drop(tx);
            world.sync().await;
        }
        let mut all = world.objset.all_blocks().await.unwrap();
        let key = |bp: &ondisk::Blkptr| (bp.dva(0).offset, bp.birth());
        all.sort_by_key(key);
        let root = world.objset.root();
        for limit in [1, 2, 7, 10_000] {
            let (mut seen, mut from) = (Vec::new(), dmu::Place::START);
            loop {
                let reach = dmu::Reach { from, born_after: Txg::ZERO, limit };
                let visited = Objset::visit(&world.zio, world.objset.id(), &root, reach).await;
                assert!(visited.lost.is_empty() && visited.blocks.len() <= limit);
                seen.extend(visited.blocks.into_iter().map(|(_, bp)| bp));
                let Some(next) = visited.next else { break };
                assert!(next > from, "{next:?} after {from:?}");
                assert!(dmu::Place::from_words(next.to_words()) <= next);
                from = next;
            }
            seen.sort_by_key(key);
            assert_eq!(seen.len(), all.len(), "limit {limit}");
            assert_eq!(seen, all);
        }
        let reach = dmu::Reach { from: dmu::Place::START, born_after: FIRST, limit: 10_000 };
        let young = Objset::visit(&world.zio, world.objset.id(), &root, reach).await;
        let want = all.iter().filter(|bp| bp.birth() > FIRST).count();
        assert_eq!(young.blocks.len(), want);
        assert!(want < all.len());
    });
}

/// Birth, size and level of the hole at a block; `None`: no hole.
async fn hole(dnode: &dmu::Dnode, block: u64) -> Option<(Txg, u64, u8)> {
    let bp = dnode.synced_blkptr(BlockId::new(block)).await.unwrap();
    bp.is_hole().then(|| (bp.birth(), bp.lsize().get(), bp.level().get()))
}

#[test]
fn a_hole_that_was_punched_tells_when() {
    let world = World::new();
    world.zio.set_pointer_forms(PointerForms { hole_births: true, ..PointerForms::default() });
    world.env.block_on(async {
        const BLOCK: u64 = 4096;
        let tx = world.objset.txgs().forming();
        let dnode = world.objset.allocate(&tx, &file(BLOCK as u32)).await.unwrap();
        dnode.write(&tx, 0, &vec![7; 100 * BLOCK as usize]).await.unwrap();
        world.sync().await;
        assert_eq!(hole(&dnode, 5).await, None);
        assert_eq!(hole(&dnode, 200).await, Some((Txg::ZERO, 512, 0)), "never written");

        let tx = world.objset.txgs().forming();
        let punched = tx.txg();
        dnode.free_range(&tx, 10 * BLOCK, 10 * BLOCK).await.unwrap();
        dnode.write(&tx, 30 * BLOCK, &[0; BLOCK as usize]).await.unwrap();
        dnode.write(&tx, 300 * BLOCK, &[0; BLOCK as usize]).await.unwrap();
        world.sync().await;
        for block in [10, 19, 30] {
            assert_eq!(hole(&dnode, block).await, Some((punched, BLOCK, 0)), "block {block}");
        }
        assert_eq!(hole(&dnode, 300).await, Some((Txg::ZERO, 512, 0)), "zeros where nothing was");
        assert_eq!(hole(&dnode, 20).await, None);

        let tx = world.objset.txgs().forming();
        let emptied = tx.txg();
        dnode.free_range(&tx, 5 * BLOCK, 1000 * BLOCK).await.unwrap();
        world.sync().await;
        assert_eq!(hole(&dnode, 10).await, Some((punched, BLOCK, 0)), "a hole stays as old as it was");
        assert_eq!(hole(&dnode, 50).await, Some((emptied, BLOCK, 0)));

        let tx = world.objset.txgs().forming();
        let gone = tx.txg();
        dnode.free_range(&tx, 0, u64::MAX).await.unwrap();
        world.sync().await;
        let tx = world.objset.txgs().forming();
        dnode.write(&tx, 70 * BLOCK, &[1; 5]).await.unwrap();
        // Higher by a level: what is below it keeps its births.
        dnode.write(&tx, 5000 * BLOCK, &[2; 5]).await.unwrap();
        world.sync().await;
        for block in [0, 10, 69, 71] {
            assert_eq!(hole(&dnode, block).await, Some((gone, BLOCK, 0)), "block {block}");
        }
        assert_eq!(hole(&dnode, 70).await, None);
        assert_eq!(hole(&dnode, 5001).await, Some((Txg::ZERO, 512, 0)));
        let disk = world.reopened().await;
        let held = disk.hold(dnode.object()).await.unwrap();
        assert_eq!(held.seek(0, SeekTo::Data).await.unwrap(), Some(70 * BLOCK));
        assert_eq!(held.seek(71 * BLOCK, SeekTo::Data).await.unwrap(), Some(5000 * BLOCK));
    });
}

#[test]
fn an_objset_is_taken_apart_in_any_steps() {
    let world = World::new();
    world.env.block_on(async {
        for (object, blocks) in [(1_u64, 3_u64), (2, 300), (40, 1), (70, 40)] {
            let tx = world.gate.forming();
            let spec = DnodeSpec { indirect_shift: 12, ..file(4096) };
            let dnode = world.objset.allocate_at(&tx, ObjectId::new(object), &spec).await.unwrap();
            for block in 0..blocks {
                dnode.write(&tx, block * 4096 * 3, &[block as u8 ^ 0x55; 4096]).await.unwrap();
            }
            dnode.set_spill(&tx, Some(&[object as u8; 700])).unwrap();
            drop(tx);
            world.sync().await;
        }
        let key = |bp: &ondisk::Blkptr| (bp.dva(0).offset, bp.birth());
        let mut all = world.objset.all_blocks().await.unwrap();
        all.sort_by_key(key);
        let whole = dmu::DestroyedObjset { root: world.objset.root(), born_after: Txg::ZERO, from: None };
        for limit in [1, 2, 7, 100, 10_000] {
            let (mut taken, mut destroyed) = (Vec::new(), whole);
            loop {
                let step = Objset::take_apart(&world.zio, &destroyed, limit).await.unwrap();
                taken.extend(step.blocks);
                if step.next.is_none() {
                    break;
                }
                assert_ne!(step.next, destroyed.from);
                destroyed.from = step.next;
            }
            assert!(taken.last() == Some(&whole.root), "the root goes last");
            taken.sort_by_key(key);
            assert!(taken == all, "{} of {} blocks with limit {limit}", taken.len(), all.len());
        }
        let young = dmu::DestroyedObjset { born_after: FIRST, ..whole };
        let young = Objset::take_apart(&world.zio, &young, 10_000).await.unwrap();
        let want: Vec<_> = all.iter().filter(|bp| bp.birth() > FIRST).collect();
        assert!(young.blocks.len() == want.len() && want.len() < all.len());
    });
}

/// Objects as in a directory tree with many files: empty, or with all their data in their dnodes.
#[test]
fn objects_without_blocks_are_taken_apart_in_steps_too() {
    const OBJECTS: u64 = 32 * 40;
    const LIMIT: usize = 4;
    let world = World::new();
    world.env.block_on(async {
        let tx = world.gate.forming();
        for object in 1..OBJECTS {
            world.objset.allocate_at(&tx, ObjectId::new(object), &file(512)).await.unwrap();
        }
        drop(tx);
        world.sync().await;
        let mut all: Vec<_> = world.objset.all_blocks().await.unwrap();
        let mut destroyed =
            dmu::DestroyedObjset { root: world.objset.root(), born_after: Txg::ZERO, from: None };
        let (mut taken, mut steps) = (Vec::new(), 0);
        loop {
            let step = Objset::take_apart(&world.zio, &destroyed, LIMIT).await.unwrap();
            // A step may also include the objects of one block of dnodes, and at the end the blocks
            // above the last block.
            assert!(step.work() <= LIMIT + 32 + 8, "{} blocks and objects in one step", step.work());
            taken.extend(step.blocks);
            steps += 1;
            destroyed.from = step.next;
            if step.next.is_none() {
                break;
            }
        }
        let key = |bp: &ondisk::Blkptr| (bp.dva(0).offset, bp.birth());
        taken.sort_by_key(key);
        all.sort_by_key(key);
        assert!(taken == all, "{} of {} blocks", taken.len(), all.len());
        assert!(steps >= 40, "{steps} steps");
    });
}

type Change = for<'a> fn(&'a World, &'a Tx, &'a Dnode) -> BoxFuture<'a, ()>;

/// Every way to change an objset that holds a file of three blocks.
const CHANGES: [(&str, Change); 9] = [
    ("a new object", |world, tx, _| {
        Box::pin(async { drop(world.objset.allocate(tx, &file(512)).await.unwrap()) })
    }),
    ("bytes", |_, tx, dnode| Box::pin(async { dnode.write(tx, 700, &[1; 9]).await.unwrap() })),
    ("a whole block", |_, tx, dnode| {
        let block = Arc::new(IoBuf::copy_of(&[2; 4096]));
        Box::pin(async { dnode.write_block(tx, BlockId::new(7), block).await.unwrap() })
    }),
    ("a bonus", |_, tx, dnode| Box::pin(async { dnode.set_bonus(tx, ObjectType::SA, &[3; 168]).unwrap() })),
    ("a spill block", |_, tx, dnode| Box::pin(async { dnode.set_spill(tx, Some(&[4; 700])).unwrap() })),
    ("a hole", |_, tx, dnode| Box::pin(async { dnode.free_range(tx, 4096, 4096).await.unwrap() })),
    ("no spill block", |_, tx, dnode| Box::pin(async { dnode.set_spill(tx, None).unwrap() })),
    ("a log header", |world, tx, _| {
        let header = ZilHeader { replay_seq: 5.into(), ..ZilHeader::default() };
        Box::pin(async move { world.objset.set_zil_header(tx.txg(), header) })
    }),
    ("no object", |world, tx, dnode| {
        Box::pin(async { world.objset.free_object(tx, dnode.object()).await.unwrap() })
    }),
];

#[test]
fn every_changed_objset_is_on_the_list_of_its_group() {
    let world = World::new();
    world.env.block_on(async {
        let tx = world.gate.forming();
        let dnode = world.objset.allocate(&tx, &file(4096)).await.unwrap();
        dnode.write(&tx, 0, &[5; 3 * 4096]).await.unwrap();
        drop(tx);
        world.sync().await;
        for (what, change) in CHANGES {
            let tx = world.gate.forming();
            // What an older sync entered while it was under way.
            drop(world.gate.take_changed(tx.txg()));
            change(&world, &tx, &dnode).await;
            // The sync loop looks as soon as the last transaction of the txg is gone.
            let listed = world.gate.take_changed(tx.txg());
            assert_eq!(listed.into_iter().collect::<Vec<_>>(), [world.objset.id()], "{what}");
            drop(tx);
            let before = world.objset.root();
            world.sync().await;
            assert_ne!(world.objset.root(), before, "{what} is a change that a sync writes");
        }
        let before = world.objset.root();
        world.sync().await;
        assert_eq!(world.objset.root(), before, "nothing was changed");
    });
}
