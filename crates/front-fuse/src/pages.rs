//! Tracks which pages of directly written files the kernel may have in its cache (`O_DIRECT`,
//! `O_DSYNC`).
//!
//! The kernel drops the pages of a range when a direct write of the range begins, and again when a
//! synchronous direct write has ended. When an asynchronous write ends (`io_uring`, `aio`), the
//! kernel drops no pages, so a page that was read during the write would stay in the cache although
//! the write replaced its data. So the pages are dropped here, with a notification, before the
//! answer to such a write. The two types of writes cannot be distinguished.
//!
//! A notification costs a system call and a thread switch. A file whose pages cannot be in the
//! cache needs none:
//! ```text
//!  first direct handle ─► any page may be cached ─► first write drops all ─► no page is cached
//!                                                                              │ a page is read
//!           each write of these drops its own ◄─ the pages read may be cached ◄┘
//! ```
//! Files are tracked only while such a handle is open.
//!
//! Invariants
//! - A buffered read that begins after the answer to a direct write returns the written data.
//!   (tests: `a_direct_write_is_answered_when_the_kernel_has_dropped_its_pages`, and on a mount
//!   `a_buffered_read_sees_an_asynchronous_direct_write_that_has_ended`)

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// The largest page size of any kernel. The kernel reads and drops whole pages.
const PAGE_MAX_BYTES: u64 = 64 << 10;
/// After this many writes in a row that each drop their own pages, with no read in between, all
/// pages are dropped, so that later writes need not drop any.
const QUIET_WRITES_MAX: u32 = 256;

/// See the module.
#[derive(Default)]
pub(crate) struct CachedPages {
    files: Mutex<BTreeMap<u64, CachedFile>>,
    /// The number of files, for callers that only need to know whether there are any.
    count: AtomicUsize,
}

/// A file that is open for direct writes.
struct CachedFile {
    handles: usize,
    /// Only pages in this range can be in the cache.
    may_be: Range<u64>,
    /// The number of requests that may have brought pages into the cache.
    fills: u64,
    /// The number of writes since the last such request that dropped their own pages.
    quiet: u32,
}

/// The pages that the kernel must drop before a write is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageDrop {
    /// The bytes whose pages are dropped.
    pub range: Range<u64>,
    /// Set if the range covers every cached page: the number of fills when the drop began. Pages
    /// that were read later are not covered.
    all_of: Option<u64>,
}

impl CachedPages {
    /// A handle for direct writes was opened. A file that `is_new` has no pages in the cache.
    pub fn opened(&self, inode: u64, is_new: bool) {
        let mut files = self.files.lock();
        let may_be = if is_new { 0..0 } else { 0..u64::MAX };
        let file = files.entry(inode).or_insert(CachedFile { handles: 0, may_be, fills: 0, quiet: 0 });
        file.handles += 1;
        self.count.store(files.len(), Ordering::Release);
    }

    /// A handle for direct writes was closed.
    pub fn closed(&self, inode: u64) {
        let mut files = self.files.lock();
        let Some(file) = files.get_mut(&inode) else { return };
        file.handles -= 1;
        if file.handles == 0 {
            files.remove(&inode);
        }
        self.count.store(files.len(), Ordering::Release);
    }

    /// The kernel is about to cache these bytes. Must be called before they are read.
    pub fn filled(&self, inode: u64, range: Range<u64>) {
        // If the file is opened for direct writes later, any page counts as cached.
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        if let Some(file) = self.files.lock().get_mut(&inode) {
            let range = whole_pages(range);
            let is_empty = file.may_be.is_empty();
            let start = if is_empty { range.start } else { range.start.min(file.may_be.start) };
            file.may_be = start..range.end.max(file.may_be.end);
            file.fills += 1;
            file.quiet = 0;
        }
    }

