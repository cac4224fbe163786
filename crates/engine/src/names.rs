//! What pools and datasets may be called.
//!
//! A dataset's name is components of letters, digits and `-_.: ` joined by `/`; the first
//! is the pool's and starts with a letter. Names that a vdev specification could be
//! mistaken for are reserved. One component behind `@` makes a snapshot's name of it, and one behind `#` a
//! bookmark's.

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
    /// No `@` in the name of a snapshot.
    #[error("missing '@' delimiter in snapshot name")]
    NoSnapshotDelimiter,
    /// No `#` in the name of a bookmark.
    #[error("missing '#' delimiter in bookmark name")]
    NoBookmarkDelimiter,
    /// More than one `@` or `#`.
    #[error("multiple '@' and/or '#' delimiters in name")]
    ManyDelimiters,
    /// `%`, which the format keeps for datasets that nobody sees.
    #[error("invalid character % in name")]
    Percent,
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
    check_pool(name)
}

/// Whether a pool that exists may be called so: its label may have any name.
///
/// # Errors
/// The first rule that is broken.
pub fn check_pool(name: &str) -> Result<(), NameError> {
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
    check_components(name)
}

fn check_components(name: &str) -> Result<(), NameError> {
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

/// Whether a new snapshot may have this full name.
///
/// # Errors
/// The first rule that is broken.
pub fn check_snapshot(name: &str) -> Result<(), NameError> {
    let (dataset, last) = name.split_once('@').ok_or(NameError::NoSnapshotDelimiter)?;
    if dataset.contains('#') {
        return Err(NameError::BookmarkDelimiter);
    }
    check_delimited(name, dataset, last)
}

/// Whether a new bookmark may have this full name.
///
/// # Errors
/// The first rule that is broken.
pub fn check_bookmark(name: &str) -> Result<(), NameError> {
    let (dataset, last) = name.split_once('#').ok_or(NameError::NoBookmarkDelimiter)?;
    if dataset.contains('@') {
        return Err(NameError::SnapshotDelimiter);
    }
    check_delimited(name, dataset, last)
}

/// `last` is what stands behind the delimiter.
fn check_delimited(name: &str, dataset: &str, last: &str) -> Result<(), NameError> {
    if name.contains('%') {
        return Err(NameError::Percent);
    }
    if name.len() >= NAME_MAX_BYTES {
        return Err(NameError::TooLong);
    }
    if last.contains(['@', '#']) {
        return Err(NameError::ManyDelimiters);
    }
    check_components(dataset)?;
    match last.contains('/') {
        true => Err(NameError::TrailingSlash),
        false => check_components(last),
    }
}

/// The dataset that a snapshot or bookmark is of; any other name as it is.
pub fn head_of(name: &str) -> &str {
    name.split(['@', '#']).next().unwrap_or(name)
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
        assert_eq!(check_pool("log"), Ok(()));
        assert_eq!(check_pool("tank\u{1b}[2J"), Err(NameError::PoolCharacter('\u{1b}')));
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
    fn snapshots_and_bookmarks_have_one_component_behind_their_delimiter() {
        assert_eq!(check_snapshot("tank/a@b c"), Ok(()));
        assert_eq!(check_bookmark("tank/a#b"), Ok(()));
        assert_eq!(check_snapshot("tank/a"), Err(NameError::NoSnapshotDelimiter));
        assert_eq!(check_bookmark("tank/a@b"), Err(NameError::NoBookmarkDelimiter));
        assert_eq!(check_snapshot("tank#a@b"), Err(NameError::BookmarkDelimiter));
        assert_eq!(check_bookmark("tank@a#b"), Err(NameError::SnapshotDelimiter));
        assert_eq!(check_snapshot("tank/a@b@c"), Err(NameError::ManyDelimiters));
        assert_eq!(check_snapshot("tank/a@b#c"), Err(NameError::ManyDelimiters));
        assert_eq!(check_snapshot("tank/a@"), Err(NameError::EmptyComponent));
        assert_eq!(check_snapshot("tank/a@b/c"), Err(NameError::TrailingSlash));
        assert_eq!(check_snapshot("tank/a@b%c"), Err(NameError::Percent));
        assert_eq!(check_snapshot("tank/a@b!"), Err(NameError::Character('!')));
        assert_eq!(check_snapshot(&format!("t@{}", "x".repeat(254))), Err(NameError::TooLong));
        assert_eq!(check_snapshot(&format!("t@{}", "x".repeat(253))), Ok(()));
        assert_eq!(
            (head_of("tank/a@s"), head_of("tank/a#m"), head_of("tank/a")),
            ("tank/a", "tank/a", "tank/a")
        );
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
