//! Before an incremental package is received: what has been renamed or promoted at the sender's is so here, too, and what
//! it has not any more goes, by force.
//!
//! Both sides know a dataset by the guids of its snapshots. A rename may have to wait for another one, and a dataset for
//! those below it, so it is gone through the tree again as long as that helps.

use crate::gather::Gathering;
use crate::package::{Member, Package};
use crate::{Held, Holder, names};
use control::{
    DatasetDestroy, DatasetPromote, DatasetReceive, DatasetRename, Delegated, Failure, SnapshotDestroy,
};
use dsl::DslError;

/// What came of a pass.
#[derive(Clone, Copy, Debug, Default)]
struct Pass {
    /// Something is not as it should be yet.
    again: bool,
    /// Something has been done.
    progress: bool,
}

impl Pass {
    fn note(&mut self, done: Result<(), Failure>) {
        match done {
            Ok(()) => self.progress = true,
            Err(failure) => {
                tracing::info!(reason = failure.stderr.join(" "), "put off while a package is received");
                self.again = true;
            }
        }
    }
}

impl Holder {
    /// Has the tree at `root` follow what a package says of the sender's.
    pub(crate) async fn align(
        &self,
        held: &Held,
        call: &DatasetReceive,
        package: &Package,
        root: &str,
    ) -> Result<(), Failure> {
        let _turn = self.turns.of(&held.pool.name(), "receive").await;
        loop {
            if let Err(DslError::NoSuchDataset { .. }) = held.pool.dsl().resolve(root).await {
                return Ok(());
            }
            let pass = self.align_once(held, call, package, root).await?;
            if !pass.again || !pass.progress {
                return Ok(());
            }
        }
    }

    async fn align_once(
        &self,
        held: &Held,
        call: &DatasetReceive,
        package: &Package,
        root: &str,
    ) -> Result<Pass, Failure> {
        let how = Gathering { fromsnap: package.fromsnap.clone(), recursive: true, ..Gathering::default() };
        let local = Package {
            recursive: true,
            members: self.gather(held, root, &how).await?.members,
            ..Package::default()
        };
        let mut pass = Pass::default();
        for member in &local.members {
            let theirs = member.snaps.iter().find_map(|(_, guid)| package.owner_of(*guid));
            if member.origin.is_some() && theirs.is_some_and(|(theirs, _)| theirs.origin.is_none()) {
                pass.note(self.promote_for(held, call, &member.name).await);
                // Snapshots are others' now.
                pass.again = true;
                return Ok(pass);
            }
        }
        for member in &local.members {
            self.align_snapshots(held, call, package, member, &mut pass).await;
            // Older snapshots may be those of what it is a clone of there.
            let theirs = member.snaps.iter().rev().find_map(|(_, guid)| package.owner_of(*guid));
            let Some((theirs, _)) = theirs else {
                if call.force && member.name != held.pool.name() {
                    pass.note(self.let_go_by_force(held, call, &member.name).await);
                }
                continue;
            };
            let has_from = member.snaps.iter().any(|(_, guid)| {
                package.owner_of(*guid).is_some_and(|(_, snap)| Some(snap) == package.fromsnap.as_deref())
            });
            if let Some(name) = new_name(call, &local, member, theirs, root).filter(|_| has_from) {
                let rename = DatasetRename {
                    name: member.name.clone(),
                    new_name: name,
                    force: call.force_unmount,
                    ..DatasetRename::default()
                };
                let renamed = match self.check_for_maker(call, Delegated::Rename(rename.clone())).await {
                    Ok(()) => self.rename_dataset(rename).await,
                    denied => denied,
                };
                let is_done = renamed.is_ok();
                pass.note(renamed);
                if is_done {
                    // Names below it are others now.
                    pass.again = true;
                    return Ok(pass);
                }
            }
        }
        Ok(pass)
    }

