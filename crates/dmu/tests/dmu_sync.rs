//! Blocks written before their txg: taken over, or written again and freed.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use device::{Options, RealEnv};
use dmu::{Dnode, DnodeSpec, EarlyBlock, EarlyWrite, Objset, ObjsetContext, ObjsetProps, Tx, TxgGate};
use env::{Durability, Env, IoBuf, RamDevice};
use metaslab::Class;
use ondisk::objset::ObjsetType;
use ondisk::{Blkptr, ObjectType};
use units::{BlockId, ObjsetId, Txg};
use vdev::{NewVdev, VdevTree};
use zio::{PointerForms, Zio};

const FIRST: Txg = Txg::new(4);
const BLOCK: usize = 128 << 10;

struct World {
    env: Arc<RealEnv>,
    zio: Arc<Zio>,
    gate: Arc<TxgGate>,
    objset: Arc<Objset>,
}

impl World {
    fn new() -> Self {
        let env = RealEnv::new(Options::default());
        env.register("ram:a", Arc::new(RamDevice::new(256 << 20)));
        let vdev = NewVdev {
            paths: vec![PathBuf::from("ram:a")],
            ashift: None,
            bias: vdev::Bias::None,
            create_txg: 4,
            parity: 0,
            ..NewVdev::default()
        };
        let dynamic: Arc<dyn Env> = env.clone();
        let tree = Arc::new(env.block_on(VdevTree::create(dynamic, &[vdev])).unwrap());
        let zio = Arc::new(Zio::new(Arc::clone(&tree), 64 << 20));
        zio.set_pointer_forms(PointerForms { embedded: true, ..PointerForms::default() });
        zio.add_vdev(&tree.tops()[0]).unwrap();
        let gate = TxgGate::new(FIRST.prev(), 64 << 20);
        let objset = Objset::create(Self::context(&zio, &gate), ObjsetType::Zfs);
        Self { env, zio, gate, objset }
    }

    fn context(zio: &Arc<Zio>, gate: &Arc<TxgGate>) -> ObjsetContext {
        let props = ObjsetProps::dataset_default();
        ObjsetContext { id: ObjsetId::new(54), zio: Arc::clone(zio), gate: Arc::clone(gate), props }
    }

    async fn begin(&self) -> Tx {
        self.gate.forming()
    }

    /// A file with one block of noise in the open txg.
    async fn file(&self, seed: u64) -> Arc<Dnode> {
        self.file_of(BLOCK, seed).await
    }

    async fn file_of(&self, block_bytes: usize, seed: u64) -> Arc<Dnode> {
        let tx = self.begin().await;
        let spec = DnodeSpec::new(ObjectType::PLAIN_FILE_CONTENTS, block_bytes as u32);
        let dnode = self.objset.allocate(&tx, &spec).await.unwrap();
        dnode.write(&tx, 0, &noise(block_bytes, seed)).await.unwrap();
        dnode
    }

    fn place(&self, dnode: &Dnode) -> Option<EarlyBlock> {
        self.objset.place_early(dnode, self.gate.open_txg(), BlockId::new(0))
    }

    fn placed(&self, dnode: &Dnode) -> EarlyWrite {
        match self.place(dnode) {
            Some(EarlyBlock::Placed(write)) => write,
            other => panic!("not placed: {}", other.is_some()),
        }
    }

    /// The block placed and written.
    async fn write_early(&self, dnode: &Dnode) -> Blkptr {
        let write = self.placed(dnode);
        for dva in write.bp().dvas() {
            write.write(dva, Durability::Stable).await.unwrap();
        }
        write.ended(true);
        *write.bp()
    }

    /// One txg, with what the pool's sync loop does for an objset.
    async fn sync(&self) {
        let quiet = self.gate.quiesce().await;
        let txg = quiet.txg();
        if let Some(synced) = self.objset.sync(txg).await.unwrap() {
            for bp in synced.killed.iter().chain(&synced.unused) {
                self.zio.free(txg, bp).await.unwrap();
            }
        }
        self.zio.with_allocator(|allocator| {
            allocator.take_changes(txg);
            allocator.sync_done(txg);
        });
        self.gate.finish(quiet);
    }

