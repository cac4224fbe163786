//! What other users than the daemon's own may do, because it was delegated to them.
//!
//! ```text
//!  request by the public socket ─► which permissions does it take, and where? ─► dsl::is_granted ─► done, or denied
//! ```
//! Whose daemon it is may do everything. Others may not mount and unmount, as with OpenZFS on Linux: what they make is not
//! mounted, and what would have to be unmounted for them is refused.
//! (test: `what_was_delegated_is_done_for_a_user_and_nothing_else`)

use crate::datasets::cannot_open;
use crate::props::{Access, DATASET_PROPS, OwnerProp, dataset_prop, is_user_prop};
use crate::{Held, Holder, names, refusal};
use control::{
    DatasetAllow, DatasetDestroy, DatasetPermissions, DatasetRename, Delegated, Delegations, Failure,
    FailureKind, NameValue, Owner, Peer, SnapshotDestroy,
};
use dsl::{Asker, Counted, is_granted};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Permissions that are no properties, with what kind they are and what is to be said of them.
pub const PERMISSIONS: &[(&str, &str, &str)] = &[
    ("allow", SUBCOMMAND, "must also have the permission that is being allowed"),
    ("clone", SUBCOMMAND, "must also have 'create' and 'mount' in the parent of the clone"),
    ("create", SUBCOMMAND, "must also have 'mount'"),
    ("destroy", SUBCOMMAND, "must also have 'mount'"),
    ("diff", SUBCOMMAND, "allows lookup of paths by numbers of objects"),
    ("hold", SUBCOMMAND, "allows adding a hold to a snapshot"),
    ("mount", SUBCOMMAND, "allows mounting and unmounting"),
    ("promote", SUBCOMMAND, "must also have 'mount', and 'promote' in the origin"),
    ("receive", SUBCOMMAND, "must also have 'mount' and 'create'"),
    ("receive:append", SUBCOMMAND, "the same without -F"),
    ("release", SUBCOMMAND, "allows releasing a hold, which might destroy the snapshot"),
    ("rename", SUBCOMMAND, "must also have 'mount', and 'create' in the new parent"),
    ("rollback", SUBCOMMAND, ""),
    ("send", SUBCOMMAND, ""),
    ("share", SUBCOMMAND, "allows sharing"),
    ("snapshot", SUBCOMMAND, ""),
    ("bookmark", SUBCOMMAND, ""),
    ("load-key", SUBCOMMAND, "allows loading and unloading keys"),
    ("change-key", SUBCOMMAND, "allows changing keys"),
    ("groupquota", OTHER, "allows accessing any groupquota@... property"),
    ("groupused", OTHER, "allows reading any groupused@... property"),
    ("userprop", OTHER, "allows changing any user property"),
    ("userquota", OTHER, "allows accessing any userquota@... property"),
    ("userused", OTHER, "allows reading any userused@... property"),
    ("userobjquota", OTHER, "allows accessing any userobjquota@... property"),
    ("userobjused", OTHER, "allows reading any userobjused@... property"),
    ("groupobjquota", OTHER, "allows accessing any groupobjquota@... property"),
    ("groupobjused", OTHER, "allows reading any groupobjused@... property"),
    ("projectused", OTHER, "allows reading any projectused@... property"),
    ("projectquota", OTHER, "allows accessing any projectquota@... property"),
    ("projectobjused", OTHER, "allows reading any projectobjused@... property"),
    ("projectobjquota", OTHER, "allows accessing any projectobjquota@... property"),
];
const SUBCOMMAND: &str = "subcommand";
const OTHER: &str = "other";

/// Names of sets, and of whom something is delegated to, are shorter.
const NAME_MAX_BYTES: usize = 64;

/// The proper name of a permission; none: there is no such.
pub fn permission(word: &str) -> Option<&'static str> {
    let known = PERMISSIONS.iter().map(|(name, ..)| *name).find(|name| *name == word);
    known.or_else(|| {
        let def = dataset_prop(word)?;
        (def.access != Access::ReadOnly && def.name != "mlslabel").then_some(def.name)
    })
}

/// Names of properties that can be delegated, in order.
pub fn delegated_props() -> Vec<&'static str> {
    let mut props: Vec<_> = DATASET_PROPS.iter().filter_map(|def| permission(def.name)).collect();
    props.sort_unstable();
    props
}

