//! A small pool of ours that has something of everything.

use std::sync::Arc;

use dsl::PropValue;
use pool::{Pool, PoolSpec};
use sim::{DiskSpec, Sim};
use vdev::{Bias, NewVdev, PoolState};
use zpl::{Cred, NewNode, WriteFlags, XattrMode, Zfs};

use crate::forge::Kind;
use crate::lane::Victim;
use crate::work::tuning;

const DISK_BYTES: u64 = 64 << 20;
pub const POOL: &str = "whirl";
const DATASETS: [&str; 3] = [POOL, "whirl/twice", "whirl/last"];
/// Longer blocks of a pool become gangs.
const GANG_BYTES: u64 = 8192;

/// Makes files, directories, attributes and a link.
pub async fn fill(zfs: &Zfs) {
    let root = zfs.root();
    let many =
        zfs.create(root, b"many", NewNode::Directory, 0o755, Cred::default()).await.expect("mkdir").object;
    for number in 0..60 {
        let name =
            format!("{number:03} and what makes the name longer than a micro ZAP takes, which is 50 bytes");
        zfs.create(many, name.as_bytes(), NewNode::File, 0o644, Cred::default()).await.expect("create");
    }
    for (name, len) in [("empty", 0), ("small", 100), ("long", 700_000)] {
        let file = zfs.create(root, name.as_bytes(), NewNode::File, 0o644, Cred::default()).await;
        let file = file.expect("create").object;
        let bytes: Vec<u8> = (0..len).map(|n: u64| (n * n / 7) as u8).collect();
        zfs.write(file, 0, &bytes, WriteFlags::default()).await.expect("write");
        zfs.set_xattr(file, b"user.long", &[7; 3000], XattrMode::Set).await.expect("set");
    }
    let link = NewNode::Symlink(b"a target that is long enough to be worth something");
    zfs.create(root, b"link", link, 0o777, Cred::default()).await.expect("symlink");
}

const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };

/// Made on these disks, with nothing in it.
pub async fn create(sim: &Sim, paths: &[&str]) -> Arc<Pool> {
    let vdev = |path: &&str| NewVdev {
        paths: vec![path.into()],
        ashift: None,
        bias: Bias::None,
        create_txg: 4,
        parity: 0,
        ..NewVdev::default()
    };
    let spec = PoolSpec {
        name: POOL.into(),
        stored_name: None,
        vdevs: paths.iter().map(vdev).collect(),
        root_props: Vec::new(),
        comment: None,
        force: false,
    };
    Pool::create(sim.env(), spec, tuning()).await.expect("created")
}

/// With freed space, deduplicated blocks and several datasets.
async fn make(sim: &Sim, paths: &[&str], longest_run: u64) -> Arc<Pool> {
    let pool = create(sim, paths).await;
    pool.zio().set_longest_run(longest_run);
    let props = vec![("dedup".to_owned(), PropValue::Number(2))];
    pool.create_filesystem("whirl/twice", props).await.expect("created");
    pool.create_filesystem("whirl/last", Vec::new()).await.expect("created");
    for name in DATASETS {
        let fs = pool.filesystem(name).await.expect("it opens");
        fill(&fs.zfs).await;
        pool.sync_now().await.expect("synced");
        fs.zfs.unlink(fs.zfs.root(), b"empty").await.expect("removed");
    }
    pool
}

pub fn world(paths: &[&str]) -> Sim {
    let sim = Sim::seed(1);
    sim.stop_recording();
    for &path in paths {
        sim.add_disk(path, DiskSpec::instant(DISK_BYTES));
    }
    sim
}

/// Exported.
pub fn victim() -> Victim {
    let paths = &["/a"];
    let sim = world(paths);
    sim.run_until(async {
        let pool = make(&sim, paths, u64::MAX).await;
        pool.close(PoolState::Exported).await.expect("exported");
    });
    let image = sim.power_cut(0);
    // Uberblocks with a txg that no space map can have.
    let panicked = &[1_001_021, 1_001_573, 1_002_574, 4_009_828, 4_019_565];
    Victim { lane: "ours", pool: POOL, paths, image, disk_bytes: DISK_BYTES, has: &[Kind::Label], panicked }
}

/// On two disks, with gangs, and logs that are to be replayed.
pub fn torn() -> Victim {
    let paths = &["/a", "/b"];
    let sim = world(paths);
    sim.run_until(async {
        let pool = make(&sim, paths, GANG_BYTES).await;
        for name in DATASETS {
            let fs = pool.filesystem(name).await.expect("it opens");
            let (zfs, root) = (&fs.zfs, fs.zfs.root());
            let noise = zfs.create(root, b"noise", NewNode::File, 0o644, Cred::default()).await;
            let mut bytes = vec![0; 200_000];
            fastrand::Rng::with_seed(2).fill(&mut bytes);
            zfs.write(noise.expect("create").object, 0, &bytes, WriteFlags::default()).await.expect("write");
            pool.sync_now().await.expect("synced");
            let made = zfs.create(root, b"logged", NewNode::File, 0o644, Cred::default()).await;
            let made = made.expect("create").object;
            zfs.write(made, 0, &[5; 20_000], SYNC).await.expect("write");
            zfs.set_xattr(made, b"user.logged", &[6; 200], XattrMode::Set).await.expect("set");
            zfs.unlink(root, b"small").await.expect("removed");
            let link = NewNode::Symlink(b"somewhere");
            zfs.create(root, b"logged link", link, 0o777, Cred::default()).await.expect("symlink");
            zfs.write(made, 30_000, &[7; 100], SYNC).await.expect("write");
        }
    });
    let has = &[Kind::Label, Kind::GangHeader, Kind::Log];
    let (image, disk_bytes) = (sim.power_cut(0), DISK_BYTES);
    Victim {
        lane: "torn",
        pool: POOL,
        paths,
        image,
        disk_bytes,
        has,
        panicked: &[4_000_239, 4_001_178, 4_001_390, 4_002_094],
    }
}
