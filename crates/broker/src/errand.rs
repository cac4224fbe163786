//! What a process can have done, and the answers.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use engine::{AccessTimes, MountFlags, OrphanMount, PlaceChoice, UserIds};
use env::{DeviceInfo, OpenMode, Readers};
use serde::{Deserialize, Serialize};

/// A path or a name, which need not be text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bytes(Vec<u8>);

impl Bytes {
    pub fn path(&self) -> PathBuf {
        PathBuf::from(OsString::from_vec(self.0.clone()))
    }

    pub fn name(self) -> OsString {
        OsString::from_vec(self.0)
    }
}

impl From<&Path> for Bytes {
    fn from(path: &Path) -> Self {
        path.as_os_str().into()
    }
}

impl From<&OsStr> for Bytes {
    fn from(name: &OsStr) -> Self {
        Self(name.as_bytes().to_owned())
    }
}

/// See the crate. The comments name the type of the answer, and the descriptors that come with the answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Errand {
    /// [`Beginning`]; the socket on which the process answers, and its lock file.
    Begin,
    /// `()`. A panic is about to end the process.
    LastWords { words: String },
    /// `Result<OpenedFacts, DeviceFault>`; the descriptors of an [`device::OpenedFile`].
    Open { path: Bytes, mode: WireMode },
    /// `()`. The daemon ends its hold on a device.
    LetGo { hold: u64 },
    /// `Result<Vec<u8>, RemoteError>`
    Read { path: Bytes },
    /// `Result<(), RemoteError>`
    Replace { path: Bytes, bytes: Vec<u8>, is_for_anybody: bool },
    /// `Result<(), RemoteError>`
    Rename { from: Bytes, to: Bytes },
    /// `Result<(), RemoteError>`
    Remove { path: Bytes },
    /// `Result<Vec<Bytes>, RemoteError>`
    NamesIn { directory: Bytes },
    /// `bool`
    IsDirectory { path: Bytes },
    /// `Option<(u64, u64)>`
    Identity { path: Bytes },
    /// `Option<(u32, String)>`
    HeldBy { path: Bytes },
    /// `Result<u64, MountFault>`, the number of the mount; the device through which requests come.
    Attach(WantedMount),
    /// `bool`
    IsFree { path: Bytes },
    /// `Result<(), RemoteError>`
    RemovePoint { path: Bytes },
    /// `Result<bool, RemoteError>`
    MayClaim { uid: u32, gids: Vec<u32>, place: Bytes, altroot: Option<Bytes>, is_chosen: bool },
    /// `Vec<WireOrphan>`
    Orphans { pool: String },
    /// `bool`
    MayAdminister { thread: u32 },
    /// `Option<(u32, Vec<u32>)>`
    UserOf { thread: u32 },
    /// As [`MountErrand`] says.
    Mounted { mount: u64, errand: MountErrand },
}

/// A mount that a process wants.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WantedMount {
    pub path: Bytes,
    pub altroot: Option<Bytes>,
    pub overlay: bool,
    /// The name of the dataset.
    pub source: String,
    pub flags: WireFlags,
}

/// What is done about a mount, by the names in [`front_fuse::Attachment`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum MountErrand {
    /// `()`
    BeginService,
    /// `bool`
    IsChangeable,
    /// `bool`
    IsReached,
    /// `bool`
    IsGone,
    /// `bool`
    HasMountsBelow,
    /// `Option<String>`, in words.
    SeenElsewhere,
    /// `()`; the root, if the mount is reached.
    Root,
    /// `Result<(), RemoteError>`; the directory, if the mount is reached.
    Directory,
    /// `Result<(), RemoteError>`. The directory comes with the errand.
    WaitForPages { inode: u64, generation: u32 },
    /// `Result<(), RemoteError>`. The root comes with the errand.
    DropDentries,
    /// `Result<(), RemoteError>`
    Remount { flags: WireFlags },
    /// `bool`, true if the mount is in use.
    Unmount,
    /// `()`
    HangUp,
    /// `()`: the process asks no more about the mount.
    Forget,
}

/// What a process is told when it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beginning {
    /// The number of the host ([`device::host_id`]).
    pub host_id: u64,
    /// The name of the host.
    pub host_name: String,
    /// The ids of the daemon, which own what the pool makes.
    pub owner: (u32, u32),
    /// The default cache file in the format of OpenZFS.
    pub cache_file: Option<PathBuf>,
}

