//! One file, directory or special object in memory.
//!
//! ```text
//!  lookup, getattr ─► state (short mutex): attributes as of the newest change
//!  read, write     ─► lock (range) ─► dnode blocks
//!  everything else ─► lock (whole) ─► plan ─► new attributes: state and bonus together
//! ```
//! There is at most one `Znode` for an object number ([`crate::cache`]), so its lock is the
//! object's lock.
//!
//! Lock order: directory before child; two directories by `rename`'s rules; two children by
//! object number; then the delete queue's lock; then those of the ZAPs that a plan changes, which
//! the others cover. All are held until the plan is applied, and a txg is held only for that. So txgs
//! never wait for locks, and the changes of one object join their txgs in the order in which
//! they take effect.
//!
//! Invariants
//! - Attributes change only under the whole lock, except times (and nothing else) by writers
//!   that share the file; such a writer whose group is older than the newest change's leaves
//!   the times to the newer one.
//! - `newest_txg` never falls. (asserted in [`Znode::put`])

use std::sync::Arc;
use std::time::Duration;

use dmu::zap::Zap;
use dmu::{Dnode, Plan, Step, Transaction};
use journal::{Origin, RangeLock, Target};
use ondisk::NvList;
use parking_lot::Mutex;
use units::{ObjectId, Txg};

use crate::capability::CAPABILITY;
use crate::error::{Result, ZplError};
use crate::flags;
use crate::mode::{DeviceNumber, FileKind, MODE_PERMISSIONS};
use crate::sa::{SaImage, ZplAttr};
use crate::time::Timestamp;

/// What `stat` tells of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its number.
    pub object: ObjectId,
    /// Tells it from earlier objects of the same number.
    pub generation: u64,
    /// Type.
    pub kind: FileKind,
    /// Permission, set-id and sticky bits.
    pub permissions: u32,
    /// Owner. Of an owner in a foreign domain, his number there, as on Linux.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes of a file or link target; entries of a directory, `.` and `..` included.
    pub size: u64,
    /// Names that refer to it.
    pub links: u32,
    /// Space that it takes, in units of 512 bytes, what no txg has written yet included.
    pub sectors: u64,
    /// That space will not change before the object is changed.
    pub is_settled: bool,
    /// Preferred unit of I/O.
    pub block_bytes: u32,
    /// Which device, if it is one.
    pub device: DeviceNumber,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of anything.
    pub ctime: Timestamp,
    /// Creation.
    pub crtime: Timestamp,
    /// The directory it was last linked into.
    pub parent: ObjectId,
    /// Persistent flags ([`crate::flags`]).
    pub flags: u64,
    /// Its project; 0 where there are none.
    pub project: u32,
}

/// See the module.
pub struct Znode {
    object: ObjectId,
    kind: FileKind,
    pub(crate) dnode: Arc<Dnode>,
    pub(crate) lock: RangeLock,
    /// The directory's entries.
    zap: Option<Zap>,
    state: Mutex<State>,
}

struct State {
    image: SaImage,
    newest_txg: Txg,
    /// When a writer last stamped the times, and in which group; none once somebody has looked at
    /// them, or anything else was changed.
    stamped: Option<(Txg, Timestamp)>,
    opens: u64,
    life: Life,
    /// It never had a name, rather than lost its last one.
    is_unnamed: bool,
    /// The access time in memory is newer than the stored one.
    atime_dirty: bool,
    xattrs: Option<Arc<NvList>>,
    /// See [`Znode::may_have_capability`].
    lacks_capability: bool,
}

/// How long a write's times do for the writes after it: what a file system of the Linux kernel has
/// for them is no finer, but a time that somebody has seen is never used again.
const TICK: Duration = Duration::from_millis(4);

/// Of the attributes, what a write depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writable {
    pub size: u64,
    pub mode: u32,
    pub flags: u64,
    /// It has a name.
    pub is_linked: bool,
    pub life: Life,
}

/// ```text
///  Linked ─ last name removed ─► Unlinked ─ last close ─► Freed
///     └──── last name removed, not open ─────────────────► Freed
/// ```
/// An unlinked object stands in the delete queue; a crash leaves it there for the next mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Has a name.
    Linked,
    /// Has none, and is open.
    Unlinked,
    /// Its object is being freed or is free.
    Freed,
}

