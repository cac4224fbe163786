//! Which files of a mount are open for writing: the kernel has changed pages of no others. It hands over a file when it
//! is closed, and when nobody has it mapped any more.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;

use parking_lot::Mutex;
use rustix::io::Errno;

use crate::notifier::Notifier;
use crate::pages::CachedPages;

/// Those of one mount, by their inodes.
#[derive(Default)]
pub(crate) struct Writers {
    all: Mutex<BTreeMap<u64, Writer>>,
    /// The cached pages of files that are written directly.
    pub pages: CachedPages,
}

/// A file that is open for writing.
struct Writer {
    /// The lower half of what the kernel was told, which is what it remembers.
    generation: u32,
    handles: usize,
}

/// Whether a handle that was opened with `flags` may write.
pub(crate) fn may_write(flags: u32) -> bool {
    flags as i32 & libc::O_ACCMODE != libc::O_RDONLY
}

impl Writers {
    /// A handle was opened with `flags`.
    pub fn opened(&self, inode: u64, generation: u64, flags: u32) {
        if may_write(flags) {
            let mut all = self.all.lock();
            let generation = generation as u32;
            let writer = all.entry(inode).or_insert(Writer { generation, handles: 0 });
            // After an exchange, the number may belong to another object.
            (writer.generation, writer.handles) = (generation, writer.handles + 1);
        }
    }

    /// A handle that was opened with `flags` is gone.
    pub fn closed(&self, inode: u64, flags: u32) {
        if !may_write(flags) {
            return;
        }
        let mut all = self.all.lock();
        let Some(writer) = all.get_mut(&inode) else { return };
        writer.handles -= 1;
        if writer.handles == 0 {
            all.remove(&inode);
        }
    }

    /// True if a file is open for writing.
    pub fn has(&self, inode: u64) -> bool {
        self.all.lock().contains_key(&inode)
    }

    /// Returns once the kernel has handed over all that was changed before. Waits for other requests. `mount` is a
    /// directory there, if one can be opened. `wait` waits for the pages of one file, which is given by its inode and
    /// generation.
    ///
    /// # Errors
    /// The system's. One file that fails does not keep the others from being waited for.
    pub fn wait_for_all(
        &self,
        mount: Option<&File>,
        wait: impl Fn(u64, u32) -> io::Result<()>,
        notifier: &Notifier,
    ) -> io::Result<()> {
        // What the kernel tells may be of a file that was removed since: the others are waited for all the same.
        let asked = mount.map_or(Ok(()), rustix::fs::syncfs);
        let asked = if asked == Err(Errno::STALE) { Ok(()) } else { asked.map_err(io::Error::from) };
        // All is on its way. The kernel waits for none of it, unless it is asked for a file.
        let waited = self.all().into_iter().map(|(inode, generation)| {
            match wait(inode, generation) {
                // It was closed meanwhile, and handed over with that.
                Err(error) if error.raw_os_error() == Some(libc::ESTALE) => Ok(()),
                // Who is not root may not open files without their names. The kernel also hands over what it forgets, and
                // waits for that.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    notifier.forget_pages(inode);
                    Ok(())
                }
                waited => waited,
            }
        });
        waited.fold(asked, io::Result::and)
    }

    /// Returns the inodes of the files that are open for writing.
    pub fn inodes(&self) -> BTreeSet<u64> {
        self.all.lock().keys().copied().collect()
    }

    /// Their inodes, and the generations by which the kernel knows them.
    fn all(&self) -> Vec<(u64, u32)> {
        self.all.lock().iter().map(|(inode, writer)| (*inode, writer.generation)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_kept_until_its_last_handle_that_may_write_is_closed() {
        let writers = Writers::default();
        let (reads, writes, both) = (libc::O_RDONLY as u32, libc::O_WRONLY as u32, libc::O_RDWR as u32);
        for flags in [reads, writes, both] {
            writers.opened(7, 1 << 32 | 5, flags);
        }
        writers.opened(8, 6, reads);
        assert_eq!(writers.all(), [(7, 5)]);
        writers.closed(7, writes);
        writers.closed(7, reads);
        assert_eq!(writers.all(), [(7, 5)]);
        writers.closed(7, both);
        assert_eq!(writers.all(), []);
        writers.closed(7, both);
    }
}
