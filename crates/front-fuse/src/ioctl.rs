//! The file flags of `lsattr` and `chattr`, the projects of `zfs project`, and what `zfs rewrite` asks for.

use rustix::io::Errno;
use zpl::{SetAttributes, flags};

use crate::abi::{Fsxattr, IoctlIn, IoctlOut, Rewrite};
use crate::data::WRITING_HANDLE;
use crate::files::Files;
use crate::reply::Reply;
use crate::request::Request;

/// `FS_IOC_GETFLAGS` and `FS_IOC_SETFLAGS`, for programs of 64 and of 32 bits.
const GETFLAGS: [u32; 2] = [0x8008_6601, 0x8004_6601];
const SETFLAGS: [u32; 2] = [0x4008_6602, 0x4004_6602];
/// `FS_IOC_FSGETXATTR` and `FS_IOC_FSSETXATTR`: the same in another form, with the project. The kernel asks for it before it
/// sets either.
const FSGETXATTR: u32 = 0x801c_581f;
const FSSETXATTR: u32 = 0x401c_5820;
/// `ZFS_IOC_REWRITE` of OpenZFS: blocks of a file are written anew.
const REWRITE: u32 = 0x4020_8303;
/// Its flags: blocks keep their times of birth, those shared with snapshots or by clones are left out.
const REWRITE_FLAGS: u64 = 0x1 | 0x2 | 0x4;
/// What is nobody's project.
const NO_PROJECT: u32 = u32::MAX;

/// Linux's bits and the file system's.
type Names = [(u32, u64); 4];
/// `FS_IMMUTABLE_FL` and so on.
const FLAGS: Names = [
    (0x10, flags::IMMUTABLE),
    (0x20, flags::APPENDONLY),
    (0x40, flags::NODUMP),
    (0x2000_0000, flags::PROJINHERIT),
];
/// `FS_XFLAG_IMMUTABLE` and so on.
const XFLAGS: Names =
    [(0x8, flags::IMMUTABLE), (0x10, flags::APPENDONLY), (0x80, flags::NODUMP), (0x200, flags::PROJINHERIT)];

impl Files {
    /// The kernel has checked that the caller may set what he sets. Of whether he may write to the file, which is what
    /// `zfs rewrite` takes, the handle tells.
    pub async fn ioctl(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let args: IoctlIn = request.take()?;
        match args.cmd {
            cmd if GETFLAGS.contains(&cmd) => {
                let found = self.run(self.zfs.attributes(request.object())).await?;
                reply.put(&IoctlOut::default());
                // The kernel has room for 4 or 8 bytes.
                reply.put(&linux_flags(&FLAGS, found.flags));
                let room = (args.out_size as usize).min(size_of::<u64>());
                reply.room(room.saturating_sub(size_of::<u32>())).fill(0);
            }
            FSGETXATTR => {
                let found = self.run(self.zfs.attributes(request.object())).await?;
                reply.put(&IoctlOut::default());
                let (xflags, projid) = (linux_flags(&XFLAGS, found.flags), found.project);
                reply.put(&Fsxattr { xflags, projid, ..Fsxattr::default() });
            }
            cmd if SETFLAGS.contains(&cmd) => {
                let (set_flags, clear_flags) = zfs_flags(&FLAGS, request.take()?)?;
                let set = SetAttributes { set_flags, clear_flags, ..SetAttributes::default() };
                self.set_flags(request, set, reply).await?;
            }
            FSSETXATTR => {
                let Fsxattr { xflags, projid, .. } = request.take()?;
                if projid == NO_PROJECT {
                    return Err(Errno::INVAL);
                }
                let (set_flags, clear_flags) = zfs_flags(&XFLAGS, xflags)?;
                let now = self.run(self.zfs.attributes(request.object())).await?.project;
                // What is part of no project, and stays so, needs no place for one.
                let project = (projid != now).then_some(projid);
                let set = SetAttributes { set_flags, clear_flags, project, ..SetAttributes::default() };
                self.set_flags(request, set, reply).await?;
            }
            REWRITE => {
                let Rewrite { offset, len, flags, arg } = request.take()?;
                match flags {
                    _ if flags & !REWRITE_FLAGS != 0 || arg != 0 => return Err(Errno::INVAL),
                    0 if args.fh & WRITING_HANDLE == 0 => return Err(Errno::BADF),
                    0 => self.run(self.zfs.rewrite(request.object(), offset, len)).await?,
                    _ => return Err(Errno::OPNOTSUPP),
                }
                reply.put(&IoctlOut::default());
            }
            _ => return Err(Errno::NOTTY),
        }
        Ok(())
    }

    async fn set_flags(
        &self,
        request: &Request<'_>,
        set: SetAttributes,
        reply: &mut Reply,
    ) -> Result<(), Errno> {
        self.run(self.zfs.set_attributes(request.object(), set)).await?;
        self.notifier.forget_attributes(request.header.nodeid);
        reply.put(&IoctlOut::default());
        Ok(())
    }
}

fn linux_flags(names: &Names, all: u64) -> u32 {
    names.iter().filter(|(_, ours)| all & ours != 0).map(|(linux, _)| linux).sum()
}

/// What is to be set, and what cleared.
fn zfs_flags(names: &Names, wanted: u32) -> Result<(u64, u64), Errno> {
    let known: u32 = names.iter().map(|(linux, _)| linux).sum();
    if wanted & !known != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    let ours = |is_set: bool| {
        names.iter().filter(|(linux, _)| (wanted & linux != 0) == is_set).map(|(_, o)| o).sum()
    };
    Ok((ours(true), ours(false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_survive_the_way_there_and_back() {
        for wanted in [0, 0x10, 0x20, 0x50, 0x70, 0x2000_0010] {
            let (set, clear) = zfs_flags(&FLAGS, wanted).expect("known");
            assert_eq!((linux_flags(&FLAGS, set), set & clear), (wanted, 0));
        }
        for wanted in [0, 0x200, 0x298] {
            let (set, clear) = zfs_flags(&XFLAGS, wanted).expect("known");
            assert_eq!((linux_flags(&XFLAGS, set), set & clear), (wanted, 0));
        }
        assert_eq!(zfs_flags(&FLAGS, 0x8000_0000), Err(Errno::OPNOTSUPP));
    }
}
