//! Properties of datasets.
//!
//! ```text
//!  Dir "tank/fs" ─ props ─► ZAP:  "sync" ─► 1          set here
//!      │                          "atime$recvd" ─► 0   came with a received stream
//!      ▼ parent                   "exec$inherit"       not even what was received
//!  Dir "tank"    ─ props ─► ZAP:  "org.example:by" ─► "text"
//! ```
//! A value is looked for in the dataset's own ZAP, then, if the property is one that is
//! inherited, in those of its ancestors, and last in the table of defaults. User properties,
//! whose names contain a colon, are text and are inherited. Values are stored as the format
//! numbers them; the words for them are the front's business.
//!
//! Invariants
//! - What was set is in force here and below until something nearer is set
//!   (test: `a_property_is_inherited_until_it_is_set_nearer`).

use std::collections::BTreeMap;

use dmu::Tx;
use dmu::zap::{Zap, ZapError, ZapValue};
use env::boxed;
use ondisk::props::DEDUP_VERIFY;
use ondisk::zap::NAME_MAX_BYTES;
use ondisk::{ChecksumKind, Compression};
use units::ObjectId;
use zerocopy::little_endian::U64;

use crate::dataset::Dataset;
use crate::dir::Dir;
use crate::features::{
    FILESYSTEM_LIMITS, Feature, LARGE_BLOCKS, LARGE_DNODE, feature_of_checksum, feature_of_compression,
};
use crate::names::split;
use crate::{DatasetName, Dsl, DslError};

mod stream;
mod table;

pub use table::{DefaultValue, PROPS, PropDef, prop};

/// The value of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropValue {
    /// A number, or the number of a choice.
    Number(u64),
    /// Text.
    Text(String),
}

impl PropValue {
    /// The number it is.
    #[must_use]
    pub const fn number(&self) -> Option<u64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }

    /// The text it is.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(crate) fn stored(&self) -> ZapValue {
        match self {
            Self::Number(number) => ZapValue::from(*number),
            Self::Text(text) => ZapValue::text(text),
        }
    }

    fn of(value: &ZapValue) -> Option<Self> {
        let number = value.as_u64().map(Self::Number);
        number.or_else(|| value.as_text().map(|text| Self::Text(text.to_owned())))
    }
}

/// A property that is set on a dataset or on one above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: PropValue,
    /// Full name of the dataset that it was set on.
    pub set_on: String,
    /// It came with a stream that was received there.
    pub received: bool,
}

const SUFFIX_INHERIT: &str = "$inherit";
const SUFFIX_RECEIVED: &str = "$recvd";
/// The name of a received property gets the longest of the suffixes when the property is inherited
/// again.
const RECEIVED_NAME_MAX_BYTES: usize = NAME_MAX_BYTES - SUFFIX_INHERIT.len();
/// A value that older software would not understand lies under this name, and another, which it
/// does understand, under the plain one.
const SUFFIX_NEWER: &str = "$iuv";

/// Longest value of a user property.
const TEXT_BYTES_MAX: usize = 8191;

/// What one ZAP of properties says.
struct Layer(BTreeMap<String, PropValue>);

impl Layer {
    /// The value that this layer gives a property, and whether it was received.
    fn get(&self, name: &str) -> Option<(&PropValue, bool)> {
        let with = |suffix| self.0.get(&format!("{name}{suffix}"));
        if let Some(value) = with(SUFFIX_NEWER).or_else(|| self.0.get(name)) {
            return Some((value, false));
        }
        if with(SUFFIX_INHERIT).is_some() {
            return None;
        }
        with(SUFFIX_RECEIVED).map(|value| (value, true))
    }

    /// Names of properties, without suffixes, that this layer has something to say of.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| name.split('$').next().unwrap_or_default()).filter(|name| !name.is_empty())
    }
}

/// Whether children inherit a property.
fn is_inherited(name: &str) -> bool {
    prop(name).is_none_or(|def| def.inherited)
}

