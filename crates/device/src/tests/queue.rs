//! A queue over a file.

use std::collections::BTreeSet;

use env::{Bound, Bounds, Device, Durability, Env, IoBuf, Meter, OpenMode, Queued};
use futures::future::join_all;

use super::{at, env};

#[test]
fn a_queue_changes_nothing_of_what_is_read() {
    let env = env();
    let file = tempfile::NamedTempFile::new_in(".").expect("a file");
    file.as_file().set_len(4 << 20).expect("room");
    let device = env.block_on(env.open(file.path(), OpenMode::ReadWrite));
    let bound = Bound { min: 1, max: 2, max_beside_sync: 2 };
    let bounds = Bounds { total: 2, classes: [bound; 4] };
    let queued = Queued::new(device.expect("opened"), bounds, Meter::timeless());
    let mut seed = 1_u64;
    let mut next = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    let mut model = vec![0; 4 << 20];
    env.block_on(async {
        for _ in 0..20 {
            let blocks: BTreeSet<u64> = (0..64).map(|_| next() % 1024).collect();
            let writes = blocks.iter().map(|block| {
                let byte = next() as u8;
                let start = (block * 4096) as usize;
                model[start..start + 4096].fill(byte);
                let mut buf = IoBuf::zeroed(4096);
                buf.fill(byte);
                queued.write(at(block * 4096), vec![buf.into()], Durability::Cached)
            });
            join_all(writes.collect::<Vec<_>>())
                .await
                .into_iter()
                .for_each(|result| result.expect("written"));
            let reads: Vec<_> = (0..64).map(|_| next() % 1000 * 4096).collect();
            let answers = join_all(reads.iter().map(|&start| queued.read(at(start), 8192))).await;
            for (start, answer) in reads.into_iter().zip(answers) {
                assert_eq!(answer.expect("read")[..], model[start as usize..start as usize + 8192]);
            }
        }
    });
    assert!(queued.merged() > 0);
}
