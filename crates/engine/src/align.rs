//! Aligns a tree with the sender's tree before and after a package is received. What was renamed or
//! promoted at the sender is renamed or promoted here too. With force, what was destroyed at the
//! sender is destroyed here.
//!
//! Both sides identify a dataset by the guids of its snapshots ([`plan`]). A step may depend on
//! another one, so a step that fails is tried again after the tree has changed. Differences that
//! remain at the end are an error that names the datasets.
//! (test: `a_tree_is_the_sender_s_after_every_package`)

mod plan;

use crate::gather::Gathering;
use crate::package::{Member, Package};
use crate::receive::destination;
use crate::{Held, Holder, names};
use control::{
    DatasetDestroy, DatasetPromote, DatasetReceive, DatasetRename, Delegated, Failure, FailureKind,
    SnapshotDestroy,
};
use plan::{AlignStep, Alignment};
use std::collections::BTreeSet;

/// The number of steps for each dataset and snapshot after which an alignment that does not end is
/// given up.
const STEPS_EACH: usize = 4;

/// A package, as far as the local tree is aligned with it.
pub(crate) struct Followed<'a> {
    pub package: &'a Package,
    /// The full name of the topmost dataset at the sender.
    pub sendfs: &'a str,
    /// The guids of the snapshots whose streams were received.
    pub came: &'a BTreeSet<u64>,
}

/// The local names of the datasets of a package.
struct LocalNames {
    /// The name of the topmost dataset.
    root: String,
    wanted: Vec<String>,
}

impl Followed<'_> {
    fn names(&self, call: &DatasetReceive) -> Result<LocalNames, Failure> {
        let here = |name: &str| {
            let snapshot = destination(call, &format!("{name}@{}", self.package.tosnap), Some(self.sendfs));
            let snapshot = snapshot
                .map_err(|reason| Failure::new(FailureKind::Invalid, format!("cannot receive: {reason}")))?;
            Ok(names::head_of(&snapshot).to_owned())
        };
        let wanted = self.package.members.iter().map(|member| here(&member.name));
        Ok(LocalNames { root: here(self.sendfs)?, wanted: wanted.collect::<Result<_, _>>()? })
    }
}

impl Holder {
    /// Aligns the tree with the sender's tree before the streams of a package are received.
    pub(crate) async fn align(
        &self,
        held: &Held,
        call: &DatasetReceive,
        followed: &Followed<'_>,
    ) -> Result<(), Failure> {
        let names = followed.names(call)?;
        for put_off in self.align_below(held, call, followed.package, &names).await? {
            tracing::info!(reason = put_off.stderr.join(" "), "postponed while a package is received");
        }
        Ok(())
    }

    /// Aligns the tree after the streams were received.
    ///
    /// # Errors
    /// The differences from the sender's tree that remain.
    pub(crate) async fn align_at_last(
        &self,
        held: &Held,
        call: &DatasetReceive,
        followed: &Followed<'_>,
    ) -> Result<(), Failure> {
        let names = followed.names(call)?;
        let put_off = self.align_below(held, call, followed.package, &names).await?;
        let local = self.local_tree(held, followed.package, &names.root).await?;
        let told = alignment(&local, followed.package, &names, call).differences(followed.came);
        if told.is_empty() {
            return Ok(());
        }
        let line = format!("cannot receive: '{}' is not as it is at the sender's:", names.root);
        let failure = Failure::new(FailureKind::Other, line);
        let failure = told.into_iter().fold(failure, Failure::and);
        Err(put_off.into_iter().flat_map(|failure| failure.stderr).fold(failure, Failure::and))
    }

    /// Takes all steps that can be taken. Returns the failures of the others.
    async fn align_below(
        &self,
        held: &Held,
        call: &DatasetReceive,
        package: &Package,
        names: &LocalNames,
    ) -> Result<Vec<Failure>, Failure> {
        let _turn = self.turns.of(&held.pool.name(), "receive").await;
        let mut failed: Vec<(AlignStep, Failure)> = Vec::new();
        let mut local = self.local_tree(held, package, &names.root).await?;
        let count = local.iter().map(|member| 1 + member.snaps.len()).sum::<usize>();
        for _ in 0..=STEPS_EACH * (count + package.members.len()) {
            let alignment = alignment(&local, package, names, call);
            if !alignment.has_root() {
                break;
            }
            let mut is_done = false;
            for step in alignment.steps() {
                if failed.iter().any(|(other, _)| *other == step) {
                    continue;
                }
                if is_done && !step.leaves_others() {
                    break;
                }
                match self.take_step(held, call, &step).await {
                    Err(failure) => failed.push((step, failure)),
                    Ok(()) => {
                        is_done = true;
                        if !step.leaves_others() {
                            break;
                        }
                    }
                }
            }
            if !is_done {
                break;
            }
            failed.clear();
            local = self.local_tree(held, package, &names.root).await?;
        }
        Ok(failed.into_iter().map(|(_, failure)| failure).collect())
    }

