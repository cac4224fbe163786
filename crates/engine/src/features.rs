//! Features of a pool as properties.

use crate::props::{Prop, Props, Source};
use dsl::FEATURES;
use std::collections::BTreeMap;

/// `feature@NAME` for every feature we know, from the counts a pool keeps: active, enabled or
/// disabled.
pub fn props(counts: &BTreeMap<String, u64>) -> Props {
    let word = |guid: &str| match counts.get(guid) {
        None => "disabled",
        Some(0) => "enabled",
        Some(_) => "active",
    };
    let prop = |guid: &str| Prop { value: word(guid).into(), source: Source::Local };
    FEATURES.iter().map(|feature| (format!("feature@{}", feature.name), prop(feature.guid))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::props::POOL_FEATURES;

    #[test]
    fn features_in_use_are_told_from_those_that_may_be() {
        let known = &FEATURES[0];
        let shown = |counts: &[(String, u64)]| {
            let all = props(&counts.iter().cloned().collect());
            all[&format!("feature@{}", known.name)].value.clone()
        };
        assert_eq!(shown(&[]), "disabled".into());
        assert_eq!(shown(&[(known.guid.to_owned(), 0)]), "enabled".into());
        assert_eq!(shown(&[(known.guid.to_owned(), 3)]), "active".into());
    }

    #[test]
    fn every_feature_of_the_engine_can_be_shown() {
        for feature in FEATURES {
            assert!(POOL_FEATURES.contains(&feature.name), "{}", feature.name);
        }
    }
}
