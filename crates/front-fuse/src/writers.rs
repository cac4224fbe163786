//! Which files of a mount are open for writing: the kernel has changed pages of no others. It hands over a file when it
//! is closed, and when nobody has it mapped any more.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Those of one mount, by their inodes.
#[derive(Default)]
pub(crate) struct Writers(Mutex<BTreeMap<u64, Writer>>);

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
            let mut all = self.0.lock();
            let generation = generation as u32;
            all.entry(inode).or_insert(Writer { generation, handles: 0 }).handles += 1;
        }
    }

    /// A handle that was opened with `flags` is gone.
    pub fn closed(&self, inode: u64, flags: u32) {
        if !may_write(flags) {
            return;
        }
        let mut all = self.0.lock();
        let Some(writer) = all.get_mut(&inode) else { return };
        writer.handles -= 1;
        if writer.handles == 0 {
            all.remove(&inode);
        }
    }

    /// Their inodes, and the generations by which the kernel knows them.
    pub fn all(&self) -> Vec<(u64, u32)> {
        self.0.lock().iter().map(|(inode, writer)| (*inode, writer.generation)).collect()
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
