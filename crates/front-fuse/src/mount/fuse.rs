//! The front that mounts file systems by the FUSE protocol.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use device::RealEnv;
use engine::{
    Front, MountError, MountFlags, MountOptions, Mounted, OrphanMount, PlaceChoice, Shown, UserIds,
};
use zpl::Asker;

use super::FuseMount;
use super::mounter::{Mounter, OwnMounter};
use crate::floor::Floor;
use crate::handshake::{Agreed, Wishes, shake_hands};
use crate::headroom;
use crate::notifier::Notifier;
use crate::server::Server;
use crate::session::Session;
use crate::syncs::Syncs;
use crate::tree::{Tree, TreeParts};
use crate::views::Common;

/// Mounts by the FUSE protocol: each request is a task of the loop that took it from the kernel.
pub struct Fuse {
    env: Arc<RealEnv>,
    mounter: Arc<dyn Mounter>,
    rings: bool,
}

impl Fuse {
    /// Makes a front on this environment, which mounts with the rights of this process.
    #[must_use]
    pub fn new(env: Arc<RealEnv>) -> Self {
        Self::over(env, Arc::new(OwnMounter))
    }

    /// Makes a front on this environment, where `mounter` does what only root may do.
    #[must_use]
    pub fn over(env: Arc<RealEnv>, mounter: Arc<dyn Mounter>) -> Self {
        Self { env, mounter, rings: false }
    }

    /// Whether requests are to come over io_uring, where the kernel has it.
    #[must_use]
    pub fn over_rings(self, rings: bool) -> Self {
        Self { rings, ..self }
    }

    /// Mounts what only costs what every mount costs: a server that does nothing.
    ///
    /// # Errors
    /// As [`Front::mount`]; also if requests are to come over io_uring and cannot, because the measurement
    /// would be of something else.
    pub fn mount_floor(&self, path: &Path) -> Result<Box<dyn Mounted>, MountError> {
        let options = MountOptions {
            source: "floor".to_owned(),
            flags: MountFlags::default(),
            ..MountOptions::default()
        };
        let (mounted, agreed) =
            self.begin(path, &options, false, |_| (Floor::new(), TreeParts::default()))?;
        if self.rings && !agreed.rings {
            let source = io::Error::new(io::ErrorKind::Unsupported, "the kernel has no FUSE over io_uring");
            return Err(MountError::Refused { path: path.to_owned(), source });
        }
        Ok(mounted)
    }

    /// Mounts at `path` what `make` makes, with its control directory, if it has one.
    fn begin<S: Server>(
        &self,
        path: &Path,
        options: &MountOptions,
        posix_acls: bool,
        make: impl FnOnce(Common) -> (S, TreeParts),
    ) -> Result<(Box<dyn Mounted>, Agreed), MountError> {
        headroom::check()?;
        let refused = |source| MountError::Refused { path: path.to_owned(), source };
        let (device, attached) = self.mounter.attach(path, options)?;
        let wishes = Wishes { posix_acls, rings: self.rings, writeback: options.writeback };
        let served = shake_hands(&device, wishes).and_then(|agreed| {
            let notifier = Notifier::new(&device);
            let syncs = Arc::new(Syncs::new(Arc::clone(&self.env)));
            let mounter = Arc::clone(&self.mounter);
            let common = Common { notifier, agreed, syncs, writers: Arc::default(), mounter };
            let (server, parts) = make(common.clone());
            let ended = Session::start(Arc::clone(&self.env), Arc::clone(&device), server, agreed.rings)?;
            attached.begin_service();
            Ok(FuseMount {
                path: path.to_owned(),
                attached: Arc::clone(&attached),
                ended,
                is_left: AtomicBool::new(false),
                common,
                parts,
            })
        });
        match served {
            Ok(mount) => {
                let agreed = mount.common.agreed;
                Ok((Box::new(mount), agreed))
            }
            Err(error) => {
                // The device is open still, so that the mount can be told from others.
                attached.hang_up();
                drop(device);
                Err(refused(error))
            }
        }
    }
}

impl Front for Fuse {
    /// Refuses also where the process is near a limit of its descriptors, threads or memory mappings.
    fn mount(
        &self,
        shown: Shown,
        path: &Path,
        options: &MountOptions,
    ) -> Result<Box<dyn Mounted>, MountError> {
        let Shown { zfs, snapshots } = shown;
        let posix_acls = zfs.options().posix_acls;
        let begun = self.begin(path, options, posix_acls, |common| {
            // Mounted with `default_permissions`, whichever way.
            let asker = if common.agreed.writeback {
                tracing::info!(place = %path.display(), "the kernel keeps what programs write");
                Asker::Cache
            } else {
                Asker::Kernel
            };
            let zfs = Arc::new(zfs.asked_by(asker));
            Tree::new(Arc::clone(&self.env), zfs, snapshots, common, options.snapdir)
        });
        begun.map(|(mounted, _agreed)| mounted)
    }

    /// Also true where a mount will be refused.
    fn is_free(&self, path: &Path) -> bool {
        self.mounter.is_free(path)
    }

    fn orphans(&self, pool: &str) -> Vec<OrphanMount> {
        self.mounter.orphans(pool)
    }

    fn may_claim(
        &self,
        user: &UserIds,
        place: &Path,
        altroot: Option<&Path>,
        how: PlaceChoice,
    ) -> io::Result<bool> {
        self.mounter.may_claim(user, place, altroot, how)
    }

    fn forget(&self, path: &Path) {
        if let Err(error) = self.mounter.remove(path) {
            tracing::debug!(place = %path.display(), %error, "mount point left");
        }
    }
}