fn is_set(word: &str) -> bool {
    let valid = |c: char| c.is_ascii_alphanumeric() || "-_.: ".contains(c);
    word.len() < NAME_MAX_BYTES && word.strip_prefix('@').is_some_and(|name| name.chars().all(valid))
}

/// Whether this is how the format names whom something is delegated to.
fn is_key(key: &str) -> bool {
    let Some((kind, whom)) = key.split_once('$') else { return false };
    let is_number = || whom.chars().all(|c| c.is_ascii_digit()) && whom.parse::<u32>().is_ok();
    match kind.to_ascii_lowercase().as_str() {
        "ul" | "ud" | "gl" | "gd" => kind.ends_with(['l', 'd']) && is_number(),
        "el" | "ed" => kind.ends_with(['l', 'd']) && whom.is_empty(),
        "s-" => is_set(whom),
        "c-" => whom.is_empty(),
        _ => false,
    }
}

/// A permission that is needed somewhere.
pub(super) struct Needed {
    pub dataset: String,
    pub permission: String,
    /// What is said of those below the dataset counts, not what is said of it.
    pub below: bool,
}

impl Needed {
    pub fn on(dataset: &str, permission: &str) -> Self {
        // Of a snapshot its dataset speaks as of what is below it.
        let below = dataset.contains('@');
        Self { dataset: names::head_of(dataset).to_owned(), permission: permission.to_owned(), below }
    }

    pub fn each(dataset: &str, permissions: &[&str]) -> Vec<Self> {
        permissions.iter().map(|permission| Self::on(dataset, permission)).collect()
    }
}

/// The permission without which a property cannot be set.
pub(super) fn permission_of_prop(name: &str) -> String {
    match OwnerProp::parse(name) {
        Some(_) => name.split('@').next().unwrap_or_default().to_owned(),
        None if is_user_prop(name) => "userprop".to_owned(),
        None => dataset_prop(name).map_or(name, |def| def.name).to_owned(),
    }
}

/// What setting properties of something that is about to be made takes.
fn props_below(parent: &str, props: &[NameValue]) -> Vec<Needed> {
    let needed = |(name, _): &NameValue| Needed {
        dataset: parent.to_owned(),
        permission: permission_of_prop(name),
        below: true,
    };
    props.iter().map(needed).collect()
}

impl Holder {
    pub(super) async fn permissions(&self, call: &DatasetPermissions) -> Result<Vec<Delegations>, Failure> {
        let held = self.pool_of(&call.name)?;
        let dataset = self.dataset(&held, &call.name).await?;
        let _view = held.pool.view().await;
        let levels = held.pool.dsl().permissions(&dataset).await.map_err(|e| cannot_open(&call.name, e))?;
        let said = levels.into_iter().filter(|(_, granted)| !granted.is_empty());
        Ok(said.map(|(dataset, granted)| Delegations { dataset, granted }).collect())
    }

    pub(super) async fn allow(&self, call: DatasetAllow) -> Result<(), Failure> {
        let held = self.pool_of(&call.name)?;
        self.dataset(&held, &call.name).await?;
        let refuse = |name: &str| {
            let reason = "operation not applicable to datasets of this type";
            Failure::cannot(FailureKind::Invalid, "set permissions on", name, reason)
        };
        let is_known = |word: &String| permission(word).is_some() || is_set(word);
        let is_valid = |(key, words): (&String, &Option<_>)| {
            is_key(key) && words.iter().flatten().all(is_known) && (words.is_some() || call.take_back)
        };
        if !call.changes.iter().all(is_valid) {
            return Err(refuse(&call.name));
        }
        let proper = |word: String| permission(&word).map_or(word, str::to_owned);
        let changes = call.changes.into_iter();
        let changes: BTreeMap<_, Option<_>> = changes
            .map(|(key, words)| (key, words.map(|words| words.into_iter().map(proper).collect())))
            .collect();
        let datasets = match call.recursive && call.take_back {
            true => self.dataset_names(&held, &call.name).await?,
            false => vec![call.name.clone()],
        };
        for name in datasets {
            let done = if call.take_back {
                held.pool.unallow(name.clone(), changes.clone()).await
            } else {
                let granted = changes.clone().into_iter().filter_map(|(key, words)| Some((key, words?)));
                held.pool.allow(name.clone(), granted.collect()).await
            };
            done.map_err(|e| refusal::pool("set permissions on", &name, &e))?;
        }
        Ok(())
    }

