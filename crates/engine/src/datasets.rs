//! Datasets as commands see them, and what is done to them.

use crate::create::{VERSION, dataset_props, stored};
use crate::front::UnmountReach;
use crate::names;
use crate::prop_change::{self, PropChange};
use crate::props::{
    Access, Occasion, Prop, Props, Source, Value, check_block, dataset_prop, is_user_prop, parse_dataset,
    written_since,
};
use crate::volumes::{NewVolume, VolumeChanges};
use crate::{Held, Holder, accounts, destroy, destruction, refusal, support};
use control::{
    DatasetCreate, DatasetDestroy, DatasetInfo, DatasetInherit, DatasetKind, DatasetMade, DatasetSet,
    Failure, FailureKind, NameValue, Peer,
};
use dmu::Objset;
use dsl::{COUNTED, DatasetName, DslError, PoolSpace, PropValue, Property};
use ondisk::dsl::{DslDatasetPhys, DslDirPhys, dataset_flags, used};
use ondisk::objset::ObjsetType;
use pool::{DatasetView, Inherit, Pool, PoolError, RootOwner};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a file system's own objset says of it: nothing while it is being received for the first time.
const FORMAT: [&str; 4] = [VERSION, "utf8only", "normalization", "casesensitivity"];

impl Holder {
    /// A dataset and all below it, parents first, in order of their names.
    pub(super) async fn dataset_names(&self, held: &Held, root: &str) -> Result<Vec<String>, Failure> {
        let _view = held.pool.view().await;
        let found = held.pool.dsl().list(root).await.map_err(|e| cannot_open(root, e))?;
        Ok(found.into_iter().map(|dataset| dataset.name).collect())
    }

    /// What a dataset is, and what its objset says of itself.
    pub(super) async fn nature_of(&self, held: &Held, name: &str) -> Nature {
        Self::nature_in(held, name, &held.pool.view().await).await
    }

    /// As [`Self::nature_of`], for a caller that already has a view.
    async fn nature_in(held: &Held, name: &str, view: &DatasetView<'_>) -> Nature {
        let objset = held.pool.frame(name, view).await.ok().flatten();
        let is_volume = objset.as_ref().is_some_and(|objset| objset.kind() == ObjsetType::Zvol);
        let volume = match &objset {
            Some(objset) if is_volume => Pool::volume_sizes(objset).await.ok(),
            _ => None,
        };
        let format = match &objset {
            Some(objset) if !is_volume => format_of(objset).await,
            _ => Vec::new(),
        };
        let kind = match (name.contains('@'), is_volume) {
            (true, _) => DatasetKind::Snapshot,
            (false, true) => DatasetKind::Volume,
            (false, false) => DatasetKind::Filesystem,
        };
        Nature { kind, volume, format }
    }

    pub(super) async fn dataset(&self, held: &Held, name: &str) -> Result<DatasetName, Failure> {
        held.pool.dsl().resolve(name).await.map_err(|e| cannot_open(name, e))
    }

