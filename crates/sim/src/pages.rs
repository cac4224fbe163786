//! A disk's bytes, sparse and cheap to copy: copies share all pages until one is written.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::rng::mix;

const PAGE_BYTES: usize = 4096;
const PAGES_PER_CHUNK: usize = 256;

type Page = [u8; PAGE_BYTES];

/// A stretch of pages.
#[derive(Clone)]
struct Chunk {
    pages: [Option<Arc<Page>>; PAGES_PER_CHUNK],
    /// Once asked for, until a page is written.
    digest: OnceLock<u64>,
}

impl Chunk {
    fn empty() -> Self {
        Self { pages: [const { None }; PAGES_PER_CHUNK], digest: OnceLock::new() }
    }

    /// The same for pages never written and pages of zeros.
    fn digest(&self) -> u64 {
        *self.digest.get_or_init(|| {
            let pages = self.pages.iter().enumerate();
            let written = pages.filter_map(|(n, page)| Some((n, page.as_ref()?)));
            let sums = written.map(|(n, page)| page_digest(n as u64, page));
            sums.fold(0, u64::wrapping_add)
        })
    }
}

/// 0 for a page of zeros.
fn page_digest(number: u64, page: &Page) -> u64 {
    let (words, _) = page.as_chunks::<8>();
    let mut digest = [0; 2];
    for (n, word) in words.iter().enumerate() {
        let lane = &mut digest[n % 2];
        *lane = mix(u64::rotate_left(*lane, 23) ^ u64::from_le_bytes(*word));
    }
    let [a, b] = digest;
    if (a, b) == (0, 0) { 0 } else { mix(mix(a ^ number) ^ b.rotate_left(32)) }
}

/// Zeros until written.
#[derive(Clone, Default)]
pub(crate) struct Pages {
    /// By number: a disk is mostly empty, however large it is.
    chunks: BTreeMap<usize, Arc<Chunk>>,
}

impl Pages {
    /// A number that two contents share only if they are the same.
    pub(crate) fn digest(&self) -> u64 {
        let written = self.chunks.iter().map(|(&n, chunk)| (n as u64, chunk.digest()));
        let sums = written.filter(|&(_, digest)| digest != 0).map(|(n, digest)| mix(mix(n) ^ digest));
        sums.fold(0, u64::wrapping_add)
    }

    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        for (page, start, part) in pieces(offset, into.len()) {
            let len = part.len();
            match self.page(page) {
                Some(bytes) => into[part].copy_from_slice(&bytes[start..start + len]),
                None => into[part].fill(0),
            }
        }
    }

    pub(crate) fn write(&mut self, offset: u64, from: &[u8]) {
        for (page, start, part) in pieces(offset, from.len()) {
            let bytes = self.page_mut(page);
            bytes[start..start + part.len()].copy_from_slice(&from[part]);
        }
    }

    fn page(&self, number: usize) -> Option<&Arc<Page>> {
        let chunk = self.chunks.get(&(number / PAGES_PER_CHUNK))?;
        chunk.pages[number % PAGES_PER_CHUNK].as_ref()
    }

    fn page_mut(&mut self, number: usize) -> &mut Page {
        let chunk = self.chunks.entry(number / PAGES_PER_CHUNK).or_insert_with(|| Arc::new(Chunk::empty()));
        let chunk = Arc::make_mut(chunk);
        chunk.digest = OnceLock::new();
        let page = &mut chunk.pages[number % PAGES_PER_CHUNK];
        Arc::make_mut(page.get_or_insert_with(|| Arc::new([0; PAGE_BYTES])))
    }
}

/// Cuts `len` bytes from `offset` at page borders: page, offset in it, range of the bytes.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (usize, usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let start = (at % PAGE_BYTES as u64) as usize;
        let part = done..len.min(done + PAGE_BYTES - start);
        done = part.end;
        Some(((at / PAGE_BYTES as u64) as usize, start, part))
    })
}
