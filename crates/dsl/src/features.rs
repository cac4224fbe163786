//! Feature flags: what a pool uses of the format beyond version 28.
//!
//! ```text
//!  MOS directory ─ "features_for_read"    ─► name ─► count   needed to read the pool
//!                ─ "features_for_write"   ─► name ─► count   needed to change it only
//!                ─ "feature_descriptions" ─► name ─► text
//!                ─ "feature_enabled_txg"  ─► name ─► txg     with feature `enabled_txg`
//! ```
//! A name with count 0 is *enabled*: it may be used. A count above 0 says *active*: it is in
//! use, so many times, and who does not know it must not touch (or read) the pool. A few are
//! active from the moment they are enabled. Features of datasets are also noted in the ZAP that
//! the dataset's object then is.

use std::collections::BTreeMap;
use std::sync::Arc;

use dmu::zap::{Zap, ZapSpec, ZapValue};
use dmu::{Objset, Tx};
use ondisk::ObjectType;
use parking_lot::Mutex;
use units::ObjectId;

use crate::{Dataset, DslError};

mod table;

pub use table::{FEATURES, Feature, Support, feature};

/// A pool's feature tables.
pub struct Features {
    directory: Zap,
    for_read: Zap,
    for_write: Zap,
    descriptions: Zap,
    counts: Mutex<Counts>,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    for_read: BTreeMap<String, u64>,
    for_write: BTreeMap<String, u64>,
}

const FOR_READ: &[u8] = b"features_for_read";
const FOR_WRITE: &[u8] = b"features_for_write";
const DESCRIPTIONS: &[u8] = b"feature_descriptions";
const ENABLED_TXG: &[u8] = b"feature_enabled_txg";

impl Features {
    /// Empty tables in a new pool.
    pub(crate) async fn create(mos: &Arc<Objset>, tx: &Tx, directory: &Zap) -> Result<Self, DslError> {
        let mut tables = Vec::new();
        for name in [FOR_READ, FOR_WRITE, DESCRIPTIONS] {
            tables.push(create_linked(mos, tx, directory, name).await?);
        }
        let [for_read, for_write, descriptions] =
            tables.try_into().unwrap_or_else(|_| unreachable!("three names, three tables"));
        let counts = Mutex::new(Counts::default());
        Ok(Self { directory: directory.clone(), for_read, for_write, descriptions, counts })
    }

    /// The tables of an existing pool.
    pub(crate) async fn open(mos: &Arc<Objset>, directory: &Zap) -> Result<Self, DslError> {
        let table = async |name: &[u8]| {
            let object = directory.lookup_u64(name).await?;
            let object = object.ok_or(DslError::damaged(directory.object(), "no feature tables"))?;
            Ok::<_, DslError>(Zap::hold(mos, ObjectId::new(object)).await?)
        };
        let (for_read, for_write) = (table(FOR_READ).await?, table(FOR_WRITE).await?);
        let descriptions = table(DESCRIPTIONS).await?;
        let counts = Counts { for_read: counts_of(&for_read).await?, for_write: counts_of(&for_write).await? };
        let counts = Mutex::new(counts);
        Ok(Self { directory: directory.clone(), for_read, for_write, descriptions, counts })
    }

    /// How often a feature is in use; `None`: not enabled.
    #[must_use]
    pub fn count(&self, feature: &Feature) -> Option<u64> {
        let counts = self.counts.lock();
        let table = if feature.write_only { &counts.for_write } else { &counts.for_read };
        table.get(feature.guid).copied()
    }

    /// Whether a feature may be used.
    #[must_use]
    pub fn is_enabled(&self, feature: &Feature) -> bool {
        self.count(feature).is_some()
    }

    /// Whether a feature is in use.
    #[must_use]
    pub fn is_active(&self, feature: &Feature) -> bool {
        self.count(feature).is_some_and(|count| count > 0)
    }

    /// All features of the pool and their counts, by name; known to us or not.
    #[must_use]
    pub fn all(&self) -> Vec<(String, u64)> {
        let counts = self.counts.lock();
        let all = counts.for_read.iter().chain(&counts.for_write);
        all.map(|(name, &count)| (name.clone(), count)).collect()
    }