    /// These bytes were written directly. Returns the pages to drop.
    pub fn written(&self, inode: u64, range: Range<u64>) -> Option<PageDrop> {
        let range = whole_pages(range);
        let mut files = self.files.lock();
        // A handle can become a direct handle after it was opened (`F_SETFL`).
        let Some(file) = files.get_mut(&inode) else { return Some(PageDrop { range, all_of: None }) };
        if file.may_be.start >= range.end || range.start >= file.may_be.end {
            return None;
        }
        let is_first = file.fills == 0 && file.quiet == 0;
        file.quiet = file.quiet.saturating_add(1);
        if is_first || file.quiet.is_multiple_of(QUIET_WRITES_MAX) {
            return Some(PageDrop { range: 0..u64::MAX, all_of: Some(file.fills) });
        }
        Some(PageDrop { range, all_of: None })
    }

    /// The kernel has dropped the pages that [`Self::written`] returned.
    pub fn dropped(&self, inode: u64, done: &PageDrop) {
        let Some(fills) = done.all_of else { return };
        if let Some(file) = self.files.lock().get_mut(&inode).filter(|file| file.fills == fills) {
            file.may_be = 0..0;
            file.quiet = 0;
        }
    }
}

/// Extends a range to whole pages.
fn whole_pages(range: Range<u64>) -> Range<u64> {
    let end = range.end.checked_next_multiple_of(PAGE_MAX_BYTES).unwrap_or(u64::MAX);
    range.start - range.start % PAGE_MAX_BYTES..end
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = PAGE_MAX_BYTES;

    fn page(number: u64) -> Range<u64> {
        number * PAGE..(number + 1) * PAGE
    }

    /// Writes and drops the pages that [`CachedPages::written`] returns. Returns their range.
    fn write(pages: &CachedPages, range: Range<u64>) -> Option<Range<u64>> {
        let asked = pages.written(7, range)?;
        pages.dropped(7, &asked);
        Some(asked.range)
    }

    #[test]
    fn writes_of_a_file_without_pages_drop_none() {
        let pages = CachedPages::default();
        pages.filled(7, page(0));
        pages.opened(7, false);
        assert_eq!(write(&pages, page(5)), Some(0..u64::MAX), "nobody knows what was there before");
        assert!((0..2000).all(|number| write(&pages, page(number)).is_none()));
        pages.closed(7);
        pages.opened(8, true);
        assert_eq!(pages.written(8, page(0)), None, "a new file");
    }

    #[test]
    fn writes_of_pages_that_were_read_drop_them_and_others_do_not() {
        let pages = CachedPages::default();
        pages.opened(7, true);
        pages.filled(7, 3 * PAGE + 1..4 * PAGE - 1);
        assert_eq!(write(&pages, page(2)), None);
        assert_eq!(write(&pages, page(4)), None);
        pages.filled(7, page(9));
        for number in [3, 5, 9] {
            assert_eq!(write(&pages, number * PAGE..number * PAGE + 1), Some(page(number)));
        }
        let mut all = (0..QUIET_WRITES_MAX).filter_map(|_| write(&pages, page(3)));
        assert_eq!(all.find(|range| *range != page(3)), Some(0..u64::MAX), "nobody reads any more");
        assert_eq!(all.next(), None);
    }

    #[test]
    fn pages_that_come_in_while_all_are_dropped_are_not_forgotten() {
        let pages = CachedPages::default();
        pages.opened(7, false);
        let all = pages.written(7, page(0)).expect("anything may be there");
        assert_eq!(pages.written(7, page(1)).map(|asked| asked.range), Some(page(1)), "not dropped yet");
        pages.filled(7, page(1));
        pages.dropped(7, &all);
        assert_eq!(write(&pages, page(1)), Some(page(1)));
    }

    #[test]
    fn a_file_is_known_while_a_handle_for_direct_writes_is_open() {
        let pages = CachedPages::default();
        pages.opened(7, true);
        pages.opened(7, false);
        pages.closed(7);
        assert_eq!(pages.written(7, page(0)), None, "it was new");
        pages.closed(7);
        assert_eq!(write(&pages, page(0)), Some(page(0)), "a handle that became one");
        pages.closed(7);
        assert!(pages.files.lock().is_empty());
    }
}
