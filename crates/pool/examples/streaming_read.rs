//! What reading ahead brings: a file is read in a row, in pieces of 128 KiB, with and without.
//!
//! `cargo run --release -p sawmill-pool --example streaming_read -- DIR MIB`

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use device::{Options, RealEnv};
use dsl::PropValue;
use env::Env;
use pool::{ImportSpec, Pool, PoolSpec, Tuning};
use vdev::{NewVdev, PoolState};
use zpl::{Cred, NewNode, WriteFlags};

const PIECE: usize = 128 << 10;
/// No file that is there already has this name.
const DEVICE: &str = "sawmill-streaming-read";

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().expect("DIR"));
    let mib: u64 = args.next().map_or(512, |mib| mib.parse().expect("MIB"));
    let device = dir.join(DEVICE);
    std::fs::File::create_new(&device).expect("a new file").set_len((2 * mib + 512) << 20).expect("room");
    let env = RealEnv::new(Options::default());
    env.block_on(run(&(env.clone() as Arc<dyn Env>), &device, mib));
    std::fs::remove_file(device).expect("our own file");
}

async fn run(env: &Arc<dyn Env>, device: &Path, mib: u64) {
    let vdev = NewVdev {
        paths: vec![device.to_path_buf()],
        ashift: None,
        bias: vdev::Bias::None,
        parity: 0,
        create_txg: 4,
        ..NewVdev::default()
    };
    let root_props = vec![("compression".to_owned(), PropValue::Number(2))];
    let spec = PoolSpec {
        name: "whirl".into(),
        stored_name: None,
        vdevs: vec![vdev],
        root_props,
        comment: None,
        force: true,
    };
    let pool = Pool::create(env.clone(), spec, Tuning::default()).await.expect("a pool");
    let zfs = Arc::clone(&pool.filesystem("whirl").await.expect("its root").zfs);
    let file = zfs.create(zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await.expect("a file");
    let mut piece = vec![0; PIECE];
    for at in 0..mib << 20 >> PIECE.trailing_zeros() {
        piece.iter_mut().zip(0_u64..).for_each(|(byte, n)| *byte = (n.wrapping_mul(at | 1) >> 3) as u8);
        zfs.write(file.object, at * PIECE as u64, &piece, WriteFlags::default()).await.expect("room");
    }
    drop(zfs);
    pool.close(PoolState::Exported).await.expect("stable");
    let mut rates: [Vec<f64>; 2] = Default::default();
    for round in 0..6 {
        let ahead = round % 2;
        let spec = ImportSpec { paths: vec![device.to_path_buf()], ..ImportSpec::default() };
        let pool = Pool::import(env.clone(), &spec, Tuning::default()).await.expect("the pool");
        let prefetch = PropValue::Number(2 * ahead as u64);
        pool.set_prop("whirl", "prefetch", Some(prefetch)).await.expect("a property");
        let zfs = Arc::clone(&pool.filesystem("whirl").await.expect("its root").zfs);
        let start = Instant::now();
        for at in 0..mib << 20 >> PIECE.trailing_zeros() {
            zfs.read(file.object, at * PIECE as u64, &mut piece).await.expect("written");
        }
        rates[ahead].push(mib as f64 / start.elapsed().as_secs_f64());
        drop(zfs);
        pool.close(PoolState::Exported).await.expect("stable");
    }
    let [without, with] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[1]
    });
    println!("without {without:.0} MiB/s, reading ahead {with:.0} MiB/s, ratio {:.2}", with / without);
}
