//! Compares the manifest of a pool with the files in a target.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::world::{ReportLine, World};

/// The manifest has one digest of the whole contents for files up to this size.
const WHOLE_BYTES_MAX: u64 = 1 << 30;

/// Bytes above 127 that are not UTF-8 appear as `\udcXX` in a manifest, which is not valid text in
/// JSON. They are read as private-use characters, which no name here contains.
const PRIVATE: u32 = 0xf700;

fn bytes(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for letter in name.chars() {
        match u8::try_from(u32::from(letter).wrapping_sub(PRIVATE)) {
            Ok(byte) => bytes.push(byte),
            Err(_) => bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

/// One object of a manifest, and its path below a target.
pub struct ManifestEntry {
    pub dataset: String,
    pub place: PathBuf,
    pub line: Value,
}

/// Returns all objects in the manifest of a pool.
pub fn all(pool: &str) -> Vec<ManifestEntry> {
    let text = oracle::golden::text(pool, "manifest.jsonl");
    text.lines()
        .map(|line| told(serde_json::from_str(&line.replace("\\udc", "\\uf7")).expect("JSON")))
        .collect()
}

fn told(line: Value) -> ManifestEntry {
    let dataset = line["ds"].as_str().expect("a dataset").to_owned();
    let path = bytes(line.get("path").and_then(Value::as_str).unwrap_or_default());
    let (head, snapshot) = dataset.split_once('@').unwrap_or((&dataset, ""));
    let root = Path::new(head).join(format!("@{snapshot}"));
    let place = if path.is_empty() { root } else { root.join(OsStr::from_bytes(&path)) };
    ManifestEntry { dataset, place, line }
}

impl ManifestEntry {
    fn text(&self, key: &str) -> Option<&str> {
        self.line.get(key).and_then(Value::as_str)
    }

    pub fn kind(&self) -> &str {
        self.text("type").expect("every object has a type")
    }

    /// Lists the differences between the object and the file at a path.
    pub fn differences(&self, at: &Path) -> Vec<String> {
        let Ok(found) = std::fs::symlink_metadata(at) else { return vec!["missing".into()] };
        let mut wrong = Vec::new();
        let mut compare = |what: &str, told: Option<String>, found: String| {
            if let Some(told) = told.filter(|told| *told != found) {
                wrong.push(format!("{what}: told {told}, found {found}"));
            }
        };
        let number = |key: &str| self.line.get(key).and_then(Value::as_u64).map(|n| n.to_string());
        let kind = if self.kind() == "zvol" { "f" } else { self.kind() };
        compare("kind", Some(kind.to_owned()), letter(&found).to_owned());
        if kind != "l" {
            let told = self.text("mode").map(|mode| u32::from_str_radix(&mode[2..], 8).expect("octal"));
            compare("mode", told.map(|mode| mode.to_string()), (found.mode() & 0o7777).to_string());
        }
        compare("uid", number("uid"), found.uid().to_string());
        compare("gid", number("gid"), found.gid().to_string());
        if kind == "f" {
            compare("size", number("size"), found.size().to_string());
        }
        if kind != "d" {
            compare("links", number("nlink"), found.nlink().to_string());
        }
        let mtime = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
        compare("mtime", self.line.get("mtime_ns").map(ToString::to_string), mtime.to_string());
        if kind == "f" && found.size() <= WHOLE_BYTES_MAX {
            compare("content", self.text("sha256").map(str::to_owned), digest(at));
        }
        if kind == "l" {
            let target = std::fs::read_link(at).expect("a link").into_os_string();
            let told = self.text("target").map(bytes);
            compare("target", told.map(|told| format!("{told:?}")), format!("{:?}", target.as_bytes()));
        }
        if let Some(pair) = self.line.get("rdev") {
            let device = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
            compare(
                "device",
                Some(format!("[{},{}]", pair[0], pair[1])),
                format!("[{},{}]", device.0, device.1),
            );
        }
        if let Some(told) = self.line.get("xattr").and_then(Value::as_object) {
            let told: BTreeMap<_, _> = told
                .iter()
                .map(|(name, hex)| (name.clone(), hex.as_str().unwrap_or_default().to_owned()))
                .collect();
            compare("xattrs", Some(format!("{told:?}")), format!("{:?}", xattrs(at)));
        }
        wrong
    }
}

fn letter(found: &std::fs::Metadata) -> &'static str {
    let kind = found.file_type();
    match () {
        () if kind.is_dir() => "d",
        () if kind.is_symlink() => "l",
        () if kind.is_fifo() => "p",
        () if kind.is_socket() => "s",
        () if kind.is_char_device() => "c",
        () if kind.is_block_device() => "b",
        () => "f",
    }
}

pub fn digest(at: &Path) -> String {
    let mut file = File::open(at).expect("a file");
    let (mut digest, mut step) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        let count = file.read(&mut step).expect("readable");
        if count == 0 {
            break;
        }
        digest.update(&step[..count]);
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn xattrs(at: &Path) -> BTreeMap<String, String> {
    let mut names = vec![0; 64 << 10];
    let count = rustix::fs::llistxattr(at, &mut names[..]).expect("names");
    let mut found = BTreeMap::new();
    for name in names[..count].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 64 << 10];
        let len = rustix::fs::lgetxattr(at, OsStr::from_bytes(name), &mut value[..]).expect("a value");
        let hex = value[..len].iter().map(|byte| format!("{byte:02x}")).collect();
        found.insert(String::from_utf8_lossy(name).into_owned(), hex);
    }
    found
}

/// Fails unless the target has every object of the manifest, except those that `leaves_out`
/// selects.
pub fn check_all(world: &World, leaves_out: impl Fn(&ManifestEntry) -> bool) {
    let (told, report) = (all(&world.name), world.report());
    let mut wrong = Vec::new();
    for one in told.iter().filter(|one| !leaves_out(one)) {
        let mut differences = one.differences(&world.target().join(&one.place));
        // Not every file system accepts attributes of that size or number.
        let refused = |line: &ReportLine| line.what == "system" && Path::new(&line.path) == one.place;
        if differences.iter().any(|text| text.starts_with("xattrs")) && report.iter().any(refused) {
            differences.retain(|text| !text.starts_with("xattrs"));
        }
        wrong.extend(differences.iter().map(|text| format!("{}: {text}", one.place.display())));
    }
    wrong.truncate(20);
    let name = &world.name;
    assert!(
        wrong.is_empty(),
        "{name}, of {} objects:\n{}\nreport: {:?}",
        told.len(),
        wrong.join("\n"),
        world.report()
    );
    let expected: BTreeSet<_> = told.iter().map(|one| one.place.clone()).collect();
    let mut extra = Vec::new();
    collect(&world.target(), Path::new(""), &mut extra);
    // The directories of datasets are parents of the directories of their files.
    extra.retain(|place| {
        let is_above = |one: &PathBuf| one.starts_with(place);
        !place.starts_with(".sawmill-rescue") && !expected.contains(place) && !expected.iter().any(is_above)
    });
    assert!(extra.is_empty(), "{name}: too much: {extra:?}");
}

/// Returns all paths below a directory.
pub fn all_in(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(root, Path::new(""), &mut found);
    found.iter().map(|place| root.join(place)).collect()
}

fn collect(root: &Path, below: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(root.join(below)).expect("a directory") {
        let entry = entry.expect("readable");
        let place = below.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            collect(root, &place, into);
        }
        into.push(place);
    }
}
