//! Renaming datasets: a dir gets another name, or another parent, and takes all below it along.
//!
//! ```text
//!  old parent: child map − name, space − what the dir is charged
//!  new parent: child map + name, space + the same
//! ```
//! Heads, snapshots and their blocks know dirs by number, so nothing else changes on disk.
//!
//! Invariant: what the dir uses, and has reserved without using it, moves from the ancestors of
//! its old place to those of its new one (test: `space_moves_along_with_a_renamed_dataset`).

use std::sync::Arc;

use dmu::{SpaceDelta, Tx};
use env::boxed;
use ondisk::dsl::used;
use units::ObjectId;

use crate::dir::Dir;
use crate::space::available::{PoolSpace, below};
use crate::{DatasetName, Dsl, DslError, check_dataset_name};

/// A rename that was found possible.
struct Plan {
    dir: Arc<Dir>,
    from: Arc<Dir>,
    to: Arc<Dir>,
    old_component: String,
    new_component: String,
}

impl Dsl {
    /// Renames the dataset `name`, and with it all below it, to `new_name`, whose parent exists;
    /// nothing has changed when that is refused.
    ///
    /// # Errors
    /// [`DslError::NoSuchDataset`] (of `new_name`'s parent too), [`DslError::Exists`],
    /// [`DslError::BadName`] (of any dataset below, too), [`DslError::NoRename`] when `name` is
    /// the pool's root or `new_name` lies below `name`, [`DslError::NoSpace`] when its space
    /// does not fit where it is to go; those of changing the MOS.
    #[boxed]
    pub async fn rename_dataset(
        &self,
        tx: &Tx,
        name: &str,
        new_name: &str,
        pool: &PoolSpace,
    ) -> Result<DatasetName, DslError> {
        let plan = self.plan_rename(name, new_name, pool).await?;
        self.zap(plan.from.phys().child_dirs.get()).await?.remove(tx, plan.old_component.as_bytes()).await?;
        if plan.from.object() != plan.to.object() {
            self.count_moved(tx, &plan.dir, &plan.from, &plan.to).await?;
            move_charge(tx, &plan)?;
            plan.dir.move_to(tx, Arc::clone(&plan.to))?;
        }
        let names = self.zap(plan.to.phys().child_dirs.get()).await?;
        names.add_u64(tx, plan.new_component.as_bytes(), plan.dir.object().get()).await?;
        self.resolve(new_name).await
    }

    async fn plan_rename(&self, name: &str, new_name: &str, pool: &PoolSpace) -> Result<Plan, DslError> {
        check_dataset_name(new_name)?;
        let refuse = |why| DslError::NoRename { name: name.to_owned(), why };
        let (_, old_component) = name.rsplit_once('/').ok_or(refuse("it is the pool's root"))?;
        let another_pool = refuse("its new name begins with that of another pool, or has no parent");
        let (parent, new_component) = new_name.rsplit_once('/').ok_or(another_pool.clone())?;
        if name.split('/').next() != new_name.split('/').next() {
            return Err(another_pool);
        }
        let dir = self.loaded_dir(self.resolve(name).await?.dir).await?;
        let to = self.loaded_dir(self.resolve(parent).await?.dir).await?;
        if self.child(to.object(), new_component).await?.is_some() {
            return Err(DslError::Exists { name: new_name.to_owned() });
        }
        if to.ancestry().any(|above| above.object() == dir.object()) {
            return Err(refuse("its new name lies below itself"));
        }
        let from = dir.parent().ok_or(refuse("it is the pool's root"))?;
        self.check_names_below(name, new_name).await?;
        if from.object() != to.object() {
            check_room(&dir, &from, &to, pool, name)?;
        }
        let (old_component, new_component) = (old_component.to_owned(), new_component.to_owned());
        Ok(Plan { dir, from, to, old_component, new_component })
    }

    /// Names that get longer must still be names, those of snapshots with what follows the `@`.
    async fn check_names_below(&self, name: &str, new_name: &str) -> Result<(), DslError> {
        for dataset in self.list(name).await? {
            let new = format!("{new_name}{}", dataset.name.strip_prefix(name).unwrap_or_default());
            check_dataset_name(&new)?;
            let longest = self.snapshots(&dataset).await?.into_iter().map(|of| of.name.len()).max();
            if longest.is_some_and(|len| len + new.len() - dataset.name.len() > crate::names::NAME_BYTES_MAX)
            {
                return Err(DslError::BadName { name: new, why: "a snapshot's name would be too long" });
            }
        }
        Ok(())
    }
}

/// Whether all that a dir is charged for fits below `to`: what it leaves behind in ancestors that
/// both places share is room again.
fn check_room(
    dir: &Arc<Dir>,
    from: &Arc<Dir>,
    to: &Arc<Dir>,
    pool: &PoolSpace,
    name: &str,
) -> Result<(), DslError> {
    let phys = dir.phys();
    let space = phys.used_bytes.get().max(phys.reserved.get());
    let above: Vec<ObjectId> = from.ancestry().map(|dir| dir.object()).collect();
    let shared = to.ancestry().find(|dir| above.contains(&dir.object()));
    let freed =
        |dir: &Dir| if shared.as_ref().is_some_and(|s| s.object() == dir.object()) { space } else { 0 };
    if below(to, pool, &freed) < space {
        return Err(DslError::NoSpace { name: name.to_owned() });
    }
    Ok(())
}

/// Moves what a dir is charged for from its old parent to its new one.
fn move_charge(tx: &Tx, plan: &Plan) -> Result<(), DslError> {
    let phys = plan.dir.phys();
    let signed =
        |n: u64| i64::try_from(n).map_err(|_| DslError::damaged(plan.dir.object(), "space of a dir"));
    let space = SpaceDelta {
        used: signed(phys.used_bytes.get())?,
        compressed: signed(phys.compressed_bytes.get())?,
        uncompressed: signed(phys.uncompressed_bytes.get())?,
    };
    let unused = SpaceDelta {
        used: signed(phys.reserved.get().saturating_sub(phys.used_bytes.get()))?,
        ..SpaceDelta::default()
    };
    plan.from.use_space(tx, used::CHILD, space.negated())?;
    plan.to.use_space(tx, used::CHILD, space)?;
    plan.from.use_space(tx, used::CHILD_RESERVATION, unused.negated())?;
    plan.to.use_space(tx, used::CHILD_RESERVATION, unused)
}
