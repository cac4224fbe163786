//! Blocks of intent logs: allocated ahead, written once, read once.
//!
//! A log block's place is known before its contents are, for its predecessor names it. So its
//! blkptr carries no checksum but a seed, and its size is that of the allocation. It goes to a log
//! vdev if there is one with room, else to the main pool.
//! (tests: `log_blocks_go_to_log_vdevs_first_and_to_the_main_pool_when_those_are_full`,
//! `a_failed_log_vdev_is_left_out`)

use env::{BufSlice, Durability, IoBuf, boxed};
use metaslab::{AllocError, Class, Hint};
use ondisk::{Blkptr, BlkptrParts, ChecksumKind, CompressionKind, Dva, ObjectType};
use units::{Lsize, Psize, Txg, VdevId};
use vdev::Address;

use crate::embedded::verify_log_block;
use crate::stats::one_more;
use crate::{LogHint, Zio, ZioError};

/// Log blocks are whole multiples of this.
const LOG_BLOCK_UNIT_BYTES: u64 = 4096;

impl Zio {
    /// Allocates a log block of at least `bytes`, born in `txg`: one copy, uncompressed, the
    /// checksum inside (`zilog2`), all seed words zero for the log to set.
    ///
    /// # Errors
    /// [`ZioError::NoLogSpace`] when there is room nowhere.
    ///
    /// # Panics
    /// When `bytes` is 0 or more than 16 MiB.
    pub fn allocate_log(&self, txg: Txg, bytes: u64, hint: &LogHint<'_>) -> Result<Blkptr, ZioError> {
        assert!(bytes > 0 && bytes <= 16 << 20, "a log block of {bytes} bytes");
        let size = units::round_up(bytes, LOG_BLOCK_UNIT_BYTES);
        let dvas = self
            .allocate_log_dva(txg, Psize::new(size), hint)
            .map_err(|source| ZioError::NoLogSpace { txg, source })?;
        let parts = BlkptrParts {
            dvas,
            lsize: Lsize::new(size),
            psize: Psize::new(size),
            compression: CompressionKind::Off,
            checksum_kind: ChecksumKind::Zilog2,
            object_type: ObjectType::INTENT_LOG,
            birth: txg,
            physical_birth: txg,
            ..BlkptrParts::default()
        };
        Ok(parts.to_blkptr())
    }

    fn allocate_log_dva(&self, txg: Txg, psize: Psize, hint: &LogHint<'_>) -> Result<[Dva; 3], AllocError> {
        let unusable: Vec<VdevId> = self.vdevs.unusable().into_iter().collect();
        let mut avoid: Vec<VdevId> = hint.avoid.to_vec();
        avoid.extend(self.vdevs.doubtful());
        let mut allocator = self.allocator.lock();
        let wish = Hint { prefer: hint.prefer, avoid: &avoid };
        let has_logs = allocator.takers(Class::Log).next().is_some();
        if let Ok(dvas) = allocator.allocate(Class::Log, psize, 1, txg, wish) {
            return Ok(dvas);
        }
        if has_logs {
            one_more(&self.counters.log_blocks_in_main);
        }
        let wish = Hint { prefer: None, ..wish };
        let last_resort = Hint { prefer: None, avoid: &unusable };
        allocator
            .allocate(Class::Normal, psize, 1, txg, wish)
            .or_else(|_| allocator.allocate(Class::Normal, psize, 1, txg, last_resort))
    }

    /// Writes slices one after another from the start of a log block.
    ///
    /// # Errors
    /// [`ZioError::Log`] when no child of the vdev took it; the log then goes on elsewhere.
    ///
    /// # Panics
    /// When the slices are longer than the block.
    pub async fn write_log(
        &self,
        bp: &Blkptr,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> Result<(), ZioError> {
        let bytes: u64 = slices.iter().map(|slice| slice.bytes().len() as u64).sum();
        assert!(bytes <= bp.psize().get(), "{bytes} bytes in a log block of {}", bp.psize());
        let dva = bp.dva(0);
        let result = self.vdevs.write(Address::of(&dva, bp.birth()), slices, durability).await;
        if durability == Durability::Cached {
            self.note_unflushed(dva.vdev);
        }
        result.map_err(|source| {
            self.note_failed_write(dva, &source);
            ZioError::Log { dva, source }
        })
    }

    /// The bytes of a log block as they lie on disk. When some copy has the right checksum inside,
    /// it is that one; else any: whoever reads a log goes on until a block is not one.
    ///
    /// # Errors
    /// [`ZioError::Log`] when no device answers, or the place is outside the pool.
    #[boxed]
    pub async fn read_log(&self, bp: &Blkptr) -> Result<IoBuf, ZioError> {
        let dva = bp.dva(0);
        let len = usize::try_from(bp.psize().get()).unwrap_or(usize::MAX);
        let verify = |block: &[u8]| verify_log_block(block, bp);
        let read = self.vdevs.probe(Address::of(&dva, bp.birth()), len, &verify).await;
        read.map_err(|source| ZioError::Log { dva, source })
    }

    /// Makes all copies of a log block good that one copy is good of. The end of a log that a power
    /// cut left may lie on one child of a mirror only, and the next reader may get to ask another.
    ///
    /// # Errors
    /// [`ZioError::Log`] when no copy is good.
    #[boxed]
    pub async fn mend_log(&self, bp: &Blkptr) -> Result<(), ZioError> {
        let dva = bp.dva(0);
        let len = usize::try_from(bp.psize().get()).unwrap_or(usize::MAX);
        let verify = |block: &[u8]| verify_log_block(block, bp);
        let scrubbed = self.vdevs.scrub(Address::of(&dva, bp.birth()), len, &verify).await;
        if scrubbed.map_err(|source| ZioError::Log { dva, source })? > 0 {
            self.note_unflushed(dva.vdev);
        }
        Ok(())
    }
}
