//! Lists of datasets, for `zfs list` and `zfs get`. A list reads what was asked for:
//!
//! ```text
//!  root ─► heads down to the depth ─► snapshots of each, if snapshots are listed
//!            │ facts, properties        │ of few properties: what the MOS has of the snapshot
//!            └ if heads are listed      └ of others: facts and properties
//! ```

use std::collections::BTreeMap;

use control::{DatasetInfo, DatasetKind, DatasetList, Failure, FailureKind};
use dsl::DatasetName;
use futures::{StreamExt, TryStreamExt};
use ondisk::dsl::DslDatasetPhys;

use crate::datasets::{cannot_open, snapshot_facts, value_of};
use crate::props::{Prop, Source, Value};
use crate::settings::LIST_SNAPSHOTS;
use crate::{Held, Holder};

/// Datasets that are read at the same time when many are listed: each waits for the disk a few times.
const LISTED_AT_ONCE: usize = 32;

/// Properties of a snapshot that need nothing but its dataset in the MOS.
const OF_MOS: [&str; 12] = [
    "name",
    "type",
    "creation",
    "createtxg",
    "guid",
    "objsetid",
    "used",
    "referenced",
    "compressratio",
    "refcompressratio",
    "logicalreferenced",
    "defer_destroy",
];

/// A dataset that is to be listed.
struct Found {
    dataset: DatasetName,
    /// Of a snapshot below the root.
    snapshot: Option<DslDatasetPhys>,
    is_root: bool,
    /// Its bookmarks are listed too.
    with_bookmarks: bool,
}

impl Holder {
    pub(super) async fn list_datasets(&self, call: DatasetList) -> Result<Vec<DatasetInfo>, Failure> {
        let mut all = Vec::new();
        let pools = match &call.root {
            Some(root) => vec![self.pool_of(root)?],
            None => self.all(),
        };
        for held in pools {
            let root = call.root.clone().unwrap_or_else(|| held.pool.name());
            if root.contains('#') {
                all.push(self.bookmark_info(&held, &root).await?);
                continue;
            }
            let lists_snapshots = !call.without_snapshots
                || call.snapshots_if_listed && held.pool.is_prop_on(LIST_SNAPSHOTS).await.unwrap_or_default();
            let found = self.found_below(&held, &root, &call, lists_snapshots).await?;
            let one = |found: Found| {
                let is_root = found.is_root;
                let listed = self.listed(&held, found, &call);
                async move {
                    match listed.await {
                        // The dataset was destroyed or renamed after it was found.
                        Err(failure) if failure.kind == FailureKind::NoSuchDataset && !is_root => {
                            Ok(Vec::new())
                        }
                        listed => listed,
                    }
                }
            };
            let mut infos = futures::stream::iter(found.into_iter().map(one)).buffered(LISTED_AT_ONCE);
            while let Some(infos) = infos.try_next().await? {
                all.extend(infos);
            }
        }
        Ok(all)
    }

    /// The root and what is listed below: parents first, each dataset's snapshots after it, oldest first.
    async fn found_below(
        &self,
        held: &Held,
        root: &str,
        call: &DatasetList,
        lists_snapshots: bool,
    ) -> Result<Vec<Found>, Failure> {
        let dsl = held.pool.dsl();
        let _view = held.pool.view().await;
        if root.contains('@') {
            let dataset = self.dataset(held, root).await?;
            return Ok(vec![Found { dataset, snapshot: None, is_root: true, with_bookmarks: false }]);
        }
        let goes_below = |level: u32| call.depth.is_none_or(|depth| level < depth);
        let mut found = Vec::new();
        for (level, head) in dsl.list_levels(root, call.depth).await.map_err(|e| cannot_open(root, e))? {
            let (is_root, goes_below) = (level == 0, goes_below(level));
            let snapshots = match goes_below && lists_snapshots {
                true => self.snapshots_by_age(held, &head).await?,
                false => Vec::new(),
            };
            let with_bookmarks = call.bookmarks && goes_below;
            if is_root || !call.without_heads || with_bookmarks {
                found.push(Found { dataset: head, snapshot: None, is_root, with_bookmarks });
            }
            let below = |(dataset, phys)| Found {
                dataset,
                snapshot: Some(phys),
                is_root: false,
                with_bookmarks: false,
            };
            found.extend(snapshots.into_iter().map(below));
        }
        Ok(found)
    }

