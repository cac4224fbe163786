//! All that a mount shows: the files of what is mounted, the control directory, and the files of snapshots in it. An
//! inode tells which of them a request is about.

use std::sync::{Arc, Weak};

use device::RealEnv;
use engine::{Snapdir, Snapshots};
use env::Env;
use rustix::io::Errno;
use zpl::Zfs;

use crate::abi::{BatchForgetIn, ForgetIn, ForgetOne, ROOT_ID, opcode};
use crate::attr::{Fsid, Inodes};
use crate::ctldir::{CTLDIR, Ctldir, Ctlnode, Setting};
use crate::gate::GatePass;
use crate::live::LiveFiles;
use crate::reply::Reply;
use crate::request::Request;
use crate::server::{Answer, Server};
use crate::views::{Common, Views, Visit};

/// See the module.
pub(crate) struct Tree {
    live: Arc<LiveFiles>,
    ctldir: Arc<Ctldir>,
}

/// The other parts that work on a tree while it is mounted.
#[derive(Clone, Default)]
pub(crate) struct TreeParts {
    pub live: Weak<LiveFiles>,
    pub ctldir: Weak<Ctldir>,
}

impl Tree {
    /// One whose live files are those of `zfs`; with its control directory.
    pub fn new(
        env: Arc<RealEnv>,
        zfs: Arc<Zfs>,
        snapshots: Arc<dyn Snapshots>,
        common: Common,
        snapdir: Snapdir,
    ) -> (Self, TreeParts) {
        let own_env = Arc::clone(&env);
        let (setting, mounted) = (Arc::new(Setting::new(snapdir)), env.wall_clock());
        let views = Views::new(env, snapshots, common.clone());
        let ctldir = Ctldir::new(views, Arc::clone(&setting), common.notifier.clone(), mounted);
        let live = Arc::new(LiveFiles::new(own_env, zfs, common, setting));
        let tree = Self { live, ctldir: Arc::new(ctldir) };
        let parts = TreeParts { live: Arc::downgrade(&tree.live), ctldir: Arc::downgrade(&tree.ctldir) };
        (tree, parts)
    }

    /// Does what is asked of the control directory and of snapshots.
    async fn serve_control(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<Answer, Errno> {
        let inode = request.header.nodeid;
        match (request.header.opcode, Ctlnode::of(inode)) {
            (opcode::FORGET | opcode::BATCH_FORGET, _) => {
                self.forget(request)?;
                return Ok(Answer::None);
            }
            (opcode::LOOKUP, None) if inode == ROOT_ID => self.ctldir.lookup(reply).await?,
            (_, Some(node)) => self.ctldir.serve(node, &self.live.files(), request, reply).await?,
            (_, None) => return self.serve_snapshot(Fsid::of(inode), request, reply).await,
        }
        Ok(Answer::Due)
    }

    async fn serve_snapshot(
        &self,
        fsid: Fsid,
        request: &mut Request<'_>,
        reply: &mut Reply,
    ) -> Result<Answer, Errno> {
        let (views, opcode) = (&self.ctldir.views, request.header.opcode);
        let visit = if opcode == opcode::OPEN { Visit::Opens } else { Visit::Else };
        let files = views.enter(fsid, visit).await?;
        request.put_to(files.inodes);
        if opcode == opcode::COPY_FILE_RANGE {
            // Out of the snapshot, into what is mounted.
            self.live.files().copy_file_range(&files, request, reply).await?;
            return Ok(Answer::Due);
        }
        let answered = files.serve(request, reply).await;
        if opcode == opcode::RELEASE || (opcode == opcode::OPEN && answered.is_err()) {
            views.closed(fsid);
        }
        answered
    }

    /// Notes that the kernel has forgotten inodes.
    fn forget(&self, request: &mut Request<'_>) -> Result<(), Errno> {
        let views = &self.ctldir.views;
        if request.header.opcode == opcode::FORGET {
            let ForgetIn { nlookup } = request.take()?;
            match request.header.nodeid {
                inode if inode >= Ctlnode::FIRST => views.forget(inode, nlookup),
                inode => self.live.forget(inode, nlookup),
            }
            return Ok(());
        }
        let BatchForgetIn { count, .. } = request.take()?;
        for _ in 0..count {
            let ForgetOne { nodeid, nlookup } = request.take()?;
            match nodeid >= Ctlnode::FIRST {
                true => views.forget(nodeid, nlookup),
                false => self.live.forget(nodeid, nlookup),
            }
        }
        Ok(())
    }
}

/// Whether a request is about the control directory or snapshots though its inode does not say so.
fn names_ctldir(request: &Request<'_>) -> bool {
    match request.header.opcode {
        opcode::LOOKUP => request.header.nodeid == ROOT_ID && request.is_next(CTLDIR),
        opcode::FORGET | opcode::BATCH_FORGET => true,
        _ => false,
    }
}

impl Server for Tree {
    fn inodes(&self) -> Inodes {
        self.live.files().inodes
    }

    type Permit<'a> = Option<GatePass<'a>>;

    async fn admit(&self, request: &Request<'_>) -> Option<GatePass<'_>> {
        self.live.enter(request).await
    }

    async fn serve(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<Answer, Errno> {
        if request.header.nodeid < Ctlnode::FIRST && !names_ctldir(request) {
            let files = self.live.files();
            self.live.check(&files, request).await?;
            request.put_to(files.inodes);
            return files.serve(request, reply).await;
        }
        // Few requests are: the room for them is only there while they are worked on.
        Box::pin(self.serve_control(request, reply)).await
    }

    async fn finish(&self) {
        self.live.files().finish().await;
    }
}