    pub(super) async fn dataset_info(&self, held: &Held, name: &str) -> Result<DatasetInfo, Failure> {
        let cannot = |e| cannot_open(name, e);
        let dsl = held.pool.dsl();
        let view = held.pool.view().await;
        let dataset = self.dataset(held, name).await?;
        let nature = Self::nature_in(held, name, &view).await;
        let kind = nature.kind;
        let facts = Facts {
            nature,
            dir: dsl.dir(dataset.dir).await.map_err(cannot)?,
            head: dsl.dataset(dataset.dataset).await.map_err(cannot)?,
            objset: dataset.objset().get(),
            available: dsl.available(dataset.dataset, &pool_space(held)).await.map_err(cannot)?,
            snapshots_changed: dsl
                .snapshots_changed(dataset.dir)
                .await
                .map_err(cannot)?
                .map(|at| at.as_secs()),
            mounted: self.mounts.place_of(name).is_some(),
        };
        let written = dsl.written(&facts.head).await.map_err(cannot)?;
        let clones = dsl.clones_of(&facts.head, &held.pool.name()).await.map_err(cannot)?;
        let set = dsl.props(&dataset).await.map_err(cannot)?;
        let mountpoint = mountpoint(&set, name, held);
        let origin = match kind {
            DatasetKind::Snapshot => None,
            // What is damaged there keeps nobody from looking at the dataset.
            _ => dsl.origin_name(&facts.dir, &held.pool.name()).await.unwrap_or_default(),
        };
        let mut props: Props = set.into_iter().map(|prop| (prop.name.clone(), prop_of(prop, name))).collect();
        if kind == DatasetKind::Filesystem {
            props.insert("mountpoint".to_owned(), mountpoint);
        }
        facts.put(&mut props);
        for what in COUNTED {
            if let (Some(count), false) =
                (dsl.counted(dataset.dir, what).await.map_err(cannot)?, kind == DatasetKind::Snapshot)
            {
                props.insert(
                    what.count().to_owned(),
                    Prop { value: Value::Number(count), source: Source::None },
                );
            }
        }
        if facts.head.user_refs.get() != 0 {
            let holds = held.pool.holds(name).await.map_err(|e| refusal::pool("open", name, &e))?.len();
            props.insert(
                "userrefs".to_owned(),
                Prop { value: Value::Number(holds as u64), source: Source::None },
            );
        }
        props.insert("written".to_owned(), Prop { value: Value::Number(written), source: Source::None });
        if !clones.is_empty() {
            let clones = Value::Text(clones.join(","));
            props.insert("clones".to_owned(), Prop { value: clones, source: Source::None });
        }
        if let Some(origin) = origin {
            props.insert("origin".to_owned(), Prop { value: Value::Text(origin), source: Source::None });
        }
        if kind != DatasetKind::Snapshot
            && let Some(state) =
                held.pool.resume_state(&dataset).await.map_err(|e| refusal::pool("open", name, &e))?
        {
            let token = Value::Text(stream::token(&state));
            props.insert("receive_resume_token".to_owned(), Prop { value: token, source: Source::None });
        }
        if let Some(encryption) = dsl.encryption(dataset.dir, &held.pool.name()).await.map_err(cannot)? {
            crate::encryption::put(encryption, &mut props);
        }
        if let Some(snaps) = dsl.redact_snaps(&dataset).await.map_err(cannot)? {
            let value = crate::redact::shown(&snaps);
            props.insert(crate::redact::SNAPS.to_owned(), Prop { value, source: Source::None });
        }
        let createtxg = facts.head.creation_txg.get();
        Ok(DatasetInfo { name: name.to_owned(), kind, createtxg, props, received: BTreeMap::new() })
    }

    /// What was written since each of these snapshots and bookmarks, where it is one before the dataset.
    pub(super) async fn put_written_since(
        &self,
        held: &Held,
        properties: &[String],
        info: &mut DatasetInfo,
    ) -> Result<(), Failure> {
        let dsl = held.pool.dsl();
        let _view = held.pool.view().await;
        let cannot = |name: &str, e| cannot_open(name, e);
        for property in properties {
            let Some(since) = written_since(property) else { continue };
            let full = match &since[1..] {
                full if full.contains(['@', '#']) => full.to_owned(),
                _ => format!("{}{since}", names::head_of(&info.name)),
            };
            let dataset = self.dataset(held, &info.name).await?.dataset;
            let phys = dsl.dataset(dataset).await.map_err(|e| cannot(&info.name, e))?;
            let written = if full.contains('#') {
                dsl.written_since_bookmark(&phys, &full).await
            } else {
                match dsl.resolve(&full).await {
                    Ok(snapshot) => dsl.written_since(&phys, snapshot.dataset).await,
                    Err(error) => Err(error),
                }
            };
            match written {
                Ok(None) | Err(DslError::NoSuchDataset { .. }) => {}
                Ok(Some(bytes)) => {
                    // As if somebody had set it: so OpenZFS has it.
                    let prop = Prop { value: Value::Number(bytes), source: Source::Local };
                    info.props.insert(property.clone(), prop);
                }
                Err(error) => return Err(cannot(&info.name, error)),
            }
        }
        Ok(())
    }

