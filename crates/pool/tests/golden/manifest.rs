//! What a pool holds, object by object: as the kernel module saw it, or as we do.

use std::collections::BTreeMap;

use serde_json::Value;

/// Dataset (or snapshot) and path in it; the path of its root, and of a volume, is empty.
pub type Place = (String, Vec<u8>);

/// All objects of a pool.
pub type Manifest = BTreeMap<Place, Entry>;

/// One object. What a manifest does not say is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// `f`, `d`, `l`, `p`, `s`, `c`, `b` or `zvol`.
    pub kind: String,
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub links: Option<u32>,
    pub size: Option<u64>,
    pub mtime_ns: Option<i128>,
    pub content: Option<Content>,
    pub target: Option<Vec<u8>>,
    pub device: Option<(u32, u32)>,
    /// By name, in hexadecimal digits.
    pub xattrs: BTreeMap<String, String>,
}

/// Digest of a file's bytes, in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Of all of them.
    Whole(String),
    /// Of each chunk that is not all zeros, after its offset.
    Sparse(String),
}

/// Bytes above 127 that are no UTF-8 stand as `\udcXX` in a manifest, which is no text in JSON.
/// They are read as characters for private use, which no name here has.
const PRIVATE: u32 = 0xf700;

/// Reads a `manifest.jsonl` or `before.jsonl`.
pub fn parse(text: &str) -> Manifest {
    text.lines().map(|line| entry(&serde_json::from_str(&line.replace("\\udc", "\\uf7")).unwrap())).collect()
}

fn entry(line: &Value) -> (Place, Entry) {
    let text = |key: &str| line.get(key).and_then(Value::as_str).map(str::to_owned);
    let number = |key: &str| line.get(key).and_then(Value::as_u64);
    let id = |key: &str| number(key).map(|n| u32::try_from(n).unwrap());
    let mode = text("mode").map(|mode| u32::from_str_radix(&mode[2..], 8).unwrap());
    let whole = text("sha256").map(Content::Whole);
    let xattrs = line.get("xattr").and_then(Value::as_object).into_iter().flatten();
    let entry = Entry {
        kind: text("type").unwrap(),
        mode,
        uid: id("uid"),
        gid: id("gid"),
        links: id("nlink"),
        size: number("size"),
        mtime_ns: line.get("mtime_ns").map(|time| time.as_i64().unwrap().into()),
        content: whole.or(text("sparse_sha256").map(Content::Sparse)),
        target: text("target").map(|target| bytes(&target)),
        device: line.get("rdev").map(|pair| (device_part(&pair[0]), device_part(&pair[1]))),
        xattrs: xattrs.map(|(name, hex)| (name.clone(), hex.as_str().unwrap().to_owned())).collect(),
    };
    ((text("ds").unwrap(), bytes(&text("path").unwrap_or_default())), entry)
}

fn device_part(number: &Value) -> u32 {
    u32::try_from(number.as_u64().unwrap()).unwrap()
}

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

/// Everything in which `found` is not as `told`, one line each. Two things may be left out: see
/// [`Leave`].
pub fn differences(told: &Manifest, found: &Manifest, leave: Leave) -> Vec<String> {
    let missing =
        told.keys().filter(|place| !found.contains_key(*place)).map(|p| format!("{p:?} is missing"));
    let extra = found.keys().filter(|place| !told.contains_key(*place)).map(|p| format!("{p:?} is too much"));
    let differing = told.iter().filter_map(|(place, told)| {
        let found = as_told(found.get(place)?, told, leave);
        let told = Entry { mtime_ns: told.mtime_ns.filter(|_| !leave.mtime), ..told.clone() };
        (told != found).then(|| format!("{}:{}: told {told:?}, found {found:?}", place.0, name_of(place)))
    });
    missing.chain(extra).chain(differing).collect()
}

fn name_of(place: &Place) -> String {
    String::from_utf8_lossy(&place.1).into_owned()
}

/// What is not to be compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leave {
    /// Times of change of content.
    pub mtime: bool,
}

/// Without what was not told.
fn as_told(found: &Entry, told: &Entry, leave: Leave) -> Entry {
    Entry {
        kind: found.kind.clone(),
        mode: told.mode.and(found.mode),
        uid: told.uid.and(found.uid),
        gid: told.gid.and(found.gid),
        links: told.links.and(found.links),
        size: told.size.and(found.size),
        mtime_ns: told.mtime_ns.filter(|_| !leave.mtime).and(found.mtime_ns),
        content: told.content.as_ref().and(found.content.clone()),
        target: told.target.as_ref().and(found.target.clone()),
        device: told.device.and(found.device),
        xattrs: found.xattrs.clone(),
    }
}
