//! What pools and datasets may be called.
//!
//! A dataset's name is components of letters, digits and `-_.: ` joined by `/`; the first
//! is the pool's and starts with a letter. Names that a vdev specification could be
//! mistaken for are reserved.

pub use control::pool_of;

/// Names are shorter than this, pool and all.
pub const NAME_MAX_BYTES: usize = 256;
/// Pool names leave room for the two hidden components a pool's origin snapshot is made of.
pub const POOL_NAME_MAX_BYTES: usize = NAME_MAX_BYTES - 2 - 2 * "$ORIGIN".len();

/// Why a name will not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Begins as a vdev keyword does.
    #[error("name is reserved")]
    Reserved,
    /// Too long.
    #[error("name is too long")]
    TooLong,
    /// A character that pool names may not have.
    #[error("invalid character '{0}' in pool name")]
    PoolCharacter(char),
    /// A character that names may not have.
    #[error("invalid character '{0}' in name")]
    Character(char),
    /// Pool names begin with a letter.
    #[error("name must begin with a letter")]
    NoLetter,
    /// Begins with `/`.
    #[error("leading slash in name")]
    LeadingSlash,
    /// Ends with `/`.
    #[error("trailing slash in name")]
    TrailingSlash,
    /// `//`, or a delimiter where none belongs.
    #[error("empty component or misplaced '@' or '#' delimiter in name")]
    EmptyComponent,
    /// `@` in the name of a file system or volume.
    #[error("snapshot delimiter '@' is not expected here")]
    SnapshotDelimiter,
    /// `#` in the name of a file system or volume.
    #[error("bookmark delimiter '#' is not expected here")]
    BookmarkDelimiter,
    /// A component is `.`.
    #[error("self reference, '.' is found in name")]
    SelfReference,
    /// A component is `..`.
    #[error("parent reference, '..' is found in name")]
    ParentReference,
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | ' ')
}

/// Whether a new pool may be called so.
///
/// # Errors
/// The first rule that is broken.
pub fn check_new_pool(name: &str) -> Result<(), NameError> {
    let reserved = ["mirror", "raidz", "draid", "spare"].iter().any(|word| name.starts_with(word));
    if reserved || name == "log" {
        return Err(NameError::Reserved);
    }
    if name.len() >= POOL_NAME_MAX_BYTES {
        return Err(NameError::TooLong);
    }
    if let Some(c) = name.chars().find(|&c| !is_name_char(c)) {
        return Err(NameError::PoolCharacter(c));
    }
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(NameError::NoLetter);
    }
    Ok(())
}

/// Whether this could be a file system's or volume's full name.
///
/// # Errors
/// The first rule that is broken.
pub fn check_dataset(name: &str) -> Result<(), NameError> {
    if name.contains('@') {
        return Err(NameError::SnapshotDelimiter);
    }
    if name.contains('#') {
        return Err(NameError::BookmarkDelimiter);
    }
    if name.len() >= NAME_MAX_BYTES {
        return Err(NameError::TooLong);
    }
    if name.starts_with('/') {
        return Err(NameError::LeadingSlash);
    }
    if name.ends_with('/') {
        return Err(NameError::TrailingSlash);
    }
    for component in name.split('/') {
        match component {
            "" => return Err(NameError::EmptyComponent),
            "." => return Err(NameError::SelfReference),
            ".." => return Err(NameError::ParentReference),
            _ => {}
        }
    }
    match name.chars().find(|&c| c != '/' && !is_name_char(c)) {
        Some(c) => Err(NameError::Character(c)),
        None => Ok(()),
    }
}

/// The dataset that holds this one; none for a pool's root.
pub fn parent_of(dataset: &str) -> Option<&str> {
    dataset.rfind('/').map(|end| &dataset[..end])
}

/// Whether `name` is `root` or below it.
pub fn is_within(name: &str, root: &str) -> bool {
    name.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '@']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_names_that_look_like_vdevs_are_reserved() {
        for name in ["log", "mirror", "mirrorx", "raidz1", "draid", "spare7"] {
            assert_eq!(check_new_pool(name), Err(NameError::Reserved), "{name}");
        }
        for name in ["logs", "tank", "a-b_c.d:e f", "Mirror"] {
            assert_eq!(check_new_pool(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn pool_names_start_with_a_letter_and_hold_plain_characters() {
        assert_eq!(check_new_pool("1p"), Err(NameError::NoLetter));
        assert_eq!(check_new_pool(""), Err(NameError::NoLetter));
        assert_eq!(check_new_pool("a@b"), Err(NameError::PoolCharacter('@')));
        assert_eq!(check_new_pool("a/b"), Err(NameError::PoolCharacter('/')));
        assert_eq!(check_new_pool(&"x".repeat(240)), Err(NameError::TooLong));
        assert_eq!(check_new_pool(&"x".repeat(239)), Ok(()));
    }

    #[test]
    fn dataset_names_are_whole_components() {
        assert_eq!(check_dataset("tank/a b/c"), Ok(()));
        assert_eq!(check_dataset("tank//c"), Err(NameError::EmptyComponent));
        assert_eq!(check_dataset("/tank"), Err(NameError::LeadingSlash));
        assert_eq!(check_dataset("tank/"), Err(NameError::TrailingSlash));
        assert_eq!(check_dataset("tank/.."), Err(NameError::ParentReference));
        assert_eq!(check_dataset("tank/a@b"), Err(NameError::SnapshotDelimiter));
        assert_eq!(check_dataset("tank/a%b"), Err(NameError::Character('%')));
        assert_eq!(check_dataset(&format!("t/{}", "x".repeat(254))), Err(NameError::TooLong));
    }

    #[test]
    fn a_name_is_within_its_ancestors_only() {
        assert!(is_within("tank/a/b", "tank/a"));
        assert!(is_within("tank/a", "tank/a"));
        assert!(is_within("tank/a@s", "tank/a"));
        assert!(!is_within("tank/ab", "tank/a"));
        assert_eq!(pool_of("tank/a@s"), "tank");
        assert_eq!(parent_of("tank/a/b"), Some("tank/a"));
        assert_eq!(parent_of("tank"), None);
    }
}
