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

use dmu::zap::{Zap, ZapValue};
use dmu::{BlockKinds, Dnode, SyncRead, Tx};
use env::{boxed, impatient};
use ondisk::{ChecksumKind, CompressionKind, ObjectType};
use units::ObjectId;

use crate::dataset::Dataset;
use crate::{DatasetName, Dsl, DslError};

mod table;

pub use table::*;

/// Number of the MOS object in which everything in the pool is found by name.
pub const DIRECTORY: ObjectId = ObjectId::new(1);

const FOR_READ: &str = "features_for_read";
const FOR_WRITE: &str = "features_for_write";
const DESCRIPTIONS: &str = "feature_descriptions";
const ENABLED_TXGS: &str = "feature_enabled_txg";

/// The feature without which no block has this checksum.
#[must_use]
pub const fn feature_of_checksum(kind: ChecksumKind) -> Option<&'static Feature> {
    match kind {
        ChecksumKind::Sha512 => Some(&SHA512),
        ChecksumKind::Skein => Some(&SKEIN),
        ChecksumKind::Edonr => Some(&EDONR),
        ChecksumKind::Blake3 => Some(&BLAKE3),
        _ => None,
    }
}

/// The feature of datasets without which no block is compressed in this way. (lz4 has one, too, but
/// that is in use from when it is enabled.)
#[must_use]
pub const fn feature_of_compression(kind: CompressionKind) -> Option<&'static Feature> {
    if matches!(kind, CompressionKind::Zstd) { Some(&ZSTD_COMPRESS) } else { None }
}

impl Dsl {
    /// Empty tables in a new pool.
    pub(crate) async fn create_features(&self, tx: &Tx) -> Result<(), DslError> {
        for name in [FOR_READ, FOR_WRITE, DESCRIPTIONS] {
            self.create_listed_zap(tx, name).await?;
        }
        Ok(())
    }

    async fn create_listed_zap(&self, tx: &Tx, name: &str) -> Result<ObjectId, DslError> {
        let zap = self.create_zap(tx, ObjectType::OTN_ZAP_METADATA).await?;
        self.directory.add_u64(tx, name.as_bytes(), zap.get()).await?;
        Ok(zap)
    }

    async fn listed_zap(&self, name: &str) -> Result<Zap, DslError> {
        self.zap(self.directory_object(name).await?.get()).await
    }

