//! Which features a pool may have: the `compatibility` property and the files it names.
//!
//! A file lists short names of features, apart by blanks, commas or lines, `#` to the end of the
//! line left out. Several files leave what all of them list. A name that no feature has is an
//! error in the administrator's own files, and passed over in those that came with OpenZFS. Of its
//! releases we know the features ([`releases`]) where the files are not installed.

mod releases;

use crate::props::is_feature;
use env::Machine;
use std::collections::BTreeSet;
use std::path::Path;

/// The administrator's own files.
const LOCAL_DIR: &str = "/etc/zfs/compatibility.d";
/// Those that come with OpenZFS.
const SHARED_DIR: &str = "/usr/share/zfs/compatibility.d";
/// Larger files are none.
const FILE_MAX_BYTES: usize = 16 << 10;

/// What the property leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// All there are: `off`.
    All,
    /// These; none for `legacy`.
    Only(BTreeSet<String>),
}

impl Allowed {
    /// Whether a feature of this short name may be enabled.
    pub fn has(&self, feature: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(feature),
        }
    }
}

/// Reads the property's value and the files it names.
///
/// # Errors
/// The line to print, when a file cannot be read or names a feature there is not.
pub fn load(machine: &dyn Machine, value: &str) -> Result<Allowed, String> {
    load_from(machine, value, Path::new(LOCAL_DIR), Path::new(SHARED_DIR))
}

fn load_from(machine: &dyn Machine, value: &str, local: &Path, shared: &Path) -> Result<Allowed, String> {
    match value {
        "" | "off" => return Ok(Allowed::All),
        "legacy" => return Ok(Allowed::Only(BTreeSet::new())),
        _ => {}
    }
    let (mut left, mut bad_files, mut bad_words) = (None::<BTreeSet<String>>, String::new(), String::new());
    for name in value.split(',').filter(|name| !name.is_empty()) {
        let names = if let Some(text) = read(machine, &local.join(name)) {
            let (names, unknown) = parse(&text);
            unknown.iter().for_each(|word| bad_words.push_str(&format!("{word} ")));
            Some(names)
        } else {
            read(machine, &shared.join(name))
                .map(|text| parse(&text).0)
                .or_else(|| releases::features_of(name))
        };
        let Some(names) = names else {
            bad_files.push_str(&format!("{name} "));
            continue;
        };
        left = Some(match left {
            None => names,
            Some(left) => left.intersection(&names).cloned().collect(),
        });
    }
    match left {
        _ if !bad_files.is_empty() => Err(format!("could not read/parse feature file(s): {bad_files}")),
        None => Err("no valid compatibility files specified".to_owned()),
        _ if !bad_words.is_empty() => {
            Err(format!("invalid feature name(s) in local compatibility files: {bad_words}"))
        }
        Some(left) => Ok(Allowed::Only(left)),
    }
}

/// A file that is not too large and ends with its last line.
fn read(machine: &dyn Machine, path: &Path) -> Option<String> {
    let text = String::from_utf8(machine.read(path).ok()?).ok()?;
    (text.ends_with('\n') && text.len() <= FILE_MAX_BYTES).then_some(text)
}

/// The features a file names, and the words that are none.
fn parse(text: &str) -> (BTreeSet<String>, Vec<String>) {
    let without_remark = |line: &str| line.split('#').next().unwrap_or_default().to_owned();
    let lines: Vec<String> = text.lines().map(without_remark).collect();
    let words = lines.iter().flat_map(|line| line.split([',', ' ', '\t'])).filter(|word| !word.is_empty());
    let (names, unknown): (Vec<&str>, Vec<&str>) = words.partition(|word| is_feature(word));
    let shown = |word: &&str| word.chars().take(32).collect();
    (names.into_iter().map(str::to_owned).collect(), unknown.iter().map(shown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::RealMachine;

    fn names(allowed: Allowed) -> Vec<String> {
        match allowed {
            Allowed::All => vec!["*".to_owned()],
            Allowed::Only(names) => names.into_iter().collect(),
        }
    }

    #[test]
    fn files_leave_what_all_of_them_list() {
        let dirs = tempfile::TempDir::new().expect("a directory");
        let (local, shared) = (dirs.path().join("local"), dirs.path().join("shared"));
        for dir in [&local, &shared] {
            std::fs::create_dir(dir).expect("a directory");
        }
        let write = |path: std::path::PathBuf, text: &str| std::fs::write(path, text).expect("written");
        write(shared.join("one"), "# all of it\nlz4_compress, bookmarks\t sha512 # not skein\nnew_feature\n");
        write(local.join("two"), "sha512\nlz4_compress edonr\n");
        write(local.join("wrong"), "sha512 sha513\n");
        write(local.join("torn"), "sha512");
        let load = |value| load_from(&RealMachine::default(), value, &local, &shared).map(names);
        assert_eq!(load("off"), Ok(vec!["*".to_owned()]));
        assert_eq!(load("legacy"), Ok(vec![]));
        assert_eq!(load("one").expect("read"), ["bookmarks", "lz4_compress", "sha512"]);
        assert_eq!(load("zol-0.6.1").expect("known"), ["async_destroy", "empty_bpobj", "lz4_compress"]);
        assert_eq!(load("one,two").expect("read"), ["lz4_compress", "sha512"]);
        assert_eq!(
            load("wrong"),
            Err("invalid feature name(s) in local compatibility files: sha513 ".into())
        );
        assert_eq!(load("one,torn,no"), Err("could not read/parse feature file(s): torn no ".into()));
        assert_eq!(load(","), Err("no valid compatibility files specified".into()));
    }
}
