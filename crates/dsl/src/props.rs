//! Properties: what a dataset says itself, and what it inherits.

use dmu::Tx;
use dmu::zap::ZapValue;
use units::ObjectId;

use crate::dir::UsedBy;
use crate::{DatasetName, Dsl, DslError};

/// A stored value: a number (also for choices, by the format's numbers), or text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropValue {
    /// A number.
    Number(u64),
    /// Text.
    Text(String),
}

impl PropValue {
    /// The number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Number(n) => Some(*n),
            Self::Text(_) => None,
        }
    }
}

impl From<&PropValue> for ZapValue {
    fn from(value: &PropValue) -> Self {
        match value {
            PropValue::Number(n) => Self::from(*n),
            PropValue::Text(text) => Self::text(text),
        }
    }
}

/// A value and the dataset that it was set on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// The property's name.
    pub name: String,
    /// Its value.
    pub value: PropValue,
    /// Full name of the dataset that says so.
    pub set_on: String,
}

/// Suffixes under which the format keeps how a property was come by.
const RECEIVED_SUFFIX: char = '$';

impl Dsl {
    /// What is set on the dataset itself.
    ///
    /// # Errors
    /// When its properties cannot be read.
    pub async fn local_props(&self, dataset: &DatasetName) -> Result<Vec<Property>, DslError> {
        let zap = ObjectId::new(self.dir(dataset.dir).await?.props_zap_object.get());
        let entries = self.zap(zap).await?.all().await?;
        let mut props = Vec::with_capacity(entries.len());
        for entry in entries {
            let Ok(name) = String::from_utf8(entry.name) else { continue };
            let number = entry.value.as_u64().map(PropValue::Number);
            let value = number.or_else(|| entry.value.as_text().map(|t| PropValue::Text(t.into())));
            if let (Some(value), false) = (value, name.contains(RECEIVED_SUFFIX)) {
                props.push(Property { name, value, set_on: dataset.name.clone() });
            }
        }
        props.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(props)
    }

    /// What is set on the dataset or on one above it, the nearest first. Which of these are
    /// passed down is for the caller to know.
    ///
    /// # Errors
    /// When properties cannot be read.
    pub async fn props(&self, dataset: &DatasetName) -> Result<Vec<Property>, DslError> {
        let mut all: Vec<Property> = Vec::new();
        let mut name = dataset.name.as_str();
        loop {
            for prop in self.local_props(&self.resolve(name).await?).await? {
                if !all.iter().any(|known| known.name == prop.name) {
                    all.push(prop);
                }
            }
            match name.rsplit_once('/') {
                Some((above, _)) => name = above,
                None => return Ok(all),
            }
        }
    }

    /// Sets a property on the dataset itself.
    ///
    /// # Errors
    /// When its properties cannot be read or written.
    pub async fn set_prop(&self, tx: &Tx, dir: ObjectId, name: &str, value: &PropValue) -> Result<(), DslError> {
        let zap = ObjectId::new(self.dir(dir).await?.props_zap_object.get());
        Ok(self.zap(zap).await?.update(tx, name.as_bytes(), &value.into()).await?)
    }

    /// Takes a property back: what is above holds again.
    ///
    /// # Errors
    /// When its properties cannot be read or written.
    pub async fn clear_prop(&self, tx: &Tx, dir: ObjectId, name: &str) -> Result<(), DslError> {
        let object = ObjectId::new(self.dir(dir).await?.props_zap_object.get());
        let zap = self.zap(object).await?;
        if zap.lookup(name.as_bytes()).await?.is_some() {
            zap.remove(tx, name.as_bytes()).await?;
        }
        Ok(())
    }

    /// The most that a directory and all below it may use; 0 for no limit.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub async fn set_quota(&self, tx: &Tx, dir: ObjectId, bytes: u64) -> Result<(), DslError> {
        self.update_dir(tx, dir, |phys| phys.quota = bytes.into()).await
    }

    /// What is kept free for a directory and all below it.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub async fn set_reservation(&self, tx: &Tx, dir: ObjectId, bytes: u64) -> Result<(), DslError> {
        let old = self.dir(dir).await?;
        let (used, before) = (old.used_bytes.get(), old.reserved.get());
        self.update_dir(tx, dir, |phys| phys.reserved = bytes.into()).await?;
        let delta = bytes.max(used) as i64 - before.max(used) as i64;
        if delta == 0 || old.parent_object.get() == 0 {
            return Ok(());
        }
        let more = dmu::SpaceDelta { used: delta, ..dmu::SpaceDelta::default() };
        self.add_space(tx, ObjectId::new(old.parent_object.get()), UsedBy::ChildReservation, more).await
    }
}
