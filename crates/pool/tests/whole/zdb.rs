//! Pools that we make, judged by `zdb`.

use std::path::PathBuf;
use std::sync::Arc;

use device::{Options, RealEnv};
use env::Env;
use oracle::zdb::Zdb;
use pool::{ImportSpec, Pool, PoolSpec, Tuning};
use tempfile::TempDir;
use units::ObjectId;
use vdev::{NewVdev, PoolState};
use zpl::{Cred, NewNode, WriteFlags, Zfs};

const DEVICE_BYTES: u64 = 128 << 20;

struct World {
    env: Arc<RealEnv>,
    dir: TempDir,
    paths: Vec<PathBuf>,
}

fn vdev(paths: &[&PathBuf], is_log: bool) -> NewVdev {
    NewVdev {
        paths: paths.iter().map(|p| (*p).clone()).collect(),
        ashift: None,
        bias: vdev::Bias::log(is_log),
        create_txg: 4,
        parity: 0,
        ..NewVdev::default()
    }
}

impl World {
    fn new(devices: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        let paths: Vec<PathBuf> = devices.iter().map(|name| dir.path().join(name)).collect();
        for path in &paths {
            std::fs::File::create(path).unwrap().set_len(DEVICE_BYTES).unwrap();
        }
        Self { env: RealEnv::new(Options::default()), dir, paths }
    }

    fn env(&self) -> Arc<dyn Env> {
        self.env.clone()
    }

    fn create(&self, vdevs: Vec<NewVdev>) -> Arc<Pool> {
        let spec = PoolSpec {
            name: "whirl".into(),
            stored_name: None,
            vdevs,
            root_props: vec![],
            comment: None,
            force: false,
        };
        self.env.block_on(Pool::create(self.env(), spec, Tuning::default())).unwrap()
    }

    fn import(&self) -> Arc<Pool> {
        let spec =
            ImportSpec { paths: self.paths.clone(), name: Some("whirl".into()), ..ImportSpec::default() };
        self.env.block_on(Pool::import(self.env(), &spec, Tuning::default())).unwrap()
    }

    fn export(&self, pool: &Arc<Pool>) {
        self.env.block_on(pool.close(PoolState::Exported)).unwrap();
    }

    fn zdb(&self) -> Zdb {
        Zdb::new(self.dir.path(), "whirl")
    }

    fn zfs(&self, pool: &Arc<Pool>) -> Arc<Zfs> {
        Arc::clone(&self.env.block_on(pool.filesystem("whirl")).unwrap().zfs)
    }
}

async fn write_file(zfs: &Zfs, dir: ObjectId, name: &str, data: &[u8]) -> ObjectId {
    let made = zfs.create(dir, name.as_bytes(), NewNode::File, 0o644, Cred::default()).await.unwrap();
    zfs.write(made.object, 0, data, WriteFlags::default()).await.unwrap();
    made.object
}

fn check(zdb: &Zdb) {
    if let Err(error) = zdb.check() {
        panic!("{error}");
    }
}

#[test]
fn an_empty_pool_is_clean_for_zdb() {
    let world = World::new(&["a"]);
    let pool = world.create(vec![vdev(&[&world.paths[0]], false)]);
    world.export(&pool);
    check(&world.zdb());
}

#[test]
fn files_survive_export_and_import_and_zdb_finds_no_fault() {
    let world = World::new(&["a", "b", "c"]);
    let (a, b, c) = (&world.paths[0], &world.paths[1], &world.paths[2]);
    let pool = world.create(vec![vdev(&[a, b], false), vdev(&[c], true)]);
    let data: Vec<u8> = (0..1_000_000u32).flat_map(|i| (i / 3).to_le_bytes()).collect();
    let zfs = world.zfs(&pool);
    let file = world.env.block_on(async {
        let file = write_file(&zfs, zfs.root(), "file", &data).await;
        zfs.fsync(file, false).await.unwrap();
        for i in 0..300 {
            write_file(&zfs, zfs.root(), &format!("small {i}"), b"tiny").await;
        }
        file
    });
    drop(zfs);
    world.export(&pool);
    drop(pool);
    check(&world.zdb());
    let pool = world.import();
    let zfs = world.zfs(&pool);
    let mut back = vec![0; data.len()];
    let found = world.env.block_on(async {
        assert_eq!(zfs.read(file, 0, &mut back).await.unwrap(), data.len());
        zfs.lookup(zfs.root(), b"small 299").await.unwrap()
    });
    assert!(back == data);
    assert_eq!(found.size, 4);
    drop(zfs);
    world.export(&pool);
    check(&world.zdb());
}