    pub(super) async fn create_dataset(&self, call: DatasetCreate) -> Result<DatasetMade, Failure> {
        let name = call.name.as_str();
        let verb = if call.dry_run { "verify" } else { "create" };
        let cannot = |reason: &str| Failure::cannot(FailureKind::Invalid, verb, name, reason);
        if call.volume || call.dry_run {
            // OpenZFS looks at the pool before it thinks of the dataset.
            self.pool(names::pool_of(name))?;
        }
        let held = self.pool_for_new(name)?;
        let kind = if call.volume { DatasetKind::Volume } else { DatasetKind::Filesystem };
        let (quotas, rest) =
            accounts::split_quotas(&call.props, kind).map_err(|error| cannot(&error.to_string()))?;
        self.check_blocks(&held, &rest, kind, &cannot).await?;
        let (volume, props) = match kind {
            DatasetKind::Volume => (Some(NewVolume::read(&held, &call, &cannot)?), Vec::new()),
            _ => (None, dataset_props(&rest, kind, Occasion::Creation, &cannot)?),
        };
        let made = DatasetMade { props: call.props.clone(), ..DatasetMade::default() };
        let existed = DatasetMade { existed: true, ..DatasetMade::default() };
        if call.dry_run {
            let is_there = call.parents && held.pool.dsl().resolve(name).await.is_ok();
            return Ok(if is_there { existed } else { volume.map_or(made, |volume| volume.made) });
        }
        let maker = call.maker.as_ref();
        self.check_place_of_new(&held, maker, (name, call.parents), kind, &props).await?;
        if !self.make_way(&held, name, call.parents, maker).await? {
            return Ok(existed);
        }
        let owner = self.owner_of_new(maker);
        if let Some(volume) = volume {
            return self.make_volume(&held, name, volume, owner.uid).await;
        }
        let done = held.pool.create_filesystem_by(name, props, owner).await;
        done.map_err(|e| refusal::pool("create", name, &e))?;
        self.set_quotas(&held, name, &quotas).await?;
        if !call.no_mount {
            self.mount_new(&held, name, call.maker.is_some()).await?;
        }
        Ok(made)
    }

    /// Sizes of blocks, as typed, that are larger than those of the pool can be.
    async fn check_blocks(
        &self,
        held: &Held,
        props: &[NameValue],
        kind: DatasetKind,
        cannot: &(dyn Fn(&str) -> Failure + Sync),
    ) -> Result<(), Failure> {
        let most = held.pool.block_max_bytes().await.map_err(|e| cannot(&refusal::reason(&e)))?;
        for (name, text) in props {
            check_block(name, text, kind, most.into()).map_err(|e| cannot(&e.to_string()))?;
        }
        Ok(())
    }

    /// The pool that a dataset of this name could be made in.
    pub(super) fn pool_for_new(&self, name: &str) -> Result<Arc<Held>, Failure> {
        let refuse = |kind, reason: &str| Failure::cannot(kind, "create", name, reason);
        names::check_dataset(name).map_err(|e| refuse(FailureKind::Invalid, &e.to_string()))?;
        if names::parent_of(name).is_none() {
            return Err(refuse(FailureKind::Invalid, "missing dataset name"));
        }
        let pool = names::pool_of(name);
        let no_pool = || refuse(FailureKind::NoSuchPool, &format!("no such pool '{pool}'"));
        self.pools.read().get(pool).cloned().ok_or_else(no_pool)
    }

    /// Sees to it that a dataset of this name can be made, `parents`: with its parents. False: there is one
    /// already, and that will do.
    pub(super) async fn make_way(
        &self,
        held: &Held,
        name: &str,
        parents: bool,
        maker: Option<&Peer>,
    ) -> Result<bool, Failure> {
        let refuse = |kind, reason: &str| Err(Failure::cannot(kind, "create", name, reason));
        let dsl = held.pool.dsl();
        let parent = names::parent_of(name).unwrap_or(name);
        match (dsl.resolve(name).await.is_ok(), dsl.resolve(parent).await.is_ok(), parents) {
            (true, _, true) => return Ok(false),
            (true, _, false) => return refuse(FailureKind::Exists, "dataset already exists"),
            (false, true, _) => self.check_parent(held, "create", name).await?,
            (false, false, true) => self.create_parents(held, parent, maker).await?,
            (false, false, false) => return refuse(FailureKind::NoSuchDataset, "parent does not exist"),
        }
        Ok(true)
    }

    /// Mounts what was just made, unless somebody else than the daemon's own user has made it.
    pub(super) async fn mount_new(&self, held: &Held, name: &str, is_foreign: bool) -> Result<(), Failure> {
        match is_foreign {
            false => self.mount_along(held, name).await,
            true => Err(Failure::new(
                FailureKind::Denied,
                "filesystem successfully created, but it may only be mounted by root",
            )),
        }
    }

