//! Changes a property together with the mounts that depend on it: completely or not at all.
//!
//! ```text
//!  canmount, mountpoint, acltype:   unmounted ─► property ─► mounted again
//!                                      │ fails      │ fails
//!                                      └─ put back ◄┴─ restored
//!  readonly, exec, atime, …:        property ─► remounted
//!                                                  │ fails
//!                                      restored ◄──┘
//! ```
//! The earlier value of a property is read before the change, so that it can be restored if a later
//! step is refused.
//! (test: `what_is_refused_has_changed_nothing`)

use crate::datasets::cannot_open;
use crate::front::UnmountReach;
use crate::mount_options::FOLLOWED;
use crate::taken::MountPlaces;
use crate::{Held, Holder, refusal};
use control::Failure;
use dsl::PropValue;
use pool::Inherit;

/// Properties that are fixed for a session when it begins. To change them, the datasets are mounted
/// again.
const MOUNTED_AGAIN: [&str; 3] = ["canmount", "mountpoint", "acltype"];
/// Those of them that `zfs set -u` changes without moving a mount.
const PLACING: [&str; 2] = ["canmount", "mountpoint"];

/// A change of one property. The change that undoes it has the same type.
pub struct PropChange {
    /// The dataset that the command named.
    dataset: String,
    property: String,
    to: NewValue,
}

/// The new value of a property.
enum NewValue {
    Set(PropValue),
    Inherit(Inherit),
    /// The earlier values on each of these datasets.
    Earlier(Vec<(String, Earlier)>),
}

/// The earlier value of a property on one dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Earlier {
    Local(PropValue),
    Received,
    Inherited,
}

impl PropChange {
    /// A change that sets the property.
    pub fn set(dataset: &str, property: String, value: PropValue) -> Self {
        Self { dataset: dataset.to_owned(), property, to: NewValue::Set(value) }
    }

    /// A change that makes the property inherited.
    pub fn inherit(dataset: &str, property: &str, how: Inherit) -> Self {
        Self { dataset: dataset.to_owned(), property: property.to_owned(), to: NewValue::Inherit(how) }
    }

    /// Returns true for `canmount=on` and `canmount=noauto`. With these values, no file system is
    /// mounted or unmounted.
    fn only_permits_mounts(&self) -> bool {
        let is_off = |value: &PropValue| value.number() == Some(0);
        self.property == "canmount" && matches!(&self.to, NewValue::Set(value) if !is_off(value))
    }
}

/// True for a property that no mount depends on.
pub fn is_plain(property: &str) -> bool {
    let follows = property == "readonly" || property == "snapdir" || FOLLOWED.contains(&property);
    !follows && !MOUNTED_AGAIN.contains(&property)
}

impl Holder {
    /// Sets properties that are all [`is_plain`]: all or none of them. Returns the changes that
    /// undo this.
    pub(super) async fn set_plain(
        &self,
        held: &Held,
        dataset: &str,
        props: Vec<(String, PropValue)>,
    ) -> Result<Vec<PropChange>, Failure> {
        let mut backs = Vec::with_capacity(props.len());
        for (name, value) in &props {
            backs.push(self.way_back(held, &PropChange::set(dataset, name.clone(), value.clone())).await?);
        }
        if !props.is_empty() {
            let set = held.pool.set_props(dataset, props).await;
            set.map_err(|e| refusal::pool("set property for", dataset, &e).exits(255))?;
        }
        Ok(backs)
    }

    /// Changes a property, and the mounts that depend on it. With `stay`, no mount moves. Returns
    /// the change that undoes this.
    pub(super) async fn change_prop(
        &self,
        held: &Held,
        change: PropChange,
        stay: bool,
    ) -> Result<PropChange, Failure> {
        let back = self.way_back(held, &change).await?;
        let name = change.property.as_str();
        let stays = stay && PLACING.contains(&name) || change.only_permits_mounts();
        let moves = MOUNTED_AGAIN.contains(&name) && !stays;
        if moves && self.has_another_effect(held, &change).await? {
            self.change_and_mount_again(held, &change, &back).await?;
        } else {
            self.change_in_place(held, &change, &back).await?;
        }
        // A new mount point also mounts datasets that were not mounted before.
        if moves && name == "mountpoint" {
            self.mount_others(held, &change.dataset).await?;
        }
        Ok(back)
    }

    /// Changes a property that sessions follow.
    async fn change_in_place(
        &self,
        held: &Held,
        change: &PropChange,
        back: &PropChange,
    ) -> Result<(), Failure> {
        self.precede(change).await;
        self.store(held, change).await?;
        let Err(failure) = self.follow(held, change).await else { return Ok(()) };
        let undone = self.store(held, back).await.and(self.follow(held, back).await);
        Err(match undone {
            Ok(()) => failure,
            Err(stays) => stays.stderr.into_iter().fold(failure, Failure::and),
        })
    }

