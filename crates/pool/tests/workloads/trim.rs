//! Room that is freed, given back to what lies below.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use device::{Options, RealEnv};
use dsl::PropValue;
use env::Env;
use oracle::zdb::Zdb;
use pool::sweep::TrimCounts;
use pool::{ImportSpec, Pool, PoolSpec, Tuning};
use vdev::{NewVdev, PoolState};
use zpl::{Cred, NewNode, WriteFlags};

const DEVICE_BYTES: u64 = 256 << 20;
const FILE_BYTES: usize = 48 << 20;

fn blocks(paths: &[std::path::PathBuf]) -> u64 {
    paths.iter().map(|path| std::fs::metadata(path).expect("there").blocks() * 512).sum()
}

/// Files on the disk that holds the build: a tmpfs would do, but not every one punches holes.
fn devices(dir: &Path, count: usize) -> Vec<std::path::PathBuf> {
    let make = |n| {
        let path = dir.join(format!("d{n}.img"));
        std::fs::File::create(&path).and_then(|file| file.set_len(DEVICE_BYTES)).expect("room");
        path
    };
    (0..count).map(make).collect()
}

async fn write(pool: &Arc<Pool>, name: &[u8], byte: u8) {
    let zfs = Arc::clone(&pool.filesystem("whirl").await.expect("the root dataset").zfs);
    let new = zfs.create(zfs.root(), name, NewNode::File, 0o600, Cred::default()).await;
    let file = new.expect("created").object;
    let data = vec![byte; 1 << 20];
    for at in (0..FILE_BYTES).step_by(data.len()) {
        zfs.write(file, at as u64, &data, WriteFlags::default()).await.expect("written");
    }
    pool.sync_now().await.expect("synced");
}

async fn remove(pool: &Arc<Pool>, name: &[u8]) {
    let zfs = Arc::clone(&pool.filesystem("whirl").await.expect("the root dataset").zfs);
    zfs.unlink(zfs.root(), name).await.expect("removed");
    // Freed by a txg, rested for two more, and discarded with the next.
    for n in 0..8 {
        let name = format!("tick{n}");
        let new = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o600, Cred::default()).await;
        new.expect("created");
        pool.sync_now().await.expect("synced");
        zfs.unlink(zfs.root(), name.as_bytes()).await.expect("removed");
    }
}

fn freed_room_goes_back(count: usize, parity: u8) {
    let exe = std::env::current_exe().expect("a test knows its program");
    let dir = tempfile::tempdir_in(exe.parent().expect("a directory")).expect("a directory");
    let paths = devices(dir.path(), count);
    let real = RealEnv::new(Options::default());
    let env: Arc<dyn Env> = Arc::clone(&real) as Arc<dyn Env>;
    let vdev = NewVdev {
        paths: paths.clone(),
        parity,
        ashift: None,
        bias: vdev::Bias::None,
        create_txg: 4,
        ..NewVdev::default()
    };
    // Uncompressed (2), so that it takes the room that is looked for.
    let root_props = vec![
        ("mountpoint".to_owned(), PropValue::Text("none".into())),
        ("compression".to_owned(), PropValue::Number(2)),
    ];
    let spec = PoolSpec {
        name: "whirl".into(),
        stored_name: None,
        vdevs: vec![vdev],
        root_props,
        comment: None,
        force: true,
    };
    real.block_on(async {
        let pool = Pool::create(Arc::clone(&env), spec, Tuning::default()).await.expect("created");
        write(&pool, b"off", 1).await;
        let full = blocks(&paths);
        remove(&pool, b"off").await;
        assert!(blocks(&paths) + (8 << 20) > full, "nothing is given back unasked");
        assert_eq!(pool.trim_counts(), Default::default());
        assert!(pool.zio().block_traffic().written_bytes >= FILE_BYTES as u64);
        pool.set_pool_prop("autotrim", Some(PropValue::Number(1))).await.expect("set");
        write(&pool, b"on", 2).await;
        let full = blocks(&paths);
        remove(&pool, b"on").await;
        let left = blocks(&paths);
        assert!(left + (30 << 20) < full, "{left} of {full} bytes are left");
        let (asked, auto) = pool.trim_counts();
        assert_eq!(asked, TrimCounts::default());
        assert!(auto.discarded.bytes >= FILE_BYTES as u64 && auto.failed.count == 0, "{auto:?}");
        write(&pool, b"again", 3).await;
        pool.close(PoolState::Exported).await.expect("exported");
    });
    Zdb::new(dir.path(), "whirl").check().expect("zdb finds nothing wrong");
    real.block_on(async {
        let spec = ImportSpec { paths: paths.clone(), ..ImportSpec::default() };
        let pool = Pool::import(env, &spec, Tuning::default()).await.expect("imported");
        assert!(pool.autotrim(), "it is still on");
        pool.close(PoolState::Exported).await.expect("exported");
    });
}

#[test]
fn with_autotrim_freed_room_goes_back_to_the_file_system() {
    freed_room_goes_back(1, 0);
}

#[test]
fn a_raidz_gives_back_rows_that_are_free_whole() {
    freed_room_goes_back(3, 1);
}
