//! Properties of pools: given when one is made or imported, and set later.
//!
//! Some live in the pool's configuration (comment, compatibility), some in a table of the pool's,
//! and some last as long as this import (altroot, readonly, cachefile).

use crate::cachefile::CacheFile;
use crate::props::{Occasion, Prop, Props, Source, Value, is_user_prop, parse_pool, pool_prop};
use crate::{Held, Holder, names, refusal};
use control::{DatasetKind, Failure, FailureKind, PoolSet};
use dsl::PropValue;
use env::boxed;
use pool::{Pool, PoolError};
use std::sync::Arc;
use units::{Ashift, ObjectId};

/// Pool properties as given on the command line.
#[derive(Default)]
pub struct Settings {
    /// Sector size of new vdevs.
    pub ashift: Option<Ashift>,
    /// A remark.
    pub comment: Option<String>,
    /// Where it is to be remembered, if it was said.
    pub cache_file: Option<CacheFile>,
    /// `readonly=on`.
    pub read_only: bool,
    /// `altroot`.
    pub altroot: Option<String>,
    /// Which features may be enabled.
    pub compatibility: Option<String>,
    /// Features asked for by name: on or off.
    pub features: Vec<(String, bool)>,
    /// What is kept in the pool's table.
    pub kept: Vec<(String, PropValue)>,
}

/// Properties that the pool's table keeps as numbers.
const KEPT: [&str; 7] =
    ["failmode", "autoexpand", AUTO_REPLACE, "autotrim", "multihost", "delegation", LIST_SNAPSHOTS];
/// `zfs list` shows snapshots without being asked.
pub const LIST_SNAPSHOTS: &str = "listsnapshots";
/// A new device in the place of one that failed replaces the one that failed.
pub const AUTO_REPLACE: &str = "autoreplace";

/// Why `multihost=on` is refused to a host that others cannot tell.
const NEEDS_HOSTID: &str = "requires a non-zero system hostid";

impl Settings {
    /// Reads them; refuses those that this version cannot keep.
    pub fn read(
        props: &[(String, String)],
        occasion: Occasion,
        cannot: &dyn Fn(&str) -> Failure,
    ) -> Result<Self, Failure> {
        let mut settings = Self::default();
        for (name, text) in props {
            let (name, value) = parse_pool(name, text, occasion).map_err(|e| cannot(&e.to_string()))?;
            settings.put(&name, &value).map_err(|reason| cannot(&reason))?;
        }
        Ok(settings)
    }

    fn put(&mut self, name: &str, value: &Value) -> Result<(), String> {
        match (name, value) {
            ("ashift", Value::Number(0)) => self.ashift = None,
            ("ashift", Value::Number(bits)) => {
                self.ashift = u8::try_from(*bits).ok().map(Ashift::new);
                self.kept.push((name.to_owned(), PropValue::Number(*bits)));
            }
            ("comment", value) => self.comment = text(value),
            ("altroot", value) => self.altroot = text(value),
            ("compatibility", value) => self.compatibility = text(value).filter(|value| value != "off"),
            (name, Value::Text(word)) if name.starts_with("feature@") => {
                self.features.push((name.trim_start_matches("feature@").to_owned(), word == "enabled"));
            }
            ("cachefile", value) => self.cache_file = Some(CacheFile::of(value)),
            ("readonly", Value::Number(on)) => self.read_only = *on == 1,
            (name, Value::Number(number)) if KEPT.contains(&name) => {
                self.kept.push((name.to_owned(), PropValue::Number(*number)));
            }
            (name, Value::Text(text)) if is_user_prop(name) => {
                self.kept.push((name.to_owned(), PropValue::Text(text.clone())));
            }
            (name, value) => return if_default(name, value),
        }
        Ok(())
    }

    /// Where a pool is to be remembered: as was said, else in the own list of the daemon. A pool whose name or root does
    /// not last is remembered nowhere if nothing was said.
    pub fn cache_file_for(&self, lasts: bool) -> CacheFile {
        let unsaid = if lasts { CacheFile::Own } else { CacheFile::Nowhere };
        self.cache_file.clone().unwrap_or(unsaid)
    }

    /// Whether a host of this number may have such a pool.
    pub fn check_host(&self, hostid: u64) -> Result<(), &'static str> {
        let is_on = |(name, value): &(String, PropValue)| is_multihost(name, value.number());
        if hostid == 0 && self.kept.iter().any(is_on) { Err(NEEDS_HOSTID) } else { Ok(()) }
    }

    /// Keeps what is to be kept.
    #[boxed]
    pub async fn keep(&self, held: &Held) -> Result<(), Failure> {
        let kept = self.keep_in(&held.pool).await;
        kept.map_err(|error| refusal::pool("set property for", &held.pool.name(), &error))
    }

    /// The same, in a pool that nobody holds.
    #[boxed]
    pub async fn keep_in(&self, pool: &Arc<Pool>) -> Result<(), PoolError> {
        if self.comment.is_some() && self.comment != pool.comment() {
            pool.set_comment(self.comment.clone()).await?;
        }
        if self.compatibility.is_some() {
            pool.set_compatibility(self.compatibility.clone()).await?;
        }
        for (name, value) in &self.kept {
            pool.set_pool_prop(name, Some(value.clone())).await?;
        }
        Ok(())
    }
}

fn is_multihost(name: &str, value: Option<u64>) -> bool {
    name == "multihost" && value == Some(1)
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) if !text.is_empty() => Some(text.clone()),
        _ => None,
    }
}

