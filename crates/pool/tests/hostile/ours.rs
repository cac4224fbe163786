//! A small pool of ours that has something of everything.

use dsl::PropValue;
use pool::{Pool, PoolSpec};
use sim::{DiskSpec, Sim};
use vdev::{Bias, NewVdev, PoolState};
use zpl::{Cred, NewNode, WriteFlags, XattrMode, Zfs};

use crate::lane::{PATH, Victim};
use crate::work::tuning;

const DISK_BYTES: u64 = 64 << 20;
const POOL: &str = "whirl";

async fn fill(zfs: &Zfs) {
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

/// Exported, with freed space, deduplicated blocks and several datasets.
pub fn victim() -> Victim {
    let sim = Sim::seed(1);
    sim.stop_recording();
    sim.add_disk(PATH, DiskSpec::instant(DISK_BYTES));
    sim.run_until(async {
        let vdev =
            NewVdev { paths: vec![PATH.into()], ashift: None, bias: Bias::None, create_txg: 4, parity: 0 };
        let spec = PoolSpec {
            name: POOL.into(),
            vdevs: vec![vdev],
            root_props: Vec::new(),
            comment: None,
            force: false,
        };
        let pool = Pool::create(sim.env(), spec, tuning()).await.expect("created");
        let props = vec![("dedup".to_owned(), PropValue::Number(2))];
        pool.create_filesystem("whirl/twice", props).await.expect("created");
        pool.create_filesystem("whirl/last", Vec::new()).await.expect("created");
        for name in [POOL, "whirl/twice", "whirl/last"] {
            let fs = pool.filesystem(name).await.expect("it opens");
            fill(&fs.zfs).await;
            pool.sync_now().await.expect("synced");
            fs.zfs.unlink(fs.zfs.root(), b"empty").await.expect("removed");
        }
        pool.close(PoolState::Exported).await.expect("exported");
    });
    Victim { lane: "ours", pool: POOL, image: sim.power_cut(0), disk_bytes: DISK_BYTES }
}
