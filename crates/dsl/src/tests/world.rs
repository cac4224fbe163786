//! A meta-objset over a RAM device.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use device::{Options, RealEnv};
use dmu::{Objset, ObjsetContext, ObjsetProps, Tx, TxgGate};
use env::{Env, RamDevice};
use ondisk::objset::ObjsetType;
use units::{ObjectId, ObjsetId, TXG_INITIAL};
use vdev::{NewVdev, VdevTree};
use zio::Zio;

use crate::{Birth, DatasetName, Dsl};

/// The time at which things are done.
pub(super) const NOW: Duration = Duration::from_secs(1_800_000_000);

const DEVICE_BYTES: u64 = 256 << 20;

/// A new pool's MOS, its datasets, and what it takes to sync them.
pub(super) struct World {
    pub(super) env: Arc<RealEnv>,
    pub(super) dsl: Dsl,
    zio: Arc<Zio>,
    gate: Arc<TxgGate>,
}

/// A birth that can be told from others.
pub(super) fn birth(number: u64) -> Birth {
    Birth { guid: 0x1000 + number, fsid: (0x2000 + number) << 8, now_secs: 1_700_000_000 + number }
}

impl World {
    pub(super) fn new() -> Self {
        let env = RealEnv::new(Options::default());
        env.register("ram:a", Arc::new(RamDevice::new(DEVICE_BYTES)));
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
        let gate = TxgGate::new(TXG_INITIAL.prev(), 64 << 20);
        let mos = Objset::create(Self::context(&zio, &gate), ObjsetType::Meta);
        let tx = gate.forming();
        let dsl = env.block_on(Dsl::format(mos, &tx, [birth(1), birth(2), birth(3)])).unwrap();
        Self { env, dsl, zio, gate }
    }

    fn context(zio: &Arc<Zio>, gate: &Arc<TxgGate>) -> ObjsetContext {
        let props = ObjsetProps::mos();
        ObjsetContext { id: ObjsetId::MOS, zio: Arc::clone(zio), gate: Arc::clone(gate), props }
    }

    /// A transaction of the open txg.
    pub(super) fn tx(&self) -> Tx {
        self.gate.forming()
    }

    /// Makes the open txg stable.
    pub(super) async fn sync(&self) {
        let quiet = self.gate.quiesce().await;
        let txg = quiet.txg();
        if let Some(synced) = self.dsl.mos().sync(txg).await.unwrap() {
            for bp in &synced.killed {
                self.zio.free(txg, bp).await.unwrap();
            }
        }
        self.zio.with_allocator(|allocator| {
            allocator.take_changes(txg);
            allocator.sync_done(txg);
        });
        self.gate.finish(quiet);
    }

    /// What is on disk, opened anew.
    pub(super) async fn reopened(&self) -> Dsl {
        self.sync().await;
        let mos = Objset::open(Self::context(&self.zio, &self.gate), self.dsl.mos().root()).await.unwrap();
        Dsl::open(mos).await.unwrap()
    }

    pub(super) async fn create(&self, name: &str) -> DatasetName {
        self.dsl.create_dataset(&self.tx(), name, birth(name.len() as u64)).await.unwrap()
    }

    /// Numbers of all objects on disk.
    pub(super) async fn objects(&self) -> Vec<ObjectId> {
        self.sync().await;
        let mut objects = Vec::new();
        let mut after = ObjectId::new(0);
        while let Some(object) = self.dsl.mos().next_object(after).await.unwrap() {
            objects.push(object);
            after = object;
        }
        objects
    }
}
