//! Datasets as commands see them, and what is done to them.

use super::create::{dataset_props, stored};
use super::{Held, Holder, refusal, support};
use control::props::{Occasion, Prop, Props, Source, Value, dataset_prop, parse_dataset};
use control::{
    DatasetCreate, DatasetDestroy, DatasetInfo, DatasetInherit, DatasetKind, DatasetList, DatasetSet, Failure,
    FailureKind, names,
};
use dsl::{Dataset, DslError, PropSource, PropValue};
use pool::PoolError;
use std::sync::Arc;

impl Holder {
    pub(super) async fn list_datasets(&self, call: DatasetList) -> Result<Vec<DatasetInfo>, Failure> {
        let mut all = Vec::new();
        let pools = match &call.root {
            Some(root) => vec![self.pool_of(root)?],
            None => self.all(),
        };
        for held in pools {
            let root = call.root.clone().unwrap_or_else(|| held.pool.name());
            let below = |name: &str| name[root.len()..].matches('/').count();
            for name in self.dataset_names(&held, &root).await? {
                if call.depth.is_none_or(|depth| below(&name) <= depth as usize) {
                    all.push(self.dataset_info(&held, &name).await?);
                }
            }
        }
        Ok(all)
    }

    /// A dataset and all below it, parents first, in order of their names.
    pub(super) async fn dataset_names(&self, held: &Held, root: &str) -> Result<Vec<String>, Failure> {
        let dsl = held.pool.dsl();
        let open = |e: DslError| refusal::pool("open", root, &PoolError::Dsl(e));
        let dir = Arc::clone(dsl.dataset(root).await.map_err(open)?.dir());
        let mut found = dsl.names_below(&dir).await.map_err(open)?;
        found.sort();
        Ok(found)
    }

    async fn dataset(&self, held: &Held, name: &str) -> Result<Arc<Dataset>, Failure> {
        let found = held.pool.dsl().dataset(name).await;
        found.map_err(|e| refusal::pool("open", name, &PoolError::Dsl(e)))
    }

    pub(super) async fn dataset_info(&self, held: &Held, name: &str) -> Result<DatasetInfo, Failure> {
        let dataset = self.dataset(held, name).await?;
        let found = held.pool.dsl().all_props(&dataset).await;
        let found = found.map_err(|e| refusal::pool("open", name, &PoolError::Dsl(e)))?;
        let mut props: Props = found.into_iter().map(|(name, found)| (name, prop_of(found))).collect();
        put_mountpoint(&mut props, name, held);
        put_facts(&mut props, held, &dataset);
        let mounted = u64::from(self.mounts.place_of(name).is_some());
        props.insert("mounted".to_owned(), fact(mounted.into()));
        let createtxg = dataset.phys().creation_txg.get();
        Ok(DatasetInfo { name: name.to_owned(), kind: DatasetKind::Filesystem, createtxg, props })
    }

    /// A property that is a number.
    pub(super) async fn number(&self, held: &Held, dataset: &str, property: &str) -> Result<u64, Failure> {
        let info = self.dataset_info(held, dataset).await?;
        match info.props.get(property).map(|prop| &prop.value) {
            Some(Value::Number(number)) => Ok(*number),
            _ => Ok(0),
        }
    }

    pub(super) async fn create_dataset(&self, call: DatasetCreate) -> Result<(), Failure> {
        let _alone = self.changing.lock().await;
        let name = call.name.as_str();
        let refuse = |kind, reason: &str| Failure::cannot(kind, "create", name, reason);
        let cannot = |reason: &str| refuse(FailureKind::Invalid, reason);
        names::check_dataset(name).map_err(|e| cannot(&e.to_string()))?;
        if call.volume_bytes.is_some() {
            return Err(refuse(FailureKind::Unsupported, "volumes are not supported yet"));
        }
        let Some(parent) = names::parent_of(name) else { return Err(cannot("missing dataset name")) };
        let pool = names::pool_of(name);
        let no_pool = || refuse(FailureKind::NoSuchPool, &format!("no such pool '{pool}'"));
        let held = self.pools.read().get(pool).cloned().ok_or_else(no_pool)?;
        let props = dataset_props(&call.props, &cannot)?;
        let exists = |found: &str| {
            let (held, found) = (Arc::clone(&held), found.to_owned());
            async move { held.pool.dsl().dataset(&found).await.is_ok() }
        };
        if exists(name).await {
            return if call.parents { Ok(()) } else { Err(refuse(FailureKind::Exists, "dataset already exists")) };
        }
        if !exists(parent).await {
            if !call.parents {
                return Err(refuse(FailureKind::NoSuchDataset, "parent does not exist"));
            }
            self.create_parents(&held, parent).await?;
        }
        let made = held.pool.create_filesystem(name, props).await;
        made.map_err(|e| refusal::pool("create", name, &e))?;
        if call.no_mount { Ok(()) } else { self.mount_along(&held, name).await }
    }

