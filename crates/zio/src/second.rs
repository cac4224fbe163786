//! Blocks on their way to cache devices and back.

use std::sync::Arc;

use env::{IoBuf, IoClass, boxed, in_class};
use l2arc::{CacheDevice, Form, Offered, SecondCache, Stored};
use ondisk::{Blkptr, Compression, CompressionKind};
use vdev::VdevError;

use crate::{Bookmark, Zio};

impl Zio {
    /// The pool's cache devices.
    #[must_use]
    pub fn second(&self) -> &Arc<SecondCache> {
        self.cache.second()
    }

    /// Writes what leaves memory to a cache device, until that is closed.
    ///
    /// # Errors
    /// Those of the device: it is of no use any more.
    #[boxed]
    pub async fn feed(&self, device: &CacheDevice) -> Result<(), VdevError> {
        self.cache.count_second();
        while let Some(blocks) = self.second().next(device).await {
            let blocks: Vec<_> = blocks.into_iter().filter_map(|block| self.as_stored(block)).collect();
            in_class(IoClass::Async, self.second().write(device, &blocks)).await?;
            self.cache.count_second();
        }
        Ok(())
    }

    /// A block as it is stored, as a cache device has it.
    pub(crate) async fn read_second(&self, bp: &Blkptr, bookmark: &Bookmark) -> Option<IoBuf> {
        if !self.second().has_devices() {
            return None;
        }
        let check = self.check_of(bp, bookmark).ok()?;
        self.second().read(bp, &|bytes| check.holds(bytes)).await
    }

    /// The bytes that the pool stores a block as. What memory had unpacked is packed again; where that gives other bytes,
    /// because it was done by another program or at another level, the block is let go.
    fn as_stored(&self, block: Offered) -> Option<Stored> {
        let Offered { bp, form } = block;
        let data = match form {
            Form::Stored(bytes) => return Some(Stored { bp, bytes }),
            Form::Plain(data) => data,
        };
        let psize = usize::try_from(bp.psize().get()).ok()?;
        let bytes = match bp.compression().ok()? {
            CompressionKind::Off if data.len() == psize => data,
            CompressionKind::Off => return None,
            kind => Arc::new(packed_again(&data, kind, psize)?),
        };
        let check = self.check_of(&bp, &Bookmark::default()).ok()?;
        check.holds(&bytes).then_some(Stored { bp, bytes })
    }
}

fn packed_again(data: &IoBuf, kind: CompressionKind, psize: usize) -> Option<IoBuf> {
    let mut out = IoBuf::zeroed(psize);
    codec::compress_into(Compression::of(kind), data, &mut out)?;
    Some(out)
}