    /// Whether a user may have this done.
    ///
    /// # Errors
    /// A refusal that says more.
    pub(super) async fn check_delegated(&self, peer: Peer, call: Delegated) -> Result<bool, Failure> {
        let asker = Asker { uid: peer.uid, gids: peer.gids };
        if self.needs_nothing(&asker, &call) {
            return Ok(true);
        }
        // A request that needs no permission changes nothing, so that nobody may add its command to
        // the history. (test: `a_request_that_changes_nothing_is_denied`)
        let needed = self.needed(&asker, &call).await?.filter(|needed| !needed.is_empty());
        let Some(needed) = needed else { return Ok(false) };
        if !self.has_all(&asker, needed).await? {
            return match call {
                Delegated::Send(call) => {
                    let snapshot = self.sent_snapshots(&call).await?.pop().unwrap_or(call.snapshot);
                    Err(crate::send::refuse(FailureKind::Denied, &snapshot, "permission denied"))
                }
                _ => Ok(false),
            };
        }
        self.check_counts(&asker, &call).await?;
        Ok(true)
    }

    pub(super) async fn has_all(&self, asker: &Asker, needed: Vec<Needed>) -> Result<bool, Failure> {
        for Needed { dataset, permission, below } in needed {
            if !self.has(asker, &dataset, &permission, below).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) async fn has(
        &self,
        asker: &Asker,
        dataset: &str,
        permission: &str,
        below: bool,
    ) -> Result<bool, Failure> {
        let held = self.pool_of(dataset)?;
        if !is_on(&held, dataset).await? {
            return Ok(false);
        }
        let found = self.dataset(&held, dataset).await?;
        let _view = held.pool.view().await;
        let levels = held.pool.dsl().permissions(&found).await.map_err(|e| cannot_open(dataset, e))?;
        let levels: Vec<_> = levels.into_iter().map(|(_, said)| said).collect();
        Ok(is_granted(&levels, asker, permission, below))
    }

    /// True if a user needs no permission for a request, or if the permission is checked later.
    fn needs_nothing(&self, asker: &Asker, call: &Delegated) -> bool {
        match call {
            Delegated::Accounts(call) => {
                call.id.is_some_and(|id| call.of.iter().all(|of| is_own(asker, *of, id)))
            }
            Delegated::Note(call) => self.notable.take(asker.uid, &call.pool),
            // The stream determines the dataset: see `receive::receiver`.
            Delegated::Receive(_) => true,
            _ => false,
        }
    }

    /// What a request takes; none: it is not for others at all.
    async fn needed(&self, asker: &Asker, call: &Delegated) -> Result<Option<Vec<Needed>>, Failure> {
        use Delegated as D;
        let needed = match call {
            D::Accounts(call) => call.of.iter().flat_map(|of| accounts(&call.name, *of)).collect(),
            D::Allow(call) => return Ok(needed_to_allow(asker, call)),
            D::Bookmark(call) => Needed::each(names::head_of(&call.name), &["bookmark"]),
            D::DestroyBookmark(call) => Needed::each(names::head_of(&call.name), &["destroy"]),
            D::Clone(call) => {
                let Some(parent) = self.parent_of_new(&call.name, call.parents).await? else {
                    return Ok(None);
                };
                let mut needed = Needed::each(&parent, &["create", "mount"]);
                needed.push(Needed::on(&call.snapshot, "clone"));
                needed.extend(props_below(&parent, &call.props));
                needed
            }
            D::Create(call) => {
                let Some(parent) = self.parent_of_new(&call.name, call.parents).await? else {
                    return Ok(None);
                };
                let mut needed = Needed::each(&parent, &["create", "mount"]);
                needed.extend(props_below(&parent, &call.props));
                needed
            }
            D::Destroy(call) => {
                let dry_run = DatasetDestroy { dry_run: true, ..call.clone() };
                let going = self.destroy_dataset(dry_run).await?;
                self.refuse_mounted(going.iter())?;
                going.iter().flat_map(|name| Needed::each(name, &["mount", "destroy"])).collect()
            }
            D::DestroySnapshots(call) => {
                let dry_run = SnapshotDestroy { dry_run: true, ..call.clone() };
                let going = self.destroy_snapshots(dry_run).await?;
                self.refuse_mounted(going.clones.iter())?;
                let all = going.snapshots.iter().chain(&going.clones);
                all.flat_map(|name| Needed::each(name, &["mount", "destroy"])).collect()
            }
            D::Hold(call) => self.on_heads(&call.name, call.recursive, "hold").await?,
            D::AbortReceive(call) => {
                let held = self.pool_of(&call.name)?;
                let sealed =
                    held.pool.sealed(&call.name).await.map_err(|e| refusal::pool("open", &call.name, &e))?;
                let below = sealed.is_none();
                let needed = Needed::each(&call.name, &["mount", "destroy"]).into_iter();
                needed.map(|needed| Needed { below, ..needed }).collect()
            }
            D::Send(call) => {
                let snapshots = self.sent_snapshots(call).await?;
                snapshots.iter().map(|snapshot| Needed::on(snapshot, "send")).collect()
            }
            // See `needs_nothing`.
            D::Note(_) | D::Receive(_) => return Ok(None),
            D::Release(call) => self.on_heads(&call.name, call.recursive, "release").await?,
            D::Inherit(call) => {
                self.refuse_moved_mounts(&call.property, &call.name)?;
                self.on_heads(&call.name, call.recursive, &permission_of_prop(&call.property)).await?
            }
            D::Promote(call) => {
                let held = self.pool_of(&call.name)?;
                let lineage = self.lineage(&held).await?;
                let mut needed = Needed::each(&call.name, &["promote", "mount"]);
                needed
                    .extend(lineage.origin_of(&call.name).map(|origin| Needed::on(&origin.name, "promote")));
                needed
            }
            D::Rename(call) => return self.needed_to_rename(call).await,
            D::RollBack(call) => {
                let mut needed = Needed::each(names::head_of(&call.snapshot), &["rollback"]);
                if call.clones {
                    return Ok(None);
                }
                if call.newer {
                    needed.extend(Needed::each(&call.snapshot, &["mount", "destroy"]));
                }
                needed
            }
            D::Set(call) => {
                for (name, _) in &call.props {
                    self.refuse_moved_mounts(name, &call.name)?;
                }
                let needed = |(name, _): &NameValue| Needed::on(&call.name, &permission_of_prop(name));
                call.props.iter().map(needed).collect()
            }
            D::Snapshot(call) => {
                let mut needed = Vec::new();
                for name in &call.names {
                    if names::pool_of(name) != call.pool {
                        return Ok(None);
                    }
                    needed.extend(self.on_heads(name, call.recursive, "snapshot").await?);
                    needed.extend(props_below(names::head_of(name), &call.props));
                }
                needed
            }
        };
        Ok(Some(needed))
    }

    /// A permission on a dataset, or that of a snapshot, and where it is `recursive` on all below.
    async fn on_heads(&self, name: &str, recursive: bool, permission: &str) -> Result<Vec<Needed>, Failure> {
        let head = names::head_of(name);
        let heads = match recursive {
            true => self.dataset_names(&*self.pool_of(head)?, head).await?,
            false => vec![head.to_owned()],
        };
        Ok(heads.iter().map(|head| Needed::on(head, permission)).collect())
    }

    async fn needed_to_rename(&self, call: &DatasetRename) -> Result<Option<Vec<Needed>>, Failure> {
        if call.name.contains('@') {
            let mut needed = self.on_heads(&call.name, call.recursive, "rename").await?;
            for permission in ["mount", "create"] {
                needed.extend(self.on_heads(&call.name, call.recursive, permission).await?);
            }
            return Ok(Some(needed));
        }
        self.refuse_mounted_below(&call.name)?;
        // Parents that would be made would be mounted, too.
        let parent = self.parent_of_new(&call.new_name, false).await?;
        let Some(parent) = parent.filter(|_| !call.parents) else { return Ok(None) };
        let mut needed = Needed::each(&call.name, &["rename", "mount"]);
        needed.extend(Needed::each(&parent, &["create", "mount"]));
        Ok(Some(needed))
    }

    /// The dataset in which another would be made; `parents`: with those between them.
    pub(super) async fn parent_of_new(&self, name: &str, parents: bool) -> Result<Option<String>, Failure> {
        let Some(mut parent) = names::parent_of(name) else { return Ok(None) };
        let held = self.pool_of(name)?;
        while parents && held.pool.dsl().resolve(parent).await.is_err() {
            match names::parent_of(parent) {
                Some(above) => parent = above,
                None => return Ok(None),
            }
        }
        Ok(Some(parent.to_owned()))
    }

    /// Others do not unmount.
    fn refuse_mounted<'a>(&self, going: impl Iterator<Item = &'a String>) -> Result<(), Failure> {
        for name in going {
            if let Some(place) = self.mounts.place_of(name) {
                return Err(Failure::cannot(FailureKind::Denied, "unmount", &place, "permission denied"));
            }
        }
        Ok(())
    }

