//! Pools that OpenZFS made, for tests to read.
//!
//! They lie as `NAME.tar.zst` in the directory that `SAWMILL_GOLDEN` names, else in `tests/golden`
//! of the workspace, else in `shared/golden` beside it. Where there are none, a test says so loudly
//! and passes; with `CI=true` it fails instead.
//!
//! Images are taken out of their archive once for all tests, into the build directory, and must not
//! be written to: [`copy`] gives a test its own. Needs the programs `tar` and `zstd`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Held while an archive is being extracted by this process.
static EXTRACTING: Mutex<()> = Mutex::new(());

/// The directory with the images of pool `name` (files `*.img`), for reading only. `None` when
/// there are no golden pools here, after having said so.
///
/// # Panics
/// When `CI=true` and there are none, or an archive cannot be extracted.
#[must_use]
pub fn path(name: &str) -> Option<PathBuf> {
    let archive = archive(name, "tar.zst")?;
    let _guard = EXTRACTING.lock().expect("no other test failed in here");
    let place = scratch_dir().join(name);
    if !place.exists() {
        extract_beside(&archive, &place);
    }
    Some(place.join("img"))
}

/// Puts the images of pool `name` into `dir`, for the caller to write to; gives the directory they
/// are in. `None` as for [`path`].
///
/// # Panics
/// As [`path`].
#[must_use]
pub fn copy(name: &str, dir: &Path) -> Option<PathBuf> {
    extract(&archive(name, "tar.zst")?, dir);
    Some(dir.join("img"))
}

/// The image files of pool `name`, by name. `None` as for [`path`].
///
/// # Panics
/// As [`path`].
#[must_use]
pub fn images(name: &str) -> Option<Vec<PathBuf>> {
    let dir = path(name)?;
    let entries = std::fs::read_dir(&dir).expect("the directory was just extracted");
    let mut images: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    images.sort();
    Some(images)
}

/// A text that comes with pool `name`: `kind` is `info.txt`, `manifest.jsonl`, `zil.txt` or
/// `before.jsonl`. Bytes that are not UTF-8 are replaced. `None` as for [`path`].
///
/// # Panics
/// As [`path`].
#[must_use]
pub fn text(name: &str, kind: &str) -> Option<String> {
    let archive = archive(name, &format!("{kind}.zst"))?;
    let output = Command::new("zstd").arg("-dc").arg(&archive).output().expect("zstd can be run");
    assert!(output.status.success(), "{} cannot be unpacked", archive.display());
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Names of all golden pools. Empty when there are none, after having said so.
///
/// # Panics
/// When `CI=true` and there are none.
#[must_use]
pub fn names() -> Vec<String> {
    let Some(dir) = golden_dir() else {
        skip("any golden pool");
        return Vec::new();
    };
    let entries = std::fs::read_dir(dir).expect("the directory was just seen");
    let files = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> =
        files.filter_map(|file| file.strip_suffix(".tar.zst").map(str::to_owned)).collect();
    names.sort();
    names
}

fn archive(name: &str, kind: &str) -> Option<PathBuf> {
    let archive = golden_dir().map(|dir| dir.join(format!("{name}.{kind}"))).filter(|file| file.exists());
    if archive.is_none() {
        skip(name);
    }
    archive
}

fn skip(what: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{what} is missing, and CI must have it");
    eprintln!("SKIPPED: {what} is not here; set SAWMILL_GOLDEN to the directory of golden pools");
}

fn golden_dir() -> Option<PathBuf> {
    if let Some(dir) = std::env::var_os("SAWMILL_GOLDEN") {
        return Some(PathBuf::from(dir)).filter(|dir| dir.exists());
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let places = [workspace.join("tests/golden"), workspace.join("../shared/golden")];
    places.into_iter().find(|dir| dir.join("SHA256SUMS").exists())
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
        let Some(images) = super::images("g03-mirror-log") else { return };
        let names: Vec<_> = images.iter().filter_map(|path| path.file_name()).collect();
        assert_eq!(names, ["a.img", "b.img", "log.img"]);
        assert!(images.iter().all(|path| path.metadata().expect("is there").len() == 128 << 20));
    }

    #[test]
    fn every_pool_comes_with_its_description() {
        for name in super::names() {
            let info = super::text(&name, "info.txt").expect("the pool itself is there");
            assert!(info.contains("whirl"), "{name}");
        }
    }
}