impl Znode {
    pub(crate) fn new(dnode: Arc<Dnode>, image: SaImage, zap: Option<Zap>) -> Result<Arc<Self>> {
        let mode = image.word(ZplAttr::Mode) as u32;
        let kind = FileKind::of_mode(mode).ok_or_else(|| ZplError::Damaged {
            objset: dnode.objset(),
            object: dnode.object(),
            what: format!("mode {mode:o} has no file type"),
        })?;
        let life = if image.word(ZplAttr::Links) == 0 { Life::Unlinked } else { Life::Linked };
        let state = State {
            image,
            newest_txg: Txg::ZERO,
            stamped: None,
            opens: 0,
            life,
            is_unnamed: false,
            atime_dirty: false,
            xattrs: None,
            lacks_capability: false,
        };
        Ok(Arc::new(Self {
            object: dnode.object(),
            kind,
            dnode,
            lock: RangeLock::default(),
            zap,
            state: Mutex::new(state),
        }))
    }

    /// The object's number.
    #[must_use]
    pub fn object(&self) -> ObjectId {
        self.object
    }

    /// Its type; never changes.
    #[must_use]
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// Whether it holds extended attributes of an object.
    pub(crate) fn is_hidden(&self) -> bool {
        self.word(ZplAttr::Flags) & flags::XATTR != 0
    }

    /// The entries of a directory.
    ///
    /// # Errors
    /// [`ZplError::NotDirectory`].
    pub(crate) fn zap(&self) -> Result<&Zap> {
        self.zap.as_ref().ok_or(ZplError::NotDirectory)
    }

    /// Everything `stat` wants, as of the newest change.
    #[must_use]
    pub fn attributes(&self) -> Attributes {
        let mut state = self.state.lock();
        // The next write must show.
        state.stamped = None;
        let image = &state.image;
        let narrow = |attr| u32::try_from(image.word(attr)).unwrap_or(u32::MAX);
        Attributes {
            object: self.object,
            generation: image.word(ZplAttr::Gen),
            kind: self.kind,
            permissions: image.word(ZplAttr::Mode) as u32 & MODE_PERMISSIONS,
            uid: image.word(ZplAttr::Uid) as u32,
            gid: image.word(ZplAttr::Gid) as u32,
            size: image.word(ZplAttr::Size),
            links: narrow(ZplAttr::Links),
            sectors: self.dnode.sectors(),
            is_settled: self.dnode.is_settled(),
            block_bytes: self.dnode.block_bytes(),
            device: DeviceNumber::decode(image.word(ZplAttr::Rdev)),
            atime: image.time(ZplAttr::Atime),
            mtime: image.time(ZplAttr::Mtime),
            ctime: image.time(ZplAttr::Ctime),
            crtime: image.time(ZplAttr::Crtime),
            parent: ObjectId::new(image.word(ZplAttr::Parent)),
            flags: image.word(ZplAttr::Flags),
            project: narrow(ZplAttr::Projid),
        }
    }

    /// What a write depends on. Stays current under any lock of the object.
    pub(crate) fn writable(&self) -> Writable {
        let state = self.state.lock();
        let image = &state.image;
        Writable {
            size: image.word(ZplAttr::Size),
            mode: image.word(ZplAttr::Mode) as u32,
            flags: image.word(ZplAttr::Flags),
            is_linked: image.word(ZplAttr::Links) > 0,
            life: state.life,
        }
    }

    /// One word of the attributes.
    pub(crate) fn word(&self, attr: ZplAttr) -> u64 {
        self.state.lock().image.word(attr)
    }

    /// Bytes of a file.
    pub(crate) fn size(&self) -> u64 {
        self.word(ZplAttr::Size)
    }

    pub(crate) fn mode(&self) -> u32 {
        self.word(ZplAttr::Mode) as u32
    }

    /// One attribute's bytes.
    pub(crate) fn bytes(&self, attr: ZplAttr) -> Option<Vec<u8>> {
        self.state.lock().image.get(attr).map(<[u8]>::to_vec)
    }

    pub(crate) fn life(&self) -> Life {
        self.state.lock().life
    }