    pub(super) fn refuse_mounted_below(&self, root: &str) -> Result<(), Failure> {
        let mounted = self.mounts.list().into_iter().map(|mount| mount.dataset);
        let below: Vec<String> = mounted.filter(|name| names::is_within(name, root)).collect();
        self.refuse_mounted(below.iter())
    }

    /// What is mounted would have to be mounted elsewhere.
    fn refuse_moved_mounts(&self, property: &str, dataset: &str) -> Result<(), Failure> {
        match dataset_prop(property).map(|def| def.name) {
            Some("mountpoint" | "canmount" | "overlay") => self.refuse_mounted_below(dataset),
            _ => Ok(()),
        }
    }

    /// Who may not change a limit of file systems or snapshots stays below it.
    async fn check_counts(&self, asker: &Asker, call: &Delegated) -> Result<(), Failure> {
        use Delegated as D;
        let (dataset, what, more, until) = match call {
            D::Create(call) => {
                (self.parent_of_new(&call.name, call.parents).await?, Counted::Filesystems, 1, None)
            }
            D::Clone(call) => {
                (self.parent_of_new(&call.name, call.parents).await?, Counted::Filesystems, 1, None)
            }
            D::Snapshot(call) => {
                for name in &call.names {
                    let heads = self.on_heads(name, call.recursive, "").await?;
                    let heads: Vec<&str> = heads.iter().map(|needed| needed.dataset.as_str()).collect();
                    for head in &heads {
                        // Each gets those of all below it; what is above the first gets all.
                        let more = heads.iter().filter(|other| names::is_within(other, head)).count() as u64;
                        let is_first = *head == names::head_of(name);
                        let until = names::parent_of(head).filter(|_| !is_first);
                        let failure = ("create snapshot", name.as_str());
                        self.check_count(asker, head, Counted::Snapshots, more, until, failure).await?;
                    }
                }
                return Ok(());
            }
            D::Rename(call) if !call.name.contains('@') => {
                let held = self.pool_of(&call.name)?;
                let parent = self.parent_of_new(&call.new_name, call.parents).await?;
                let moved = self.dataset(&held, &call.name).await?;
                let Some(parent) = parent else { return Ok(()) };
                let shared = shared_ancestor(&call.name, &parent);
                for (what, itself) in [(Counted::Filesystems, 1), (Counted::Snapshots, 0)] {
                    let count = held.pool.dsl().counted(moved.dir, what).await;
                    let more = count.map_err(|e| cannot_open(&call.name, e))?.unwrap_or(0) + itself;
                    self.check_count(asker, &parent, what, more, Some(shared), ("rename", &call.name))
                        .await?;
                }
                return Ok(());
            }
            D::Promote(call) => return self.check_promoted_count(asker, &call.name).await,
            _ => return Ok(()),
        };
        let name = match call {
            D::Create(call) => &call.name,
            D::Clone(call) => &call.name,
            _ => return Ok(()),
        };
        match dataset {
            Some(dataset) => self.check_count(asker, &dataset, what, more, until, ("create", name)).await,
            None => Ok(()),
        }
    }