    /// Lists a dataset and all datasets below it. The list is empty if the dataset does not exist.
    async fn local_tree(&self, held: &Held, package: &Package, root: &str) -> Result<Vec<Member>, Failure> {
        if held.pool.dsl().resolve(root).await.is_err() {
            return Ok(Vec::new());
        }
        let how = Gathering { fromsnap: package.fromsnap.clone(), recursive: true, ..Gathering::default() };
        Ok(self.gather(held, root, &how).await?.members)
    }

    async fn take_step(&self, held: &Held, call: &DatasetReceive, step: &AlignStep) -> Result<(), Failure> {
        tracing::debug!(?step, "a tree is aligned with a package");
        match step {
            AlignStep::Promote(name) => self.promote_for(held, call, name).await,
            AlignStep::DestroySnapshots(names) => self.let_go_of_each(held, call, names).await,
            AlignStep::RenameSnapshot(name, new) => self.rename_for(held, call, name, new).await,
            AlignStep::Rename(name, new) => {
                let rename = DatasetRename {
                    name: name.clone(),
                    new_name: new.clone(),
                    force: call.force_unmount,
                    maker: call.maker.clone(),
                    ..DatasetRename::default()
                };
                self.check_for_maker(call, Delegated::Rename(rename.clone())).await?;
                self.rename_dataset(rename).await
            }
            AlignStep::Destroy(name) => self.let_go_by_force(held, call, name).await,
        }
    }

    /// Destroys the snapshots that can be destroyed. Fails only if none can be.
    async fn let_go_of_each(
        &self,
        held: &Held,
        call: &DatasetReceive,
        names: &[String],
    ) -> Result<(), Failure> {
        let (mut is_done, mut failures) = (false, Vec::new());
        for name in names {
            match self.let_go_by_force(held, call, name).await {
                Ok(()) => is_done = true,
                Err(failure) => failures.push(failure),
            }
        }
        match crate::destruction::together(failures) {
            Some(failure) if !is_done => Err(failure),
            _ => Ok(()),
        }
    }

    /// Makes room for a new dataset whose name may be taken: moves the other dataset away. If the
    /// new dataset already exists elsewhere here, it is moved to the name.
    pub(crate) async fn make_room(
        &self,
        held: &Held,
        call: &DatasetReceive,
        followed: &Followed<'_>,
        (head, sent_head, origin): (&str, &str, u64),
    ) -> Result<(), Failure> {
        let names = followed.names(call)?;
        let _turn = self.turns.of(&held.pool.name(), "receive").await;
        let local = self.local_tree(held, followed.package, &names.root).await?;
        match alignment(&local, followed.package, &names, call).step_before(head, sent_head, origin) {
            Some(step) => self.take_step(held, call, &step).await,
            None => Ok(()),
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
        name: &str,
        new_name: &str,
    ) -> Result<(), Failure> {
        let rename = DatasetRename {
            name: name.to_owned(),
            new_name: new_name.to_owned(),
            ..DatasetRename::default()
        };
        self.check_for_maker(call, Delegated::Rename(rename)).await?;
        let renamed = held.pool.rename_snapshots(vec![(name.to_owned(), new_name.to_owned())]).await;
        renamed.map_err(|error| crate::refusal::pool("rename", name, &error))
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

fn alignment<'a>(
    local: &'a [Member],
    theirs: &'a Package,
    names: &'a LocalNames,
    call: &DatasetReceive,
) -> Alignment<'a> {
    // With a full package, only the datasets of the package itself are known, so nothing is
    // destroyed.
    let force = call.force && theirs.fromsnap.is_some();
    Alignment { local, theirs, wanted: &names.wanted, root: &names.root, force }
}