/// Whether a property may be set to this value.
fn check(name: &str, value: &PropValue) -> Result<(), DslError> {
    let refuse = |why| Err(DslError::BadProperty { property: name.to_owned(), why });
    if name.len() >= NAME_MAX_BYTES || name.contains('$') || name.contains('\0') {
        return refuse("no such property");
    }
    match (prop(name).map(|def| def.default), value) {
        (Some(DefaultValue::Number(_)), PropValue::Number(_)) => Ok(()),
        (Some(DefaultValue::Text(_)), PropValue::Text(text)) => check_text(name, text),
        (Some(_), _) => refuse("value of the wrong kind"),
        (None, PropValue::Text(text)) if name.contains(':') => check_text(name, text),
        (None, _) if name.contains(':') => refuse("user properties are text"),
        (None, _) => refuse("no such property"),
    }
}

/// Larger records need a feature.
const OLD_RECORD_MAX_BYTES: u64 = 128 << 10;
/// `dnodesize=legacy`, as it is stored.
const DNODE_LEGACY: u64 = 0;

/// Whether a property may be set to this value in a new pool with these features, and those they need.
///
/// # Errors
/// As [`Dsl::check_prop`].
pub fn check_new_prop(name: &str, value: &PropValue, features: &[&'static Feature]) -> Result<(), DslError> {
    let enabled = |feature| features.iter().any(|one| one.closure().contains(&feature));
    match feature_needed(name, value)? {
        Some(feature) if !enabled(feature) => Err(disabled(name, feature)),
        _ => Ok(()),
    }
}

/// The feature that a value needs, if the property may have it at all.
fn feature_needed(name: &str, value: &PropValue) -> Result<Option<&'static Feature>, DslError> {
    check(name, value)?;
    Ok(value.number().and_then(|number| feature_of_value(name, number)))
}

fn disabled(property: &str, feature: &Feature) -> DslError {
    DslError::FeatureDisabled { property: property.to_owned(), feature: feature.name }
}

/// The feature without which a property cannot have this value.
fn feature_of_value(name: &str, number: u64) -> Option<&'static Feature> {
    let checksum = |word: u64| ChecksumKind::from_raw(u8::try_from(word).ok()?).ok();
    match name {
        "checksum" => checksum(number).and_then(feature_of_checksum),
        "dedup" => checksum(number & !DEDUP_VERIFY).and_then(feature_of_checksum),
        "recordsize" => (number > OLD_RECORD_MAX_BYTES).then_some(&LARGE_BLOCKS),
        "dnodesize" => (number != DNODE_LEGACY).then_some(&LARGE_DNODE),
        "filesystem_limit" | "snapshot_limit" => (number != u64::MAX).then_some(&FILESYSTEM_LIMITS),
        "compression" => Compression::from_word(number).ok().and_then(|how| feature_of_compression(how.kind)),
        _ => None,
    }
}

fn check_text(name: &str, text: &str) -> Result<(), DslError> {
    if text.len() > TEXT_BYTES_MAX || text.contains('\0') {
        return Err(DslError::BadProperty { property: name.to_owned(), why: "value too long or with a NUL" });
    }
    Ok(())
}

impl Dsl {
    /// What is set on a dataset, or on one above it and inherited: one value of each property,
    /// by name. What nobody set is not here: see [`PROPS`].
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn props(&self, dataset: &DatasetName) -> Result<Vec<Property>, DslError> {
        let layers = self.layers(dataset).await?;
        let mut found: BTreeMap<&str, Property> = BTreeMap::new();
        for (index, (set_on, layer)) in layers.iter().enumerate() {
            for name in layer.names().filter(|name| index == 0 || is_inherited(name)) {
                if let (Some((value, received)), false) = (layer.get(name), found.contains_key(name)) {
                    let (value, set_on) = (value.clone(), set_on.clone());
                    found.insert(name, Property { name: name.to_owned(), value, set_on, received });
                }
            }
        }
        Ok(found.into_values().collect())
    }

