//! Sentences about properties and features that follow from the tables of the program.

use dsl::NEW_POOL_FEATURES;
use dsl::features::{Feature, Support, feature};
use engine::props::{Access, Applies, DATASET_PROPS, POOL_PROPS, PropDef, Style};

use crate::view::get::values_help;

/// The sentences about `term` on this page.
pub(super) fn about(page: &str, term: &str) -> Option<String> {
    match page {
        "zpoolprops.7" => of_pool(term),
        "zfsprops.7" => of_dataset(term),
        "zpool-features.7" => of_feature(term),
        _ => None,
    }
}

fn of_pool(term: &str) -> Option<String> {
    let def = POOL_PROPS.iter().find(|def| def.name == term)?;
    let access = match def.access {
        Access::ReadOnly => return Some("Read-only.".to_owned()),
        Access::AtCreation => "The property can be set when the pool is created or imported.",
        Access::Set | Access::Inherit => "",
    };
    Some(format!("{} {access}", values(def, Style::Pool)).trim_end().to_owned())
}

fn of_dataset(term: &str) -> Option<String> {
    let def = DATASET_PROPS.iter().find(|def| def.name == term)?;
    let kinds = kinds(def.applies);
    Some(match def.access {
        Access::ReadOnly => format!("Read-only. Applies to {kinds}."),
        access => format!("{} {} Applies to {kinds}.", values(def, Style::Dataset), when(access)),
    })
}

fn when(access: Access) -> &'static str {
    match access {
        Access::ReadOnly => "Read-only.",
        Access::AtCreation => "The property can be set at creation only.",
        Access::Set => "Not inherited.",
        Access::Inherit => "Inherited by the datasets below.",
    }
}

fn values(def: &PropDef, style: Style) -> String {
    let default = def.default_value();
    let default = match def.show(&default, style).as_str() {
        "-" => String::new(),
        text => format!(" Default: `{text}`."),
    };
    format!("Values: `{}`.{default}", values_help(def))
}

fn kinds(applies: Applies) -> String {
    let all = [
        (applies.filesystem, "file systems"),
        (applies.volume, "volumes"),
        (applies.snapshot, "snapshots"),
        (applies.bookmark, "bookmarks"),
    ];
    all.into_iter().filter(|(is_one, _)| *is_one).map(|(_, name)| name).collect::<Vec<_>>().join(", ")
}

fn of_feature(term: &str) -> Option<String> {
    let feature = feature(term)?;
    let is_new = NEW_POOL_FEATURES.iter().any(|new| new.guid == feature.guid);
    let new = if is_new { "New pools have the feature." } else { "New pools do not have the feature." };
    let without = match feature.write_only {
        true => "Systems without the feature can import the pool read-only while the feature is active.",
        false => "Systems without the feature cannot import the pool while the feature is active.",
    };
    Some(format!("GUID: `{}`. {new} {without}{}{}", feature.guid, support(feature), needs(feature)))
}

fn support(feature: &Feature) -> &'static str {
    match feature.support {
        Support::Full => "",
        Support::Read => " Sawmill imports a pool read-only while the feature is active.",
        Support::None => " Sawmill does not import a pool while the feature is active.",
    }
}

fn needs(needing: &'static Feature) -> String {
    let names: Vec<String> = needing
        .needs
        .iter()
        .filter_map(|guid| feature(guid))
        .map(|feature| format!("`{}`", feature.name))
        .collect();
    if names.is_empty() { String::new() } else { format!(" Needs {}.", names.join(", ")) }
}
