//! Features of a pool as properties.

use control::props::{Prop, Props, Source};
use dsl::{FEATURES, Features};

/// `feature@NAME` for every feature we know: active, enabled or disabled.
pub fn props(features: &Features) -> Props {
    let one = |feature: &'static dsl::Feature| {
        let (word, source) = match features.count(feature) {
            None => ("disabled", Source::Local),
            Some(0) => ("enabled", Source::Local),
            Some(_) => ("active", Source::Local),
        };
        (format!("feature@{}", feature.name), Prop { value: word.into(), source })
    };
    FEATURES.iter().map(one).collect()
}
