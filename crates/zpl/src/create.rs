//! Making files, directories, links and special objects.

use std::sync::Arc;

use dmu::zap::Zap;
use dmu::{DmuError, Dnode, DnodeSpec, Plan};
use env::boxed;
use journal::Origin;
use ondisk::ObjectType;
use ondisk::zil::LogRecord;
use ondisk::zil::record::LrCreate;
use units::ObjectId;

use crate::access::Want;
use crate::acl::Acl;
use crate::error::{Result, ZplError};
use crate::flags;
use crate::mode::{DeviceNumber, FileKind, MODE_PERMISSIONS, MODE_SETGID};
use crate::new_object::{NewAttributes, bonus_capacity, new_attributes};
use crate::options::Cred;
use crate::posix_acl;
use crate::quota::Charged;
use crate::sa::{SaImage, ZplAttr, is_inline};
use crate::time::Timestamp;
use crate::xattr::{CommitScope, XattrMode, packed_xattrs};
use crate::xvattr::Extra;
use crate::zfs::Zfs;
use crate::znode::{Attributes, Znode, stamp_content};

/// The longest text of a symbolic link, in bytes.
const TARGET_MAX: usize = 4095;

/// Blocks of data are multiples of this size.
const SECTOR_BYTES: usize = 512;

/// Read, write and execute for everybody: what every symbolic link has.
const MODE_ALL: u32 = 0o777;

/// What is to be made.
#[derive(Clone, Copy, Debug)]
pub enum NewNode<'a> {
    /// An empty plain file.
    File,
    /// An empty directory.
    Directory,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice(DeviceNumber),
    /// A block device.
    BlockDevice(DeviceNumber),
    /// A symbolic link with this text.
    Symlink(&'a [u8]),
}

impl<'a> NewNode<'a> {
    pub(crate) fn kind(self) -> FileKind {
        match self {
            Self::File => FileKind::File,
            Self::Directory => FileKind::Directory,
            Self::Fifo => FileKind::Fifo,
            Self::Socket => FileKind::Socket,
            Self::CharDevice(_) => FileKind::CharDevice,
            Self::BlockDevice(_) => FileKind::BlockDevice,
            Self::Symlink(_) => FileKind::Symlink,
        }
    }

    fn device(self) -> Option<DeviceNumber> {
        match self {
            Self::CharDevice(device) | Self::BlockDevice(device) => Some(device),
            _ => None,
        }
    }

    fn target(self) -> Option<&'a [u8]> {
        match self {
            Self::Symlink(target) => Some(target),
            _ => None,
        }
    }
}

