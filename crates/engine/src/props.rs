//! Properties: one table for pools, one for datasets, and the words they take.
//!
//! A definition carries all that parser, engine and output need: the name, the heading of
//! its column, the kind of its value with the words it may be and the numbers that stand
//! for them on disk, its default, who may set it, and whether children inherit it.
//! Tables are in the order in which `get all` prints.
//!
//! ```text
//!  "lz4" ──PropDef::parse──► Value::Number(15) ──► disk, JSON ──PropDef::show──► "lz4"
//! ```
//!
//! Invariants
//! - Every default and every word of a table parses, and prints as itself or as the word
//!   it is an older name of (test: `every_word_of_every_table_parses_and_prints`).

mod dataset;
mod owner;
mod pool;
mod show;

use crate::nice;
use control::{DatasetInfo, DatasetKind, Failure, FailureKind};

pub use control::{Prop, Props, Source, Value};
pub use dataset::DATASET_PROPS;
pub use owner::OwnerProp;
pub use pool::{POOL_FEATURES, POOL_PROPS};
pub use show::{Style, clock, ctime, event_time, minute, moment, zoned_time};

/// A word of a choice and the number that stands for it on disk.
pub type Choice = (&'static str, u64);

/// What values a property has and how they are written.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Any text.
    Text,
    /// Text that has an absolute path, `legacy` or `none` in it.
    Mountpoint,
    /// Bytes; where `none_is_zero`, 0 is written `none`.
    Size {
        /// 0 is written `none`.
        none_is_zero: bool,
    },
    /// Bytes, which people see as a number without unit: `512`, `1.50K`.
    Amount,
    /// A plain number; `u64::MAX` is written `none`.
    Count,
    /// A number never shortened: guid, id, txg.
    Id,
    /// Percent.
    Percent,
    /// Hundredths, written `1.00x`.
    Ratio,
    /// Seconds since 1970.
    Time,
    /// Seconds since 1970, shown with seconds.
    Moment,
    /// One of some words. The first word of a number is how it is printed.
    Choice {
        /// The words as error messages list them.
        help: &'static str,
        /// Every word that is taken.
        words: &'static [Choice],
    },
}

impl Kind {
    /// Whether its values are typed as numbers.
    const fn is_number(self) -> bool {
        !matches!(self, Self::Text | Self::Mountpoint | Self::Choice { .. })
    }
}

/// Who may set a property, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nobody.
    ReadOnly,
    /// Whoever creates (or imports) it.
    AtCreation,
    /// At any time; children do not take it over.
    Set,
    /// At any time; children take it over.
    Inherit,
}

/// Which datasets have a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applies {
    /// File systems.
    pub filesystem: bool,
    /// Volumes.
    pub volume: bool,
    /// Snapshots.
    pub snapshot: bool,
    /// Bookmarks.
    pub bookmark: bool,
}

impl Applies {
    /// Whether a dataset of this kind has it.
    pub fn to(self, kind: DatasetKind) -> bool {
        match kind {
            DatasetKind::Filesystem => self.filesystem,
            DatasetKind::Volume => self.volume,
            DatasetKind::Snapshot => self.snapshot,
            DatasetKind::Bookmark => self.bookmark,
        }
    }
}

/// One property.
#[derive(Clone, Copy, Debug)]
pub struct PropDef {
    /// Its name.
    pub name: &'static str,
    /// Heading of its column; in small letters, a second name users may type.
    pub column: &'static str,
    /// Its values.
    pub kind: Kind,
    /// Who may set it.
    pub access: Access,
    /// Which datasets have it; of no meaning for pools.
    pub applies: Applies,
    /// What it is when nobody set it, as written with exact numbers; empty when absent.
    pub default: &'static str,
}

