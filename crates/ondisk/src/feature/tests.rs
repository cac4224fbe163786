use std::collections::BTreeSet;

use super::*;

#[test]
fn guids_and_names_are_unique_and_found_again() {
    let guids: BTreeSet<_> = Feature::ALL.iter().map(|feature| feature.info().guid).collect();
    assert_eq!(guids.len(), Feature::ALL.len());
    for feature in Feature::ALL {
        let info = feature.info();
        assert_eq!(Feature::from_guid(info.guid), Some(feature));
        assert_eq!(Feature::from_name(info.name()), Some(feature));
        assert!(!info.description.is_empty());
    }
    assert_eq!(Feature::from_guid("com.example:unheard_of"), None);
}

#[test]
fn what_the_mos_needs_is_not_for_writers_only() {
    assert!(!Feature::ALL.iter().any(|feature| feature.info().mos() && feature.info().readonly_compat()));
}

#[test]
fn features_of_datasets_need_extensible_datasets() {
    for feature in Feature::ALL {
        let needs = feature.info().depends.contains(&Feature::ExtensibleDataset);
        assert!(needs || !feature.info().per_dataset(), "{feature:?}");
    }
}

#[test]
fn dependencies_do_not_run_in_circles() {
    fn depth(feature: Feature, left: usize) -> usize {
        assert!(left > 0, "{feature:?} depends on itself");
        feature.info().depends.iter().map(|on| 1 + depth(*on, left - 1)).max().unwrap_or(0)
    }
    assert!(Feature::ALL.into_iter().all(|feature| depth(feature, Feature::ALL.len()) < 5));
}
