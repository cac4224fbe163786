//! What of a stream is received for somebody else than the daemon's own user.
//!
//! ```text
//!  snapshot of a stream ─► receive (without -F, receive:append will do), mount and create on its dataset,
//!                          or on the one that a new one will be in; on its origin, clone, send or receive
//!  property, hold       ─► the permission of that, else it is left out, which is told
//!  mount point          ─► a place that is the user's to choose, else it is left out too: see `placing`
//!  package              ─► what renames, promotes and destroys takes, else it is put off
//! ```
//! What is new is not mounted; what is mounted is unmounted for the moment in which it changes, and mounted again at the same
//! place. (test: `streams_are_sent_and_received_for_whom_that_was_delegated_to`)

use super::Carried;
use super::words::prefix;
use crate::delegation::{Needed, permission_of_prop};
use crate::placing::{self, PlaceRefusal};
use crate::{Held, Holder, names};
use control::{DatasetReceive, Delegated, Failure, FailureKind, Peer};
use dsl::{Asker, Counted, PropValue};
use ondisk::send::DrrBegin;

fn asker(peer: &Peer) -> Asker {
    Asker { uid: peer.uid, gids: peer.gids.clone() }
}

fn cannot_read(head: &str, why: &str) -> Failure {
    Failure::cannot(FailureKind::Other, "receive properties of", head, why)
}

fn denied_prop(name: &str, head: &str) -> String {
    format!("cannot receive {name} property on {head}: permission denied")
}

/// True if the command or the stream names a property.
fn is_named(call: &DatasetReceive, carried: &Carried, name: &str) -> bool {
    let typed = call.props.iter().map(|(name, _)| name);
    let came = carried.props.iter().flatten().map(|(name, _)| name);
    typed.chain(came).chain(&carried.inherited).any(|other| other == name)
}

impl Holder {
    /// Whether who asks may have this snapshot received.
    ///
    /// # Errors
    /// That he may not, or that there would be too many.
    pub(super) async fn check_receiver(
        &self,
        call: &DatasetReceive,
        begin: &DrrBegin,
        snapshot: &str,
    ) -> Result<(), Failure> {
        let Some(maker) = call.maker.as_ref().map(asker) else { return Ok(()) };
        let head = names::head_of(snapshot);
        let denied = || {
            let line = format!("{}: permission denied", prefix(begin));
            Failure::new(FailureKind::Denied, line)
        };
        let is_there = self.is_there(head).await?;
        let at = self.receives_at(call, &maker, head).await?.ok_or_else(denied)?;
        if is_there && !call.heal && begin.fromguid.get() == 0 {
            self.refuse_mounted_below(head)?;
        }
        let counted =
            if is_there { &[Counted::Snapshots][..] } else { &[Counted::Filesystems, Counted::Snapshots] };
        for what in counted {
            let checked = self.check_count(&maker, &at, *what, 1, None, ("receive", head)).await;
            checked.map_err(|failure| match failure.kind {
                FailureKind::NoSpace => {
                    let line = format!("{}: destination {head} space quota exceeded.", prefix(begin));
                    Failure::new(FailureKind::NoSpace, line)
                }
                _ => failure,
            })?;
        }
        Ok(())
    }

    /// Refuses an origin that the user may neither clone nor send, and into whose dataset the user may not
    /// receive. What is received on top of an origin shows all of the origin.
    pub(super) async fn check_origin(
        &self,
        call: &DatasetReceive,
        begin: &DrrBegin,
        origin: &str,
    ) -> Result<(), Failure> {
        let Some(maker) = call.maker.as_ref().map(asker) else { return Ok(()) };
        for permission in ["clone", "send", "receive"] {
            if self.has(&maker, names::head_of(origin), permission, false).await? {
                return Ok(());
            }
        }
        let line = format!("{}: permission denied for origin {origin}", prefix(begin));
        Err(Failure::new(FailureKind::Denied, line))
    }

    /// The dataset whose permissions let somebody receive into a head: itself, or what it will be in. None: he may not.
    async fn receives_at(
        &self,
        call: &DatasetReceive,
        maker: &Asker,
        head: &str,
    ) -> Result<Option<String>, Failure> {
        let at = match self.is_there(head).await? {
            true => Some(head.to_owned()),
            false => self.parent_of_new(head, true).await?,
        };
        let Some(at) = at else { return Ok(None) };
        let receives = self.has(maker, &at, "receive", false).await?
            || !call.force && self.has(maker, &at, "receive:append", false).await?;
        let may = receives && self.has_all(maker, Needed::each(&at, &["mount", "create"])).await?;
        Ok(may.then_some(at))
    }

