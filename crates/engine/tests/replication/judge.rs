//! Compares two trees.

use crate::site::{Packaging, REPLICA, Site, TREE};
use control::{DatasetInfo, Source, Value};
use ondisk::send::{DrrBody, DrrWrite};
use std::collections::{BTreeMap, BTreeSet};

/// The parts of a dataset that are compared.
#[derive(Debug, Default, PartialEq, Eq)]
struct Face {
    /// The name, guid and holds of each snapshot.
    snapshots: BTreeMap<String, (u64, Vec<String>)>,
    /// The name of the origin, relative to the tree.
    origin: Option<String>,
    /// The properties that are set, by name.
    props: BTreeMap<String, String>,
}

async fn faces(site: &Site, root: &str) -> BTreeMap<String, Face> {
    let mut faces: BTreeMap<String, Face> = BTreeMap::new();
    let short = |name: &str| name.strip_prefix(root).unwrap_or(name).to_owned();
    for info in site.list(root).await {
        let Some((head, snap)) = info.name.split_once('@') else {
            let face = faces.entry(short(&info.name)).or_default();
            face.origin = text(&info, "origin").map(|origin| short(&origin));
            face.props = props(&info);
            continue;
        };
        let guid = match info.props.get("guid").map(|prop| &prop.value) {
            Some(Value::Number(guid)) => *guid,
            other => panic!("{}: guid {other:?}", info.name),
        };
        let face = faces.entry(short(head)).or_default();
        face.snapshots.insert(snap.to_owned(), (guid, site.holds(&info.name).await));
    }
    faces
}

fn text(info: &DatasetInfo, prop: &str) -> Option<String> {
    match info.props.get(prop).map(|prop| &prop.value) {
        Some(Value::Text(text)) => Some(text.clone()),
        _ => None,
    }
}

/// Returns the properties that are local or received.
fn props(info: &DatasetInfo) -> BTreeMap<String, String> {
    let is_set = |source: &Source| matches!(source, Source::Local | Source::Received);
    let set = info.props.iter().filter(|(_, prop)| is_set(&prop.source));
    set.map(|(name, prop)| (name.clone(), format!("{:?}", prop.value))).collect()
}

/// Returns the records of a stream, without its name and without the storage of its blocks.
async fn records(stream: &[u8]) -> Vec<(DrrBody, Vec<u8>)> {
    let (mut reader, mut records) = (stream::Reader::new(stream), Vec::new());
    while let Some(record) = reader.next_record().await.expect("a sound stream") {
        if !matches!(record.record.body, DrrBody::Begin(_) | DrrBody::End(_)) {
            let body = match record.record.body {
                DrrBody::Write(write) => {
                    DrrBody::Write(DrrWrite { checksum: 0, flags: 0, key: Default::default(), ..write })
                }
                body => body,
            };
            records.push((body, record.payload.to_vec()));
        }
    }
    records
}

/// Returns the guids of the replica's snapshots.
pub async fn guids(site: &Site) -> BTreeSet<u64> {
    let faces = faces(site, REPLICA).await.into_values();
    faces.flat_map(|face| face.snapshots.into_values()).map(|(guid, _)| guid).collect()
}

/// Compares the replica with the tree. `before` has the guids of the replica's snapshots before the
/// package was received.
pub async fn judge(
    site: &Site,
    to: &str,
    packaging: &Packaging,
    before: &BTreeSet<u64>,
) -> Result<(), String> {
    let (mut theirs, mut ours) = (faces(site, TREE).await, faces(site, REPLICA).await);
    if let Some(excluded) = &packaging.excluded {
        let short = excluded.strip_prefix(TREE).expect("below the tree").to_owned();
        let (theirs, ours) = (theirs.remove(&short), ours.remove(&short));
        if let Some(theirs) = theirs {
            let ours = ours.ok_or("what is excluded was destroyed on the replica")?;
            let has = |snap: &(u64, Vec<String>)| theirs.snapshots.values().any(|other| other.0 == snap.0);
            if !ours.snapshots.values().any(has) {
                return Err("what is excluded is another dataset on the replica".to_owned());
            }
        }
    }
    for face in theirs.values_mut() {
        if !packaging.all {
            // The snapshots in between were not sent.
            let ours = &ours;
            let has =
                |guid: u64| ours.values().any(|face| face.snapshots.values().any(|snap| snap.0 == guid));
            face.snapshots.retain(|snap, (guid, _)| snap == to || has(*guid));
        }
    }
    // Holds are received only with their snapshots.
    for face in theirs.values_mut().chain(ours.values_mut()) {
        let known = face.snapshots.values_mut().filter(|(guid, _)| before.contains(guid));
        known.for_each(|(_, holds)| holds.clear());
    }
    if ours != theirs {
        let differing = |name: &&String| ours.get(*name) != theirs.get(*name);
        let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        let lines = names.into_iter().filter(differing).map(|name| {
            format!("'{name}' is\n  {:?} at the replica, and\n  {:?}", ours.get(name), theirs.get(name))
        });
        return Err(lines.collect::<Vec<_>>().join("\n"));
    }
    for name in theirs.keys() {
        let (theirs, ours) = (
            site.stream(&format!("{TREE}{name}@{to}")).await,
            site.stream(&format!("{REPLICA}{name}@{to}")).await,
        );
        let (theirs, ours) = (records(&theirs).await, records(&ours).await);
        if let Some(at) = (0..theirs.len().max(ours.len())).find(|&at| theirs.get(at) != ours.get(at)) {
            let body = |records: &[(DrrBody, Vec<u8>)]| records.get(at).map(|(body, _)| *body);
            let (theirs, ours) = (body(&theirs), body(&ours));
            return Err(format!("'{name}@{to}' has other contents at the replica: {ours:?}, not {theirs:?}"));
        }
    }
    Ok(())
}