    /// What is allocated is what can be reached.
    async fn check_space(&self, what: &str) {
        let objset = Objset::open(Self::context(&self.zio, &self.gate), self.objset.root()).await.unwrap();
        let blocks = objset.all_blocks().await.unwrap();
        let reached: u64 = blocks.iter().flat_map(Blkptr::dvas).map(|dva| dva.asize.get()).sum();
        assert_eq!(self.allocated(), reached, "{what}");
    }

    fn allocated(&self) -> u64 {
        self.zio.with_allocator(|allocator| allocator.space(Class::Normal).allocated.get())
    }

    async fn read(&self, dnode: &Dnode, len: usize) -> Vec<u8> {
        self.zio.set_cache_limit(0);
        let objset = Objset::open(Self::context(&self.zio, &self.gate), self.objset.root()).await.unwrap();
        let mut bytes = vec![0xee; len];
        objset.hold(dnode.object()).await.unwrap().read(0, &mut bytes).await.unwrap();
        self.zio.set_cache_limit(64 << 20);
        bytes
    }
}

/// Bytes that do not compress.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let roll = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(roll).flatten().take(len).collect()
}

#[test]
fn a_block_written_early_is_not_written_again() {
    let world = World::new();
    world.env.block_on(async {
        let dnode = world.file(1).await;
        let bp = world.write_early(&dnode).await;
        assert_eq!(bp.birth(), world.gate.open_txg());
        assert!(
            matches!(world.place(&dnode), Some(EarlyBlock::Before(place)) if place == bp),
            "it has a place"
        );
        world.sync().await;
        assert_eq!(dnode.synced_blkptr(BlockId::new(0)).await.unwrap(), bp);
        assert_eq!(world.read(&dnode, BLOCK).await, noise(BLOCK, 1));
        world.check_space("taken over").await;
    });
}

/// What may happen to a block between its being written early and the end of its txg.
#[derive(Clone, Copy, Debug)]
enum Then {
    PartChanges,
    Changes,
    SameBytesAgain,
    IsFreed,
    FileGoes,
    GrowsBlock,
    WriteFails,
    NeverBegins,
}

impl Then {
    async fn happen(self, world: &World, dnode: &Arc<Dnode>) -> Vec<u8> {
        let mut expected = noise(BLOCK, 1);
        let tx = world.begin().await;
        match self {
            Self::PartChanges => {
                dnode.write(&tx, 1000, &[7; 3000]).await.unwrap();
                expected[1000..4000].fill(7);
            }
            Self::Changes => {
                expected = noise(BLOCK, 2);
                dnode.write(&tx, 0, &expected).await.unwrap();
            }
            Self::SameBytesAgain => {
                let data = Arc::new(IoBuf::copy_of(&expected));
                dnode.write_block(&tx, BlockId::new(0), data).await.unwrap();
            }
            Self::IsFreed => {
                dnode.free_range(&tx, 0, u64::MAX).await.unwrap();
                expected.fill(0);
            }
            Self::FileGoes => world.objset.free_object(&tx, dnode.object()).await.unwrap(),
            Self::GrowsBlock => {
                dnode.set_block_bytes(&tx, 2 * BLOCK as u32).await.unwrap();
                expected.resize(2 * BLOCK, 0);
            }
            Self::WriteFails | Self::NeverBegins => {}
        }
        expected
    }
}

#[test]
fn a_block_that_changed_after_it_was_written_early_is_written_again() {
    use Then::*;
    let all = [PartChanges, Changes, SameBytesAgain, IsFreed, FileGoes, GrowsBlock, WriteFails, NeverBegins];
    for then in all {
        let world = World::new();
        world.env.block_on(async {
            let dnode = world.file(1).await;
            let bp = match then {
                WriteFails => {
                    let write = world.placed(&dnode);
                    write.ended(false);
                    *write.bp()
                }
                NeverBegins => *world.placed(&dnode).bp(),
                _ => world.write_early(&dnode).await,
            };
            let expected = then.happen(&world, &dnode).await;
            world.sync().await;
            world.check_space(&format!("{then:?}")).await;
            if !matches!(then, FileGoes) {
                let now = dnode.synced_blkptr(BlockId::new(0)).await.unwrap();
                assert_ne!(now.dva(0), bp.dva(0), "{then:?}: a place that the log names is left alone");
                assert!(world.read(&dnode, expected.len()).await == expected, "{then:?}");
            }
        });
    }
}

