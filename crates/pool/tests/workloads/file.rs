//! Files of bytes that do not compress.

use units::ObjectId;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

/// The same bytes for the same seed.
pub fn noise(seed: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

/// A file in the root, with these contents.
pub async fn make(zfs: &Zfs, name: &str, data: &[u8]) -> ObjectId {
    let made = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default()).await.unwrap();
    zfs.write(made.object, 0, data, WriteFlags::default()).await.unwrap();
    made.object
}