    /// Whether it can be used at all. To be asked once the lock is held.
    ///
    /// # Errors
    /// [`ZplError::Stale`] for an object that has been freed.
    pub(crate) fn check_alive(&self) -> Result<()> {
        self.check_life(self.life())
    }

    fn check_life(&self, life: Life) -> Result<()> {
        match life {
            Life::Linked | Life::Unlinked => Ok(()),
            Life::Freed => Err(ZplError::Stale { object: self.object }),
        }
    }

    /// Whether a directory can take new entries, or a file new names.
    ///
    /// # Errors
    /// [`ZplError::NotFound`] when its last name is gone.
    pub(crate) fn check_linked(&self) -> Result<()> {
        match self.life() {
            Life::Linked => Ok(()),
            Life::Unlinked | Life::Freed => Err(ZplError::NotFound),
        }
    }

    /// Whether a file can take a further name, or the first one if it was made without.
    ///
    /// # Errors
    /// [`ZplError::NotFound`] when it has lost its last name.
    pub(crate) fn check_linkable(&self) -> Result<()> {
        let state = self.state.lock();
        match state.life {
            Life::Linked => Ok(()),
            Life::Unlinked if state.is_unnamed => Ok(()),
            Life::Unlinked | Life::Freed => Err(ZplError::NotFound),
        }
    }

    /// It was made without a name and may still get one.
    pub(crate) fn set_unnamed(&self) {
        self.state.lock().is_unnamed = true;
    }

    /// Refuses an operation that the flags forbid. Replay skips the check, because the operation
    /// was allowed, and the log may order the record of an object's flags before that of a name
    /// that the object got after the flags were cleared.
    /// (test: `names_of_a_directory_that_is_mutable_again_are_replayed`)
    ///
    /// # Errors
    /// [`ZplError::NotPermitted`].
    pub(crate) fn check_mutable(&self, origin: Origin<'_>) -> Result<()> {
        if origin.is_replay() { Ok(()) } else { check_flags(self.word(ZplAttr::Flags)) }
    }

    /// Refuses another name where the flags forbid it. What the log does again was allowed.
    ///
    /// # Errors
    /// [`ZplError::NotPermitted`].
    pub(crate) fn check_linking(&self, origin: Origin<'_>) -> Result<()> {
        self.check_mutable(origin)?;
        self.refuse(origin, flags::APPENDONLY, "append-only")
    }

    /// Refuses that a directory gives up names.
    ///
    /// # Errors
    /// [`ZplError::NotPermitted`].
    pub(crate) fn check_gives_up_names(&self, origin: Origin<'_>) -> Result<()> {
        self.refuse(origin, flags::APPENDONLY, "append-only directory")
    }

    /// Refuses that an object loses a name.
    ///
    /// # Errors
    /// [`ZplError::NotPermitted`].
    pub(crate) fn check_loses_name(&self, origin: Origin<'_>) -> Result<()> {
        self.check_mutable(origin)?;
        self.refuse(origin, flags::APPENDONLY | flags::NOUNLINK, "append-only or nounlink")
    }

    fn refuse(&self, origin: Origin<'_>, which: u64, what: &'static str) -> Result<()> {
        let binds = !origin.is_replay() && self.word(ZplAttr::Flags) & which != 0;
        if binds { Err(ZplError::NotPermitted(what)) } else { Ok(()) }
    }

    /// Whether a write at `offset` is allowed, of a file that is `now` like this.
    ///
    /// # Errors
    /// [`ZplError::Stale`], [`ZplError::NotPermitted`].
    pub(crate) fn check_write(&self, now: Writable, offset: u64) -> Result<()> {
        self.check_life(now.life)?;
        check_flags(now.flags)?;
        if now.flags & flags::APPENDONLY != 0 && offset < now.size {
            return Err(ZplError::NotPermitted("append-only"));
        }
        Ok(())
    }

    pub(crate) fn set_life(&self, life: Life) {
        let mut state = self.state.lock();
        state.life = life;
        state.is_unnamed = false;
    }

    /// A copy of the attributes to work on. Stays current only under the whole lock.
    pub(crate) fn image(&self) -> SaImage {
        self.state.lock().image.clone()
    }

