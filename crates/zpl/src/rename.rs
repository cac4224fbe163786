//! Renames: within a directory, between directories, and exchanges.
//!
//! A rename between directories changes the shape of the tree, so only one runs at a time
//! (`Zfs::moving`). That fixes who is above whom while the locks are taken: of two related
//! directories the upper is locked first, of unrelated ones the lower object number; then the
//! things renamed, by object number. Everybody else locks downwards only, one step, so no
//! circle can form.
//!
//! (test: `a_directory_never_becomes_its_own_descendant`)

use std::sync::Arc;

use dmu::Plan;
use env::boxed;
use journal::{Origin, RangeGuard};
use ondisk::zil::LogRecord;
use ondisk::zil::record::{LrRename, LrRenameWhiteout};
use units::ObjectId;

use crate::access::Want;
use crate::create::{Birth, NewNode, entry_added, entry_removed};
use crate::error::{Result, ZplError};
use crate::flags;
use crate::mode::{DeviceNumber, FileKind};
use crate::options::Cred;
use crate::quota::check_project;
use crate::sa::{SaImage, ZplAttr};
use crate::time::Timestamp;
use crate::unlink::Loss;
use crate::zfs::Zfs;
use crate::znode::{Znode, stamp_change, stamp_content};

/// Deeper nesting than this is taken for a circle in a damaged tree.
const DEPTH_MAX: usize = 1 << 16;

/// What to do about a new name that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// Replace what it refers to.
    Replace,
    /// Fail (`RENAME_NOREPLACE`).
    NoReplace,
    /// It must be taken: exchange the two (`RENAME_EXCHANGE`).
    Exchange,
}

/// What a rename is to do.
struct How {
    mode: RenameMode,
    /// What to leave behind.
    whiteout: Option<Birth>,
}

/// A whiteout is a character device of number 0, 0.
const WHITEOUT: NewNode<'_> = NewNode::CharDevice(DeviceNumber { major: 0, minor: 0 });

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The directory.
    pub dir: ObjectId,
    /// The name.
    pub name: &'a [u8],
}

/// The two directories of a rename, locked; one and the same where they are.
struct Dirs {
    source: Arc<Znode>,
    target: Arc<Znode>,
    _locks: [Option<RangeGuard>; 2],
}

impl Dirs {
    fn same(&self) -> bool {
        self.source.object() == self.target.object()
    }
}

impl Zfs {
    /// Gives what stands at `from` the name `to`.
    ///
    /// # Errors
    /// [`ZplError::NotFound`]; [`ZplError::Exists`] with [`RenameMode::NoReplace`];
    /// [`ZplError::NotEmpty`], [`ZplError::IsDirectory`] and [`ZplError::NotDirectory`] when
    /// the target cannot be replaced; [`ZplError::Invalid`] when a directory would come to lie
    /// in itself.
    #[boxed]
    pub async fn rename(&self, from: Place<'_>, to: Place<'_>, mode: RenameMode) -> Result<()> {
        self.check_writable()?;
        self.rename_by(Origin::Client, from, to, mode, None).await?;
        self.commit_if_always(from.dir).await
    }

    /// [`Zfs::rename`] that leaves a whiteout in its place (`RENAME_WHITEOUT`), all in one.
    ///
    /// # Errors
    /// As there.
    #[boxed]
    pub async fn rename_leaving_whiteout(&self, from: Place<'_>, to: Place<'_>, cred: Cred) -> Result<()> {
        self.check_writable()?;
        self.check_maker(cred, None)?;
        let birth = Birth {
            uid: cred.uid,
            gid: cred.gid,
            born: self.now(),
            slots: self.dnode_slots(),
            ..Birth::default()
        };
        self.rename_by(Origin::Client, from, to, RenameMode::Replace, Some(birth)).await?;
        self.commit_if_always(from.dir).await
    }

