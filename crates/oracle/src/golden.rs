//! Pools that OpenZFS made, for tests to read.
//!
//! They lie as `NAME.tar.zst` in `tests/golden` and `tests/golden-2` of the repository, each of which has a
//! README that says how they were made; `SAWMILL_GOLDEN` may name another directory. A test that
//! asks for a pool that is not there fails: a run that compared nothing must not look like one that did.
//!
//! Images are taken out of their archive once for all tests, into the build directory, and must not
//! be written to: [`copy`] gives a test its own. Needs the programs `tar` and `zstd`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Held while an archive is being extracted by this process.
static EXTRACTING: Mutex<()> = Mutex::new(());

/// The directory with the images of pool `name` (files `*.img`), for reading only.
///
/// # Panics
/// When there is no such pool, or its archive cannot be extracted.
#[must_use]
pub fn path(name: &str) -> PathBuf {
    let archive = archive(name, "tar.zst");
    let _guard = EXTRACTING.lock().expect("no other test failed in here");
    let place = scratch_dir().join(name);
    if !place.exists() {
        extract_beside(&archive, &place);
    }
    place.join("img")
}

/// Puts the images of pool `name` into `dir`, for the caller to write to; gives the directory they
/// are in.
///
/// # Panics
/// As [`path`].
pub fn copy(name: &str, dir: &Path) -> PathBuf {
    extract(&archive(name, "tar.zst"), dir);
    dir.join("img")
}

/// The image files of pool `name`, by name.
///
/// # Panics
/// As [`path`].
#[must_use]
pub fn images(name: &str) -> Vec<PathBuf> {
    let dir = path(name);
    let entries = std::fs::read_dir(&dir).expect("the directory was just extracted");
    let mut images: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    images.sort();
    images
}

/// A text that comes with pool `name`: `kind` is `info.txt`, `manifest.jsonl`, `zil.txt` or
/// `before.jsonl`. Bytes that are not UTF-8 are replaced.
///
/// # Panics
/// As [`path`].
#[must_use]
pub fn text(name: &str, kind: &str) -> String {
    let archive = archive(name, &format!("{kind}.zst"));
    let output = Command::new("zstd").arg("-dc").arg(&archive).output().expect("zstd can be run");
    assert!(output.status.success(), "{} cannot be unpacked", archive.display());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Names of the golden pools in ordinary states: those of the first directory. What is with the others
/// stands in the README of `tests/golden-2`.
///
/// # Panics
/// When there are none.
#[must_use]
pub fn names() -> Vec<String> {
    names_in(&places()[0])
}

/// Names of all golden pools.
///
/// # Panics
/// When there are none.
#[must_use]
pub fn all_names() -> Vec<String> {
    places().iter().flat_map(|dir| names_in(dir)).collect()
}

fn names_in(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let files = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> =
        files.filter_map(|file| file.strip_suffix(".tar.zst").map(str::to_owned)).collect();
    names.sort();
    assert!(!names.is_empty(), "no golden pools in {}", dir.display());
    names
}

fn archive(name: &str, kind: &str) -> PathBuf {
    let places = places();
    let archive = places.iter().map(|dir| dir.join(format!("{name}.{kind}"))).find(|file| file.exists());
    archive.unwrap_or_else(|| panic!("no {name}.{kind} in {places:?}"))
}

/// The directories with golden pools.
fn places() -> Vec<PathBuf> {
    if let Some(dir) = std::env::var_os("SAWMILL_GOLDEN") {
        return vec![PathBuf::from(dir)];
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    ["golden", "golden-2"].map(|name| tests.join(name)).into()
}

/// A directory in the build directory: the tests' program lies in its `deps`.
fn scratch_dir() -> PathBuf {
    let program = std::env::current_exe().expect("a test knows its program");
    let build = program.ancestors().find(|dir| dir.ends_with("deps")).and_then(Path::parent);
    build.map_or_else(std::env::temp_dir, Path::to_owned).join("golden")
}

/// Extracts so that other processes see all or nothing: beside `place`, then by a rename.
fn extract_beside(archive: &Path, place: &Path) {
    let partial = place.with_extension(format!("partial-{}", std::process::id()));
    extract(archive, &partial);
    if std::fs::rename(&partial, place).is_err() {
        assert!(place.exists(), "{} cannot be made", place.display());
        std::fs::remove_dir_all(&partial).expect("what was just made can be removed");
    }
}

fn extract(archive: &Path, dir: &Path) {
    std::fs::create_dir_all(dir).expect("the build directory can be written to");
    let status = Command::new("tar").arg("--zstd").arg("-xSf").arg(archive).arg("-C").arg(dir).status();
    assert!(status.expect("tar can be run").success(), "{} cannot be extracted", archive.display());
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_golden_pool_is_extracted_with_all_its_images() {
        let images = super::images("g03-mirror-log");
        let names: Vec<_> = images.iter().filter_map(|path| path.file_name()).collect();
        assert_eq!(names, ["a.img", "b.img", "log.img"]);
        assert!(images.iter().all(|path| path.metadata().expect("is there").len() == 128 << 20));
    }

    #[test]
    fn every_pool_comes_with_its_description() {
        let names = super::all_names();
        assert!(names.contains(&"g30-streams".to_owned()), "{names:?}");
        for name in names {
            let info = super::text(&name, "info.txt");
            assert!(info.contains("whirl"), "{name}");
        }
    }
}