    /// Whether what is there is made to follow a package: for who may receive at its top.
    pub(super) async fn may_align(&self, call: &DatasetReceive, head: &str) -> Result<bool, Failure> {
        match call.maker.as_ref().map(asker) {
            Some(maker) => Ok(self.receives_at(call, &maker, head).await?.is_some()),
            None => Ok(true),
        }
    }

    async fn is_there(&self, head: &str) -> Result<bool, Failure> {
        Ok(self.pool_of(head)?.pool.dsl().resolve(head).await.is_ok())
    }

    /// Leaves out of what is to be received with a snapshot what who asks may not have changed; tells of it.
    pub(super) async fn leave_out_denied(
        &self,
        held: &Held,
        call: &mut DatasetReceive,
        carried: &mut Carried,
        snapshot: &str,
    ) -> Result<Vec<String>, Failure> {
        let Some(peer) = call.maker.clone() else { return Ok(Vec::new()) };
        let maker = asker(&peer);
        let head = names::head_of(snapshot);
        let is_there = self.is_there(head).await?;
        let at = if is_there { Some(head.to_owned()) } else { self.parent_of_new(head, true).await? };
        let at = at.unwrap_or_else(|| head.to_owned());
        let is_mounted = self.refuse_mounted_below(head).is_err();
        let mut warnings = Vec::new();
        if !is_mounted && self.has(&maker, &at, placing::MOUNTPOINT, !is_there).await? {
            warnings.extend(self.leave_out_path(held, &peer, carried, head));
        }
        // A stream with properties takes back those that earlier streams brought.
        let earlier = match is_there && carried.props.is_some() {
            true => self.received_props(held, head).await.map_err(|why| cannot_read(head, &why))?,
            false => Vec::new(),
        };
        let props = carried.props.iter().flatten().map(|(name, _)| name);
        let mut asked: Vec<String> = call
            .props
            .iter()
            .map(|(name, _)| name)
            .filter(|name| *name != super::ORIGIN)
            .chain(props)
            .chain(&carried.inherited)
            .chain(earlier.iter().map(|prop| &prop.name))
            .cloned()
            .collect();
        asked.sort();
        asked.dedup();
        let mut denied = Vec::new();
        for name in asked {
            let permission = permission_of_prop(&name);
            let moves = is_mounted && placing::PLACING.contains(&permission.as_str());
            let why = if moves || !self.has(&maker, &at, &permission, !is_there).await? {
                None
            } else {
                match self
                    .check_received_place(held, &peer, (head, is_there), (&*call, &*carried, &name))
                    .await
                {
                    Ok(()) => continue,
                    Err(why) => Some(why),
                }
            };
            if is_named(call, carried, &name) {
                warnings.push(denied_prop(&name, head));
                warnings.extend(why);
            }
            denied.push(name);
        }
        let is_denied = |name: &String| denied.contains(name);
        call.props.retain(|(name, _)| !is_denied(name));
        carried.inherited.retain(|name| !is_denied(name));
        if let Some(props) = &mut carried.props {
            props.retain(|(name, _)| !is_denied(name));
            let kept = earlier.into_iter().filter(|prop| is_denied(&prop.name));
            props.extend(kept.map(|prop| (prop.name, prop.value)));
        }
        if !carried.snap_props.is_empty() && !self.has(&maker, &at, "userprop", true).await? {
            let names = carried.snap_props.drain(..).map(|(name, _)| name);
            warnings.extend(
                names.map(|name| format!("cannot receive {name} property on {snapshot}: permission denied")),
            );
        }
        if !carried.holds.is_empty() && !self.has(&maker, &at, "hold", !is_there).await? {
            carried.holds.clear();
            warnings.push(format!("cannot hold snapshot '{snapshot}': permission denied"));
        }
        Ok(warnings)
    }