    /// Changes a property that is fixed for sessions: unmounts the datasets and mounts them again.
    async fn change_and_mount_again(
        &self,
        held: &Held,
        change: &PropChange,
        back: &PropChange,
    ) -> Result<(), Failure> {
        let (root, property) = (change.dataset.as_str(), change.property.as_str());
        let (those, places) = match PLACING.contains(&property) {
            true => {
                let place = self.mountpoint(held, root).await?;
                (self.moved_with(root, place.as_deref()), MountPlaces::Present)
            }
            false => (self.named_below(root), MountPlaces::Former),
        };
        let taken = self.take(&those, UnmountReach::Everywhere).await?;
        if let Err(failure) = self.store(held, change).await {
            return Err(self.put_back_after(&taken, failure).await);
        }
        let mounted = self.mount_taken(held, &taken, places).await;
        let Err(failure) = mounted else { return Ok(()) };
        let failure = match self.store(held, back).await {
            Ok(()) => failure,
            Err(stays) => stays.stderr.into_iter().fold(failure, Failure::and),
        };
        Err(self.put_back_after(&taken, failure).await)
    }

    /// Undoes changes after a failure, last change first. Returns the failure.
    pub(super) async fn undo_props(
        &self,
        held: &Held,
        done: Vec<PropChange>,
        stay: bool,
        mut failure: Failure,
    ) -> Failure {
        for back in done.into_iter().rev() {
            if let Err(stays) = self.change_prop(held, back, stay).await {
                failure = stays.stderr.into_iter().fold(failure, Failure::and);
            }
        }
        failure
    }

    /// Returns the change that undoes a change.
    async fn way_back(&self, held: &Held, change: &PropChange) -> Result<PropChange, Failure> {
        let (dataset, property) = (change.dataset.clone(), change.property.clone());
        let names = match &change.to {
            NewValue::Set(_) | NewValue::Inherit(Inherit { recursive: false, .. }) => vec![dataset.clone()],
            NewValue::Inherit(_) => self.dataset_names(held, &dataset).await?,
            NewValue::Earlier(earlier) => earlier.iter().map(|(name, _)| name.clone()).collect(),
        };
        let mut earlier = Vec::with_capacity(names.len());
        for name in names {
            let is = self.is_now(held, &name, &property).await?;
            earlier.push((name, is));
        }
        Ok(PropChange { dataset, property, to: NewValue::Earlier(earlier) })
    }

    async fn is_now(&self, held: &Held, dataset: &str, property: &str) -> Result<Earlier, Failure> {
        let resolved = self.dataset(held, dataset).await?;
        let props = held.pool.dsl().props(&resolved).await.map_err(|e| cannot_open(dataset, e))?;
        let own = props.into_iter().find(|prop| prop.name == property && prop.set_on == dataset);
        Ok(match own {
            Some(prop) if prop.received => Earlier::Received,
            Some(prop) => Earlier::Local(prop.value),
            None => Earlier::Inherited,
        })
    }

    /// True if a change affects mounts. A set of the present value does not.
    async fn has_another_effect(&self, held: &Held, change: &PropChange) -> Result<bool, Failure> {
        let NewValue::Set(value) = &change.to else { return Ok(true) };
        Ok(self.is_now(held, &change.dataset, &change.property).await? != Earlier::Local(value.clone()))
    }

    async fn store(&self, held: &Held, change: &PropChange) -> Result<(), Failure> {
        let PropChange { dataset, property, to } = change;
        let inherit = async |dataset: &str, how: Inherit| {
            let taken_back = held.pool.inherit_prop(dataset, property, how).await;
            taken_back.map_err(|e| refusal::pool("inherit", dataset, &e))
        };
        let set = async |dataset: &str, value: &PropValue| {
            let set = held.pool.set_prop(dataset, property, Some(value.clone())).await;
            set.map_err(|e| refusal::pool("set property for", dataset, &e).exits(255))
        };
        match to {
            NewValue::Set(value) => set(dataset, value).await,
            NewValue::Inherit(how) => inherit(dataset, *how).await,
            NewValue::Earlier(all) => {
                let mut outcome = Ok(());
                for (dataset, earlier) in all {
                    let done = match earlier {
                        Earlier::Local(value) => set(dataset, value).await,
                        Earlier::Received => {
                            inherit(dataset, Inherit { received: true, recursive: false }).await
                        }
                        Earlier::Inherited => inherit(dataset, Inherit::default()).await,
                    };
                    outcome = outcome.and(done);
                }
                outcome
            }
        }
    }

    /// Prepares the mounts for a change of a property.
    async fn precede(&self, change: &PropChange) {
        if change.property == "readonly" {
            // After the change, these writes could be refused.
            self.mounts.write_back_below(&change.dataset).await;
        }
    }

    /// Applies a changed property to the mounts.
    async fn follow(&self, held: &Held, change: &PropChange) -> Result<(), Failure> {
        match change.property.as_str() {
            "snapdir" => self.show_ctldir_below(held, &change.dataset).await,
            name if FOLLOWED.contains(&name) => self.allow_below(held, &change.dataset).await,
            _ => Ok(()),
        }
    }
}
