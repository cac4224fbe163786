use super::world::World;
use crate::features::{
    DYNAMIC_GANG_HEADER, EMBEDDED_DATA, ENABLED_TXG, FEATURES, HEAD_ERRLOG, HOLE_BIRTH, LZ4_COMPRESS,
    RESILVER_DEFER, SPACEMAP_HISTOGRAM, feature,
};

#[test]
fn every_feature_is_found_by_both_its_names_and_all_it_needs_exists() {
    for &one in FEATURES {
        assert_eq!(feature(one.guid), Some(one));
        assert_eq!(feature(one.name), Some(one));
        assert_eq!(one.closure().last(), Some(&one));
    }
}

#[test]
fn enabling_a_feature_enables_what_it_needs_and_notes_when() {
    let world = World::new();
    world.env.block_on(async {
        let dsl = &world.dsl;
        assert_eq!(dsl.feature_count(&LZ4_COMPRESS).await.unwrap(), Some(1));
        assert_eq!(dsl.feature_count(&SPACEMAP_HISTOGRAM).await.unwrap(), Some(0));
        assert_eq!(dsl.feature_count(&HEAD_ERRLOG).await.unwrap(), None);
        let noted = dsl.feature_count(&ENABLED_TXG).await.unwrap();
        dsl.enable_feature(&world.tx(), &HEAD_ERRLOG).await.unwrap();
        dsl.enable_feature(&world.tx(), &HEAD_ERRLOG).await.unwrap();
        assert_eq!(dsl.feature_count(&HEAD_ERRLOG).await.unwrap(), Some(1));
        assert_eq!(dsl.feature_count(&ENABLED_TXG).await.unwrap(), noted.map(|count| count + 1));
        let txgs = dsl.zap(dsl.directory_object("feature_enabled_txg").await.unwrap().get()).await.unwrap();
        assert_eq!(txgs.count().await.unwrap(), noted.unwrap() + 1);
        assert_eq!(dsl.label_features().await.unwrap(), [EMBEDDED_DATA.guid, HOLE_BIRTH.guid]);
    });
}

#[test]
fn a_feature_that_is_not_supported_counts_once_it_is_active() {
    let world = World::new();
    world.env.block_on(async {
        let dsl = &world.dsl;
        assert!(dsl.unsupported_features(true).await.unwrap().is_empty());
        for feature in [&RESILVER_DEFER, &DYNAMIC_GANG_HEADER] {
            dsl.enable_feature(&world.tx(), feature).await.unwrap();
        }
        assert!(dsl.unsupported_features(true).await.unwrap().is_empty());
        dsl.count_feature(&world.tx(), &RESILVER_DEFER, 1).await.unwrap();
        assert!(dsl.unsupported_features(false).await.unwrap().is_empty());
        assert_eq!(dsl.unsupported_features(true).await.unwrap(), [RESILVER_DEFER.guid]);
        dsl.count_feature(&world.tx(), &DYNAMIC_GANG_HEADER, 1).await.unwrap();
        assert_eq!(dsl.unsupported_features(false).await.unwrap(), [DYNAMIC_GANG_HEADER.guid]);
        let table = dsl.zap(dsl.directory_object("features_for_read").await.unwrap().get()).await.unwrap();
        table.update_u64(&world.tx(), b"org.example:from_the_future", 1).await.unwrap();
        let unsupported = dsl.unsupported_features(false).await.unwrap();
        assert!(unsupported.contains(&"org.example:from_the_future".to_owned()));
    });
}

#[test]
fn a_feature_cannot_be_given_up_more_often_than_it_was_used() {
    let world = World::new();
    world.env.block_on(async {
        assert!(world.dsl.count_feature(&world.tx(), &SPACEMAP_HISTOGRAM, -1).await.is_err());
        assert!(world.dsl.count_feature(&world.tx(), &RESILVER_DEFER, 1).await.is_err());
    });
}
