//! Whether a user's request may decide where a file system is mounted.
//!
//! ```text
//!  request of a user ─► which mount points does it change? ─► Front::may_claim, for each
//!    create, clone, receive   of the first new dataset           a path that was chosen: the user owns the
//!    rename                   under the new parent               directory, or can make it
//!    set, inherit             of the property                    names below the mount point of a parent:
//!    canmount, overlay        the present ones                   or nothing is hidden there
//! ```
//! Nothing is mounted for a user. But the next start of the daemon, an import and `zfs mount -a` mount each
//! file system where its properties say. By then nobody knows who has set them, so the user's rights
//! decide when the properties change.
//!
//! A dataset whose mount point follows from that of its parent needs no directory of the user's: root
//! delegates `create` below a directory of root's. Such a mount may hide nothing. The datasets below a place
//! that was checked are not checked: they lie in a directory that is missing, empty or the user's.
//!
//! A pool with an altroot may be imported without it later. So both places are checked.
//!
//! Invariants
//! - A user's request leads no mount to a path that the user could not have made, unless the path is a
//!   missing or empty directory below the mount point of a parent.
//!   (tests: `a_user_chooses_only_mount_points_of_the_users_own`,
//!   `a_users_dataset_hides_no_directory`, `a_received_mount_point_needs_a_directory_of_the_users`)

use crate::datasets::place;
use crate::front::{PlaceChoice, UserIds};
use crate::props::dataset_prop;
use crate::{Held, Holder, names};
use control::{DatasetKind, Failure, FailureKind, Peer};
use dsl::{PropValue, Property};
use pool::Inherit;
use std::path::Path;

/// The properties that decide where a file system is mounted, and whether.
pub(super) const PLACING: [&str; 3] = ["mountpoint", "canmount", "overlay"];
pub(super) const MOUNTPOINT: &str = "mountpoint";
const OVERLAY: &str = "overlay";
pub(super) const OFF: PropValue = PropValue::Number(0);

/// Why a user may not have a file system mounted at a place: a line for the user.
pub(super) type PlaceRefusal = String;
type Checked = Result<(), PlaceRefusal>;

/// The path in a mount point. `none` and `legacy` have no path.
pub(super) fn path_in(value: &PropValue) -> Option<&str> {
    value.text().filter(|text| text.starts_with('/'))
}

/// The mount points that some properties set. A request may name the property several times.
fn mount_points(props: &[(String, PropValue)]) -> impl Iterator<Item = &PropValue> {
    props.iter().filter(|(name, _)| name == MOUNTPOINT).map(|(_, value)| value)
}

/// The canonical name of a property.
pub(super) fn proper(name: &str) -> &str {
    dataset_prop(name).map_or(name, |def| def.name)
}

/// True if a property with this value can have a file system mounted, or mounted over something.
fn has_mounted((name, value): &(String, PropValue)) -> bool {
    name != MOUNTPOINT && PLACING.contains(&name.as_str()) && *value != OFF
}

fn refused(verb: &str, name: &str, why: PlaceRefusal) -> Failure {
    Failure::cannot(FailureKind::Denied, verb, name, "permission denied").and(why)
}

fn user_of(peer: &Peer) -> UserIds {
    UserIds { uid: peer.uid, gids: peer.gids.clone() }
}

impl Holder {
    /// Checks the mount point of a dataset that is about to be made for a user, with the missing
    /// datasets above it if `parents`.
    ///
    /// # Errors
    /// [`FailureKind::Denied`].
    pub(super) async fn check_place_of_new(
        &self,
        held: &Held,
        maker: Option<&Peer>,
        (name, parents): (&str, bool),
        kind: DatasetKind,
        props: &[(String, PropValue)],
    ) -> Result<(), Failure> {
        let Some(maker) = maker else { return Ok(()) };
        let checked = self.new_place(held, maker, (name, parents), kind, props).await;
        checked.map_err(|why| refused("create", name, why))
    }