    /// The values that came with a stream that was received as this dataset, by name, whether they are in force or not.
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn received_props(&self, dataset: &DatasetName) -> Result<Vec<(String, PropValue)>, DslError> {
        let own = self.layers(dataset).await?.into_iter().next();
        let values = own.into_iter().flat_map(|(_, layer)| layer.0);
        let received = |(name, value): (String, PropValue)| {
            Some((name.strip_suffix(SUFFIX_RECEIVED)?.to_owned(), value))
        };
        Ok(values.filter_map(received).collect())
    }

    /// Sets a property of a head's dir, and lets what is accounted for it follow.
    ///
    /// # Errors
    /// [`DslError::BadProperty`], and those of changing the MOS.
    #[boxed]
    pub async fn set_prop(
        &self,
        tx: &Tx,
        dir: ObjectId,
        name: &str,
        value: &PropValue,
    ) -> Result<(), DslError> {
        let needed = self.check_prop(name, value).await?;
        self.load_limits(dir).await?;
        let zap = self.zap(self.dir(dir).await?.props.get()).await?;
        for stale in [SUFFIX_INHERIT, SUFFIX_NEWER] {
            remove_if_there(&zap, tx, &format!("{name}{stale}")).await?;
        }
        zap.update(tx, name.as_bytes(), &value.stored()).await?;
        if let (Some(feature), "compression") = (needed, name) {
            // Who does not know the function may not even show the property.
            let head = ObjectId::new(self.dir(dir).await?.head_dataset.get());
            self.activate_feature(tx, head, feature).await?;
        }
        if needed == Some(&FILESYSTEM_LIMITS) {
            self.begin_counting(tx, dir).await?;
        }
        self.follow(tx, dir, name).await
    }

