//! Clients, and what they were promised.

use crate::node::Node;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

/// Most bytes of a file.
const FILE_MAX_BYTES: usize = 20_000;

/// Between two files.
const PAUSE: Duration = Duration::from_millis(10);

/// Files whose writes were acknowledged as stable, with their bytes.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl Ledger {
    fn promised(&self, name: String, bytes: Vec<u8>) {
        self.0.lock().expect("nobody panicked").insert(name, bytes);
    }

    /// Writes `count` new files, each stable before it is promised, until the host dies or an error.
    pub async fn write(&self, node: &Node, prefix: &str, count: u64) {
        let Some(zfs) = node.files() else { return };
        let (ledger, prefix, host) = (self.clone(), prefix.to_owned(), node.host.clone());
        node.host
            .run(async move {
                for number in 0..count {
                    let (name, bytes) = (format!("{prefix}{number}"), content(&prefix, number));
                    if write_one(&zfs, &name, &bytes).await.is_err() {
                        return;
                    }
                    ledger.promised(name, bytes);
                    host.env().sleep(PAUSE).await;
                }
            })
            .await;
    }

    /// Reads all that was promised; how much that was, or what is not as it was.
    pub async fn check(&self, node: &Node) -> Result<u64, String> {
        let zfs = node.files().ok_or("the pool is not mounted")?;
        let promised = self.0.lock().expect("nobody panicked").clone();
        let count = promised.len() as u64;
        let read = node.host.run(async move {
            for (name, bytes) in promised {
                match read_one(&zfs, &name, bytes.len()).await {
                    Ok(found) if found == bytes => {}
                    Ok(_) => return Err(format!("'{name}' has other bytes than were promised")),
                    Err(error) => return Err(format!("'{name}' was promised: {error}")),
                }
            }
            Ok(count)
        });
        read.await.expect("it lives")
    }
}

/// Bytes that tell whose they are.
fn content(prefix: &str, number: u64) -> Vec<u8> {
    let word = format!("{prefix}{number} ");
    let len = usize::try_from(number * 7919 % FILE_MAX_BYTES as u64).unwrap_or(0) + 1;
    word.bytes().cycle().take(len).collect()
}

async fn write_one(zfs: &Zfs, name: &str, bytes: &[u8]) -> zpl::Result<()> {
    let file = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default()).await?;
    let stable = WriteFlags { sync: true, ..WriteFlags::default() };
    zfs.write(file.object, 0, bytes, stable).await.map(drop)
}

async fn read_one(zfs: &Zfs, name: &str, len: usize) -> zpl::Result<Vec<u8>> {
    let file = zfs.lookup(zfs.root(), name.as_bytes()).await?;
    let mut bytes = vec![0; len + 1];
    let count = zfs.read(file.object, 0, &mut bytes).await?;
    bytes.truncate(count);
    Ok(bytes)
}
