//! Memory of buffers that were let go, for the next ones.
//!
//! Fresh memory costs a page fault, and its zeroing, for every 4 KiB, and giving it back costs
//! again; a stream of records takes and lets go gigabytes. So some memory of each usual size is
//! kept. What is in it is left over from somebody else: only [`IoBuf`](super::IoBuf) takes from
//! here, and shows none of it to anybody who asked for zeros.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use super::Page;

/// Sizes kept, in pages: 32 KiB to 1 MiB, powers of two.
const PAGES_MIN_SHIFT: u32 = 3;
const CLASSES: usize = 6;
/// Bytes kept of each size: a sync lets go of tens of megabytes at once.
const KEPT_OF_SIZE_BYTES: usize = 24 << 20;
/// Bytes kept of all sizes together.
const KEPT_BYTES: usize = 48 << 20;

static KEPT: AtomicUsize = AtomicUsize::new(0);
static SPARE: [Mutex<Vec<Vec<Page>>>; CLASSES] = [const { Mutex::new(Vec::new()) }; CLASSES];

/// The shelf for memory of so many pages, if that is a size kept.
fn shelf(pages: usize) -> Option<&'static Mutex<Vec<Vec<Page>>>> {
    let class = pages.trailing_zeros().checked_sub(PAGES_MIN_SHIFT)?;
    SPARE.get(class as usize).filter(|_| pages.is_power_of_two())
}

/// Memory of exactly so many pages, with whatever is in it.
pub(super) fn take(pages: usize) -> Option<Vec<Page>> {
    let taken = shelf(pages)?.lock().pop()?;
    KEPT.fetch_sub(taken.len() * size_of::<Page>(), Relaxed);
    Some(taken)
}

/// Keeps memory for the next, or lets it go.
pub(super) fn give(pages: Vec<Page>) {
    let Some(shelf) = shelf(pages.len()) else { return };
    let bytes = pages.len() * size_of::<Page>();
    let mut kept = shelf.lock();
    let fits = (kept.len() + 1) * bytes <= KEPT_OF_SIZE_BYTES;
    if fits && KEPT.fetch_add(bytes, Relaxed) + bytes <= KEPT_BYTES {
        kept.push(pages);
        return;
    }
    drop(kept);
    if fits {
        KEPT.fetch_sub(bytes, Relaxed);
    }
}