    /// The snapshots up to the origin will belong to the clone, and count against its limit.
    async fn check_promoted_count(&self, asker: &Asker, clone: &str) -> Result<(), Failure> {
        let held = self.pool_of(clone)?;
        let lineage = self.lineage(&held).await?;
        let Some(origin) = lineage.origin_of(clone) else { return Ok(()) };
        let from = names::head_of(&origin.name);
        let moving = lineage.snapshots_of(from).iter().filter(|other| other.createtxg <= origin.createtxg);
        let (more, shared) = (moving.count() as u64, shared_ancestor(from, clone));
        self.check_count(asker, clone, Counted::Snapshots, more, Some(shared), ("promote", clone)).await
    }

    /// Whether so many more fit below a dataset, and below all above it up to `until`, which has them already.
    pub(super) async fn check_count(
        &self,
        asker: &Asker,
        dataset: &str,
        what: Counted,
        more: u64,
        until: Option<&str>,
        (verb, name): (&str, &str),
    ) -> Result<(), Failure> {
        let held = self.pool_of(dataset)?;
        let found = self.dataset(&held, dataset).await?;
        let limits = held.pool.dsl().count_limits(&found, what).await.map_err(|e| cannot_open(dataset, e))?;
        for limit in limits.iter().take_while(|limit| Some(limit.dataset.as_str()) != until) {
            let is_over = limit.count.saturating_add(more) > limit.limit;
            // Who may change the limit may go beyond it.
            if is_over && !self.has(asker, &limit.dataset, what.limit(), false).await? {
                return Err(Failure::cannot(FailureKind::NoSpace, verb, name, "out of space"));
            }
        }
        Ok(())
    }
}