    /// Whether a property may be set to this value in this pool; the feature that it needs, if it
    /// needs one.
    ///
    /// # Errors
    /// [`DslError::BadProperty`], [`DslError::FeatureDisabled`].
    #[boxed]
    pub async fn check_prop(
        &self,
        name: &str,
        value: &PropValue,
    ) -> Result<Option<&'static Feature>, DslError> {
        let needed = feature_needed(name, value)?;
        match needed {
            Some(feature) if self.feature_count(feature).await?.is_none() => Err(disabled(name, feature)),
            needed => Ok(needed),
        }
    }

    /// Takes a property back, so that it is inherited, or the default.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn clear_prop(&self, tx: &Tx, dir: ObjectId, name: &str) -> Result<(), DslError> {
        self.load_limits(dir).await?;
        let zap = self.zap(self.dir(dir).await?.props.get()).await?;
        for gone in [name.to_owned(), format!("{name}{SUFFIX_NEWER}")] {
            remove_if_there(&zap, tx, &gone).await?;
        }
        let received = zap.lookup(format!("{name}{SUFFIX_RECEIVED}").as_bytes()).await?;
        if received.is_some() {
            zap.update_u64(tx, format!("{name}{SUFFIX_INHERIT}").as_bytes(), 0).await?;
        }
        self.follow(tx, dir, name).await
    }

    /// Takes a property back, so that it is what a received stream said of it, if one did; else
    /// as [`Dsl::clear_prop`].
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn revert_prop(&self, tx: &Tx, dir: ObjectId, name: &str) -> Result<(), DslError> {
        self.load_limits(dir).await?;
        let zap = self.zap(self.dir(dir).await?.props.get()).await?;
        for suffix in ["", SUFFIX_INHERIT, SUFFIX_NEWER] {
            remove_if_there(&zap, tx, &format!("{name}{suffix}")).await?;
        }
        self.follow(tx, dir, name).await
    }

    /// The most that a dir and all below it may use, in bytes; 0 for no limit.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn set_quota(&self, tx: &Tx, dir: ObjectId, bytes: u64) -> Result<(), DslError> {
        self.set_prop(tx, dir, "quota", &PropValue::Number(bytes)).await
    }

    /// What is kept free for a dir and all below it, in bytes.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn set_reservation(&self, tx: &Tx, dir: ObjectId, bytes: u64) -> Result<(), DslError> {
        self.set_prop(tx, dir, "reservation", &PropValue::Number(bytes)).await
    }

    /// Has the head of a dir in memory, with its limits as they are accounted for, before the
    /// properties that they come from change.
    async fn load_limits(&self, dir: ObjectId) -> Result<(), DslError> {
        match self.dir(dir).await?.head_dataset.get() {
            0 => Ok(()),
            head => self.loaded_dataset(ObjectId::new(head)).await.map(drop),
        }
    }

    /// Some properties are kept a second time, where space is accounted.
    async fn follow(&self, tx: &Tx, dir: ObjectId, name: &str) -> Result<(), DslError> {
        if !["quota", "reservation", "refquota", "refreservation"].contains(&name) {
            return Ok(());
        }
        let dir = self.loaded_dir(dir).await?;
        let own = self.layer(dir.phys().props.get()).await?;
        let bytes = own.get(name).and_then(|(value, _)| value.number()).unwrap_or(0);
        match name {
            "quota" => return dir.change(tx, |phys| phys.quota = U64::new(bytes)),
            "reservation" => return dir.set_reservation(tx, bytes),
            _ => {}
        }
        let head = self.loaded_dataset(ObjectId::new(dir.phys().head_dataset.get())).await?;
        if name == "refreservation" {
            return head.set_refreservation(tx, bytes);
        }
        head.set_limits(bytes, head.refreservation());
        Ok(())
    }

    /// What a property of numbers is set to on a dir itself.
    pub(crate) async fn own_number(&self, dir: &Dir, name: &str) -> Result<Option<u64>, DslError> {
        let own = self.layer(dir.phys().props.get()).await?;
        Ok(own.get(name).and_then(|(value, _)| value.number()))
    }

    /// Refquota and refreservation of a head, in bytes.
    pub(crate) async fn limits(&self, head: &Dataset) -> Result<(u64, u64), DslError> {
        let own = self.layer(head.dir().phys().props.get()).await?;
        let number = |name| own.get(name).and_then(|(value, _)| value.number()).unwrap_or(0);
        Ok((number("refquota"), number("refreservation")))
    }

    /// The ZAPs in which a dataset's properties are looked for, nearest first, with the names of
    /// those whose they are.
    async fn layers(&self, dataset: &DatasetName) -> Result<Vec<(String, Layer)>, DslError> {
        let mut layers = Vec::new();
        let (mut name, snapshot) = split(&dataset.name);
        if snapshot.is_some() {
            let props = self.dataset(dataset.dataset).await?.props.get();
            layers.push((dataset.name.clone(), self.layer(props).await?));
        }
        for dir in self.loaded_dir(dataset.dir).await?.ancestry() {
            layers.push((name.to_owned(), self.layer(dir.phys().props.get()).await?));
            name = name.rsplit_once('/').map_or(name, |(above, _)| above);
        }
        Ok(layers)
    }

    async fn layer(&self, object: u64) -> Result<Layer, DslError> {
        let mut values = BTreeMap::new();
        if object != 0 {
            for entry in self.zap(object).await?.all().await? {
                // What is neither a number nor text is none of ours.
                if let Some(value) = PropValue::of(&entry.value) {
                    values.insert(String::from_utf8_lossy(&entry.name).into_owned(), value);
                }
            }
        }
        Ok(Layer(values))
    }
}

/// Removes an entry, if there is one.
pub(crate) async fn remove_if_there(zap: &Zap, tx: &Tx, name: &str) -> Result<(), DslError> {
    match zap.remove(tx, name.as_bytes()).await {
        Ok(()) | Err(ZapError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
