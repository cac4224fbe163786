//! What devices are, and whose.

use crate::Holder;
use crate::admit::{Claim, Facts, LeafFacts};
use crate::siblings;
use crate::spec::VdevSpec;
use control::{Failure, FailureKind};
use env::{Device, DeviceError, OpenMode};
use futures::future::join_all;
use std::path::Path;
use std::sync::Arc;
use units::LeafOffset;
use vdev::{LabelUse, Leaf, PoolState, label_use};

impl Holder {
    /// Looks at all devices of a specification.
    pub(super) async fn facts(&self, specs: &[VdevSpec]) -> Result<Facts, Failure> {
        let devices: Vec<&String> = specs.iter().flat_map(|spec| &spec.devices).collect();
        let facts = join_all(devices.iter().map(|device| self.leaf_facts(Path::new(device)))).await;
        let mut all = Facts::new();
        for (device, facts) in devices.into_iter().zip(facts) {
            let facts = facts
                .map_err(|e| Failure::new(FailureKind::Invalid, format!("cannot open '{device}': {e}")))?;
            all.insert(device.clone(), facts);
        }
        Ok(all)
    }

    pub(super) async fn leaf_facts(&self, path: &Path) -> Result<LeafFacts, DeviceError> {
        let device = self.env.open(path, OpenMode::ReadOnly).await?;
        let info = device.info();
        let claim = match self.holder_of(self.machine.identity(path)) {
            Some(pool) => Some((Claim::Active, pool)),
            // A spare that is at work is held as any other.
            None => match self.lister_of(self.machine.identity(path)) {
                Some(pool) => Some((Claim::Spare, pool)),
                None => claim_of(label_use(&self.env, &device).await?),
            },
        };
        Ok(LeafFacts {
            size_bytes: info.size_bytes,
            is_block_device: info.is_block_device,
            identity: self.machine.identity(path),
            claim,
            foreign: foreign(&device).await.map(str::to_owned),
        })
    }

    /// The pool that the labels of a device name, open here or not.
    pub(super) async fn claim_by_label(&self, path: &Path) -> Option<(Claim, String)> {
        let device = self.env.open(path, OpenMode::ReadOnly).await.ok()?;
        let used = label_use(&self.env, &device).await.ok()?;
        let here = |guid| self.all().into_iter().find(|held| held.pool.guid() == guid);
        match &used {
            LabelUse::Pool { guid, .. } => {
                let open = here(*guid).map(|held| held.pool.name());
                match open.or_else(|| self.siblings.name_of(guid.get())) {
                    Some(name) => Some((Claim::Active, name)),
                    None => claim_of(used),
                }
            }
            _ => claim_of(used),
        }
    }

    /// The open pool that lists this device as a hot spare.
    fn lister_of(&self, device: Option<(u64, u64)>) -> Option<String> {
        let device = device?;
        let lists = |held: &crate::Held| {
            held.pool.spares().iter().any(|spare| self.machine.identity(&spare.path) == Some(device))
        };
        let here = self.all().into_iter().find(|held| lists(held)).map(|held| held.pool.name());
        here.or_else(|| self.siblings.lister(|path| self.machine.identity(path) == Some(device)))
    }

    /// The open pool that has this device.
    fn holder_of(&self, device: Option<(u64, u64)>) -> Option<String> {
        let device = device?;
        let holds = |held: &crate::Held| {
            let leaves = held.pool.vdevs().leaves().into_iter().chain(held.pool.cache_leaves());
            let is_it =
                |leaf: &Leaf| siblings::has(leaf) && self.machine.identity(&leaf.path()) == Some(device);
            leaves.into_iter().any(|leaf| is_it(&leaf))
        };
        let here = self.all().into_iter().find(|held| holds(held)).map(|held| held.pool.name());
        here.or_else(|| self.siblings.holder(|path| self.machine.identity(path) == Some(device)))
    }
}

/// What it holds that is no pool.
async fn foreign(device: &Arc<dyn Device>) -> Option<&'static str> {
    let bytes = (crate::foreign::LOOK_BYTES as u64).min(device.info().size_bytes & !0xffff);
    let start = device.read(LeafOffset::new(0), usize::try_from(bytes).ok()?).await.ok()?;
    crate::foreign::file_system(&start)
}

/// What a label says of the pool it belongs to; that pool is not open here.
fn claim_of(used: LabelUse) -> Option<(Claim, String)> {
    match used {
        LabelUse::Pool { pool, .. } => match pool.state {
            PoolState::Exported => Some((Claim::Exported, pool.name)),
            PoolState::Destroyed => None,
            _ => Some((Claim::PotentiallyActive, pool.name)),
        },
        LabelUse::Unused | LabelUse::NeverUsed | LabelUse::Unknown | LabelUse::Auxiliary(_) => None,
    }
}