/// What cannot be kept can still be set to what it is anyway.
fn if_default(name: &str, value: &Value) -> Result<(), String> {
    match pool_prop(name) {
        _ if name == "version" && *value == Value::Number(5000) => Ok(()),
        Some(def) if def.default_value() == *value => Ok(()),
        _ => Err(format!("property '{name}' is not supported yet")),
    }
}

impl Holder {
    pub(super) async fn set_pool(&self, call: PoolSet) -> Result<(), Failure> {
        let held = self.pool(&call.pool)?;
        if call.vdev.is_some() {
            return crate::vdev_props::set(&held, &call).await;
        }
        let (name, value) =
            parse_pool(&call.name, &call.value, Occasion::Later).map_err(|e| e.failure(&call.pool))?;
        let refuse =
            |reason: &str| Failure::cannot(FailureKind::Unsupported, "set property for", &call.pool, reason);
        let pool = &held.pool;
        let stored = pool.pool_props().await.unwrap_or_default().remove(&name);
        let done = match (name.as_str(), &value) {
            ("comment", value) => pool.set_comment(text(value)).await,
            ("compatibility", value) => {
                let files = text(value).filter(|value| value != "off");
                if let Err(reason) = crate::compat::load(&*self.machine, files.as_deref().unwrap_or("off")) {
                    return Err(refuse(&reason));
                }
                pool.set_compatibility(files).await
            }
            (name, _) if name.starts_with("feature@") => {
                let feature = crate::choice::check_feature(name.trim_start_matches("feature@"));
                pool.enable_feature(feature.map_err(|reason| refuse(&reason))?).await
            }
            ("bootfs", value) => pool.set_pool_prop("bootfs", self.bootfs(&held, value).await?).await,
            ("cachefile", value) => {
                let file = CacheFile::of(value);
                self.check_cache_file(&file, &call.pool)?;
                held.set_cache_file(self.cache_files.meant(file));
                self.remember();
                Ok(())
            }
            (name, Value::Number(number)) if is_multihost(name, Some(*number)) && self.host().id == 0 => {
                return Err(refuse(NEEDS_HOSTID));
            }
            (name, Value::Number(number)) if KEPT.contains(&name) || name == "ashift" => {
                pool.set_pool_prop(name, Some(PropValue::Number(*number))).await
            }
            (name, Value::Text(text)) if is_user_prop(name) => {
                let value = Some(text).filter(|text| !text.is_empty());
                pool.set_pool_prop(name, value.map(|text| PropValue::Text(text.clone()))).await
            }
            (_, Value::Number(number)) if stored == Some(PropValue::Number(*number)) => return Ok(()),
            (name, value) => {
                if_default(name, value).map_err(|reason| refuse(&reason))?;
                match stored {
                    Some(_) => pool.set_pool_prop(name, None).await,
                    None => return Ok(()),
                }
            }
        };
        done.map_err(|e| refusal::pool("set property for", &call.pool, &e))
    }

    /// The object of the dataset to boot from.
    async fn bootfs(&self, held: &Held, value: &Value) -> Result<Option<PropValue>, Failure> {
        let pool = held.pool.name();
        let Some(name) = text(value) else { return Ok(None) };
        let refuse =
            |reason: String| Failure::cannot(FailureKind::Invalid, "set property for", &pool, &reason);
        if names::pool_of(&name) != pool {
            return Err(refuse(format!("'{name}' is an invalid name")));
        }
        let found = held.pool.dsl().resolve(&name).await;
        let found = found.map_err(|_| refuse("dataset does not exist".to_owned()))?;
        // A snapshot is of the kind of its head.
        if self.nature_of(held, names::head_of(&name)).await.kind != DatasetKind::Filesystem {
            return Err(refuse(format!("'{name}' is not a file system")));
        }
        Ok(Some(PropValue::Number(found.dataset.get())))
    }
}

/// What was set on a pool, for showing.
#[boxed]
pub async fn put(props: &mut Props, held: &Held) {
    let mut local = |name: &str, value: Value| {
        props.insert(name.to_owned(), Prop { value, source: Source::Local });
    };
    for (name, value) in held.pool.pool_props().await.unwrap_or_default() {
        match (pool_prop(&name), value) {
            (Some(_), PropValue::Number(object)) if name == "bootfs" => {
                if let Some(dataset) = name_of(held, object).await {
                    local(&name, Value::Text(dataset));
                }
            }
            (Some(def), PropValue::Number(number)) if def.default_value() != Value::Number(number) => {
                local(&name, Value::Number(number));
            }
            (None, PropValue::Text(text)) if is_user_prop(&name) => local(&name, Value::Text(text)),
            _ => {}
        }
    }
    if let Some(comment) = held.pool.comment() {
        local("comment", comment.as_str().into());
    }
    if let Some(compatibility) = held.pool.compatibility() {
        local("compatibility", compatibility.as_str().into());
    }
    if let Some(altroot) = &held.altroot {
        local("altroot", altroot.as_str().into());
    }
    if let Some(file) = held.cache_file().shown() {
        local("cachefile", file.as_str().into());
    }
}

async fn name_of(held: &Held, object: u64) -> Option<String> {
    let dsl = held.pool.dsl();
    let dir = dsl.dataset(ObjectId::new(object)).await.ok()?.dir.get();
    let all = dsl.list(&held.pool.name()).await.ok()?;
    let head = all.into_iter().find(|dataset| dataset.dir.get() == dir)?;
    if head.dataset.get() == object {
        return Some(head.name);
    }
    let snapshots = dsl.snapshots(&head).await.ok()?;
    snapshots.into_iter().find(|snapshot| snapshot.dataset.get() == object).map(|snapshot| snapshot.name)
}
