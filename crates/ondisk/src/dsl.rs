//! Datasets and their directories, as they lie in bonus areas of MOS objects.
//!
//! ```text
//!  MOS directory (object 1) ── root_dataset ──► DslDir ── head ──► DslDataset ── bp ──► objset
//!                                                 │ children          │ prev snap ──► DslDataset
//!                                                 ▼                   ▼
//!                                               DslDir             snapshot names (ZAP)
//! ```
//! A directory has a name, properties, a quota and children; it lives as long as its head dataset.
//! A dataset is a head that changes or a snapshot that does not. Names lie in the parents' ZAPs.

mod bookmark;
pub mod crypto_key;
mod dataset;
mod deadlist;
mod dir;
mod redaction;
pub mod scan;
#[cfg(test)]
mod tests;

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

pub use bookmark::{BOOKMARK_WORDS, BOOKMARK_WORDS_V1, BookmarkPhys};
pub use dataset::{DSL_DATASET_BYTES, DslDatasetPhys, flags as dataset_flags, names as dataset_names};
pub use deadlist::{DSL_DEADLIST_BYTES, DslDeadlistPhys};
pub use dir::{DSL_DIR_BYTES, DslDirPhys, flags as dir_flags, names as dir_names, used};
pub use redaction::{REDACT_BLOCK_BYTES, REDACTION_LIST_BYTES, RedactBlockPhys, RedactionListPhys};
pub use scan::ScanPhys;

/// A structure of words that lies in a ZAP's value; words it does not have stay zero, words too
/// many are left out.
fn phys_of_words<T: FromZeros + FromBytes + IntoBytes>(words: &[u64]) -> T {
    let mut phys = T::new_zeroed();
    for (to, from) in phys.as_mut_bytes().chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&U64::new(*from).to_bytes());
    }
    phys
}

/// The words of such a structure.
fn words_of_phys(phys: &(impl IntoBytes + Immutable)) -> Vec<u64> {
    let words = phys.as_bytes().chunks_exact(8);
    words.filter_map(|word| U64::read_from_bytes(word).ok()).map(U64::get).collect()
}