    async fn create_parents(&self, held: &Held, name: &str) -> Result<(), Failure> {
        let mut end = names::pool_of(name).len();
        while end < name.len() {
            end = name[end + 1..].find('/').map_or(name.len(), |next| end + 1 + next);
            let ancestor = &name[..end];
            if held.pool.dsl().dataset(ancestor).await.is_ok() {
                continue;
            }
            let made = held.pool.create_filesystem(ancestor, Vec::new()).await;
            made.map_err(|e| refusal::pool("create", ancestor, &e))?;
            self.mount_along(held, ancestor).await?;
        }
        Ok(())
    }

    pub(super) async fn destroy_dataset(&self, call: DatasetDestroy) -> Result<(), Failure> {
        let _alone = self.changing.lock().await;
        let held = self.pool_of(&call.name)?;
        let mut going = self.dataset_names(&held, &call.name).await?;
        if going.len() > 1 && !call.recursive {
            let reason = "filesystem has children";
            return Err(Failure::cannot(FailureKind::Busy, "destroy", &call.name, reason));
        }
        self.mounts.unmount_below(&call.name, call.force)?;
        going.reverse();
        let is_root = |name: &&String| **name == held.pool.name();
        for name in going.iter().filter(|name| !is_root(name)) {
            let gone = held.pool.destroy_filesystem(name).await;
            gone.map_err(|e| refusal::pool("destroy", name, &e))?;
        }
        Ok(())
    }

    pub(super) async fn set_dataset(&self, call: DatasetSet) -> Result<(), Failure> {
        let _alone = self.changing.lock().await;
        let held = self.pool_of(&call.name)?;
        self.dataset(&held, &call.name).await?;
        let refuse = |reason: &str| {
            Failure::cannot(FailureKind::Invalid, "set property for", &call.name, reason).exits(255)
        };
        let mut changes = Vec::new();
        for (name, text) in &call.props {
            let parsed = parse_dataset(name, text, DatasetKind::Filesystem, Occasion::Later);
            let (name, value) = parsed.map_err(|e| refuse(&e.to_string()))?;
            support::check(&name, &value).map_err(|reason| refuse(&reason))?;
            changes.extend(stored(value).map(|value| (name, value)));
        }
        for (name, value) in changes {
            self.set_one(&held, &call.name, &name, Some(value)).await?;
        }
        Ok(())
    }

    pub(super) async fn inherit_dataset(&self, call: DatasetInherit) -> Result<(), Failure> {
        let _alone = self.changing.lock().await;
        let held = self.pool_of(&call.name)?;
        let def = dataset_prop(&call.property);
        let settable = def.is_some_and(|def| def.access == control::props::Access::Inherit);
        if !settable && !control::props::is_user_prop(&call.property) {
            let reason = format!("'{}' property cannot be inherited", call.property);
            return Err(Failure::new(FailureKind::Invalid, reason));
        }
        let name = def.map_or(call.property.as_str(), |def| def.name);
        let all = self.dataset_names(&held, &call.name).await?;
        let meant = if call.recursive { all.as_slice() } else { &all[..1] };
        for dataset in meant {
            self.set_one(&held, dataset, name, None).await?;
        }
        Ok(())
    }

    async fn set_one(
        &self,
        held: &Held,
        dataset: &str,
        property: &str,
        value: Option<PropValue>,
    ) -> Result<(), Failure> {
        let set = held.pool.set_prop(dataset, property, value).await;
        set.map_err(|e| refusal::pool("set property for", dataset, &e).exits(255))?;
        match property {
            "mountpoint" => self.remount_below(held, dataset).await,
            _ => Ok(()),
        }
    }
}