    /// The same, for other words in the failure.
    pub(super) async fn new_place(
        &self,
        held: &Held,
        maker: &Peer,
        (name, parents): (&str, bool),
        kind: DatasetKind,
        props: &[(String, PropValue)],
    ) -> Checked {
        // What cannot be made is refused later.
        let Some(first) = self.first_new(held, name, parents).await else { return Ok(()) };
        let has_files = kind == DatasetKind::Filesystem;
        self.check_all_chosen(held, maker, props)?;
        match first == name && (!has_files || mount_points(props).next().is_some()) {
            true => Ok(()),
            false => self.check_inherited(held, maker, first).await,
        }
    }

    /// Checks the properties that a user sets.
    ///
    /// # Errors
    /// [`FailureKind::Denied`].
    pub(super) async fn check_places_of_set(
        &self,
        held: &Held,
        maker: Option<&Peer>,
        name: &str,
        props: &[(String, PropValue)],
    ) -> Result<(), Failure> {
        let Some(maker) = maker else { return Ok(()) };
        let checked = self.places_of_set(held, maker, name, props).await;
        checked.map_err(|why| refused("set property for", name, why))
    }

    async fn places_of_set(
        &self,
        held: &Held,
        maker: &Peer,
        name: &str,
        props: &[(String, PropValue)],
    ) -> Checked {
        self.check_all_chosen(held, maker, props)?;
        for (prop, _) in props.iter().filter(|prop| has_mounted(prop)) {
            if prop == OVERLAY || mount_points(props).next().is_none() {
                self.check_present(held, maker, name, prop).await?;
            }
        }
        Ok(())
    }

    /// Checks a property that a user makes inherited, or takes back to what a stream said.
    ///
    /// # Errors
    /// [`FailureKind::Denied`].
    pub(super) async fn check_places_of_inherit(
        &self,
        held: &Held,
        maker: Option<&Peer>,
        (name, property): (&str, &str),
        how: Inherit,
    ) -> Result<(), Failure> {
        let Some(maker) = maker.filter(|_| PLACING.contains(&property)) else { return Ok(()) };
        let checked = match property {
            MOUNTPOINT => self.places_of_inherit(held, maker, name, how).await,
            _ => self.check_present(held, maker, name, property).await,
        };
        checked.map_err(|why| refused("inherit property for", name, why))
    }

    async fn places_of_inherit(&self, held: &Held, maker: &Peer, name: &str, how: Inherit) -> Checked {
        let names = match how.recursive {
            true => self.dataset_names(held, name).await.map_err(|failure| failure.to_string())?,
            false => vec![name.to_owned()],
        };
        let mut is_received = false;
        for dataset in names.iter().filter(|_| how.received) {
            let received = self.received_props(held, dataset).await?;
            let Some(prop) = received.iter().find(|prop| prop.name == MOUNTPOINT) else { continue };
            is_received |= dataset == name;
            if let Some(path) = path_in(&prop.value) {
                self.check_chosen(held, maker, path)?;
            }
        }
        match is_received {
            true => Ok(()),
            false => self.check_inherited(held, maker, name).await,
        }
    }

    /// Checks where a user's rename moves a dataset.
    ///
    /// # Errors
    /// [`FailureKind::Denied`].
    pub(super) async fn check_place_of_renamed(
        &self,
        held: &Held,
        maker: Option<&Peer>,
        name: &str,
        new: &str,
    ) -> Result<(), Failure> {
        let Some(maker) = maker else { return Ok(()) };
        let checked = self.place_of_renamed(held, maker, name, new).await;
        checked.map_err(|why| refused("rename", name, why))
    }

    async fn place_of_renamed(&self, held: &Held, maker: &Peer, name: &str, new: &str) -> Checked {
        let set = self.props_on(held, name).await?;
        let is_own = set.iter().any(|prop| prop.name == MOUNTPOINT && prop.set_on == name);
        match !is_own && self.nature_of(held, name).await.kind == DatasetKind::Filesystem {
            true => self.check_inherited(held, maker, new).await,
            false => Ok(()),
        }
    }

    fn check_all_chosen(&self, held: &Held, maker: &Peer, props: &[(String, PropValue)]) -> Checked {
        mount_points(props).filter_map(path_in).try_for_each(|path| self.check_chosen(held, maker, path))
    }

