//! Compares a family with what the daemon lists and the mounts show.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::contents::{Change, read_tree};
use crate::family::{Family, Pending};
use crate::mounted::World;
use crate::owner::Owner;

/// File systems by name: the origin, and the snapshots of the owner from the oldest to the newest.
type Listed = BTreeMap<String, (Option<(String, String)>, Vec<String>)>;

/// Settles an owner's family: everything found has to be there, or to come from the step that was under way.
pub fn settle(owner: &mut Owner, world: &World) -> Result<(), String> {
    let listed = listed(owner, world)?;
    let mut changes = Vec::new();
    match owner.pending.take() {
        Some(Pending::Families(families)) => {
            let after = families.into_iter().find(|family| shape(family) == listed);
            owner.family = after.unwrap_or_else(|| owner.family.clone());
        }
        Some(Pending::Files { member, changes: under_way }) => changes.push((member, under_way)),
        None => {}
    }
    if shape(&owner.family) != listed {
        return Err(format!("{}: found {listed:?}, not {:?}", owner.top(), shape(&owner.family)));
    }
    let top = world.root().join(format!("owner{}", owner.number));
    let names: Vec<String> = owner.family.members.keys().cloned().collect();
    for name in names {
        let pending = changes.iter().find(|(member, _)| *member == name).map_or(&[][..], |(_, it)| it);
        settle_member(owner, &name, &top.join(&name), pending)?;
    }
    Ok(())
}

fn settle_member(owner: &mut Owner, name: &str, at: &Path, pending: &[Change]) -> Result<(), String> {
    let top = owner.top();
    let failed = |what: &str, error: String| format!("{top}/{name}{what}: {error}");
    let member = owner.family.members.get_mut(name).ok_or("no member")?;
    for snapshot in &member.snapshots {
        let at = at.join(".zfs/snapshot").join(&snapshot.name);
        let what = format!("@{}", snapshot.name);
        let found = read_tree(&at).map_err(|error| failed(&what, error.to_string()))?;
        if found != snapshot.tree {
            let names: BTreeSet<&String> = found.keys().chain(snapshot.tree.keys()).collect();
            let differ: Vec<_> =
                names.iter().filter(|it| found.get(**it) != snapshot.tree.get(**it)).collect();
            return Err(failed(&what, format!("differs in {differ:?}")));
        }
    }
    let found = read_tree(at).map_err(|error| failed("", error.to_string()))?;
    member.contents.settle(&found, pending).map_err(|error| failed("", error))
}

/// What `zfs list` prints of the family, without the operator's snapshots.
fn listed(owner: &Owner, world: &World) -> Result<Listed, String> {
    let top = owner.top();
    let printed =
        world.zfs_prints(&format!("list -H -t filesystem,snapshot -o name,origin -s createtxg -r {top}"));
    let mut listed = Listed::new();
    let below =
        |name: &str| name.strip_prefix(&top).and_then(|rest| rest.strip_prefix('/')).map(str::to_owned);
    let rows = || printed.lines().filter_map(|line| line.split_once('\t'));
    for (name, origin) in rows().filter(|(name, _)| !name.contains('@')) {
        let Some(name) = below(name) else { continue };
        let origin =
            below(origin).and_then(|it| it.split_once('@').map(|(a, b)| (a.to_owned(), b.to_owned())));
        listed.insert(name, (origin, Vec::new()));
    }
    for (name, _) in rows() {
        let Some((set, snapshot)) = name.split_once('@') else { continue };
        let Some(set) = below(set) else { continue };
        if !snapshot.starts_with("op") {
            listed.get_mut(&set).ok_or(format!("{name} has no file system"))?.1.push(snapshot.to_owned());
        }
    }
    Ok(listed)
}

fn shape(family: &Family) -> Listed {
    let snapshots =
        |member: &crate::family::Member| member.snapshots.iter().map(|it| it.name.clone()).collect();
    let entry = |(name, member): (&String, &crate::family::Member)| {
        (name.clone(), (member.origin.clone(), snapshots(member)))
    };
    family.members.iter().map(entry).collect()
}