fn fact(value: Value) -> Prop {
    Prop { value, source: Source::None }
}

fn prop_of((value, source): (PropValue, PropSource)) -> Prop {
    let value = match value {
        PropValue::Number(number) => Value::Number(number),
        PropValue::Text(text) => Value::Text(text),
    };
    let source = match source {
        PropSource::Default => Source::Default,
        PropSource::Local => Source::Local,
        PropSource::Received => Source::Received,
        PropSource::Inherited(from) => Source::Inherited(from),
    };
    Prop { value, source }
}

/// What is stored is relative to where it was set; what is shown is where it will be.
fn put_mountpoint(props: &mut Props, dataset: &str, held: &Held) {
    let Some(prop) = props.get_mut("mountpoint") else { return };
    let base = match &prop.source {
        Source::Inherited(from) => from.clone(),
        Source::Default => String::new(),
        _ => dataset.to_owned(),
    };
    let Value::Text(set) = &prop.value else { return };
    if !set.starts_with('/') {
        return;
    }
    prop.value = Value::Text(place(held.altroot.as_deref(), set, dataset[base.len()..].trim_start_matches('/')));
}

/// Joins an alternate root, a mount point and the names below it.
fn place(altroot: Option<&str>, set: &str, rest: &str) -> String {
    let parts = [altroot.unwrap_or(""), set, rest];
    let path: Vec<&str> = parts.iter().flat_map(|part| part.split('/')).filter(|part| !part.is_empty()).collect();
    format!("/{}", path.join("/"))
}

fn put_facts(props: &mut Props, held: &Held, dataset: &Arc<Dataset>) {
    let phys = dataset.phys();
    let dir = dataset.dir().phys();
    let used = |kind: usize| dir.used_breakdown[kind].get();
    let ratio = |uncompressed: u64, compressed: u64| match compressed {
        0 => 100,
        _ => u128::from(uncompressed) * 100 / u128::from(compressed),
    };
    let hundredths = |ratio: u128| u64::try_from(ratio.max(100)).unwrap_or(100);
    let facts: [(&str, Value); 18] = [
        ("type", DatasetKind::Filesystem.word().into()),
        ("creation", phys.creation_time.get().into()),
        ("used", dir.used_bytes.get().into()),
        ("available", held.pool.available(dataset).into()),
        ("referenced", phys.referenced_bytes.get().into()),
        (
            "compressratio",
            hundredths(ratio(dir.uncompressed_bytes.get(), dir.compressed_bytes.get())).into(),
        ),
        (
            "refcompressratio",
            hundredths(ratio(phys.uncompressed_bytes.get(), phys.compressed_bytes.get())).into(),
        ),
        ("createtxg", phys.creation_txg.get().into()),
        ("guid", phys.guid.get().into()),
        ("objsetid", dataset.objset().get().into()),
        ("usedbysnapshots", used(ondisk::dsl::used::SNAPSHOTS).into()),
        ("usedbydataset", used(ondisk::dsl::used::HEAD).into()),
        (
            "usedbychildren",
            (used(ondisk::dsl::used::CHILDREN) + used(ondisk::dsl::used::CHILD_RESERVATIONS)).into(),
        ),
        ("usedbyrefreservation", used(ondisk::dsl::used::REFRESERVATION).into()),
        ("written", phys.referenced_bytes.get().into()),
        ("logicalused", dir.uncompressed_bytes.get().into()),
        ("logicalreferenced", phys.uncompressed_bytes.get().into()),
        ("version", 5.into()),
    ];
    for (name, value) in facts {
        props.insert(name.to_owned(), fact(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_joined_without_doubled_slashes() {
        assert_eq!(place(None, "/", "tank/a"), "/tank/a");
        assert_eq!(place(Some("/mnt"), "/", "tank"), "/mnt/tank");
        assert_eq!(place(Some("/mnt/"), "/srv", "a/b"), "/mnt/srv/a/b");
        assert_eq!(place(None, "/srv", ""), "/srv");
    }
}