    /// Checks a path that a request of a user names.
    pub(super) fn check_chosen(&self, held: &Held, maker: &Peer, path: &str) -> Checked {
        self.check_place(held, maker, (path, ""), PlaceChoice::Chosen)
    }

    /// Checks the place that a dataset has, or will have, because of the mount point of its parent.
    pub(super) async fn check_inherited(&self, held: &Held, maker: &Peer, name: &str) -> Checked {
        let set = match names::parent_of(name) {
            Some(parent) => self.props_on(held, parent).await?,
            None => Vec::new(),
        };
        self.check_below(held, maker, &set, name)
    }

    /// Checks the present places of the file systems for which a property of a dataset counts.
    pub(super) async fn check_present(
        &self,
        held: &Held,
        maker: &Peer,
        name: &str,
        property: &str,
    ) -> Checked {
        let names = match property == OVERLAY {
            true => self.dataset_names(held, name).await.map_err(|failure| failure.to_string())?,
            false => vec![name.to_owned()],
        };
        for name in names {
            if self.nature_of(held, &name).await.kind == DatasetKind::Filesystem {
                let set = self.props_on(held, &name).await?;
                self.check_below(held, maker, &set, &name)?;
            }
        }
        Ok(())
    }

    /// Checks the place of a dataset for which these properties count.
    fn check_below(&self, held: &Held, maker: &Peer, set: &[Property], name: &str) -> Checked {
        let at = match set.iter().find(|prop| prop.name == MOUNTPOINT) {
            None => ("/", name),
            Some(prop) => match path_in(&prop.value) {
                Some(path) => (path, name.strip_prefix(&prop.set_on).unwrap_or(name)),
                None => return Ok(()),
            },
        };
        self.check_place(held, maker, at, PlaceChoice::Inherited)
    }

    /// Asks the front for a mount point and the names below it.
    fn check_place(&self, held: &Held, maker: &Peer, (set, rest): (&str, &str), how: PlaceChoice) -> Checked {
        let altroot = held.altroot.as_deref();
        let uid = maker.uid;
        for altroot in altroot.map(Some).into_iter().chain([None]) {
            let path = place(altroot, set, rest);
            let below = altroot.map(Path::new);
            match (self.mounts.may_claim(&user_of(maker), Path::new(&path), below, how), how) {
                (Ok(true), _) => {}
                (Ok(false), PlaceChoice::Chosen) => {
                    return Err(format!("'{path}' is not a directory that uid {uid} owns or can make"));
                }
                (Ok(false), PlaceChoice::Inherited) => {
                    return Err(format!(
                        "'{path}' is neither empty nor a directory that uid {uid} owns or can make"
                    ));
                }
                (Err(error), _) => return Err(format!("'{path}' cannot be a mount point: {error}")),
            }
        }
        Ok(())
    }

    /// The first dataset on the way to a new one that has to be made; `None` if the new one is there,
    /// or cannot be made.
    async fn first_new<'a>(&self, held: &Held, name: &'a str, parents: bool) -> Option<&'a str> {
        let is_there = async |name: &str| held.pool.dsl().resolve(name).await.is_ok();
        if is_there(name).await {
            return None;
        }
        let mut first = name;
        loop {
            let parent = names::parent_of(first)?;
            if is_there(parent).await {
                return Some(first);
            }
            first = Some(parent).filter(|_| parents)?;
        }
    }

    /// Returns what streams brought to a dataset.
    pub(super) async fn received_props(
        &self,
        held: &Held,
        name: &str,
    ) -> Result<Vec<Property>, PlaceRefusal> {
        let dsl = held.pool.dsl();
        let dataset = dsl.resolve(name).await.map_err(|error| error.to_string())?;
        dsl.own_props(&dataset, true).await.map_err(|error| error.to_string())
    }

    async fn props_on(&self, held: &Held, name: &str) -> Result<Vec<Property>, PlaceRefusal> {
        let dsl = held.pool.dsl();
        let dataset = dsl.resolve(name).await.map_err(|error| error.to_string())?;
        dsl.props(&dataset).await.map_err(|error| error.to_string())
    }
}