    pub(crate) async fn rename_by(
        &self,
        origin: Origin<'_>,
        from: Place<'_>,
        to: Place<'_>,
        mode: RenameMode,
        whiteout: Option<Birth>,
    ) -> Result<()> {
        self.check_old_name(from.name)?;
        self.check_name(to.name)?;
        if mode == RenameMode::Exchange || whiteout.is_some() {
            // Something new gets the old name.
            self.check_name(from.name)?;
        }
        let orphan = if from.dir == to.dir {
            let dir = self.directory(from.dir).await?;
            let lock = dir.lock.whole().await;
            let dirs = Dirs { source: Arc::clone(&dir), target: dir, _locks: [Some(lock), None] };
            self.rename_between(origin, &dirs, from, to, How { mode, whiteout }, &Related::default()).await?
        } else {
            let _moving = self.moving.lock().await;
            let (dirs, related) = self.lock_two(from.dir, to.dir).await?;
            self.rename_between(origin, &dirs, from, to, How { mode, whiteout }, &related).await?
        };
        if let Some(znode) = orphan {
            self.reap_or_leave(&znode).await;
        }
        Ok(())
    }

    /// Locks two directories, the upper first. The tree does not move meanwhile.
    async fn lock_two(&self, source: ObjectId, target: ObjectId) -> Result<(Dirs, Related)> {
        let related = Related {
            above_source: self.ancestors(source).await?,
            above_target: self.ancestors(target).await?,
        };
        let (source, target) = (self.directory(source).await?, self.directory(target).await?);
        let source_first = related.above_target.contains(&source.object())
            || (!related.above_source.contains(&target.object()) && source.object() < target.object());
        let (first, second) = if source_first { (&source, &target) } else { (&target, &source) };
        let locks = [Some(first.lock.whole().await), Some(second.lock.whole().await)];
        Ok((Dirs { source, target, _locks: locks }, related))
    }

    /// The directory itself and all above it, to the root.
    async fn ancestors(&self, dir: ObjectId) -> Result<Vec<ObjectId>> {
        let mut chain = vec![dir];
        let mut at = dir;
        while at != self.root() {
            at = self.directory(at).await?.attributes().parent;
            chain.push(at);
            if chain.len() > DEPTH_MAX {
                let what = "its parents form a circle".to_owned();
                return Err(ZplError::Damaged { objset: self.os.id(), object: dir, what });
            }
        }
        Ok(chain)
    }

    /// The rename proper, directories locked. Returns what lost its last name and must be
    /// seen to.
    async fn rename_between(
        &self,
        origin: Origin<'_>,
        dirs: &Dirs,
        from: Place<'_>,
        to: Place<'_>,
        how: How,
        related: &Related,
    ) -> Result<Option<Arc<Znode>>> {
        let How { mode, whiteout } = how;
        for dir in [&dirs.source, &dirs.target] {
            dir.check_linked()?;
            dir.check_mutable(origin)?;
        }
        let (_, moved) = self.existing(&dirs.source, from.name).await?;
        let taken = self.entry_of(&dirs.target, to.name).await?.map(|(_, znode)| znode);
        let taken = match (mode, taken) {
            (RenameMode::Exchange, None) => return Err(ZplError::NotFound),
            (RenameMode::NoReplace, Some(_)) => return Err(ZplError::Exists),
            (_, Some(taken)) if taken.object() == moved.object() => return Ok(None),
            (_, taken) => taken,
        };
        related.check(&moved, taken.as_deref(), mode)?;
        let _locks = lock_children(&moved, taken.as_deref()).await;
        dirs.source.check_gives_up_names(origin)?;
        moved.check_loses_name(origin)?;
        if let Some(taken) = &taken {
            dirs.target.check_gives_up_names(origin)?;
            taken.check_loses_name(origin)?;
        }
        self.check_rename(origin, dirs, &moved, taken.as_deref(), mode).await?;
        if !origin.is_replay() {
            check_project(&dirs.target, &moved)?;
            match &taken {
                Some(other) if mode == RenameMode::Exchange => check_project(&dirs.source, other)?,
                _ => {}
            }
        }
        let logged = self.is_logged();
        let record = || LrRename {
            source_dir: from.dir,
            target_dir: to.dir,
            source: from.name.to_vec(),
            target: to.name.to_vec(),
        };
        match (mode, taken) {
            (RenameMode::Exchange, Some(other)) => {
                let plan = self.plan().await?;
                self.exchange(&plan, dirs, from, to, [&moved, &other]).await?;
                plan.apply_with(|txg| {
                    self.journal.names(origin, txg, logged, || LogRecord::RenameExchange(record()));
                })?;
                Ok(None)
            }
            (_, taken) => {
                let loss = match &taken {
                    Some(taken) => {
                        check_replaceable(&moved, taken)?;
                        Some(self.plan_loss(taken).await?)
                    }
                    None => None,
                };
                let orphan = loss.as_ref().is_some_and(Loss::is_queued);
                let newborn = match &whiteout {
                    Some(birth) => Some(self.newborn(&dirs.source, WHITEOUT, birth).await?),
                    None => None,
                };
                let plan = self.plan().await?;
                let left = newborn.is_some().then_some(WHITEOUT.kind());
                self.replace(&plan, dirs, from, to, &moved, (loss.as_ref(), left)).await?;
                let whiteout = match whiteout.zip(newborn) {
                    Some((birth, image)) => {
                        let znode =
                            self.leave_whiteout(&plan, &dirs.source, from.name, &birth, image).await?;
                        Some((znode, birth))
                    }
                    None => None,
                };
                plan.apply_with(|txg| {
                    if let Some(loss) = loss {
                        self.name_lost(loss);
                    }
                    if let Some((znode, _)) = &whiteout {
                        self.cache.insert(Arc::clone(znode));
                    }
                    self.journal.names_with(origin, txg, logged, moved.object(), || match &whiteout {
                        Some((znode, birth)) => whiteout_record(record(), znode, birth),
                        None => LogRecord::Rename(record()),
                    });
                })?;
                Ok(taken.filter(|_| orphan))
            }
        }
    }

