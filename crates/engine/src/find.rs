//! Which devices have labels of pools. The daemon has to know these devices before a process imports a pool.

use control::{Failure, FoundDevice};
use vdev::{FoundLeaf, LabelUse, candidates, scan};

use crate::Holder;

impl Holder {
    /// Reads the labels of the devices that a search is about, and nothing else of them.
    pub(super) async fn find_devices(&self, search: &[String]) -> Result<Vec<FoundDevice>, Failure> {
        let found = scan(&self.env, &self.paths(search)).await;
        let pools = candidates(&found);
        let pool_of = |leaf: &FoundLeaf| {
            // Labels can be younger than the last change of the guid that has happened.
            let has_it =
                |candidate: &&vdev::Candidate| candidate.paths.values().any(|path| *path == leaf.path);
            match (pools.iter().find(has_it), leaf.label_use()) {
                (Some(candidate), _) => Some((candidate.pool.name.clone(), candidate.guid.get())),
                (None, LabelUse::Pool { pool, guid }) => Some((pool.name, guid.get())),
                (None, _) => None,
            }
        };
        let device = |leaf| FoundDevice { path: path_of(leaf), pool: pool_of(leaf) };
        Ok(found.iter().map(device).collect())
    }
}

fn path_of(leaf: &FoundLeaf) -> String {
    leaf.path.to_string_lossy().into_owned()
}
