//! Making pools and adding to them.

use crate::admit::{self, Allowance, Purpose};
use crate::choice::Offer;
use crate::held::Held;
use crate::props::{Access, Occasion, Value, parse_dataset};
use crate::settings::Settings;
use crate::spec::{Layout, VdevSpec};
use crate::{Holder, choice, refusal, support};
use control::{DatasetKind, Failure, FailureKind, PoolAdd, PoolCreate, PoolInfo, VdevClass};
use dsl::PropValue;
use pool::{Pool, PoolError, PoolSpec};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::Ashift;
use vdev::{Bias, NewVdev};

/// The version of a file system's format: it lies in the file system.
pub const VERSION: &str = "version";

/// A property's value as the dataset layer stores it.
pub fn stored(value: Value) -> Option<PropValue> {
    match value {
        Value::Number(number) => Some(PropValue::Number(number)),
        Value::Text(text) => Some(PropValue::Text(text)),
        Value::Absent => None,
    }
}

fn bias_of(class: VdevClass) -> Bias {
    match class {
        VdevClass::Log => Bias::Log,
        VdevClass::Special => Bias::Special,
        VdevClass::Dedup => Bias::Dedup,
        VdevClass::Normal | VdevClass::Cache | VdevClass::Spare => Bias::None,
    }
}

fn new_vdev(spec: &VdevSpec, ashift: Option<Ashift>) -> NewVdev {
    NewVdev {
        paths: spec.devices.iter().map(PathBuf::from).collect(),
        ashift,
        bias: bias_of(spec.class),
        create_txg: units::TXG_INITIAL.get(),
        parity: match spec.layout {
            Layout::Raidz { parity } | Layout::Draid { parity, .. } => parity,
            Layout::Single | Layout::Mirror => 0,
        },
        data: match spec.layout {
            Layout::Draid { data, .. } => data,
            Layout::Single | Layout::Mirror | Layout::Raidz { .. } => 0,
        },
    }
}

impl Holder {
    pub(super) async fn create(&self, call: PoolCreate) -> Result<(), Failure> {
        let taking = self.taking.lock().await;
        let name = call.name.as_str();
        let cannot = |reason: &str| Failure::cannot(FailureKind::Invalid, "create", name, reason);
        let facts = self.facts(&call.vdevs).await?;
        let allow = Allowance { in_use: call.force, replication_mismatch: call.force, forced: call.force };
        admit::check_spec(&call.vdevs, &facts, None, allow)?;
        self.check_mountpoint(&call)?;
        let settings = Settings::read(&call.props, Occasion::Creation, &cannot)?;
        settings.check_host(self.host().id).map_err(cannot)?;
        let root_props = root_props(&call, &cannot)?;
        if call.dry_run {
            return Ok(());
        }
        admit::check_pool_name(name)?;
        call.stored_name.as_deref().map_or(Ok(()), admit::check_pool_name)?;
        if self.pools.read().contains_key(name) || self.has_absent(name) {
            return Err(Failure::cannot(FailureKind::Exists, "create", name, "pool already exists"));
        }
        admit::check_devices(Purpose::Create, name, &call.vdevs, &facts)?;
        admit::check_supported(&call.vdevs)?;
        let features =
            choice::features(&*self.machine, Offer::of(&self.tuning()), &settings, call.no_features)
                .map_err(|reason| cannot(&reason))?;
        let spec = PoolSpec {
            name: name.to_owned(),
            stored_name: call.stored_name.clone(),
            vdevs: call.vdevs.iter().filter(is_vdev).map(|v| new_vdev(v, settings.ashift)).collect(),
            root_props,
            comment: settings.comment.clone(),
            // What may be taken was decided above, from the same labels.
            force: true,
        };
        let made = Pool::create_with(Arc::clone(&self.env), spec, &features, self.tuning()).await;
        let pool = made.map_err(|e| refusal::pool("create", name, &e))?;
        let others = add_auxiliaries(&pool, &call.vdevs, settings.ashift).await;
        drop(taking);
        let altroot = call.altroot.clone().or(settings.altroot.clone());
        let cache_file = settings.cache_file_for(altroot.is_none() && call.stored_name.is_none());
        let held = self.take_in(Held::new(pool, altroot, cache_file, self.env.random_u64()));
        tracing::info!(pool = name, "created");
        others.map_err(|e| refusal::pool("add spares and caches to", name, &e))?;
        settings.keep(&held).await?;
        self.mount_automatic(&held).await
    }

    pub(super) async fn add(&self, call: PoolAdd) -> Result<(), Failure> {
        let _taking = self.taking.lock().await;
        let name = call.pool.as_str();
        let held = self.pool(name)?;
        let facts = self.facts(&call.vdevs).await?;
        let allow = Allowance {
            in_use: call.allow_in_use,
            replication_mismatch: call.allow_replication_mismatch,
            forced: call.force,
        };
        let now = crate::info::pool_info(&*self.machine, &held).await;
        admit::check_spec(&call.vdevs, &facts, Some(&now), allow)?;
        if call.dry_run {
            return Ok(());
        }
        let cannot = |reason: &str| Failure::cannot(FailureKind::Invalid, "add to", name, reason);
        let settings = Settings::read(&call.props, Occasion::Creation, &cannot)?;
        let kept = held.pool.ashift().await.map_err(|e| refusal::pool("add to", name, &e))?;
        let ashift = settings.ashift.or(kept);
        check_ashift(&call, ashift, &now)?;
        admit::check_devices(Purpose::Add, name, &call.vdevs, &facts)?;
        admit::check_supported(&call.vdevs)?;
        let cannot = |error| refusal::pool("add to", name, &error);
        let vdevs: Vec<_> = call.vdevs.iter().filter(is_vdev).map(|v| new_vdev(v, ashift)).collect();
        if !vdevs.is_empty() {
            held.pool.add(vdevs, true).await.map_err(cannot)?;
        }
        add_auxiliaries(&held.pool, &call.vdevs, ashift).await.map_err(cannot)?;
        tracing::info!(pool = name, "vdevs added");
        self.remember();
        Ok(())
    }