    /// Whether names may go and come so. Directories and what they name are locked.
    async fn check_rename(
        &self,
        origin: Origin<'_>,
        dirs: &Dirs,
        moved: &Znode,
        taken: Option<&Znode>,
        mode: RenameMode,
    ) -> Result<()> {
        self.check_removal(origin, &dirs.source, moved).await?;
        self.check(origin, &dirs.target, Want::add(moved.kind())).await?;
        if let Some(taken) = taken {
            self.check_removal(origin, &dirs.target, taken).await?;
        }
        self.check_moves(origin, dirs, moved).await?;
        match taken {
            Some(taken) if mode == RenameMode::Exchange => {
                self.check(origin, &dirs.source, Want::add(taken.kind())).await?;
                self.check_moves(origin, dirs, taken).await
            }
            _ => Ok(()),
        }
    }

    /// A directory that comes to lie in another is changed: its `..` is another.
    async fn check_moves(&self, origin: Origin<'_>, dirs: &Dirs, moved: &Znode) -> Result<()> {
        if moved.kind() != FileKind::Directory || dirs.same() {
            return Ok(());
        }
        self.check(origin, moved, Want::MOVE).await
    }

    /// Plans that `moved` gets its new name, where `loss` is what that name stood for; `left` is the kind of what
    /// is to stand under the old one.
    async fn replace(
        &self,
        plan: &Plan,
        dirs: &Dirs,
        from: Place<'_>,
        to: Place<'_>,
        moved: &Arc<Znode>,
        (loss, left): (Option<&Loss<'_>>, Option<FileKind>),
    ) -> Result<()> {
        let now = self.now();
        let entry = self.entry_for(moved);
        match loss {
            Some(_) => dirs.target.zap()?.update_u64(plan, to.name, entry).await?,
            None => dirs.target.zap()?.add_u64(plan, to.name, entry).await?,
        }
        dirs.source.zap()?.remove(plan, from.name).await?;
        arrive(plan, moved, &dirs.target, now)?;
        let leave = |image: &mut SaImage| {
            entry_removed(image, moved.kind());
            if let Some(left) = left {
                entry_added(image, left);
            }
        };
        let mut target_image = dirs.target.image();
        entry_added(&mut target_image, moved.kind());
        if let Some(loss) = loss {
            entry_removed(&mut target_image, loss.kind());
        }
        if dirs.same() {
            leave(&mut target_image);
        } else {
            let mut source_image = dirs.source.image();
            leave(&mut source_image);
            stamp_content(&mut source_image, now);
            dirs.source.store(plan, source_image)?;
        }
        stamp_content(&mut target_image, now);
        dirs.target.store(plan, target_image)?;
        match loss {
            Some(loss) => self.lose_name(plan, loss, now).await,
            None => Ok(()),
        }
    }

    /// Plans a whiteout where a name was: what a union file system takes for "not here".
    async fn leave_whiteout(
        &self,
        plan: &Plan,
        dir: &Znode,
        name: &[u8],
        birth: &Birth,
        image: SaImage,
    ) -> Result<Arc<Znode>> {
        let znode = self.bring_up(plan, WHITEOUT, birth, image).await?;
        let entry = self.entry_for(&znode);
        dir.zap()?.add_u64(plan, name, entry).await?;
        Ok(znode)
    }

    async fn exchange(
        &self,
        plan: &Plan,
        dirs: &Dirs,
        from: Place<'_>,
        to: Place<'_>,
        [moved, other]: [&Arc<Znode>; 2],
    ) -> Result<()> {
        let now = self.now();
        dirs.source.zap()?.update_u64(plan, from.name, self.entry_for(other)).await?;
        dirs.target.zap()?.update_u64(plan, to.name, self.entry_for(moved)).await?;
        arrive(plan, moved, &dirs.target, now)?;
        arrive(plan, other, &dirs.source, now)?;
        for (dir, came, left) in [(&dirs.source, other, moved), (&dirs.target, moved, other)] {
            let mut image = dir.image();
            if !dirs.same() {
                entry_added(&mut image, came.kind());
                entry_removed(&mut image, left.kind());
            }
            stamp_content(&mut image, now);
            dir.store(plan, image)?;
        }
        Ok(())
    }
}

/// The directories above each of the two, themselves included. Empty within one directory,
/// where nothing can come to lie in itself.
#[derive(Default)]
struct Related {
    above_source: Vec<ObjectId>,
    above_target: Vec<ObjectId>,
}

impl Related {
    fn check(&self, moved: &Znode, taken: Option<&Znode>, mode: RenameMode) -> Result<()> {
        if self.above_target.contains(&moved.object()) {
            return Err(ZplError::Invalid("a directory cannot be moved into itself"));
        }
        match taken {
            Some(taken) if self.above_source.contains(&taken.object()) => match mode {
                RenameMode::Exchange => Err(ZplError::Invalid("a directory cannot be moved into itself")),
                RenameMode::Replace | RenameMode::NoReplace => Err(ZplError::NotEmpty),
            },
            _ => Ok(()),
        }
    }
}

fn check_replaceable(moved: &Znode, taken: &Znode) -> Result<()> {
    match (moved.kind() == FileKind::Directory, taken.kind() == FileKind::Directory) {
        (true, false) => Err(ZplError::NotDirectory),
        (false, true) => Err(ZplError::IsDirectory),
        _ => Ok(()),
    }
}

async fn lock_children(moved: &Znode, taken: Option<&Znode>) -> [Option<RangeGuard>; 2] {
    match taken {
        None => [Some(moved.lock.whole().await), None],
        Some(taken) => {
            let (first, second) =
                if moved.object() < taken.object() { (moved, taken) } else { (taken, moved) };
            [Some(first.lock.whole().await), Some(second.lock.whole().await)]
        }
    }
}

/// The attributes of something that has come to lie in `dir`.
fn arrive(plan: &Plan, znode: &Arc<Znode>, dir: &Znode, now: Timestamp) -> Result<()> {
    let mut image = znode.image();
    image.set_word(ZplAttr::Parent, dir.object().get());
    let handed_on = dir.word(ZplAttr::Flags) & flags::PROJINHERIT;
    image.set_word(ZplAttr::Flags, image.word(ZplAttr::Flags) | flags::AV_MODIFIED | handed_on);
    stamp_change(&mut image, now);
    znode.store(plan, image)
}

fn whiteout_record(rename: LrRename, znode: &Znode, birth: &Birth) -> LogRecord {
    LogRecord::RenameWhiteout(LrRenameWhiteout {
        rename,
        object: znode.object(),
        slots: birth.slots,
        mode: znode.mode().into(),
        uid: birth.uid.into(),
        gid: birth.gid.into(),
        generation: znode.word(ZplAttr::Gen),
        crtime: birth.born.into(),
        rdev: 0,
    })
}