    /// Who owns the root directory of a new file system: whoever asked for it, with that user's first group.
    fn owner_of_new(&self, maker: Option<&Peer>) -> RootOwner {
        let of_peer = |peer: &Peer| Some(RootOwner { uid: peer.uid, gid: *peer.gids.first()? });
        maker.and_then(of_peer).unwrap_or_else(|| RootOwner::from(self.host()))
    }

    pub(super) async fn create_parents(
        &self,
        held: &Held,
        name: &str,
        maker: Option<&Peer>,
    ) -> Result<(), Failure> {
        let mut end = names::pool_of(name).len();
        while end < name.len() {
            end = name[end + 1..].find('/').map_or(name.len(), |next| end + 1 + next);
            let ancestor = &name[..end];
            if held.pool.dsl().resolve(ancestor).await.is_ok() {
                continue;
            }
            self.check_parent(held, "create", ancestor).await?;
            let owner = self.owner_of_new(maker);
            let made = held.pool.create_filesystem_by(ancestor, Vec::new(), owner).await;
            made.map_err(|e| refusal::pool("create", ancestor, &e))?;
            if maker.is_none() {
                self.mount_along(held, ancestor).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn destroy_dataset(&self, call: DatasetDestroy) -> Result<Vec<String>, Failure> {
        let held = self.pool_of(&call.name)?;
        let kind = self.nature_of(&held, &call.name).await.kind;
        let going = destruction::of_dataset(&self.lineage(&held).await?, kind, &call)?;
        if !call.dry_run {
            self.destroy_those(&held, &going, call.force).await?;
        }
        Ok(going)
    }

    /// Destroys datasets and snapshots in the order in which they can go. A pool's root file system
    /// stays, and stays mounted.
    pub(super) async fn destroy_those(
        &self,
        held: &Held,
        going: &[String],
        force: bool,
    ) -> Result<(), Failure> {
        let is_snapshot = |name: &String| name.contains('@');
        let goes = |name: &&String| name.as_str() != held.pool.name();
        let going: Vec<String> = going.iter().filter(goes).cloned().collect();
        self.refuse_held(held, &going).await?;
        let heads: Vec<String> = going.iter().filter(|name| !is_snapshot(name)).cloned().collect();
        self.refuse_receiving(held, "destroy", &heads).await?;
        let places = self.automatic_places(held, |dataset| going.iter().any(|name| name == dataset)).await;
        let mounted = self.mounts.sessions_of(&going);
        if let Some(first) = going.first() {
            let busy = Failure::cannot(FailureKind::Busy, "destroy", first, "dataset is busy");
            destroy::refuse_seen_elsewhere(&mounted, force, busy, &format!("zfs destroy -f {first}"))?;
        }
        self.take(&mounted, UnmountReach::for_change(force)).await?;
        self.mounts.forget(&places);
        for head in &heads {
            // The kept part of a stream is destroyed with its dataset, before the snapshot that the
            // part is a clone of.
            let gone = held.pool.destroy_part_below(head).await;
            gone.map_err(|e| refusal::pool("destroy", head, &e))?;
        }
        for those in going.chunk_by(|a, b| is_snapshot(a) && is_snapshot(b)) {
            match those {
                [head] if !is_snapshot(head) => self.destroy_head(held, head).await?,
                snapshots => {
                    let _nobody_opens_them = self.let_go_of(held, snapshots).await;
                    let gone = held.pool.destroy_snapshots(snapshots.to_vec(), false).await;
                    gone.map_err(|e| refusal::destroy_snapshots(&e))?;
                }
            }
        }
        Ok(())
    }

    /// Returns an error if a stream is being received into one of these datasets.
    pub(super) async fn refuse_receiving(
        &self,
        held: &Held,
        verb: &str,
        heads: &[String],
    ) -> Result<(), Failure> {
        let receiving =
            held.pool.find_receiving(heads).await.map_err(|e| refusal::pool(verb, &heads[0], &e))?;
        match receiving {
            Some(name) => Err(Failure::cannot(FailureKind::Busy, verb, &name, "dataset is busy")),
            None => Ok(()),
        }
    }

    async fn destroy_head(&self, held: &Held, name: &str) -> Result<(), Failure> {
        let _nobody_opens_it = self.let_go_of_origin(held, name).await;
        let gone = held.pool.destroy_filesystem(name).await;
        gone.map_err(|e| refusal::pool("destroy", name, &e))
    }

    pub(super) async fn set_dataset(&self, call: DatasetSet) -> Result<(), Failure> {
        let held = self.pool_of(&call.name)?;
        let dataset = self.dataset(&held, &call.name).await?;
        let set = held.pool.dsl().props(&dataset).await.map_err(|e| cannot_open(&call.name, e))?;
        let now = |name: &str| {
            let prop = set.iter().find(|prop| prop.name == name);
            prop.map(|prop| value_of(prop.value.clone()))
        };
        let nature = self.nature_of(&held, &call.name).await;
        let kind = nature.kind;
        let refuse = |reason: &str| {
            Failure::cannot(FailureKind::Invalid, "set property for", &call.name, reason).exits(255)
        };
        if kind == DatasetKind::Snapshot && !call.props.iter().all(|(name, _)| is_user_prop(name)) {
            return Err(refuse("this property can not be modified for snapshots"));
        }
        let (quotas, rest) =
            accounts::split_quotas(&call.props, kind).map_err(|error| refuse(&error.to_string()))?;
        self.check_blocks(&held, &rest, kind, &refuse).await?;
        let (mut changes, mut upgrade) = (Vec::new(), None);
        for (name, text) in &rest {
            let parsed = parse_dataset(name, text, kind, Occasion::Later);
            let (name, value) = parsed.map_err(|e| refuse(&e.to_string()))?;
            if name == VERSION {
                support::check(&name, &value, None).map_err(|reason| refuse(&reason))?;
                upgrade = nature.newer_version(&value).map_err(|reason| refuse(&reason))?;
                continue;
            }
            support::check(&name, &value, now(&name).as_ref()).map_err(|reason| refuse(&reason))?;
            changes.extend(stored(value).map(|value| (name, value)));
        }
        self.check_places_of_set(&held, call.maker.as_ref(), &call.name, &changes).await?;
        let changes = match kind {
            DatasetKind::Volume => self.volume_changes(&held, &call.name, changes, &refuse).await?,
            _ => VolumeChanges { size_bytes: None, shrinks: false, props: changes },
        };
        // What has to be there for the new size comes first, and what was there for the old one goes last.
        let (before, after) = match changes.shrinks {
            true => (changes.size_bytes, None),
            false => (None, changes.size_bytes),
        };
        let (plain, followed): (Vec<_>, Vec<_>) =
            changes.props.into_iter().partition(|(name, _)| prop_change::is_plain(name));
        // The daemon must not mount where another user wants it to.
        let stay = call.keep_mounted || call.maker.is_some();
        let mut done = Vec::new();
        let set = async {
            self.resize(&held, &call.name, before).await?;
            done.extend(self.set_plain(&held, &call.name, plain).await?);
            for (name, value) in followed {
                let change = PropChange::set(&call.name, name, value);
                done.push(self.change_prop(&held, change, stay).await?);
            }
            self.resize(&held, &call.name, after).await?;
            self.set_quotas(&held, &call.name, &quotas).await?;
            // Last, because nothing makes a file system older again.
            match upgrade {
                Some(version) => self.upgrade_files(&held, &call.name, version).await,
                None => Ok(()),
            }
        };
        match set.await {
            Ok(()) => Ok(()),
            Err(failure) => Err(self.undo_props(&held, done, stay, failure).await),
        }
    }

    pub(super) async fn inherit_dataset(&self, call: DatasetInherit) -> Result<(), Failure> {
        let held = self.pool_of(&call.name)?;
        let def = dataset_prop(&call.property);
        let access = def.map(|def| def.access);
        let is_settable = access == Some(Access::Inherit) || (call.received && access == Some(Access::Set));
        if !is_settable && !crate::props::is_user_prop(&call.property) {
            let reason = format!("'{}' property cannot be inherited", call.property);
            return Err(Failure::new(FailureKind::Invalid, reason));
        }
        let name = def.map_or(call.property.as_str(), |def| def.name);
        let how = Inherit { recursive: call.recursive, received: call.received };
        self.check_places_of_inherit(&held, call.maker.as_ref(), (&call.name, name), how).await?;
        let stay = call.maker.is_some();
        self.change_prop(&held, PropChange::inherit(&call.name, name, how), stay).await.map(drop)
    }
}

pub fn cannot_open(name: &str, error: DslError) -> Failure {
    refusal::pool("open", name, &PoolError::Dsl(error))
}

fn pool_space(held: &Held) -> PoolSpace {
    PoolSpace { usable_bytes: held.pool.room().usable() }
}

pub fn value_of(value: PropValue) -> Value {
    match value {
        PropValue::Number(number) => Value::Number(number),
        PropValue::Text(text) => Value::Text(text),
    }
}

fn source_of(prop: &Property, dataset: &str) -> Source {
    match (prop.set_on == dataset, prop.received) {
        (true, false) => Source::Local,
        (true, true) => Source::Received,
        (false, _) => Source::Inherited(prop.set_on.clone()),
    }
}

fn prop_of(prop: Property, dataset: &str) -> Prop {
    Prop { source: source_of(&prop, dataset), value: value_of(prop.value) }
}

/// What is stored counts from where it was set; what is shown is where it will be mounted.
fn mountpoint(set: &[Property], dataset: &str, held: &Held) -> Prop {
    let altroot = held.altroot.as_deref();
    let Some(prop) = set.iter().find(|prop| prop.name == "mountpoint") else {
        return Prop { value: Value::Text(place(altroot, "/", dataset)), source: Source::Default };
    };
    let source = source_of(prop, dataset);
    let rest = dataset.strip_prefix(&prop.set_on).unwrap_or(dataset);
    let value = match &prop.value {
        PropValue::Text(path) if path.starts_with('/') => Value::Text(place(altroot, path, rest)),
        value => value_of(value.clone()),
    };
    Prop { value, source }
}

/// Joins an alternate root, a mount point and the names below it.
pub fn place(altroot: Option<&str>, set: &str, rest: &str) -> String {
    let below = [set, rest].into_iter().flat_map(components);
    let path: Vec<&str> = match altroot {
        None => below.collect(),
        Some(altroot) => components(altroot).chain(within_root(below)).collect(),
    };
    format!("/{}", path.join("/"))
}

fn components(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|component| !component.is_empty())
}

/// Resolves `.` and `..` as in a root directory, which `..` does not leave.
fn within_root<'a>(path: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut resolved = Vec::new();
    for component in path {
        match component {
            "." => {}
            ".." => _ = resolved.pop(),
            name => resolved.push(name),
        }
    }
    resolved
}

/// What a dataset's objset says of it.
pub struct Nature {
    /// What it is.
    pub kind: DatasetKind,
    /// Of a volume: its size, and that of its blocks.
    volume: Option<(u64, u64)>,
    /// Of a file system: what was settled when it was made.
    format: Vec<(&'static str, u64)>,
}

impl Nature {
    /// The version that a file system is to be upgraded to; `None` if the file system has this version.
    fn newer_version(&self, wanted: &Value) -> Result<Option<u64>, String> {
        let has = self.format.iter().find(|(name, _)| *name == VERSION).map_or(0, |(_, number)| *number);
        match *wanted {
            Value::Number(wanted) if wanted < has => {
                Err(format!("Can not downgrade; already at version {has}"))
            }
            Value::Number(wanted) if wanted > has => Ok(Some(wanted)),
            _ => Ok(None),
        }
    }
}

async fn format_of(objset: &Arc<Objset>) -> Vec<(&'static str, u64)> {
    let Ok(settled) = zpl::Zfs::settled(objset).await else { return Vec::new() };
    let values = [settled.version, settled.utf8_only, settled.normalization, settled.case_sensitivity];
    FORMAT.into_iter().zip(values).collect()
}

/// What is so, as against what was set.
struct Facts {
    nature: Nature,
    dir: DslDirPhys,
    head: DslDatasetPhys,
    objset: u64,
    available: u64,
    snapshots_changed: Option<u64>,
    mounted: bool,
}

/// What the MOS has of any dataset.
fn facts_of_mos(head: &DslDatasetPhys, objset: u64) -> [(&'static str, u64); 7] {
    [
        ("creation", head.creation_time.get()),
        ("referenced", head.referenced_bytes.get()),
        ("refcompressratio", ratio(head.uncompressed_bytes.get(), head.compressed_bytes.get())),
        ("createtxg", head.creation_txg.get()),
        ("guid", head.guid.get()),
        ("objsetid", objset),
        ("logicalreferenced", head.uncompressed_bytes.get()),
    ]
}

/// What the MOS has of a snapshot beside that.
fn facts_of_snapshot(phys: &DslDatasetPhys) -> [(&'static str, u64); 4] {
    [
        ("used", phys.unique_bytes.get()),
        ("defer_destroy", u64::from(phys.flags.get() & dataset_flags::DEFER_DESTROY != 0)),
        ("userrefs", 0),
        ("compressratio", ratio(phys.uncompressed_bytes.get(), phys.compressed_bytes.get())),
    ]
}

/// The properties of a snapshot that need nothing but its dataset in the MOS.
pub fn snapshot_facts(phys: &DslDatasetPhys, objset: u64) -> Props {
    let own = facts_of_snapshot(phys).into_iter().filter(|(name, _)| *name != "userrefs");
    let numbers = facts_of_mos(phys, objset).into_iter().chain(own);
    let facts = numbers.map(|(name, number)| (name, Value::Number(number)));
    let kind = ("type", DatasetKind::Snapshot.word().into());
    facts.chain([kind]).map(|(name, value)| (name.to_owned(), Prop { value, source: Source::None })).collect()
}

impl Facts {
    fn put(&self, props: &mut Props) {
        let head = &self.head;
        let mut numbers = facts_of_mos(head, self.objset).to_vec();
        match self.nature.kind {
            DatasetKind::Snapshot => numbers.extend(facts_of_snapshot(head)),
            DatasetKind::Bookmark => {}
            DatasetKind::Filesystem | DatasetKind::Volume => {
                numbers.extend(self.of_head());
                numbers.extend(self.snapshots_changed.map(|secs| ("snapshots_changed", secs)));
            }
        }
        if self.nature.kind == DatasetKind::Filesystem {
            numbers.push(("mounted", u64::from(self.mounted)));
        }
        match head.flags.get() & dataset_flags::INCONSISTENT {
            0 => numbers.extend(self.nature.format.iter().copied()),
            _ => props.extend(
                FORMAT.map(|name| (name.to_owned(), Prop { value: Value::Absent, source: Source::None })),
            ),
        }
        if let Some((size, block)) = self.nature.volume {
            numbers.push(("volsize", size));
            if self.nature.kind == DatasetKind::Volume {
                numbers.push(("volblocksize", block));
            }
        }
        let facts = numbers.into_iter().map(|(name, number)| (name, Value::Number(number)));
        let kind = ("type", self.nature.kind.word().into());
        for (name, value) in facts.chain([kind]) {
            let source = match (name, &value) {
                // The size of a volume was chosen by whoever made it.
                ("volsize", _) => Source::Local,
                ("volblocksize", value) if is_default(name, value) => Source::Default,
                _ => Source::None,
            };
            props.insert(name.to_owned(), Prop { value, source });
        }
        // Nobody counts before a limit is set.
        if self.nature.kind != DatasetKind::Snapshot {
            for name in ["filesystem_count", "snapshot_count"] {
                let none = Prop { value: Value::Number(u64::MAX), source: Source::Default };
                props.entry(name.to_owned()).or_insert(none);
            }
        }
    }

    fn of_head(&self) -> Vec<(&'static str, u64)> {
        let dir = &self.dir;
        let part = |kind: usize| dir.used_breakdown[kind].get();
        vec![
            ("used", dir.used_bytes.get()),
            ("available", self.available),
            ("compressratio", ratio(dir.uncompressed_bytes.get(), dir.compressed_bytes.get())),
            ("usedbysnapshots", part(used::SNAP)),
            ("usedbydataset", part(used::HEAD)),
            ("usedbychildren", part(used::CHILD).saturating_add(part(used::CHILD_RESERVATION))),
            ("usedbyrefreservation", part(used::REFRESERVATION)),
            ("logicalused", dir.uncompressed_bytes.get()),
        ]
    }
}

fn is_default(name: &str, value: &Value) -> bool {
    dataset_prop(name).is_some_and(|def| def.default_value() == *value)
}

/// Hundredths; nothing stored counts as stored plainly.
fn ratio(uncompressed: u64, compressed: u64) -> u64 {
    let hundredths = u128::from(uncompressed) * 100 / u128::from(compressed.max(1));
    u64::try_from(hundredths.max(100)).unwrap_or(u64::MAX)
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

    #[test]
    fn no_mount_point_leads_out_of_the_altroot() {
        assert_eq!(place(Some("/mnt"), "/../../etc", ""), "/mnt/etc");
        assert_eq!(place(Some("/mnt"), "/a/./b/../..", "x"), "/mnt/x");
    }
}
