//! Which features a new pool gets: those of new pools ([`Offer`]), less what `-d`, the
//! `compatibility` property and `feature@NAME=disabled` leave out, and those asked for by name.

use crate::compat::{self, Allowed};
use crate::settings::Settings;
use dsl::features::{FEATURES, Support, feature};
use dsl::{Feature, NEW_POOL_FEATURES};
use env::Machine;
use pool::Tuning;
use std::collections::BTreeMap;

/// The features that a pool gets if nothing else is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Those that boot loaders know, too, as long as nothing uses them.
    NewPools,
    /// All that are implemented whole (`SAWMILL_FEATURES=all`).
    All,
}

impl Offer {
    /// The choice of this engine.
    pub fn of(tuning: &Tuning) -> Self {
        if tuning.all_features { Self::All } else { Self::NewPools }
    }

    fn features(self) -> Vec<&'static Feature> {
        let mut features = NEW_POOL_FEATURES.to_vec();
        if self == Self::All {
            let is_more = |feature: &&&'static Feature| {
                feature.support == Support::Full && !NEW_POOL_FEATURES.contains(feature)
            };
            features.extend(FEATURES.iter().filter(is_more).copied());
        }
        features
    }
}

/// The features of a new pool.
///
/// # Errors
/// The reason that goes behind `cannot create 'POOL': `.
pub fn features(
    machine: &dyn Machine,
    offer: Offer,
    settings: &Settings,
    no_features: bool,
) -> Result<Vec<&'static Feature>, String> {
    let allowed = compat::load(machine, settings.compatibility.as_deref().unwrap_or("off"))?;
    let allowed = if no_features { Allowed::Only(std::collections::BTreeSet::new()) } else { allowed };
    let asked = |name: &str| settings.features.iter().rev().find(|(n, _)| n == name).map(|(_, on)| *on);
    let is_wanted =
        |feature: &&'static Feature| asked(feature.name).unwrap_or_else(|| allowed.has(feature.name));
    let mut chosen: Vec<&'static Feature> = offer.features().into_iter().filter(is_wanted).collect();
    for (name, _) in settings.features.iter().filter(|(_, on)| *on) {
        let known = check_feature(name)?;
        if !chosen.contains(&known) {
            chosen.push(known);
        }
    }
    Ok(chosen)
}

/// The features of new pools that one with these counts lacks and may have, by its
/// `compatibility` property.
///
/// # Errors
/// When a file that the property names cannot be read.
pub fn missing(
    machine: &dyn Machine,
    offer: Offer,
    counts: &BTreeMap<String, u64>,
    compatibility: Option<&str>,
) -> Result<Vec<&'static Feature>, String> {
    let allowed = compat::load(machine, compatibility.unwrap_or("off"))?;
    let is_missing =
        |feature: &&'static Feature| !counts.contains_key(feature.guid) && allowed.has(feature.name);
    Ok(offer.features().into_iter().filter(is_missing).collect())
}

/// A feature that may be enabled here.
///
/// # Errors
/// When it is not implemented whole.
pub fn check_feature(name: &str) -> Result<&'static Feature, String> {
    match feature(name).filter(|feature| feature.support == Support::Full) {
        Some(feature) => Ok(feature),
        None => Err(format!("feature '{name}' is not supported yet")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::RealMachine;

    fn chosen(settings: &Settings, no_features: bool) -> Result<Vec<&'static Feature>, String> {
        features(&RealMachine::default(), Offer::NewPools, settings, no_features)
    }

    fn lacking(compatibility: Option<&str>, counts: &BTreeMap<String, u64>) -> Result<usize, String> {
        missing(&RealMachine::default(), Offer::NewPools, counts, compatibility).map(|all| all.len())
    }

    fn names(settings: &Settings) -> Vec<&'static str> {
        chosen(settings, false).expect("a choice").iter().map(|feature| feature.name).collect()
    }

    #[test]
    fn features_are_left_out_and_added_by_name() {
        let all = names(&Settings::default());
        assert!(all.contains(&"sha512") && all.contains(&"livelist") && !all.contains(&"longname"));
        let with = |name: &str, on| Settings { features: vec![(name.to_owned(), on)], ..Settings::default() };
        assert!(!names(&with("sha512", false)).contains(&"sha512"));
        assert!(names(&with("longname", true)).contains(&"longname"));
        assert!(chosen(&with("encryption", true), false).is_err());
        assert!(!names(&with("lz4_compress", false)).contains(&"lz4_compress"));
        assert_eq!(chosen(&Settings::default(), true), Ok(Vec::new()));
        let legacy = Settings { compatibility: Some("legacy".into()), ..Settings::default() };
        assert_eq!(names(&legacy), [""; 0]);
        let offered = features(&RealMachine::default(), Offer::All, &Settings::default(), false);
        let offered: Vec<_> = offered.expect("a choice").iter().map(|feature| feature.name).collect();
        assert!(["vdev_zaps_v2", "head_errlog", "longname"].iter().all(|name| offered.contains(name)));
        assert!(!offered.contains(&"encryption") && all.iter().all(|name| offered.contains(name)));
        let unreadable = Settings { compatibility: Some("no-such-file".into()), ..Settings::default() };
        let all: BTreeMap<String, u64> =
            NEW_POOL_FEATURES.iter().map(|feature| (feature.guid.to_owned(), 0)).collect();
        assert_eq!(lacking(None, &all), Ok(0));
        assert_eq!(lacking(None, &BTreeMap::new()), Ok(NEW_POOL_FEATURES.len()));
        assert_eq!(lacking(Some("legacy"), &BTreeMap::new()), Ok(0));
        let error = chosen(&unreadable, false).expect_err("no file");
        assert_eq!(error, "could not read/parse feature file(s): no-such-file ");
    }
}
