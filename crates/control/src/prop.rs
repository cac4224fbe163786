//! A property as it goes over the wire: its value, and where that comes from.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A property's value, independent of how it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// Sizes, counts, guids, ratios in hundredths, and choices by their number on disk.
    Number(u64),
    /// Text.
    Text(String),
    /// Does not apply, or not known: `-`.
    Absent,
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// It is a fact, not a setting.
    None,
    /// Nobody set it.
    Default,
    /// Set here.
    Local,
    /// Set for this mount or import only.
    Temporary,
    /// Set at this ancestor.
    Inherited(String),
    /// Came with a received stream.
    Received,
}

impl Source {
    /// As the SOURCE column shows it.
    pub fn text(&self) -> String {
        match self {
            Self::None => "-".to_owned(),
            Self::Default => "default".to_owned(),
            Self::Local => "local".to_owned(),
            Self::Temporary => "temporary".to_owned(),
            Self::Inherited(from) => format!("inherited from {from}"),
            Self::Received => "received".to_owned(),
        }
    }
}

/// A value and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prop {
    /// The value.
    pub value: Value,
    /// Where it comes from.
    pub source: Source,
}

/// Properties by name.
pub type Props = BTreeMap<String, Prop>;
