//! An objset over a RAM device, and the sync loop that it needs.

use std::path::PathBuf;
use std::sync::Arc;

use device::{Options, RealEnv};
use dmu::{DnodeSpec, Objset, ObjsetContext, ObjsetProps, TxgGate};
use env::{Env, RamDevice};
use metaslab::Class;
use ondisk::ObjectType;
use ondisk::objset::ObjsetType;
use units::{ObjsetId, Txg};
use vdev::{NewVdev, VdevTree};
use zio::Zio;

const DEVICE_BYTES: u64 = 256 << 20;
/// The first txg.
pub const FIRST: Txg = Txg::new(4);

/// An objset, and what it stands on.
pub struct World {
    pub env: Arc<RealEnv>,
    pub ram: RamDevice,
    pub zio: Arc<Zio>,
    pub gate: Arc<TxgGate>,
    pub objset: Arc<Objset>,
}

impl World {
    pub fn new() -> Self {
        let env = RealEnv::new(Options::default());
        let ram = RamDevice::new(DEVICE_BYTES);
        env.register("ram:a", Arc::new(ram.clone()));
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
        zio.add_vdev(&tree.tops()[0]).unwrap();
        let gate = TxgGate::new(FIRST.prev(), 64 << 20);
        let objset = Objset::create(Self::context(&zio, &gate), ObjsetType::Zfs);
        Self { env, ram, zio, gate, objset }
    }

    pub fn context(zio: &Arc<Zio>, gate: &Arc<TxgGate>) -> ObjsetContext {
        let props = ObjsetProps::dataset_default();
        ObjsetContext { id: ObjsetId::new(54), zio: Arc::clone(zio), gate: Arc::clone(gate), props }
    }

    /// One txg, with what the pool's sync loop does for an objset.
    pub async fn sync(&self) {
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
        self.zio.forget_unstable();
        self.gate.finish(quiet);
    }

    /// What is on disk, opened anew.
    pub async fn reopened(&self) -> Arc<Objset> {
        Objset::open(Self::context(&self.zio, &self.gate), self.objset.root()).await.unwrap()
    }

    /// Blocks that were asked for, cached or not.
    pub fn reads(&self) -> u64 {
        let stats = self.zio.cache_stats();
        stats.hits + stats.misses
    }

    pub fn allocated(&self) -> u64 {
        self.zio.with_allocator(|allocator| allocator.space(Class::Normal).allocated.get())
    }
}

pub fn file(block_bytes: u32) -> DnodeSpec {
    DnodeSpec::new(ObjectType::PLAIN_FILE_CONTENTS, block_bytes).with_bonus(ObjectType::SA, 168)
}