    /// Plans to make `image` the object's attributes. The caller holds the whole lock until the plan ends.
    ///
    /// # Errors
    /// When they do not fit the dnode.
    pub(crate) fn store(self: &Arc<Self>, plan: &Plan, image: SaImage) -> Result<()> {
        self.dnode.check_attributes(image.bonus().len(), image.spill())?;
        let znode = Arc::clone(self);
        plan.then(move |txg| znode.put(txg, image));
        Ok(())
    }

    fn put(&self, txg: Txg, image: SaImage) {
        let mut state = self.state.lock();
        assert!(txg >= state.newest_txg, "attributes of {} join txg {txg} late", self.object);
        let spill_changed = state.image.spill() != image.spill();
        // Room for the spill pointer first, or the dnode refuses the spill block.
        self.dnode.put_bonus(txg, image.bonus_type(), image.bonus().to_vec());
        if spill_changed {
            self.dnode.put_spill(txg, image.spill().map(<[u8]>::to_vec));
        }
        state.newest_txg = txg;
        state.stamped = None;
        state.image = image;
        state.atime_dirty = false;
    }

    /// Stores the first attributes of a new object, of this generation or that of the txg.
    ///
    /// # Errors
    /// When they do not fit the dnode.
    pub(crate) fn store_first(self: &Arc<Self>, tx: &dyn Transaction, generation: Option<u64>) -> Result<()> {
        let image = self.image();
        self.dnode.check_attributes(image.bonus().len(), image.spill())?;
        let znode = Arc::clone(self);
        tx.take(Step::then(move |txg| znode.put_first(txg, generation)));
        Ok(())
    }

    fn put_first(&self, txg: Txg, generation: Option<u64>) {
        let mut state = self.state.lock();
        state.image.set_word(ZplAttr::Gen, generation.unwrap_or(txg.get()));
        self.dnode.put_bonus(txg, state.image.bonus_type(), state.image.bonus().to_vec());
        if let Some(spill) = state.image.spill() {
            self.dnode.put_spill(txg, Some(spill.to_vec()));
        }
        state.newest_txg = txg;
    }

    /// Content changed in `txg`, which the caller holds: new times, in place. For writers that share the
    /// file. Times that nobody has looked at are as good for all writes of a tick: see [`TICK`].
    pub(crate) fn touch(&self, txg: Txg, now: Timestamp) {
        let mut state = self.state.lock();
        let is_stamped = |(of, at)| of == txg && now.since(at).is_some_and(|passed: Duration| passed < TICK);
        if txg < state.newest_txg || state.stamped.is_some_and(is_stamped) {
            return;
        }
        stamp_content(&mut state.image, now);
        self.dnode.put_bonus(txg, state.image.bonus_type(), state.image.bonus().to_vec());
        state.newest_txg = txg;
        state.stamped = Some((txg, now));
        state.atime_dirty = false;
    }

    /// Sets the access time in memory; it reaches the disk with the next change, or
    /// [`Znode::take_atime`].
    pub(crate) fn set_atime(&self, now: Timestamp) {
        let mut state = self.state.lock();
        state.image.set_time(ZplAttr::Atime, now);
        state.atime_dirty = true;
    }

    pub(crate) fn atime_dirty(&self) -> bool {
        self.state.lock().atime_dirty
    }

    /// Counts a handle.
    ///
    /// # Errors
    /// [`ZplError::Stale`].
    pub(crate) fn open(&self) -> Result<()> {
        let mut state = self.state.lock();
        if state.life == Life::Freed {
            return Err(ZplError::Stale { object: self.object });
        }
        state.opens += 1;
        Ok(())
    }

    /// Counts a handle off; true when that was the last one.
    ///
    /// # Errors
    /// [`ZplError::Invalid`] when nobody has it open.
    pub(crate) fn close(&self) -> Result<bool> {
        let mut state = self.state.lock();
        state.opens = state.opens.checked_sub(1).ok_or(ZplError::Invalid("nobody has it open"))?;
        Ok(state.opens == 0)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state.lock().opens > 0
    }

    /// Turns an unlinked object that nobody has open into a freed one; false when it is not
    /// ready for that. Whoever gets true must free it.
    pub(crate) fn doom(&self, from: Life) -> bool {
        let mut state = self.state.lock();
        let ready = state.opens == 0 && state.life == from;
        if ready {
            state.life = Life::Freed;
        }
        ready
    }