    /// The snapshots of a head, oldest first.
    async fn snapshots_by_age(
        &self,
        held: &Held,
        head: &DatasetName,
    ) -> Result<Vec<(DatasetName, DslDatasetPhys)>, Failure> {
        let dsl = held.pool.dsl();
        let found = dsl.snapshots(head).await.map_err(|e| cannot_open(&head.name, e))?;
        let one = |snapshot: DatasetName| async move {
            let phys = dsl.dataset(snapshot.dataset).await.map_err(|e| cannot_open(&snapshot.name, e))?;
            Ok::<_, Failure>((snapshot, phys))
        };
        let read = futures::stream::iter(found.into_iter().map(one)).buffer_unordered(LISTED_AT_ONCE);
        let mut snapshots: Vec<_> = read.try_collect().await?;
        snapshots.sort_by(|(a, of_a), (b, of_b)| {
            (of_a.creation_txg.get(), &a.name).cmp(&(of_b.creation_txg.get(), &b.name))
        });
        Ok(snapshots)
    }

    /// A dataset as it is listed, with its bookmarks behind it.
    async fn listed(
        &self,
        held: &Held,
        found: Found,
        call: &DatasetList,
    ) -> Result<Vec<DatasetInfo>, Failure> {
        let name = &found.dataset.name;
        let mut listed = Vec::new();
        if let Some(phys) = found.snapshot.filter(|_| needs_mos_only(call)) {
            listed.push(of_snapshot(&found.dataset, &phys));
        } else if found.is_root || !call.without_heads || name.contains('@') {
            let mut info = self.dataset_info(held, name).await?;
            self.put_written_since(held, &call.written_since, &mut info).await?;
            self.put_mounted(&mut info, held.pool.is_read_only());
            if call.received {
                info.received = received(held, &found.dataset).await?;
            }
            listed.push(info);
        }
        if found.with_bookmarks {
            listed.extend(self.bookmark_infos(held, name).await?);
        }
        Ok(listed)
    }

    /// Replaces the properties of a mounted dataset that options of its mount override.
    fn put_mounted(&self, info: &mut DatasetInfo, is_pool_read_only: bool) {
        let Some(given) = self.mounts.given_of(&info.name) else { return };
        for (name, is_on) in given.temporary(&info.props, is_pool_read_only) {
            let prop = Prop { value: Value::Number(u64::from(is_on)), source: Source::Temporary };
            info.props.insert(name.to_owned(), prop);
        }
    }
}

/// True if the properties that are needed of snapshots are all in the MOS.
fn needs_mos_only(call: &DatasetList) -> bool {
    let is_of_mos = |name: &String| OF_MOS.contains(&name.as_str());
    !call.received && call.properties.as_ref().is_some_and(|needed| needed.iter().all(is_of_mos))
}

fn of_snapshot(dataset: &DatasetName, phys: &DslDatasetPhys) -> DatasetInfo {
    DatasetInfo {
        name: dataset.name.clone(),
        kind: DatasetKind::Snapshot,
        createtxg: phys.creation_txg.get(),
        props: snapshot_facts(phys, dataset.objset().get()),
        received: BTreeMap::new(),
    }
}

async fn received(held: &Held, dataset: &DatasetName) -> Result<BTreeMap<String, Value>, Failure> {
    let _view = held.pool.view().await;
    let found = held.pool.dsl().received_props(dataset).await.map_err(|e| cannot_open(&dataset.name, e))?;
    Ok(found.into_iter().map(|(name, value)| (name, value_of(value))).collect())
}
