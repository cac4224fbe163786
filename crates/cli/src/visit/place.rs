//! `POOL/DATASET[@SNAPSHOT]:PATH`.

use crate::session::{Stop, usage};

/// A file or directory in a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Full name of the dataset or snapshot.
    pub dataset: String,
    /// Path from its root.
    pub path: String,
    /// As typed.
    pub text: String,
}

impl Place {
    /// Takes a word apart; without a colon it is the dataset's root.
    pub fn parse(text: &str) -> Result<Self, Stop> {
        let (dataset, path) = text.split_once(':').unwrap_or((text, ""));
        if dataset.is_empty() || dataset.starts_with('/') {
            return usage(format!("'{text}' is not POOL/DATASET[@SNAPSHOT]:PATH"));
        }
        Ok(Self { dataset: dataset.to_owned(), path: path.to_owned(), text: text.to_owned() })
    }

    /// Whether a word means a place in a pool, as against a path of this system: it has a colon,
    /// and does not begin as paths do.
    pub fn is_meant_by(text: &str) -> bool {
        text.contains(':') && !text.starts_with(['/', '.'])
    }

    /// The pool.
    pub fn pool(&self) -> &str {
        engine::names::pool_of(&self.dataset)
    }
}

/// The one pool that all these places are in.
pub fn common_pool(places: &[Place]) -> Result<&str, Stop> {
    let Some(first) = places.first() else { return usage("missing POOL/DATASET[@SNAPSHOT]:PATH") };
    if places.iter().any(|place| place.pool() != first.pool()) {
        return usage("all places must be in one pool");
    }
    Ok(first.pool())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dataset_snapshot_and_path_are_told_apart() {
        let place = Place::parse("tank/a b@s:/x:y").expect("a place");
        assert_eq!(
            (place.dataset.as_str(), place.path.as_str(), place.pool()),
            ("tank/a b@s", "/x:y", "tank")
        );
        assert_eq!(Place::parse("tank").expect("a place").path, "");
        assert!(Place::parse(":x").is_err() && Place::parse("/tank:x").is_err());
    }

    #[test]
    fn paths_of_this_system_are_no_places() {
        assert!(Place::is_meant_by("tank:x") && Place::is_meant_by("tank/fs@s:"));
        assert!(!Place::is_meant_by("./a:b") && !Place::is_meant_by("/a:b") && !Place::is_meant_by("a/b"));
    }

    #[test]
    fn places_of_two_pools_are_refused() {
        let places = ["a/x:", "b/x:"].map(|text| Place::parse(text).expect("a place"));
        assert!(common_pool(&places).is_err() && common_pool(&places[..1]).is_ok_and(|pool| pool == "a"));
    }
}