    pub(crate) fn cached_xattrs(&self) -> Option<Arc<NvList>> {
        self.state.lock().xattrs.clone()
    }

    pub(crate) fn cache_xattrs(&self, xattrs: Arc<NvList>) {
        self.state.lock().xattrs = Some(xattrs);
    }

    /// False if the object has no file capabilities: it has no extended attributes, or
    /// [`Znode::note_no_capability`] was called and no capabilities were set afterwards.
    pub(crate) fn may_have_capability(&self) -> bool {
        let state = self.state.lock();
        let has_list = || state.image.get(ZplAttr::Dxattr).is_some_and(|packed| !packed.is_empty());
        !state.lacks_capability && (state.image.word(ZplAttr::Xattr) != 0 || has_list())
    }

    /// Notes that the object has no file capabilities. The caller holds the whole lock.
    pub(crate) fn note_no_capability(&self) {
        self.state.lock().lacks_capability = true;
    }

    /// Notes that an extended attribute is about to change. The caller holds the whole lock.
    pub(crate) fn note_xattr(&self, name: &[u8]) {
        if name == CAPABILITY {
            self.state.lock().lacks_capability = false;
        }
    }
}

impl Target for Znode {
    fn dnode(&self) -> &Arc<Dnode> {
        &self.dnode
    }

    fn size_bytes(&self) -> Option<u64> {
        let state = self.state.lock();
        (state.life != Life::Freed).then(|| state.image.word(ZplAttr::Size))
    }
}

fn check_flags(all: u64) -> Result<()> {
    if all & flags::IMMUTABLE != 0 {
        return Err(ZplError::NotPermitted("immutable"));
    }
    Ok(())
}

/// Sets the times and the flags of new content. Without `now`, somebody else keeps mtime and ctime.
pub(crate) fn stamp_content(image: &mut SaImage, now: impl Into<Option<Timestamp>>) {
    if let Some(now) = now.into() {
        image.set_time(ZplAttr::Mtime, now);
        set_ctime(image, now);
    }
    let flags = image.word(ZplAttr::Flags) | flags::ARCHIVE | flags::AV_MODIFIED;
    image.set_word(ZplAttr::Flags, flags);
}

/// The clock of the system may stand still for so long: two ticks of the slowest kernel.
const TICK_MAX: Duration = Duration::from_millis(20);

/// Sets ctime and the archive flag after a change of attributes.
pub(crate) fn stamp_change(image: &mut SaImage, now: Timestamp) {
    set_ctime(image, now);
    image.set_word(ZplAttr::Flags, image.word(ZplAttr::Flags) | flags::ARCHIVE);
}

/// Sets the ctime of a change at `now`. The new ctime is later than the last ctime, even if the
/// clock stands still.
fn set_ctime(image: &mut SaImage, now: Timestamp) {
    let last = image.time(ZplAttr::Ctime);
    image.set_time(ZplAttr::Ctime, if is_just_ahead(last, now) { last.next() } else { now });
}

/// Does the same with the ctime of a kernel that keeps times itself. The ctime of the kernel is set
/// unless the last ctime is newer.
pub(crate) fn stamp_change_at(image: &mut SaImage, ctime: Timestamp) {
    let last = image.time(ZplAttr::Ctime);
    image.set_time(ZplAttr::Ctime, if is_just_ahead(last, ctime) { last } else { ctime });
    image.set_word(ZplAttr::Flags, image.word(ZplAttr::Flags) | flags::ARCHIVE);
}

/// Returns true if `last` is `now`, or a little later because the clock stands still. Returns false
/// if somebody has set the clock back.
fn is_just_ahead(last: Timestamp, now: Timestamp) -> bool {
    last.since(now).is_some_and(|ahead| ahead < TICK_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_just_ahead_if_the_clock_stands_still_and_not_if_the_clock_was_set_back() {
        let at = |nanos| Timestamp { secs: 9, nanos };
        assert!(!is_just_ahead(at(5), at(7)), "the clock went on");
        assert!(is_just_ahead(at(5), at(5)));
        assert!(
            is_just_ahead(Timestamp { secs: 10, nanos: 0 }, at(999_999_999)),
            "a second change in the same tick"
        );
        assert!(!is_just_ahead(Timestamp { secs: 10, nanos: 0 }, at(0)), "the clock was set back");
    }
}