#[test]
fn places_of_blocks_written_early_are_taken_over_or_freed() {
    let world = World::new();
    world.env.block_on(async {
        let dnode = world.file(0).await;
        let mut places = BTreeSet::new();
        for seed in 1..20 {
            let bp = world.write_early(&dnode).await;
            assert!(places.insert((bp.dva(0).vdev, bp.dva(0).offset)), "a place given twice in a group");
            let tx = world.begin().await;
            dnode.write(&tx, 0, &noise(BLOCK, seed)).await.unwrap();
        }
        let last = world.write_early(&dnode).await;
        assert!(world.allocated() >= 20 * BLOCK as u64, "all are kept until the group is stable");
        world.sync().await;
        assert_eq!(dnode.synced_blkptr(BlockId::new(0)).await.unwrap(), last);
        world.check_space("the newest").await;
    });
}

#[test]
fn each_of_two_groups_has_its_own_bytes_written_early() {
    let world = World::new();
    world.env.block_on(async {
        let dnode = world.file(1).await;
        let first = world.gate.open_txg();
        // Holds the txg while the next one opens.
        let held = world.gate.join().unwrap();
        let mut quiesce = Box::pin(world.gate.quiesce());
        assert!(futures::poll!(quiesce.as_mut()).is_pending());
        let tx = world.begin().await;
        assert_eq!(tx.txg(), first.next());
        dnode.write(&tx, 0, &noise(BLOCK, 2)).await.unwrap();
        drop(tx);
        let EarlyBlock::Placed(older) =
            world.objset.place_early(&dnode, first, BlockId::new(0)).expect("somebody is in the group")
        else {
            panic!("not placed")
        };
        let newer = world.placed(&dnode);
        assert_eq!((older.bp().birth(), newer.bp().birth()), (first, first.next()));
        assert_ne!(older.bp().checksum(), newer.bp().checksum());
        older.ended(true);
        drop(held);
        assert_eq!(quiesce.await.txg(), first);
        let late = world.objset.place_early(&dnode, first, BlockId::new(0));
        assert!(matches!(late, Some(EarlyBlock::Before(_))), "what is placed stays named");
    });
}

#[test]
fn a_group_that_nobody_is_in_any_more_takes_no_block() {
    let world = World::new();
    world.env.block_on(async {
        let dnode = world.file(1).await;
        let txg = world.gate.quiesce().await.txg();
        let before = world.allocated();
        assert!(world.objset.place_early(&dnode, txg, BlockId::new(0)).is_none());
        assert!(world.objset.place_early(&dnode, txg.next(), BlockId::new(0)).is_none(), "no change there");
        assert_eq!(world.allocated(), before);
    });
}

#[test]
fn what_needs_no_place_gets_none() {
    let world = World::new();
    world.env.block_on(async {
        const SMALL: usize = 4096;
        let dnode = world.file_of(SMALL, 1).await;
        for (byte, is_hole) in [(0, true), (7, false)] {
            let tx = world.begin().await;
            dnode.write(&tx, 0, &vec![byte; SMALL]).await.unwrap();
            drop(tx);
            let Some(EarlyBlock::Pointer(bp)) = world.place(&dnode) else { panic!("{byte}: placed") };
            assert_eq!((bp.is_hole(), bp.is_embedded()), (is_hole, !is_hole));
            assert_eq!(bp.lsize().get(), SMALL as u64, "replay must know how much is zero");
        }
        world.sync().await;
        world.check_space("embedded").await;
        assert!(world.read(&dnode, SMALL).await == vec![7; SMALL]);
    });
}
