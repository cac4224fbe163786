//! A disk's bytes, sparse and cheap to copy: copies share all pages until one is written.

use std::ops::Range;
use std::sync::Arc;

const PAGE_BYTES: usize = 4096;
const PAGES_PER_CHUNK: usize = 256;

type Page = [u8; PAGE_BYTES];
type Chunk = [Option<Arc<Page>>; PAGES_PER_CHUNK];

/// Zeros until written.
#[derive(Clone, Default)]
pub(crate) struct Pages {
    chunks: Vec<Option<Arc<Chunk>>>,
}

impl Pages {
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
        let chunk = self.chunks.get(number / PAGES_PER_CHUNK)?.as_ref()?;
        chunk[number % PAGES_PER_CHUNK].as_ref()
    }

    fn page_mut(&mut self, number: usize) -> &mut Page {
        let index = number / PAGES_PER_CHUNK;
        if index >= self.chunks.len() {
            self.chunks.resize(index + 1, None);
        }
        let chunk = self.chunks[index].get_or_insert_with(|| Arc::new([const { None }; PAGES_PER_CHUNK]));
        let page = &mut Arc::make_mut(chunk)[number % PAGES_PER_CHUNK];
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