    /// Names of the features that a label lists (`features_for_read`): those without which not
    /// even the MOS can be read.
    #[must_use]
    pub fn for_label(&self) -> Vec<&'static str> {
        FEATURES.iter().filter(|feature| feature.in_label && self.is_active(feature)).map(|f| f.guid).collect()
    }

    /// Says whether the pool may be opened, to be read or also to be changed.
    ///
    /// # Errors
    /// [`DslError::UnsupportedFeatures`] by name.
    pub fn check_open(&self, to_write: bool) -> Result<(), DslError> {
        let counts = self.counts.lock();
        let blocking = |table: &BTreeMap<String, u64>, enough: &dyn Fn(Support) -> bool| -> Vec<String> {
            let used = table.iter().filter(|&(_, &count)| count > 0).map(|(name, _)| name);
            let known = |name: &str| feature(name).is_some_and(|feature| enough(feature.support));
            used.filter(|name| !known(name)).cloned().collect()
        };
        let to_read = blocking(&counts.for_read, &|support| support != Support::None);
        if !to_read.is_empty() {
            return Err(DslError::UnsupportedFeatures { features: to_read, readable: false });
        }
        if !to_write {
            return Ok(());
        }
        let mut features = blocking(&counts.for_read, &|support| support == Support::Full);
        features.extend(blocking(&counts.for_write, &|support| support == Support::Full));
        if features.is_empty() {
            return Ok(());
        }
        Err(DslError::UnsupportedFeatures { features, readable: true })
    }

    /// Enables a feature and those it needs. Nothing happens if it is enabled already.
    ///
    /// # Errors
    /// Those of changing the MOS.
    pub async fn enable(&self, mos: &Arc<Objset>, tx: &Tx, feature: &Feature) -> Result<(), DslError> {
        for &needed in feature.closure().iter() {
            self.enable_one(mos, tx, needed).await?;
        }
        Ok(())
    }

    async fn enable_one(&self, mos: &Arc<Objset>, tx: &Tx, feature: &Feature) -> Result<(), DslError> {
        if self.is_enabled(feature) {
            return Ok(());
        }
        self.descriptions.update(tx, feature.guid.as_bytes(), &ZapValue::text(feature.description)).await?;
        self.store(tx, feature, u64::from(feature.active_when_enabled)).await?;
        let enabled_txg = table::enabled_txg();
        if !self.is_enabled(enabled_txg) {
            return Ok(());
        }
        let noted = match self.directory.lookup_u64(ENABLED_TXG).await? {
            Some(object) => Zap::hold(mos, ObjectId::new(object)).await?,
            None => create_linked(mos, tx, &self.directory, ENABLED_TXG).await?,
        };
        noted.update_u64(tx, feature.guid.as_bytes(), tx.txg().get()).await?;
        self.increment(tx, enabled_txg).await
    }

    /// One more use of a feature, which must be enabled.
    ///
    /// # Errors
    /// Those of changing the MOS.
    ///
    /// # Panics
    /// When it is not enabled: who uses a feature asks first.
    pub async fn increment(&self, tx: &Tx, feature: &Feature) -> Result<(), DslError> {
        let count = self.count(feature).expect("a feature in use is enabled");
        self.store(tx, feature, count + 1).await
    }

    /// One use of a feature less.
    ///
    /// # Errors
    /// [`DslError::Damaged`] when it was not in use; those of changing the MOS.
    pub async fn decrement(&self, tx: &Tx, feature: &Feature) -> Result<(), DslError> {
        let less = self.count(feature).and_then(|count| count.checked_sub(1));
        let table = if feature.write_only { &self.for_write } else { &self.for_read };
        let count = less.ok_or(DslError::damaged(table.object(), "feature given up but not in use"))?;
        self.store(tx, feature, count).await
    }

    async fn store(&self, tx: &Tx, feature: &Feature, count: u64) -> Result<(), DslError> {
        let table = if feature.write_only { &self.for_write } else { &self.for_read };
        table.update_u64(tx, feature.guid.as_bytes(), count).await?;
        let mut counts = self.counts.lock();
        let counts = if feature.write_only { &mut counts.for_write } else { &mut counts.for_read };
        counts.insert(feature.guid.to_owned(), count);
        Ok(())
    }

    /// Notes that a dataset uses a feature, the first time it does. The dataset's object
    /// becomes a ZAP, with the feature's name in it.
    ///
    /// # Errors
    /// Those of changing the MOS.
    pub async fn activate(&self, tx: &Tx, dataset: &Dataset, feature: &Feature) -> Result<(), DslError> {
        assert!(feature.per_dataset, "{} is not used by datasets", feature.guid);
        if dataset_features(dataset).await?.contains(&feature.guid.to_owned()) {
            return Ok(());
        }
        let dnode = dataset.dnode();
        let zap = if dnode.object_type() == ObjectType::OTN_ZAP_METADATA {
            Zap::open(Arc::clone(dnode)).await?
        } else {
            dnode.set_object_type(tx, ObjectType::OTN_ZAP_METADATA);
            self.increment(tx, table::extensible_dataset()).await?;
            Zap::make_of(Arc::clone(dnode), tx).await?
        };
        zap.add_u64(tx, feature.guid.as_bytes(), 0).await?;
        self.increment(tx, feature).await
    }

    /// Takes back all that [`Features::activate`] noted, before a dataset is destroyed.
    pub(crate) async fn deactivate_all(&self, tx: &Tx, dataset: &Dataset) -> Result<(), DslError> {
        for name in dataset_features(dataset).await? {
            if let Some(feature) = feature(&name).filter(|feature| feature.per_dataset) {
                self.decrement(tx, feature).await?;
            }
        }
        if dataset.dnode().object_type() == ObjectType::OTN_ZAP_METADATA {
            self.decrement(tx, table::extensible_dataset()).await?;
        }
        Ok(())
    }
}

/// Names in the ZAP that a dataset's object is, if it is one: features and other fields.
pub(crate) async fn dataset_features(dataset: &Dataset) -> Result<Vec<String>, DslError> {
    if dataset.dnode().object_type() != ObjectType::OTN_ZAP_METADATA {
        return Ok(Vec::new());
    }
    let entries = Zap::open(Arc::clone(dataset.dnode())).await?.all().await?;
    Ok(entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect())
}

async fn create_linked(mos: &Arc<Objset>, tx: &Tx, directory: &Zap, name: &[u8]) -> Result<Zap, DslError> {
    let zap = Zap::create(mos, tx, &ZapSpec::new(ObjectType::OTN_ZAP_METADATA)).await?;
    directory.add_u64(tx, name, zap.object().get()).await?;
    Ok(zap)
}

async fn counts_of(table: &Zap) -> Result<BTreeMap<String, u64>, DslError> {
    let mut counts = BTreeMap::new();
    for entry in table.all().await? {
        let count = entry.value.as_u64().ok_or(DslError::damaged(table.object(), "feature count"))?;
        counts.insert(String::from_utf8_lossy(&entry.name).into_owned(), count);
    }
    Ok(counts)
}