/// What a new object gets that is not the caller's to say, but the log's at replay.
#[derive(Clone, Debug, Default)]
pub(crate) struct Birth {
    pub uid: u32,
    pub gid: u32,
    pub permissions: u32,
    pub born: Timestamp,
    pub slots: u8,
    /// Number and generation, where they are given.
    pub identity: Option<(ObjectId, u64)>,
    /// An ACL of its own; the permissions follow from it.
    pub acl: Option<Acl>,
    /// Additional attributes.
    pub extra: Extra,
    /// Extended attributes that it has from the beginning, as system attributes.
    pub xattrs: Vec<(&'static [u8], Vec<u8>)>,
}

/// The ACLs that follow from a directory's default ACL, by name.
pub(crate) type NewAcls = Vec<(&'static [u8], Vec<u8>)>;

impl Zfs {
    /// Makes `node` under `name` in `dir`. Of `permissions` the bits in the umask are dropped;
    /// a symbolic link has all, whatever is asked for. The group is the directory's where that
    /// is set-group-id.
    ///
    /// # Errors
    /// [`ZplError::Exists`], those of the name, and those of the layers below.
    #[boxed]
    pub async fn create(
        &self,
        dir: ObjectId,
        name: &[u8],
        node: NewNode<'_>,
        permissions: u32,
        cred: Cred,
    ) -> Result<Attributes> {
        self.check_writable()?;
        let parent = self.directory(dir).await?;
        let (birth, acls) = self.birth_in(&parent, node, permissions, cred).await?;
        let mut attributes = self.create_by(Origin::Client, &parent, name, node, birth).await?;
        if !acls.is_empty() {
            self.hand_on(attributes.object, &acls).await?;
            attributes = self.attributes(attributes.object).await?;
        }
        self.commit_if_always(attributes.object).await?;
        Ok(attributes)
    }

    /// What a new object gets from its directory and from whoever makes it; and the ACLs that it cannot have
    /// from the beginning, for they go to files (`xattr=dir`).
    pub(crate) async fn birth_in(
        &self,
        parent: &Arc<Znode>,
        node: NewNode<'_>,
        permissions: u32,
        cred: Cred,
    ) -> Result<(Birth, NewAcls)> {
        self.check_maker(cred, node.device())?;
        let inherits = parent.mode() & MODE_SETGID != 0;
        let gid = if inherits { parent.word(ZplAttr::Gid) as u32 } else { cred.gid };
        let default_acl = match node.kind() {
            FileKind::Symlink => None,
            _ => self.default_acl(parent).await?,
        };
        let acl = default_acl.clone().map(|acl| acl.inherited(permissions));
        let masked = match &acl {
            Some(acl) => permissions & MODE_PERMISSIONS & !MODE_ALL | acl.permissions(),
            None => permissions & MODE_PERMISSIONS & !cred.umask,
        };
        let permissions = match node.kind() {
            FileKind::Symlink => MODE_ALL,
            FileKind::Directory if inherits => masked | MODE_SETGID,
            FileKind::Directory => masked,
            _ => self.permissions_of_new(masked, gid),
        };
        let default = default_acl.filter(|_| node.kind() == FileKind::Directory);
        let default = default.map(|default| (posix_acl::DEFAULT, default.encode()));
        let access = acl.filter(|access| !access.is_minimal());
        let access = access.map(|access| (posix_acl::ACCESS, access.encode()));
        let acls: NewAcls = default.into_iter().chain(access).collect();
        let (xattrs, acls) = if self.are_system(&acls) { (acls, Vec::new()) } else { (Vec::new(), acls) };
        let birth = Birth {
            uid: cred.uid,
            gid,
            permissions,
            born: self.now(),
            slots: self.dnode_slots(),
            xattrs,
            ..Birth::default()
        };
        Ok((birth, acls))
    }

    /// Gives a new object the ACLs that follow from its directory's. Its mode was masked before,
    /// so nobody has had more rights meanwhile.
    pub(crate) async fn hand_on(&self, made: ObjectId, acls: &NewAcls) -> Result<()> {
        for (name, value) in acls {
            self.change_xattr(made, name, Some(value), XattrMode::Set).await?;
        }
        Ok(())
    }

    /// [`Zfs::create`], with everything decided.
    pub(crate) async fn create_by(
        &self,
        origin: Origin<'_>,
        parent: &Arc<Znode>,
        name: &[u8],
        node: NewNode<'_>,
        birth: Birth,
    ) -> Result<Attributes> {
        self.check_entry_name(parent, name)?;
        if node.target().is_some_and(|target| target.is_empty() || target.len() > TARGET_MAX) {
            return Err(ZplError::NameTooLong);
        }
        let _parent_lock = parent.lock.whole().await;
        parent.check_linked()?;
        parent.check_mutable(origin)?;
        if !parent.is_hidden() {
            self.check(origin, parent, Want::add(node.kind())).await?;
        }
        if parent.zap()?.lookup_u64(name).await?.is_some() {
            return Err(ZplError::Exists);
        }
        let image = self.newborn(parent, node, &birth).await?;
        let plan = self.plan().await?;
        let znode = self.bring_up(&plan, node, &birth, image).await?;
        let entry = self.entry_for(&znode);
        parent.zap()?.add_u64(&plan, name, entry).await?;
        let mut parent_image = parent.image();
        entry_added(&mut parent_image, node.kind());
        stamp_content(&mut parent_image, birth.born);
        parent.store(&plan, parent_image)?;
        let logged = self.is_logged();
        plan.apply_with(|txg| {
            let record = || create_record(parent.object(), name, node, &znode, &birth);
            self.journal.names(origin, txg, logged, record);
            for (name, value) in &birth.xattrs {
                let taken = CommitScope::of_system(name);
                self.journal_xattr(origin, txg, znode.object(), (name, Some(value)), taken);
            }
            self.cache.insert(Arc::clone(&znode));
        })?;
        Ok(znode.attributes())
    }

    /// The attributes of the new object; its generation is still to come. Refused when a quota of its owners is used
    /// up.
    pub(crate) async fn newborn(&self, parent: &Znode, node: NewNode<'_>, birth: &Birth) -> Result<SaImage> {
        let parent_flags = parent.word(ZplAttr::Flags);
        let inherits_project = parent_flags & flags::PROJINHERIT != 0;
        let is_plain = matches!(node, NewNode::File | NewNode::Directory);
        let inherited = if inherits_project { parent.word(ZplAttr::Projid) } else { 0 };
        let project = birth.extra.project.unwrap_or(inherited);
        // What a log promised is made whatever quotas are.
        if birth.identity.is_none() {
            let project = (self.has_projects() && is_plain).then_some(project);
            let (user, group) = (Some(birth.uid.into()), Some(birth.gid.into()));
            self.check_quotas(Charged { user, group, project }, true).await?;
        }
        let new = NewAttributes {
            kind: node.kind(),
            permissions: birth.permissions,
            uid: birth.uid,
            gid: birth.gid,
            generation: 0,
            parent: parent.object(),
            born: birth.born,
            device: node.device(),
            target: node.target(),
            project: (self.has_projects() && is_plain).then_some(project),
            flags: parent_flags & if is_plain { flags::PROJINHERIT | flags::XATTR } else { flags::XATTR },
            acl: birth.acl.as_ref(),
        };
        let mut attrs = self.sa.with(|tables| new_attributes(tables, &new));
        if let Some(stamp) = &birth.extra.scanstamp {
            self.sa.with(|tables| attrs.set_known(tables, ZplAttr::Scanstamp, stamp));
        }
        if !birth.xattrs.is_empty() {
            let packed = packed_xattrs(&birth.xattrs)?;
            self.sa.with(|tables| attrs.set_known(tables, ZplAttr::Dxattr, &packed));
        }
        let mut image = self.sa.build(&attrs, bonus_capacity(birth.slots)).await?;
        birth.extra.apply(&mut image);
        Ok(image)
    }

    /// Plans the object with its attributes.
    pub(crate) async fn bring_up(
        &self,
        plan: &Plan,
        node: NewNode<'_>,
        birth: &Birth,
        image: SaImage,
    ) -> Result<Arc<Znode>> {
        let object_type = match node {
            NewNode::Directory => ObjectType::DIRECTORY_CONTENTS,
            _ => ObjectType::PLAIN_FILE_CONTENTS,
        };
        // A text that an old znode has no room for is the data.
        let data = node.target().filter(|text| image.bonus_type() == ObjectType::ZNODE && !is_inline(text));
        let block_bytes = data.map_or(0, |text| text.len().next_multiple_of(SECTOR_BYTES) as u32);
        let mut spec = DnodeSpec::new(object_type, block_bytes);
        spec = spec.with_bonus(image.bonus_type(), bonus_bytes(&image, birth.slots));
        spec.slots = birth.slots;
        let dnode = self.allocate(plan, birth, &spec).await?;
        let zap = match node {
            NewNode::Directory => Some(Zap::format(Arc::clone(&dnode), plan, self.random_u64(), 0, 0).await?),
            _ => None,
        };
        if let Some(text) = data {
            dnode.write(plan, 0, text).await?;
        }
        let znode = Znode::new(dnode, image, zap)?;
        znode.store_first(plan, birth.identity.map(|(_, generation)| generation))?;
        Ok(znode)
    }

    async fn allocate(&self, plan: &Plan, birth: &Birth, spec: &DnodeSpec) -> Result<Arc<Dnode>> {
        match birth.identity {
            None => Ok(self.os.allocate(plan, spec).await?),
            Some((object, _)) => match self.os.allocate_at(plan, object, spec).await {
                Err(DmuError::ObjectExists { .. }) => Err(ZplError::Exists),
                other => Ok(other?),
            },
        }
    }
}

/// Bytes of the bonus of a new object. System attributes have all the room that there is.
fn bonus_bytes(image: &SaImage, slots: u8) -> u16 {
    let bytes = match image.bonus_type() {
        ObjectType::SA => bonus_capacity(slots),
        _ => image.bonus().len(),
    };
    bytes as u16
}

/// One more entry: size, and links where it is a directory.
pub(crate) fn entry_added(image: &mut SaImage, kind: FileKind) {
    image.set_word(ZplAttr::Size, image.word(ZplAttr::Size) + 1);
    if kind == FileKind::Directory {
        image.set_word(ZplAttr::Links, image.word(ZplAttr::Links) + 1);
    }
}

/// One entry less. Counts in a damaged directory do not fall below those of an empty one.
pub(crate) fn entry_removed(image: &mut SaImage, kind: FileKind) {
    image.set_word(ZplAttr::Size, image.word(ZplAttr::Size).saturating_sub(1).max(2));
    if kind == FileKind::Directory {
        image.set_word(ZplAttr::Links, image.word(ZplAttr::Links).saturating_sub(1).max(2));
    }
}

fn create_record(dir: ObjectId, name: &[u8], node: NewNode<'_>, znode: &Znode, birth: &Birth) -> LogRecord {
    let body = create_body(dir, name, node, znode, birth);
    match node {
        NewNode::Directory => LogRecord::Mkdir(body),
        NewNode::Symlink(_) => LogRecord::Symlink(body),
        _ => LogRecord::Create(body),
    }
}

pub(crate) fn create_body(
    dir: ObjectId,
    name: &[u8],
    node: NewNode<'_>,
    znode: &Znode,
    birth: &Birth,
) -> LrCreate {
    LrCreate {
        dir,
        object: znode.object(),
        slots: birth.slots,
        mode: u64::from(znode.mode()),
        uid: u64::from(birth.uid),
        gid: u64::from(birth.gid),
        generation: znode.word(ZplAttr::Gen),
        crtime: birth.born.into(),
        rdev: node.device().map_or(0, DeviceNumber::encode),
        attr: None,
        domains: Vec::new(),
        name: name.to_vec(),
        target: node.target().map(<[u8]>::to_vec),
    }
}