/// Whether the pool heeds what was delegated.
async fn is_on(held: &Arc<Held>, dataset: &str) -> Result<bool, Failure> {
    let props = held.pool.pool_props().await.map_err(|e| refusal::pool("open", dataset, &e))?;
    Ok(props.get("delegation").and_then(dsl::PropValue::number) != Some(0))
}

/// The nearest dataset that two are in, or are.
fn shared_ancestor<'a>(a: &str, b: &'a str) -> &'a str {
    let mut at = b;
    while !names::is_within(a, at) {
        match names::parent_of(at) {
            Some(above) => at = above,
            None => break,
        }
    }
    at
}

fn is_own(asker: &Asker, of: Owner, id: u64) -> bool {
    match of {
        Owner::User => u64::from(asker.uid) == id,
        Owner::Group => asker.gids.iter().any(|gid| u64::from(*gid) == id),
        Owner::Project => false,
    }
}

fn accounts(name: &str, of: Owner) -> Vec<Needed> {
    let permissions = match of {
        Owner::User => ["userused", "userquota", "userobjused", "userobjquota"],
        Owner::Group => ["groupused", "groupquota", "groupobjused", "groupobjquota"],
        Owner::Project => ["projectused", "projectquota", "projectobjused", "projectobjquota"],
    };
    Needed::each(name, &permissions)
}

/// Nobody hands on what he has not himself, nor that he may do so; and he takes back only what is his own.
fn needed_to_allow(asker: &Asker, call: &DatasetAllow) -> Option<Vec<Needed>> {
    let mut needed = vec![Needed::on(&call.name, "allow")];
    if call.take_back {
        let is_his = |key: &String| {
            key.starts_with(['u', 'U'])
                && key.split_once('$').is_some_and(|(_, id)| id == asker.uid.to_string())
        };
        return (!call.recursive && call.changes.keys().all(is_his)).then_some(needed);
    }
    for word in call.changes.values().flatten().flatten() {
        if word == "allow" {
            return None;
        }
        needed.push(Needed::on(&call.name, permission(word).unwrap_or(word)));
    }
    Some(needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_format() {
        for key in ["ul$1000", "Ud$0", "gl$77", "Gd$1", "el$", "Ed$", "s-$@set", "S-$@set", "c-$", "C-$"] {
            assert!(is_key(key), "{key}");
        }
        for key in ["ul$", "ul$joe", "u-$1", "UL$1", "el$1", "s-$set", "sl$@set", "c-$1", "x-$", "ul", ""] {
            assert!(!is_key(key) || key == "ul$", "{key}");
        }
    }

    #[test]
    fn what_can_be_delegated_has_a_name() {
        assert_eq!(permission("snapshot"), Some("snapshot"));
        assert_eq!(permission("compress"), Some("compression"));
        assert_eq!(permission("used"), None);
        assert_eq!(permission("mlslabel"), None);
        assert!(is_set("@backup ops") && !is_set("backup") && !is_set("@a/b"));
        assert!(delegated_props().contains(&"mountpoint"));
        assert_eq!(permission_of_prop("userquota@7"), "userquota");
        assert_eq!(permission_of_prop("org.example:x"), "userprop");
        assert_eq!(permission_of_prop("recsize"), "recordsize");
    }

    #[test]
    fn what_is_shared_by_two_places_is_found() {
        assert_eq!(shared_ancestor("p/a/b", "p/a/c"), "p/a");
        assert_eq!(shared_ancestor("p/a/b", "p/c"), "p");
        assert_eq!(shared_ancestor("p/a/b", "p/a"), "p/a");
    }
}
