//! Pools of several shapes on simulated disks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dsl::PropValue;
use pool::{ImportSpec, Pool, PoolError, PoolSpec, Tuning};
use sim::{DiskModel, DiskSpec, Sim};
use vdev::NewVdev;

pub const POOL: &str = "whirl";
pub const DISK_BYTES: u64 = 64 << 20;

/// The vdevs of a pool: the disks of each, and whether it is a log.
pub struct Shape {
    pub name: &'static str,
    /// Of the data vdevs.
    parity: u8,
    /// Columns of data in the groups of a draid; 0 for anything else.
    data: u8,
    vdevs: &'static [(&'static [&'static str], bool)],
}

pub const SINGLE: Shape = Shape { name: "single", parity: 0, data: 0, vdevs: &[(&["/a"], false)] };
pub const STRIPE: Shape =
    Shape { name: "stripe", parity: 0, data: 0, vdevs: &[(&["/a"], false), (&["/b"], false)] };
pub const MIRROR: Shape = Shape { name: "mirror", parity: 0, data: 0, vdevs: &[(&["/a", "/b"], false)] };
pub const RAIDZ: Shape = Shape { name: "raidz1", parity: 1, data: 0, vdevs: &[(&["/a", "/b", "/c"], false)] };
pub const DRAID: Shape =
    Shape { name: "draid1", parity: 1, data: 2, vdevs: &[(&["/a", "/b", "/c", "/d", "/e", "/f"], false)] };
pub const LOG: Shape =
    Shape { name: "single, log", parity: 0, data: 0, vdevs: &[(&["/a"], false), (&["/l"], true)] };
pub const TWO_LOGS: Shape = Shape {
    name: "mirror, two logs",
    parity: 0,
    data: 0,
    vdevs: &[(&["/a", "/b"], false), (&["/l"], true), (&["/m"], true)],
};
pub const MIRRORED_LOG: Shape = Shape {
    name: "mirror, mirrored log",
    parity: 0,
    data: 0,
    vdevs: &[(&["/a", "/b"], false), (&["/l", "/m"], true)],
};
pub const SINGLE_TWO_LOGS: Shape = Shape {
    name: "single, two logs",
    parity: 0,
    data: 0,
    vdevs: &[(&["/a"], false), (&["/l"], true), (&["/m"], true)],
};
pub const SINGLE_MIRRORED_LOG: Shape = Shape {
    name: "single, mirrored log",
    parity: 0,
    data: 0,
    vdevs: &[(&["/a"], false), (&["/l", "/m"], true)],
};

pub const STRIPE_OF_THREE: Shape = Shape {
    name: "stripe of three",
    parity: 0,
    data: 0,
    vdevs: &[(&["/a"], false), (&["/b"], false), (&["/c"], false)],
};
pub const THREE_MIRRORS: Shape = Shape {
    name: "three mirrors",
    parity: 0,
    data: 0,
    vdevs: &[(&["/a", "/d"], false), (&["/b", "/e"], false), (&["/c", "/f"], false)],
};
pub const STRIPE_AND_LOG: Shape = Shape {
    name: "stripe of three, log",
    parity: 0,
    data: 0,
    vdevs: &[(&["/a"], false), (&["/b"], false), (&["/c"], false), (&["/l"], true)],
};

pub const MIRRORS_AND_LOG: Shape = Shape {
    name: "two mirrors, log",
    parity: 0,
    data: 0,
    vdevs: &[(&["/a", "/b"], false), (&["/l"], true), (&["/c", "/d"], false)],
};

/// What [`SINGLE`] is once vdevs were added to it.
pub const GROWN: Shape = Shape {
    name: "single, mirror, log",
    parity: 0,
    data: 0,
    vdevs: &[(&["/a"], false), (&["/b", "/c"], false), (&["/l"], true)],
};

impl Shape {
    /// Whether it has log devices.
    pub fn has_log(&self) -> bool {
        self.vdevs.iter().any(|(_, is_log)| *is_log)
    }

    /// The vdevs behind the first `known`, as new ones.
    pub fn vdevs_from(&self, known: usize) -> Vec<NewVdev> {
        let new = |&(disks, is_log): &(&[&str], bool)| NewVdev {
            paths: disks.iter().map(PathBuf::from).collect(),
            ashift: None,
            bias: vdev::Bias::log(is_log),
            create_txg: 4,
            parity: if is_log { 0 } else { self.parity },
            data: if is_log { 0 } else { self.data },
        };
        self.vdevs.iter().skip(known).map(new).collect()
    }

    pub fn disks(&self) -> impl Iterator<Item = PathBuf> {
        self.vdevs.iter().flat_map(|(disks, _)| *disks).map(PathBuf::from)
    }

    pub fn add_disks(&self, sim: &Sim, model: DiskModel) {
        for path in self.disks() {
            sim.add_disk(path, DiskSpec::new(DISK_BYTES, model));
        }
    }

    /// Makes the pool on disks that are there.
    pub async fn create(&self, sim: &Sim, tuning: Tuning) -> Arc<Pool> {
        self.create_with(sim, tuning, &[]).await
    }

    /// The same, its root file system with these properties.
    pub async fn create_with(&self, sim: &Sim, tuning: Tuning, props: &[(&str, u64)]) -> Arc<Pool> {
        let vdevs = self.vdevs_from(0);
        let props = props.iter().map(|&(name, value)| (name.to_owned(), PropValue::Number(value)));
        let root_props = props.collect();
        let spec =
            PoolSpec { name: POOL.into(), stored_name: None, vdevs, root_props, comment: None, force: false };
        Pool::create(sim.env(), spec, tuning).await.expect("a pool is made of new disks")
    }

    /// Imports it; `without_logs` gives up logs that are missing.
    pub async fn import(
        &self,
        sim: &Sim,
        tuning: Tuning,
        without_logs: bool,
    ) -> Result<Arc<Pool>, PoolError> {
        self.import_as(sim, tuning, ImportSpec { without_logs, ..ImportSpec::default() }).await
    }

    /// Imports it in some way.
    pub async fn import_as(
        &self,
        sim: &Sim,
        tuning: Tuning,
        how: ImportSpec,
    ) -> Result<Arc<Pool>, PoolError> {
        let (paths, name) = (self.disks().collect(), Some(POOL.into()));
        Pool::import(sim.env(), &ImportSpec { paths, name, ..how }, tuning).await
    }
}

/// How long a log device may take to answer.
pub const LOG_DEADMAN: Duration = Duration::from_millis(300);

/// Txgs turn often, so that short runs see many; caches are small, so that blocks are read.
pub fn brisk() -> Tuning {
    let (txg_timeout, log_deadman) = (Duration::from_millis(20), LOG_DEADMAN);
    Tuning { txg_timeout, log_deadman, cache_bytes: 1 << 20, ..Tuning::default() }
}