/// What [`device::OpenedFile`] has beside its descriptors.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OpenedFacts {
    size_bytes: u64,
    logical_sector_bytes: u32,
    physical_sector_bytes: u32,
    is_block_device: bool,
    has_volatile_cache: bool,
    can_discard: bool,
    is_memory: bool,
    is_prompt: bool,
    /// The alignments of the second descriptor, if there is one.
    pub direct: Option<(u32, u32)>,
    /// The number of the hold, if the device is held.
    pub hold: Option<u64>,
}

impl OpenedFacts {
    pub fn of(opened: &device::OpenedFile, hold: Option<u64>) -> Self {
        let device::OpenedFile { info, direct, is_memory, is_prompt, .. } = opened;
        Self {
            size_bytes: info.size_bytes,
            logical_sector_bytes: info.logical_sector_bytes,
            physical_sector_bytes: info.physical_sector_bytes,
            is_block_device: info.is_block_device,
            has_volatile_cache: info.has_volatile_cache,
            can_discard: info.can_discard,
            is_memory: *is_memory,
            is_prompt: *is_prompt,
            direct: direct.as_ref().map(|direct| (direct.offset_align, direct.memory_align)),
            hold,
        }
    }

    pub fn with(
        self,
        mode: OpenMode,
        buffered: std::os::fd::OwnedFd,
        direct: Option<device::DirectFile>,
        hold: Option<device::DeviceHold>,
    ) -> device::OpenedFile {
        let info = DeviceInfo {
            size_bytes: self.size_bytes,
            logical_sector_bytes: self.logical_sector_bytes,
            physical_sector_bytes: self.physical_sector_bytes,
            is_block_device: self.is_block_device,
            has_volatile_cache: self.has_volatile_cache,
            can_discard: self.can_discard,
        };
        let (is_memory, is_prompt) = (self.is_memory, self.is_prompt);
        device::OpenedFile { info, mode, buffered, direct, is_memory, is_prompt, hold }
    }
}

/// [`MountFlags`] on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WireFlags {
    read_only: bool,
    exec: bool,
    setuid: bool,
    devices: bool,
    /// Access times: never, relative, always.
    access: u8,
}

impl From<MountFlags> for WireFlags {
    fn from(flags: MountFlags) -> Self {
        let MountFlags { read_only, exec, setuid, devices, access } = flags;
        let access = match access {
            AccessTimes::Never => 0,
            AccessTimes::Relative => 1,
            AccessTimes::Always => 2,
        };
        Self { read_only, exec, setuid, devices, access }
    }
}

impl From<WireFlags> for MountFlags {
    fn from(flags: WireFlags) -> Self {
        let WireFlags { read_only, exec, setuid, devices, access } = flags;
        let access = match access {
            0 => AccessTimes::Never,
            1 => AccessTimes::Relative,
            _ => AccessTimes::Always,
        };
        Self { read_only, exec, setuid, devices, access }
    }
}

/// [`OrphanMount`] on the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WireOrphan {
    dataset: String,
    place: Bytes,
    flags: WireFlags,
}

impl From<OrphanMount> for WireOrphan {
    fn from(mount: OrphanMount) -> Self {
        let OrphanMount { dataset, place, flags } = mount;
        Self { dataset, place: place.as_path().into(), flags: flags.into() }
    }
}

impl From<WireOrphan> for OrphanMount {
    fn from(mount: WireOrphan) -> Self {
        let WireOrphan { dataset, place, flags } = mount;
        Self { dataset, place: place.path(), flags: flags.into() }
    }
}

pub(crate) fn may_claim(user: &UserIds, place: &Path, altroot: Option<&Path>, how: PlaceChoice) -> Errand {
    Errand::MayClaim {
        uid: user.uid,
        gids: user.gids.clone(),
        place: place.into(),
        altroot: altroot.map(Into::into),
        is_chosen: how == PlaceChoice::Chosen,
    }
}

/// [`OpenMode`] on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WireMode {
    ReadOnly,
    ReadWrite,
    Hold,
}

impl From<OpenMode> for WireMode {
    fn from(mode: OpenMode) -> Self {
        match mode {
            OpenMode::ReadOnly => Self::ReadOnly,
            OpenMode::ReadWrite => Self::ReadWrite,
            OpenMode::Hold => Self::Hold,
        }
    }
}

impl From<WireMode> for OpenMode {
    fn from(mode: WireMode) -> Self {
        match mode {
            WireMode::ReadOnly => Self::ReadOnly,
            WireMode::ReadWrite => Self::ReadWrite,
            WireMode::Hold => Self::Hold,
        }
    }
}

pub(crate) fn readers_of(is_for_anybody: bool) -> Readers {
    if is_for_anybody { Readers::Anybody } else { Readers::Owner }
}