/// Why a value will not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PropError {
    /// No such property.
    #[error("invalid property '{0}'")]
    Unknown(String),
    /// Not to be set, or not any more.
    #[error("'{0}' is readonly")]
    ReadOnly(String),
    /// This kind of dataset has no such property.
    #[error("'{0}' does not apply to datasets of this type")]
    WrongType(String),
    /// None of the words.
    #[error("'{name}' must be one of '{help}'")]
    NotAChoice {
        /// Property.
        name: &'static str,
        /// The words.
        help: &'static str,
    },
    /// Not a number.
    #[error(transparent)]
    Number(#[from] nice::ParseNumberError),
    /// 0 would be misread as no limit.
    #[error("use 'none' to disable quota/refquota")]
    ZeroQuota,
    /// Not a power of two in range.
    #[error("'{name}' must be power of 2 from 512B to {most}")]
    BlockSize {
        /// Property.
        name: &'static str,
        /// Upper bound, as written.
        most: String,
    },
    /// Nobody has that name.
    #[error("'{0}' has an invalid user/group name")]
    NoSuchOwner(String),
    /// Neither zero nor a power of two in range.
    #[error("invalid '{name}={value}' property: must be zero or a power of 2 from 512B to {most}")]
    SmallBlocks {
        /// Property.
        name: &'static str,
        /// What was asked for.
        value: u64,
        /// Upper bound, as written.
        most: String,
    },
    /// Only volumes know what follows from their size.
    #[error("'{0}=auto' only allowed on volumes")]
    AutoOnVolumes(&'static str),
    /// Nothing follows by itself for this property.
    #[error("'auto' is invalid value for '{0}'")]
    Auto(&'static str),
    /// Not a place to mount at.
    #[error("'{0}' must be an absolute path, 'none', or 'legacy'")]
    Mountpoint(&'static str),
    /// Too long.
    #[error("'{0}' is too long")]
    TooLong(String),
    /// Only at creation.
    #[error("property '{0}' can only be set at creation time")]
    OnlyAtCreation(String),
    /// Only at import.
    #[error("property '{0}' can only be set at import time")]
    OnlyAtImport(String),
    /// Not an ashift.
    #[error("property '{name}' number {value} is invalid, only values between 9 and 16 are allowed.")]
    Ashift {
        /// Property.
        name: &'static str,
        /// What was asked for.
        value: u64,
    },
    /// Control characters in a comment.
    #[error("comment may only have printable characters")]
    CommentCharacter,
    /// Comments are short.
    #[error("comment must not exceed 32 characters")]
    CommentLength,
    /// Not a cache file.
    #[error("property '{0}' must be empty, an absolute path, or 'none'")]
    CacheFile(&'static str),
    /// Features are enabled, and never disabled again.
    #[error("property '{0}' can only be set to 'enabled' or 'disabled'")]
    Feature(String),
}

impl PropError {
    /// `cannot set property for 'WHAT': REASON` with the exit code of pool commands.
    pub fn failure(&self, what: &str) -> Failure {
        Failure::cannot(FailureKind::Invalid, "set property for", what, &self.to_string())
    }
}

/// `refreservation=auto`: all that the volume can come to take.
pub const AUTO: u64 = u64::MAX;
/// Largest record size.
pub const RECORD_MAX_BYTES: u64 = 16 << 20;
/// Values and names of user properties are shorter than this.
const TEXT_MAX_BYTES: usize = 8192;
const COMMENT_MAX_BYTES: usize = 32;

impl PropDef {
    /// Whether a dataset has it. Of what is no text, a snapshot has what the dataset has that it is of.
    pub fn is_of(&self, dataset: &DatasetInfo) -> bool {
        let applies = self.applies;
        let is_text = matches!(self.kind, Kind::Text | Kind::Mountpoint);
        let only_snapshots = !applies.filesystem && !applies.volume;
        // Volumes have a size, and so have their snapshots.
        let is_volume = dataset.props.contains_key("volsize");
        let suits_head = if is_volume { applies.volume } else { applies.filesystem };
        let is_snapshot = dataset.kind == DatasetKind::Snapshot;
        applies.to(dataset.kind) && (!is_snapshot || is_text || only_snapshots || suits_head)
    }

    /// Reads a value as typed.
    ///
    /// # Errors
    /// Why it will not do, in the words users know.
    pub fn parse(&self, text: &str) -> Result<Value, PropError> {
        match self.kind {
            Kind::Text => self.parse_text(text),
            Kind::Mountpoint => match text {
                "none" | "legacy" => Ok(text.into()),
                _ if text.starts_with('/') => Ok(text.into()),
                _ => Err(PropError::Mountpoint(self.name)),
            },
            Kind::Choice { help, words } => match words.iter().find(|(word, _)| *word == text) {
                Some((_, number)) => Ok(Value::Number(*number)),
                None => Err(PropError::NotAChoice { name: self.name, help }),
            },
            _ => self.parse_number(text).map(Value::Number),
        }
    }

    fn parse_text(&self, text: &str) -> Result<Value, PropError> {
        if text.len() >= TEXT_MAX_BYTES {
            return Err(PropError::TooLong(self.name.to_owned()));
        }
        match self.name {
            "comment" if text.chars().any(|c| !c.is_ascii() || c.is_ascii_control()) => {
                Err(PropError::CommentCharacter)
            }
            "comment" if text.len() > COMMENT_MAX_BYTES => Err(PropError::CommentLength),
            "cachefile" if !text.is_empty() && text != "none" && !text.starts_with('/') => {
                Err(PropError::CacheFile(self.name))
            }
            _ => Ok(text.into()),
        }
    }

    fn parse_number(&self, text: &str) -> Result<u64, PropError> {
        let is_none = text == "none";
        if is_none && matches!(self.kind, Kind::Count) {
            return Ok(u64::MAX);
        }
        let value = if is_none { 0 } else { nice::parse(text)? };
        match self.name {
            "quota" | "refquota" if value == 0 && !is_none => Err(PropError::ZeroQuota),
            "recordsize" | "volblocksize" | "special_small_blocks" => {
                self.check_block_size(value, RECORD_MAX_BYTES)
            }
            "ashift" if value != 0 && !(9..=16).contains(&value) => {
                Err(PropError::Ashift { name: self.name, value })
            }
            _ => Ok(value),
        }
    }

    /// Whether blocks can have this size where they have `most` bytes at most.
    fn check_block_size(&self, value: u64, most: u64) -> Result<u64, PropError> {
        let (name, is_small) = (self.name, self.name == "special_small_blocks");
        if value.is_power_of_two() && (512..=most).contains(&value) || is_small && value == 0 {
            return Ok(value);
        }
        let most = nice::bytes(most);
        match is_small {
            true => Err(PropError::SmallBlocks { name, value, most }),
            false => Err(PropError::BlockSize { name, most }),
        }
    }

    /// What it is when nobody set it.
    pub fn default_value(&self) -> Value {
        if self.default.is_empty() {
            return Value::Absent;
        }
        match (self.kind, self.default) {
            (Kind::Size { .. } | Kind::Amount | Kind::Id | Kind::Percent, text) => {
                text.parse().map_or(Value::Absent, Value::Number)
            }
            (_, text) => self.parse(text).unwrap_or(Value::Absent),
        }
    }

    /// The default, marked as such.
    pub fn default_prop(&self) -> Prop {
        Prop { value: self.default_value(), source: Source::Default }
    }
}

/// Finds a pool property by name or column.
pub fn pool_prop(name: &str) -> Option<&'static PropDef> {
    find(POOL_PROPS, name)
}

/// Finds a dataset property by name or column.
pub fn dataset_prop(name: &str) -> Option<&'static PropDef> {
    find(DATASET_PROPS, name)
}

fn find(table: &'static [PropDef], name: &str) -> Option<&'static PropDef> {
    table
        .iter()
        .find(|def| def.name == name)
        .or_else(|| table.iter().find(|def| def.column.to_ascii_lowercase() == name))
}

/// User properties have a colon in their name; they are always text and inherited.
pub fn is_user_prop(name: &str) -> bool {
    let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.:+".contains(c);
    name.contains(':') && name.chars().all(valid) && name.len() < 256
}

/// What a property's name says behind `written` that tells what was written since a snapshot or bookmark: `@snap`,
/// `#mark`, or either with the name of a dataset before it.
pub fn written_since(name: &str) -> Option<&str> {
    name.strip_prefix("written").filter(|rest| rest.starts_with(['@', '#']) && rest.len() > 1)
}

/// When a property is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// While it is made.
    Creation,
    /// At import.
    Import,
    /// Later.
    Later,
}

/// Reads one property of a dataset as typed: its proper name and its value.
///
/// # Errors
/// Why it will not do.
pub fn parse_dataset(
    name: &str,
    text: &str,
    kind: DatasetKind,
    occasion: Occasion,
) -> Result<(String, Value), PropError> {
    if is_user_prop(name) {
        return match text.len() < TEXT_MAX_BYTES {
            true => Ok((name.to_owned(), text.into())),
            false => Err(PropError::TooLong(name.to_owned())),
        };
    }
    if written_since(name).is_some() {
        return Err(PropError::ReadOnly(name.to_owned()));
    }
    let def = dataset_prop(name).ok_or_else(|| PropError::Unknown(name.to_owned()))?;
    if !def.applies.to(kind) {
        return Err(PropError::WrongType(def.name.to_owned()));
    }
    match def.access {
        Access::ReadOnly => return Err(PropError::ReadOnly(def.name.to_owned())),
        Access::AtCreation if occasion != Occasion::Creation => {
            return Err(PropError::ReadOnly(def.name.to_owned()));
        }
        _ => {}
    }
    if text == "auto" && def.kind.is_number() {
        return match def.name {
            "refreservation" if kind == DatasetKind::Volume => Ok((def.name.to_owned(), Value::Number(AUTO))),
            "refreservation" => Err(PropError::AutoOnVolumes(def.name)),
            _ => Err(PropError::Auto(def.name)),
        };
    }
    Ok((def.name.to_owned(), def.parse(text)?))
}

/// Whether a size of blocks, as typed, is one that a pool knows whose blocks have `most` bytes at most; all other
/// properties are.
///
/// # Errors
/// [`PropError::BlockSize`], [`PropError::SmallBlocks`].
pub fn check_block(name: &str, text: &str, kind: DatasetKind, most: u64) -> Result<(), PropError> {
    let sizes = ["recordsize", "volblocksize", "special_small_blocks"];
    let def = dataset_prop(name).filter(|def| sizes.contains(&def.name) && def.applies.to(kind));
    match (def, nice::parse(text)) {
        (Some(def), Ok(value)) => def.check_block_size(value, most).map(drop),
        _ => Ok(()),
    }
}

/// Reads one property of a pool as typed: its proper name and its value.
///
/// # Errors
/// Why it will not do.
pub fn parse_pool(name: &str, text: &str, occasion: Occasion) -> Result<(String, Value), PropError> {
    if let Some(feature) = name.strip_prefix("feature@") {
        return match text {
            _ if !is_feature(feature) => Err(PropError::Unknown(name.to_owned())),
            "enabled" => Ok((name.to_owned(), text.into())),
            "disabled" if occasion == Occasion::Creation => Ok((name.to_owned(), text.into())),
            "disabled" => Err(PropError::OnlyAtCreation(name.to_owned())),
            _ => Err(PropError::Feature(name.to_owned())),
        };
    }
    if is_user_prop(name) {
        return Ok((name.to_owned(), text.into()));
    }
    let def = pool_prop(name).ok_or_else(|| PropError::Unknown(name.to_owned()))?;
    match def.access {
        Access::ReadOnly => Err(PropError::ReadOnly(def.name.to_owned())),
        Access::AtCreation if def.name == "readonly" && occasion != Occasion::Import => {
            Err(PropError::OnlyAtImport(def.name.to_owned()))
        }
        Access::AtCreation if occasion == Occasion::Later => {
            Err(PropError::OnlyAtCreation(def.name.to_owned()))
        }
        _ => Ok((def.name.to_owned(), def.parse(text)?)),
    }
}

/// Whether OpenZFS knows a feature of this short name.
pub fn is_feature(name: &str) -> bool {
    POOL_FEATURES.contains(&name)
}

#[cfg(test)]
mod tests;