    /// Whether the pool has features, and with them objects of types that were made later.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn has_features(&self) -> Result<bool, DslError> {
        Ok(self.table_if_there(FOR_READ).await?.is_some())
    }

    /// A table, if the pool has any: before version 5000 there were none.
    async fn table_if_there(&self, name: &str) -> Result<Option<Zap>, DslError> {
        match self.directory.lookup_u64(name.as_bytes()).await? {
            Some(object) => Ok(Some(self.zap(object).await?)),
            None => Ok(None),
        }
    }

    async fn counts(&self, name: &str) -> Result<BTreeMap<String, u64>, DslError> {
        match self.table_if_there(name).await? {
            Some(table) => counts(&table).await,
            None => Ok(BTreeMap::new()),
        }
    }

    async fn table_of(&self, feature: &Feature) -> Result<Zap, DslError> {
        self.listed_zap(table_name(feature)).await
    }

    /// How often a feature is in use; `None`: not enabled.
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn feature_count(&self, feature: &Feature) -> Result<Option<u64>, DslError> {
        match self.table_if_there(table_name(feature)).await? {
            Some(table) => Ok(table.lookup_u64(feature.guid.as_bytes()).await?),
            None => Ok(None),
        }
    }

    /// All features of the pool and their counts, by name; known to us or not.
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn features(&self) -> Result<BTreeMap<String, u64>, DslError> {
        let mut all = self.counts(FOR_READ).await?;
        all.extend(self.counts(FOR_WRITE).await?);
        Ok(all)
    }

    /// The features that labels must list (`features_for_read`): those in use without which not
    /// even the MOS can be read.
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn label_features(&self) -> Result<Vec<&'static str>, DslError> {
        let active = self.counts(FOR_READ).await?;
        let active = active.iter().filter(|&(_, &count)| count > 0);
        let known = active.filter_map(|(name, _)| feature(name));
        Ok(known.filter(|feature| feature.in_label).map(|feature| feature.guid).collect())
    }

    /// Features in use that keep the pool from being read or, when it is `to_write`, changed.
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn unsupported_features(&self, to_write: bool) -> Result<Vec<String>, DslError> {
        let enough = |name: &str| match feature(name).map(|feature| feature.support) {
            Some(Support::Full) => true,
            Some(Support::Read) => !to_write,
            Some(Support::None) | None => false,
        };
        let mut active = self.counts(FOR_READ).await?;
        if to_write {
            active.extend(self.counts(FOR_WRITE).await?);
        }
        let active = active.into_iter().filter(|(_, count)| *count > 0);
        Ok(active.map(|(name, _)| name).filter(|name| !enough(name)).collect())
    }

    /// What the pool says of a feature.
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn feature_description(&self, guid: &str) -> Result<Option<String>, DslError> {
        let found = self.listed_zap(DESCRIPTIONS).await?.lookup(guid.as_bytes()).await?;
        Ok(found.and_then(|value| value.as_text().map(str::to_owned)))
    }

    /// Enables a feature and those it needs. Nothing happens if it is enabled already.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn enable_feature(&self, tx: &Tx, feature: &'static Feature) -> Result<(), DslError> {
        for needed in feature.closure() {
            self.enable_one(tx, needed).await?;
        }
        Ok(())
    }

    async fn enable_one(&self, tx: &Tx, feature: &Feature) -> Result<(), DslError> {
        if self.feature_count(feature).await?.is_some() {
            return Ok(());
        }
        let errors = match *feature == HEAD_ERRLOG {
            true => self.take_errors(tx).await?,
            false => Vec::new(),
        };
        let description = ZapValue::text(feature.description);
        self.listed_zap(DESCRIPTIONS).await?.update(tx, feature.guid.as_bytes(), &description).await?;
        let count = u64::from(feature.active_when_enabled);
        self.table_of(feature).await?.update_u64(tx, feature.guid.as_bytes(), count).await?;
        for (log, errors) in errors {
            self.add_errors(tx, log, &errors).await?;
        }
        if self.feature_count(&ENABLED_TXG).await?.is_none() {
            return Ok(());
        }
        let noted = match self.directory.lookup_u64(ENABLED_TXGS.as_bytes()).await? {
            Some(object) => object,
            None => self.create_listed_zap(tx, ENABLED_TXGS).await?.get(),
        };
        self.zap(noted).await?.update_u64(tx, feature.guid.as_bytes(), tx.txg().get()).await?;
        self.count_feature(tx, &ENABLED_TXG, 1).await
    }

    /// A feature is used so many times more, or less.
    ///
    /// # Errors
    /// [`DslError::Damaged`] when it is not enabled, or less often in use; those of changing the
    /// MOS.
    #[boxed]
    pub async fn count_feature(&self, tx: &Tx, feature: &Feature, delta: i64) -> Result<(), DslError> {
        let table = self.table_of(feature).await?;
        let count = table.lookup_u64(feature.guid.as_bytes()).await?;
        let count = count.and_then(|count| count.checked_add_signed(delta));
        let count = count.ok_or(DslError::damaged(table.object(), "count of a feature"))?;
        Ok(table.update_u64(tx, feature.guid.as_bytes(), count).await?)
    }

    /// Notes that a dataset uses a feature, the first time it does. The dataset's object
    /// becomes a ZAP, with the feature's name in it.
    ///
    /// # Errors
    /// Those of changing the MOS.
    ///
    /// # Panics
    /// When the feature is not one of datasets.
    #[boxed]
    pub async fn activate_feature(
        &self,
        tx: &Tx,
        dataset: ObjectId,
        feature: &Feature,
    ) -> Result<(), DslError> {
        self.activate_feature_saying(tx, dataset, feature, &ZapValue::U64(vec![0])).await
    }

    /// The same with what the dataset says of its use.
    pub(crate) async fn activate_feature_saying(
        &self,
        tx: &Tx,
        dataset: ObjectId,
        feature: &Feature,
        value: &ZapValue,
    ) -> Result<(), DslError> {
        assert!(feature.per_dataset, "{} is not used by datasets", feature.guid);
        let dnode = self.mos.hold(dataset).await?;
        if self.dataset_fields(&dnode).await?.iter().any(|field| field == feature.guid) {
            return Ok(());
        }
        let zap = self.fields_of(tx, &dnode).await?;
        zap.add(tx, feature.guid.as_bytes(), value).await?;
        self.count_feature(tx, feature, 1).await
    }

    /// A dataset uses a feature that another one uses, and says the same of it.
    pub(crate) async fn take_over_feature(
        &self,
        tx: &Tx,
        from: &Dataset,
        to: ObjectId,
        feature: &Feature,
    ) -> Result<(), DslError> {
        let said = self.said_of_feature(from.dnode(), feature).await?.unwrap_or(ZapValue::U64(vec![0]));
        match self.said_of_feature(&self.mos.hold(to).await?, feature).await? {
            None => self.activate_feature_saying(tx, to, feature, &said).await,
            Some(before) if before == said => Ok(()),
            Some(_) => Ok(self.zap(to.get()).await?.update(tx, feature.guid.as_bytes(), &said).await?),
        }
    }

    /// What a dataset says of a feature that it uses: of most nothing, a zero.
    pub(crate) async fn said_of_feature(
        &self,
        dataset: &Arc<Dnode>,
        feature: &Feature,
    ) -> Result<Option<ZapValue>, DslError> {
        if dataset.object_type() != ObjectType::OTN_ZAP_METADATA {
            return Ok(None);
        }
        Ok(Zap::open(Arc::clone(dataset)).await?.lookup(feature.guid.as_bytes()).await?)
    }

    /// Whether a dataset uses a feature of datasets.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn dataset_uses(&self, dataset: &DatasetName, feature: &Feature) -> Result<bool, DslError> {
        let dnode = self.mos.hold(dataset.dataset).await?;
        Ok(self.dataset_fields(&dnode).await?.iter().any(|field| field == feature.guid))
    }

    /// The ZAP of fields that the object of a dir or dataset is; it is made one if it was none.
    pub(crate) async fn fields_of(&self, tx: &Tx, dnode: &Arc<Dnode>) -> Result<Zap, DslError> {
        if dnode.object_type() == ObjectType::OTN_ZAP_METADATA {
            return Ok(Zap::open(Arc::clone(dnode)).await?);
        }
        dnode.set_object_type(tx, ObjectType::OTN_ZAP_METADATA);
        self.count_feature(tx, &EXTENSIBLE_DATASET, 1).await?;
        Ok(Zap::make_of(Arc::clone(dnode), tx).await?)
    }

    /// Notes the features that blocks of these kinds need, which a dataset has from now on.
    ///
    /// # Errors
    /// As [`Dsl::activate_feature`].
    #[boxed]
    pub async fn note_blocks(&self, tx: &Tx, dataset: ObjectId, kinds: BlockKinds) -> Result<(), DslError> {
        let checksums = kinds.checksums().filter_map(feature_of_checksum);
        for feature in checksums.chain(kinds.compressions().filter_map(feature_of_compression)) {
            self.activate_feature(tx, dataset, feature).await?;
        }
        let sizes = [(kinds.large_blocks(), &LARGE_BLOCKS), (kinds.large_dnodes(), &LARGE_DNODE)];
        for (_, feature) in sizes.into_iter().filter(|(is_there, _)| *is_there) {
            self.activate_feature(tx, dataset, feature).await?;
        }
        Ok(())
    }

    /// Takes back all that [`Dsl::activate_feature`] noted, before a dataset is destroyed.
    pub(crate) async fn deactivate_features(&self, tx: &Tx, dataset: &Arc<Dnode>) -> Result<(), DslError> {
        let fields = match impatient(self.dataset_fields(dataset)).await {
            Err(error) if error.is_loss() && SyncRead::Features.goes_on() => {
                tracing::error!(%error, "the features of a destroyed dataset cannot be read");
                Vec::new()
            }
            fields => fields?,
        };
        for name in fields {
            if let Some(feature) = feature(&name).filter(|feature| feature.per_dataset) {
                self.count_feature(tx, feature, -1).await?;
            }
        }
        if dataset.object_type() == ObjectType::OTN_ZAP_METADATA {
            self.count_feature(tx, &EXTENSIBLE_DATASET, -1).await?;
        }
        Ok(())
    }

    /// Names in the ZAP that a dataset's object is, if it is one: features and other fields.
    pub(crate) async fn dataset_fields(&self, dataset: &Arc<Dnode>) -> Result<Vec<String>, DslError> {
        if dataset.object_type() != ObjectType::OTN_ZAP_METADATA {
            return Ok(Vec::new());
        }
        let entries = Zap::open(Arc::clone(dataset)).await?.all().await?;
        Ok(entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect())
    }
}

const fn table_name(feature: &Feature) -> &'static str {
    if feature.write_only { FOR_WRITE } else { FOR_READ }
}

async fn counts(table: &Zap) -> Result<BTreeMap<String, u64>, DslError> {
    let mut counts = BTreeMap::new();
    for entry in table.all().await? {
        let count = entry.value.as_u64().ok_or(DslError::damaged(table.object(), "feature count"))?;
        counts.insert(String::from_utf8_lossy(&entry.name).into_owned(), count);
    }
    Ok(counts)
}
