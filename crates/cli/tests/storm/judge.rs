//! Compares a family with the datasets that the daemon lists and the files on the mounts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::contents::{FileChanges, read_tree};
use crate::family::{DatasetFamily, FileSystemModel, PendingStep};
use crate::mounted::World;
use crate::owner::FamilyOwner;

/// File systems by name: the origin, and the owner's snapshots, oldest first.
type Listed = BTreeMap<String, (Option<(String, String)>, Vec<String>)>;

/// Settles an owner's family. Every dataset and file that is found must be in the model, or must
/// come from the step that was under way.
pub fn settle(owner: &mut FamilyOwner, world: &World) -> Result<(), String> {
    let listed = listed(owner, world)?;
    let (mut families, mut under_way) = (vec![owner.family.clone()], None);
    match owner.pending.take() {
        Some(PendingStep::Families(others)) => families.extend(others),
        Some(PendingStep::Files { member, changes }) => under_way = Some((member, changes)),
        None => {}
    }
    // A rollback, for example, changes only files, so several families may have the names that were
    // found.
    families.retain(|family| shape(family) == listed);
    let mut outcome = Err(format!("{}: found {listed:?}, not {:?}", owner.top(), shape(&owner.family)));
    for mut family in families {
        outcome = settle_family(&mut family, owner, world, under_way.as_ref());
        if outcome.is_ok() {
            owner.family = family;
            break;
        }
    }
    outcome
}

fn settle_family(
    family: &mut DatasetFamily,
    owner: &FamilyOwner,
    world: &World,
    under_way: Option<&(String, Vec<FileChanges>)>,
) -> Result<(), String> {
    let top = world.root().join(format!("owner{}", owner.number));
    for (name, member) in &mut family.members {
        let pending = under_way.filter(|(of, _)| of == name).map_or(&[][..], |(_, changes)| changes);
        let settled = settle_member(member, &top.join(name), pending);
        let at_work = under_way.map(|(member, changes)| (member, changes.iter().flatten().map(|it| &it.0)));
        let at_work = at_work.map(|(member, names)| (member, names.collect::<BTreeSet<_>>()));
        settled.map_err(|error| format!("{}/{name}{error}; under way: {at_work:?}", owner.top()))?;
    }
    Ok(())
}

fn settle_member(member: &mut FileSystemModel, at: &Path, pending: &[FileChanges]) -> Result<(), String> {
    for snapshot in &member.snapshots {
        let at = at.join(".zfs/snapshot").join(&snapshot.name);
        let failed = |error: String| format!("@{}: {error}", snapshot.name);
        let found = read_tree(&at).map_err(|error| failed(error.to_string()))?;
        if found != snapshot.tree {
            let names: BTreeSet<&String> = found.keys().chain(snapshot.tree.keys()).collect();
            let differ: Vec<_> =
                names.iter().filter(|it| found.get(**it) != snapshot.tree.get(**it)).collect();
            return Err(failed(format!("differs in {differ:?}")));
        }
    }
    let found = read_tree(at).map_err(|error| format!(": {error}"))?;
    member.contents.settle(&found, pending).map_err(|error| format!(": {error}"))
}

/// Returns the family as `zfs list` prints it, without the operator's snapshots.
fn listed(owner: &FamilyOwner, world: &World) -> Result<Listed, String> {
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

fn shape(family: &DatasetFamily) -> Listed {
    let snapshots = |member: &FileSystemModel| member.snapshots.iter().map(|it| it.name.clone()).collect();
    let entry = |(name, member): (&String, &FileSystemModel)| {
        (name.clone(), (member.origin.clone(), snapshots(member)))
    };
    family.members.iter().map(entry).collect()
}