    async fn align_snapshots(
        &self,
        held: &Held,
        call: &DatasetReceive,
        package: &Package,
        member: &Member,
        pass: &mut Pass,
    ) {
        for (snap, guid) in &member.snaps {
            let name = format!("{}@{snap}", member.name);
            match package.owner_of(*guid) {
                None if call.force => pass.note(self.let_go_by_force(held, call, &name).await),
                Some((_, theirs)) if theirs != snap => {
                    let new = format!("{}@{theirs}", member.name);
                    pass.note(self.rename_for(held, call, name, new).await);
                }
                _ => {}
            }
        }
    }

    async fn promote_for(&self, held: &Held, call: &DatasetReceive, name: &str) -> Result<(), Failure> {
        let promote = DatasetPromote { name: name.to_owned() };
        self.check_for_maker(call, Delegated::Promote(promote)).await?;
        let promoted = held.pool.promote(name.to_owned()).await;
        promoted.map_err(|error| crate::refusal::pool("promote", name, &error))
    }

    async fn rename_for(
        &self,
        held: &Held,
        call: &DatasetReceive,
        name: String,
        new_name: String,
    ) -> Result<(), Failure> {
        let rename =
            DatasetRename { name: name.clone(), new_name: new_name.clone(), ..DatasetRename::default() };
        self.check_for_maker(call, Delegated::Rename(rename)).await?;
        let renamed = held.pool.rename_snapshots(vec![(name.clone(), new_name)]).await;
        renamed.map_err(|error| crate::refusal::pool("rename", &name, &error))
    }

    async fn let_go_by_force(&self, held: &Held, call: &DatasetReceive, name: &str) -> Result<(), Failure> {
        let going = match name.split_once('@') {
            Some((head, snaps)) => Delegated::DestroySnapshots(SnapshotDestroy {
                dataset: head.to_owned(),
                snapshots: snaps.to_owned(),
                ..SnapshotDestroy::default()
            }),
            None => Delegated::Destroy(DatasetDestroy { name: name.to_owned(), ..DatasetDestroy::default() }),
        };
        self.check_for_maker(call, going).await?;
        self.destroy_those(held, &[name.to_owned()], call.force || call.force_unmount).await
    }
}

/// What a dataset is to be called here, if not as it is: below the dataset that is above it at the sender's, by the last
/// part of its name there. That the topmost goes by another name is what was asked for.
fn new_name(
    call: &DatasetReceive,
    local: &Package,
    member: &Member,
    theirs: &Member,
    root: &str,
) -> Option<String> {
    if member.name == root && call.naming == control::ReceiveNaming::Target {
        return None;
    }
    let (above, their_above) = (member.parent_from, theirs.parent_from);
    let last = |name: &str| name.rsplit_once('/').map(|(_, last)| last.to_owned());
    let is_moved = above != 0 && their_above != 0 && above != their_above;
    let (ours, theirs) = (last(&member.name)?, last(&theirs.name)?);
    if !is_moved && ours == theirs {
        return None;
    }
    let parent = match local.owner_of(their_above) {
        Some((parent, _)) => parent.name.as_str(),
        None if is_moved => return None,
        None => names::parent_of(&member.name)?,
    };
    Some(format!("{parent}/{theirs}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, parent_from: u64, guid: u64) -> Member {
        Member { name: name.into(), parent_from, snaps: vec![("s".into(), guid)], ..Member::default() }
    }

    #[test]
    fn datasets_follow_the_names_and_places_that_they_have_at_the_sender() {
        let local = Package {
            members: vec![member("q/to", 0, 1), member("q/to/a", 1, 2), member("q/to/b", 1, 3)],
            ..Package::default()
        };
        let call = DatasetReceive::default();
        let new = |at: usize, theirs: Member| new_name(&call, &local, &local.members[at], &theirs, "q/to");
        assert_eq!(new(0, member("p/from", 0, 1)), None, "it was asked for so");
        assert_eq!(new(1, member("p/from/a", 1, 2)), None);
        assert_eq!(new(1, member("p/from/z", 1, 2)), Some("q/to/z".into()));
        assert_eq!(new(1, member("p/from/b/a", 3, 2)), Some("q/to/b/a".into()));
        assert_eq!(new(1, member("p/from/new/a", 9, 2)), None, "what it is below comes yet");
    }
}
