//! Properties as streams carry them: what a dataset itself says goes out, and what comes in lies beside that.
//!
//! A value that came in is in force where nobody has set one, and the next stream has the say over all that came with the
//! last one.

use dmu::Tx;
use dmu::zap::Zap;
use env::boxed;
use ondisk::ObjectType;
use units::ObjectId;
use zerocopy::little_endian::U64;

use super::{Layer, PropValue, Property, RECEIVED_NAME_MAX_BYTES, SUFFIX_RECEIVED, remove_if_there};
use crate::{DatasetName, Dsl, DslError};

impl Dsl {
    /// What is set on a dataset or snapshot itself, or was received there, in the order of its table; `received`: only what
    /// came with a stream, though something else was set there since.
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn own_props(&self, dataset: &DatasetName, received: bool) -> Result<Vec<Property>, DslError> {
        let object = self.props_object(dataset).await?;
        if object == 0 {
            return Ok(Vec::new());
        }
        let layer = self.layer(object).await?;
        let mut found: Vec<Property> = Vec::new();
        for entry in self.zap(object).await?.all().await? {
            let key = String::from_utf8_lossy(&entry.name).into_owned();
            let name = key.split('$').next().unwrap_or_default();
            if name.is_empty() || found.iter().any(|prop| prop.name == name) {
                continue;
            }
            if let Some((value, is_received)) = layer.sent(name, received) {
                let set_on = dataset.name.clone();
                found.push(Property { name: name.to_owned(), value, set_on, received: is_received });
            }
        }
        Ok(found)
    }

    /// A stream said so of a dataset or snapshot.
    ///
    /// # Errors
    /// [`DslError::BadProperty`], [`DslError::FeatureDisabled`]; those of changing the MOS.
    #[boxed]
    pub async fn set_received_prop(
        &self,
        tx: &Tx,
        dataset: &DatasetName,
        name: &str,
        value: &PropValue,
    ) -> Result<(), DslError> {
        let needed = self.check_prop(name, value).await?;
        if name.len() >= RECEIVED_NAME_MAX_BYTES {
            let why = "the name is too long for a received property";
            return Err(DslError::BadProperty { property: name.to_owned(), why });
        }
        let zap = self.received_table(tx, dataset).await?;
        let key = format!("{name}{SUFFIX_RECEIVED}");
        if dataset.is_snapshot() {
            return Ok(zap.update(tx, key.as_bytes(), &value.stored()).await?);
        }
        self.load_limits(dataset.dir).await?;
        zap.update(tx, key.as_bytes(), &value.stored()).await?;
        if let (Some(feature), "compression") = (needed, name) {
            self.activate_feature(tx, dataset.dataset, feature).await?;
        }
        self.follow(tx, dataset.dir, name).await
    }

    /// Forgets what earlier streams said of a dataset's properties but for these.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn forget_received_props(
        &self,
        tx: &Tx,
        dataset: &DatasetName,
        kept: &[&str],
    ) -> Result<(), DslError> {
        let object = self.props_object(dataset).await?;
        if object == 0 {
            return Ok(());
        }
        let zap = self.zap(object).await?;
        for entry in zap.all().await? {
            let key = String::from_utf8_lossy(&entry.name).into_owned();
            let Some(name) = key.strip_suffix(SUFFIX_RECEIVED).filter(|name| !kept.contains(name)) else {
                continue;
            };
            if !dataset.is_snapshot() {
                self.load_limits(dataset.dir).await?;
            }
            remove_if_there(&zap, tx, &key).await?;
            if !dataset.is_snapshot() {
                self.follow(tx, dataset.dir, name).await?;
            }
        }
        Ok(())
    }

    async fn props_object(&self, dataset: &DatasetName) -> Result<u64, DslError> {
        match dataset.is_snapshot() {
            true => Ok(self.dataset(dataset.dataset).await?.props.get()),
            false => Ok(self.dir(dataset.dir).await?.props.get()),
        }
    }

    /// The table of properties, which a snapshot may not have yet.
    async fn received_table(&self, tx: &Tx, dataset: &DatasetName) -> Result<Zap, DslError> {
        let object = match self.props_object(dataset).await? {
            0 => {
                let snapshot = self.loaded_dataset(dataset.dataset).await?;
                let made: ObjectId = self.create_zap(tx, ObjectType::DSL_PROPS).await?;
                snapshot.change(tx, |phys| phys.props = U64::new(made.get()))?;
                made.get()
            }
            object => object,
        };
        self.zap(object).await
    }
}

impl Layer {
    /// The value of a property that is sent, and whether it was received itself.
    fn sent(&self, name: &str, received: bool) -> Option<(PropValue, bool)> {
        match received {
            true => self.0.get(&format!("{name}{SUFFIX_RECEIVED}")).map(|value| (value.clone(), true)),
            false => self.get(name).map(|(value, is_received)| (value.clone(), is_received)),
        }
    }
}
