//! The native properties that are stored, their defaults, and which of them are inherited
//! (`zfs_prop.c`). Those that are computed (used, available, ...) are not here.

/// A default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    /// A number, or the number of a choice.
    Number(u64),
    /// Text.
    Text(&'static str),
}

/// A native property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropDef {
    /// Its name, here and in ZAPs.
    pub name: &'static str,
    /// What it is when nobody set it; also says whether it is a number or text.
    pub default: DefaultValue,
    /// Whether children inherit it.
    pub inherited: bool,
}

const fn inherited(name: &'static str, default: u64) -> PropDef {
    PropDef { name, default: DefaultValue::Number(default), inherited: true }
}

const fn own(name: &'static str, default: u64) -> PropDef {
    PropDef { name, default: DefaultValue::Number(default), inherited: false }
}

const fn inherited_text(name: &'static str, default: &'static str) -> PropDef {
    PropDef { name, default: DefaultValue::Text(default), inherited: true }
}

const fn own_text(name: &'static str, default: &'static str) -> PropDef {
    PropDef { name, default: DefaultValue::Text(default), inherited: false }
}

/// The native property of this name.
#[must_use]
pub fn prop(name: &str) -> Option<&'static PropDef> {
    PROPS.iter().find(|def| def.name == name)
}

/// All of them, by name.
pub static PROPS: &[PropDef] = &[
    inherited("aclinherit", 4),
    inherited("aclmode", 0),
    inherited("acltype", 0),
    inherited("atime", 1),
    own("canmount", 1),
    own("casesensitivity", 0),
    inherited("checksum", 1),
    inherited("compression", 1),
    own_text("context", "none"),
    inherited("copies", 1),
    inherited("dedup", 2),
    own_text("defcontext", "none"),
    inherited("devices", 1),
    inherited("direct", 1),
    inherited("dnodesize", 0),
    inherited("exec", 1),
    own("filesystem_limit", u64::MAX),
    own_text("fscontext", "none"),
    own_text("keylocation", "none"),
    inherited("logbias", 0),
    inherited_text("mlslabel", "none"),
    inherited_text("mountpoint", "/"),
    inherited("nbmand", 0),
    own("normalization", 0),
    inherited("overlay", 1),
    inherited("prefetch", 2),
    inherited("primarycache", 2),
    own("quota", 0),
    inherited("readonly", 0),
    inherited("recordsize", 128 << 10),
    inherited("redundant_metadata", 0),
    own("refquota", 0),
    own("refreservation", 0),
    inherited("relatime", 1),
    own("reservation", 0),
    own_text("rootcontext", "none"),
    inherited("secondarycache", 2),
    inherited("setuid", 1),
    inherited_text("sharenfs", "off"),
    inherited_text("sharesmb", "off"),
    inherited("snapdev", 0),
    inherited("snapdir", 0),
    own("snapshot_limit", u64::MAX),
    inherited("special_small_blocks", 0),
    inherited("sync", 0),
    own("utf8only", 0),
    own("version", 0),
    own("volblocksize", 16 << 10),
    inherited("volmode", 0),
    own("volsize", 0),
    own("volthreading", 1),
    inherited("vscan", 0),
    inherited("xattr", 2),
    inherited("zoned", 0),
];