    /// Leaves out the mount point of a stream if the user could not have chosen it. The user may still
    /// choose another one. Returns the warnings. With `-x mountpoint`, the user has left it out already.
    fn leave_out_path(&self, held: &Held, maker: &Peer, carried: &mut Carried, head: &str) -> Vec<String> {
        let mut warnings = Vec::new();
        let is_excluded = carried.inherited.iter().any(|name| name == placing::MOUNTPOINT);
        if let Some(props) = &mut carried.props {
            props.retain(|(name, value)| {
                let path = placing::path_in(value).filter(|_| name == placing::MOUNTPOINT);
                let refused = path.and_then(|path| self.check_chosen(held, maker, path).err());
                let is_kept = refused.is_none();
                let told = refused.filter(|_| !is_excluded);
                warnings.extend(told.into_iter().flat_map(|why| [denied_prop(name, head), why]));
                is_kept
            });
        }
        warnings
    }

    /// Checks a property of a stream, or of its command, that decides where the dataset is mounted.
    async fn check_received_place(
        &self,
        held: &Held,
        maker: &Peer,
        (head, is_there): (&str, bool),
        (call, carried, name): (&DatasetReceive, &Carried, &str),
    ) -> Result<(), PlaceRefusal> {
        let property = placing::proper(name);
        if !placing::PLACING.contains(&property) {
            return Ok(());
        }
        let typed = call.props.iter().filter(|(typed, _)| placing::proper(typed) == property);
        let typed = typed.map(|(_, text)| PropValue::Text(text.clone()));
        let is_kept = !carried.inherited.iter().any(|inherited| inherited == name);
        let came = carried.props.iter().flatten().filter(|(came, _)| came == name);
        let values: Vec<PropValue> = typed.chain(came.map(|(_, value)| value.clone())).collect();
        if property == placing::MOUNTPOINT {
            for path in values.iter().filter_map(placing::path_in) {
                self.check_chosen(held, maker, path)?;
            }
        }
        let is_off = |value: &PropValue| *value == placing::OFF || value.text() == Some("off");
        match is_there {
            // The place of a new dataset is checked when all properties are known.
            false => Ok(()),
            true if property != placing::MOUNTPOINT => {
                match !values.is_empty() && values.iter().all(is_off) {
                    true => Ok(()),
                    false => self.check_present(held, maker, head, property).await,
                }
            }
            true if is_kept && !values.is_empty() => Ok(()),
            true => self.check_inherited(held, maker, head).await,
        }
    }

    /// Refuses a new dataset that would be mounted where the user may have nothing mounted.
    pub(super) async fn check_received_new(
        &self,
        held: &Held,
        (call, carried, is_top): (&DatasetReceive, &Carried, bool),
        begin: &DrrBegin,
        snapshot: &str,
    ) -> Result<(), Failure> {
        let Some(maker) = &call.maker else { return Ok(()) };
        let typed = call.props.iter().filter(|(name, _)| is_top && name == placing::MOUNTPOINT);
        let typed = typed.map(|(name, text)| (name.clone(), PropValue::Text(text.clone())));
        let is_taken = |name: &String| !carried.inherited.contains(name);
        let came = carried.props.iter().flatten().filter(|(name, _)| is_taken(name)).cloned();
        let props: Vec<_> = came.chain(typed).collect();
        let kind = super::kind_of(begin);
        let name = (names::head_of(snapshot), true);
        let checked = self.new_place(held, maker, name, kind, &props).await;
        checked.map_err(|why| {
            let line = format!("{}: permission denied", prefix(begin));
            Failure::new(FailureKind::Denied, line).and(why)
        })
    }

    /// Whether who asks may have something done that a package takes.
    pub(crate) async fn check_for_maker(
        &self,
        call: &DatasetReceive,
        what: Delegated,
    ) -> Result<(), Failure> {
        let Some(maker) = &call.maker else { return Ok(()) };
        match self.check_delegated(maker.clone(), what).await? {
            true => Ok(()),
            false => Err(Failure::new(FailureKind::Denied, "permission denied")),
        }
    }

    /// Tells somebody else than the daemon's own user that what he has received he cannot mount.
    pub(super) async fn refuse_mount(&self, held: &Held, head: &str) -> Result<(), Failure> {
        match self.is_to_be_mounted(held, head).await? {
            true => Err(Failure::cannot(FailureKind::Denied, "mount", head, "Insufficient privileges")),
            false => Ok(()),
        }
    }
}