    /// A pool's root is mounted on an empty directory, or one that is not there yet.
    fn check_mountpoint(&self, call: &PoolCreate) -> Result<(), Failure> {
        if let Some(mountpoint) = &call.mountpoint {
            admit::check_mountpoint(mountpoint)?;
        }
        let of_props = || call.fs_props.iter().rev().find(|(n, _)| n == "mountpoint").map(|p| p.1.clone());
        let given = call.mountpoint.clone().or_else(of_props);
        let mountpoint = given.unwrap_or_else(|| format!("/{}", call.name));
        let path = format!("{}{mountpoint}", call.altroot.as_deref().unwrap_or(""));
        if !mountpoint.starts_with('/') || self.mounts.is_free(Path::new(&path)) {
            return Ok(());
        }
        let line = format!("mountpoint '{path}' exists and is not empty");
        Err(Failure::new(FailureKind::Busy, line).and("use '-m' option to provide a different default"))
    }
}

/// What becomes a top-level vdev.
fn is_vdev(spec: &&VdevSpec) -> bool {
    !matches!(spec.class, VdevClass::Spare | VdevClass::Cache)
}

async fn add_auxiliaries(
    pool: &Arc<Pool>,
    specs: &[VdevSpec],
    ashift: Option<Ashift>,
) -> Result<(), PoolError> {
    let paths_of = |class| -> Vec<_> {
        let specs = specs.iter().filter(|spec| spec.class == class);
        specs.flat_map(|spec| &spec.devices).map(PathBuf::from).collect()
    };
    let (spares, caches) = (paths_of(VdevClass::Spare), paths_of(VdevClass::Cache));
    if !spares.is_empty() {
        pool.add_spares(&spares).await?;
    }
    if !caches.is_empty() {
        pool.add_caches(&caches, ashift).await?;
    }
    Ok(())
}

/// Vdevs of another sector size than those there are have to be asked for.
fn check_ashift(call: &PoolAdd, ashift: Option<Ashift>, now: &PoolInfo) -> Result<(), Failure> {
    let Some(ashift) = ashift.map(|ashift| u64::from(ashift.get())) else { return Ok(()) };
    let is_data = call.vdevs.iter().any(|spec| spec.class == VdevClass::Normal);
    let differs = now.tops(VdevClass::Normal).any(|top| top.ashift != 0 && top.ashift != ashift);
    if call.allow_ashift_mismatch || call.force || !is_data || !differs {
        return Ok(());
    }
    let reason = "adding devices with different physical sector sizes is not allowed";
    Err(Failure::cannot(FailureKind::Invalid, "add to", &call.pool, reason))
}

fn root_props(
    call: &PoolCreate,
    cannot: &dyn Fn(&str) -> Failure,
) -> Result<Vec<(String, PropValue)>, Failure> {
    let mut props = dataset_props(&call.fs_props, DatasetKind::Filesystem, Occasion::Creation, cannot)?;
    if let Some(mountpoint) = &call.mountpoint {
        props.retain(|(name, _)| name != "mountpoint");
        props.push(("mountpoint".to_owned(), PropValue::Text(mountpoint.clone())));
    }
    Ok(props)
}

/// Properties of a new dataset.
pub fn dataset_props(
    props: &[(String, String)],
    kind: DatasetKind,
    occasion: Occasion,
    cannot: &dyn Fn(&str) -> Failure,
) -> Result<Vec<(String, PropValue)>, Failure> {
    let mut stored_props = Vec::new();
    for (name, value) in parsed_props(props, kind, occasion, cannot)? {
        let def = crate::props::dataset_prop(&name);
        // What is settled in the dataset itself, and cannot be other than it is, needs no place.
        let is_fixed = def.is_some_and(|def| def.access == Access::AtCreation || def.name == VERSION);
        if is_fixed && def.is_some_and(|def| def.default_value() == value) {
            continue;
        }
        stored_props.extend(stored(value).map(|value| (name, value)));
    }
    Ok(stored_props)
}

/// Properties of a new dataset as they were typed, if it can have them: their names and values.
pub fn parsed_props(
    props: &[(String, String)],
    kind: DatasetKind,
    occasion: Occasion,
    cannot: &dyn Fn(&str) -> Failure,
) -> Result<Vec<(String, Value)>, Failure> {
    let parsed = props.iter().map(|(name, text)| {
        let parsed = parse_dataset(name, text, kind, occasion);
        let (name, value) = parsed.map_err(|e| cannot(&e.to_string()))?;
        support::check(&name, &value, None).map_err(|reason| cannot(&reason))?;
        Ok((name, value))
    });
    parsed.collect()
}
