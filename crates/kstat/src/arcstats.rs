//! `arcstats`: the caches of all pools together (OpenZFS: `module/zfs/arc.c`, `include/sys/arc_impl.h`).
//!
//! ```text
//!  OpenZFS                          here
//!  mru: used once lately            small: used once or not at all, and what is there only as it is stored
//!  mfu: used again                  main
//!  mru_ghost: gone, remembered      the one list of blocks that are gone; there is no mfu_ghost
//!  anon: not on disk yet            nothing: what is dirty lies outside of the cache
//!  uncached: to be dropped          nothing: what is not to stay is not put there
//! ```
//! A cache's blocks may all be evicted at any time: sizes of what is evictable are those of the queue.

use crate::file::KstatFile;
use crate::table::{
    Figure::{Devices, Memory, Never, NoDevices, SignedMemory, Sum, Whole},
    KstatRow, lines, sum,
};
use crate::{Observed, PoolSeen};
use control::{BytesByKind, CacheCounted};

/// Fractions are given as parts of this (`ARC` keeps them as fixed point of 32 bits).
const WHOLE: u64 = 1 << 32;

fn total(bytes: BytesByKind) -> u64 {
    bytes.data + bytes.metadata
}

fn data(cache: &CacheCounted) -> u64 {
    cache.small.data + cache.main.data
}

fn metadata(cache: &CacheCounted) -> u64 {
    cache.small.metadata + cache.main.metadata
}

/// Memory that buffers take beside what is in them: whole pages.
fn waste(cache: &CacheCounted) -> u64 {
    cache.bytes.saturating_sub(data(cache) + metadata(cache) + cache.beside_bytes)
}

/// A part of a whole, in parts of [`WHOLE`].
fn fraction(part: u64, of: u64) -> u64 {
    let fraction = u128::from(part) * u128::from(WHOLE) / u128::from(of.max(1));
    u64::try_from(fraction).unwrap_or(WHOLE)
}

/// The part of the blocks that is metadata, now. No part is set aside for it.
fn metadata_part(pools: &[PoolSeen]) -> u64 {
    let of_metadata = sum(pools, |p| metadata(&p.cache));
    fraction(of_metadata, of_metadata + sum(pools, |p| data(&p.cache)))
}

/// The part of the room that `small` may have before the oldest block of it has to prove itself.
fn small_part(pools: &[PoolSeen]) -> u64 {
    fraction(sum(pools, |p| p.cache.small_limit_bytes), sum(pools, |p| p.cache.limit_bytes))
}

/// 1 while some cache may have less than it had if memory were not short.
fn is_short(pools: &[PoolSeen]) -> u64 {
    u64::from(pools.iter().any(|pool| pool.counted.cache.limit_bytes < pool.counted.cache.limit_most_bytes))
}

const ROWS: &[KstatRow] = &[
    (
        "hits",
        Sum(|p| {
            p.cache.data.hits + p.cache.metadata.hits + p.cache.data_ahead.hits + p.cache.metadata_ahead.hits
        }),
    ),
    (
        "iohits",
        Sum(|p| {
            let of_readers = p.cache.data.joined + p.cache.metadata.joined;
            of_readers + p.cache.data_ahead.joined + p.cache.metadata_ahead.joined
        }),
    ),
    (
        "misses",
        Sum(|p| {
            let of_readers = p.cache.data.misses + p.cache.metadata.misses;
            of_readers + p.cache.data_ahead.misses + p.cache.metadata_ahead.misses
        }),
    ),
    ("demand_data_hits", Sum(|p| p.cache.data.hits)),
    ("demand_data_iohits", Sum(|p| p.cache.data.joined)),
    ("demand_data_misses", Sum(|p| p.cache.data.misses)),
    ("demand_metadata_hits", Sum(|p| p.cache.metadata.hits)),
    ("demand_metadata_iohits", Sum(|p| p.cache.metadata.joined)),
    ("demand_metadata_misses", Sum(|p| p.cache.metadata.misses)),
    ("prefetch_data_hits", Sum(|p| p.cache.data_ahead.hits)),
    ("prefetch_data_iohits", Sum(|p| p.cache.data_ahead.joined)),
    ("prefetch_data_misses", Sum(|p| p.cache.data_ahead.misses)),
    ("prefetch_metadata_hits", Sum(|p| p.cache.metadata_ahead.hits)),
    ("prefetch_metadata_iohits", Sum(|p| p.cache.metadata_ahead.joined)),
    ("prefetch_metadata_misses", Sum(|p| p.cache.metadata_ahead.misses)),
    ("mru_hits", Sum(|p| p.cache.small_hits)),
    ("mru_ghost_hits", Sum(|p| p.cache.ghost_hits)),
    ("mfu_hits", Sum(|p| p.cache.main_hits)),
    ("mfu_ghost_hits", Never),
    ("uncached_hits", Never),
    ("deleted", Sum(|p| p.cache.evicted)),
    // A block that is due to leave leaves: the lock of its shard is held then.
    ("mutex_miss", Never),
    ("access_skip", Never),
    ("evict_skip", Never),
    ("evict_not_enough", Never),
    ("evict_l2_cached", Devices(|devices| devices.offered_again_bytes)),
    ("evict_l2_eligible", Sum(|p| p.cache.evicted_small_bytes + p.cache.evicted_main_bytes)),
    ("evict_l2_eligible_mfu", Sum(|p| p.cache.evicted_main_bytes)),
    ("evict_l2_eligible_mru", Sum(|p| p.cache.evicted_small_bytes)),
    ("evict_l2_ineligible", Sum(|p| p.cache.evicted_barred_bytes)),
    ("evict_l2_skip", Never),
    ("hash_elements", Sum(|p| p.cache.blocks)),
    ("hash_elements_max", Sum(|p| p.cache.blocks_most)),
    // The table has no chains.
    ("hash_collisions", Never),
    ("hash_chains", Never),
    ("hash_chain_max", Never),
    ("meta", Whole(metadata_part)),
    ("pd", Whole(small_part)),
    ("pm", Whole(small_part)),
    ("c", Sum(|p| p.cache.limit_bytes)),
    ("c_min", Sum(|p| p.cache.limit_least_bytes)),
    ("c_max", Sum(|p| p.cache.limit_most_bytes)),
    ("size", Sum(|p| p.cache.bytes)),
    ("compressed_size", Sum(|p| p.cache.stored_bytes)),
    ("uncompressed_size", Sum(|p| p.cache.logical_bytes)),
    ("overhead_size", Sum(|p| p.cache.unpacked_bytes)),
    ("hdr_size", Sum(|p| p.cache.beside_bytes)),
    ("data_size", Sum(|p| data(&p.cache))),
    ("metadata_size", Sum(|p| metadata(&p.cache))),
    // Blocks in use are held by the cache's own buffers, and what OpenZFS calls a bonus lies in its object.
    ("dbuf_size", Never),
    ("dnode_size", Sum(|p| p.cache.object_bytes)),
    ("bonus_size", Never),
    ("anon_size", Never),
    ("anon_data", Never),
    ("anon_metadata", Never),
    ("anon_evictable_data", Never),
    ("anon_evictable_metadata", Never),
    ("mru_size", Sum(|p| total(p.cache.small))),
    ("mru_data", Sum(|p| p.cache.small.data)),
    ("mru_metadata", Sum(|p| p.cache.small.metadata)),
    ("mru_evictable_data", Sum(|p| p.cache.small.data)),
    ("mru_evictable_metadata", Sum(|p| p.cache.small.metadata)),
    ("mru_ghost_size", Sum(|p| total(p.cache.ghosts))),
    ("mru_ghost_data", Sum(|p| p.cache.ghosts.data)),
    ("mru_ghost_metadata", Sum(|p| p.cache.ghosts.metadata)),
    ("mru_ghost_evictable_data", Sum(|p| p.cache.ghosts.data)),
    ("mru_ghost_evictable_metadata", Sum(|p| p.cache.ghosts.metadata)),
    ("mfu_size", Sum(|p| total(p.cache.main))),
    ("mfu_data", Sum(|p| p.cache.main.data)),
    ("mfu_metadata", Sum(|p| p.cache.main.metadata)),
    ("mfu_evictable_data", Sum(|p| p.cache.main.data)),
    ("mfu_evictable_metadata", Sum(|p| p.cache.main.metadata)),
    ("mfu_ghost_size", Never),
    ("mfu_ghost_data", Never),
    ("mfu_ghost_metadata", Never),
    ("mfu_ghost_evictable_data", Never),
    ("mfu_ghost_evictable_metadata", Never),
    ("uncached_size", Never),
    ("uncached_data", Never),
    ("uncached_metadata", Never),
    ("uncached_evictable_data", Never),
    ("uncached_evictable_metadata", Never),
    ("l2_hits", Devices(|devices| devices.hits)),
    ("l2_misses", Devices(|devices| devices.misses)),
    ("l2_prefetch_asize", NoDevices),
    ("l2_mru_asize", NoDevices),
    ("l2_mfu_asize", NoDevices),
    ("l2_bufc_data_asize", NoDevices),
    ("l2_bufc_metadata_asize", NoDevices),
    ("l2_feeds", NoDevices),
    ("l2_rw_clash", NoDevices),
    ("l2_read_bytes", Devices(|devices| devices.read_bytes)),
    ("l2_write_bytes", Devices(|devices| devices.written_bytes)),
    ("l2_writes_sent", NoDevices),
    ("l2_writes_done", NoDevices),
    ("l2_writes_error", NoDevices),
    ("l2_writes_lock_retry", NoDevices),
    ("l2_evict_lock_retry", NoDevices),
    ("l2_evict_reading", NoDevices),
    ("l2_evict_l1cached", NoDevices),
    ("l2_free_on_write", NoDevices),
    ("l2_abort_lowmem", NoDevices),
    ("l2_cksum_bad", Devices(|devices| devices.wrong_blocks)),
    ("l2_io_error", Devices(|devices| devices.failed_reads)),
    ("l2_size", NoDevices),
    ("l2_asize", Devices(|devices| devices.bytes)),
    ("l2_hdr_size", Devices(|devices| devices.memory_bytes)),
    ("l2_log_blk_writes", NoDevices),
    ("l2_log_blk_avg_asize", NoDevices),
    ("l2_log_blk_asize", NoDevices),
    ("l2_log_blk_count", NoDevices),
    ("l2_data_to_meta_ratio", NoDevices),
    ("l2_rebuild_success", NoDevices),
    ("l2_rebuild_unsupported", NoDevices),
    ("l2_rebuild_io_errors", NoDevices),
    ("l2_rebuild_dh_errors", NoDevices),
    ("l2_rebuild_cksum_lb_errors", NoDevices),
    ("l2_rebuild_lowmem", NoDevices),
    ("l2_rebuild_size", NoDevices),
    ("l2_rebuild_asize", NoDevices),
    ("l2_rebuild_bufs", Devices(|devices| devices.rebuilt_blocks)),
    ("l2_rebuild_bufs_precached", NoDevices),
    ("l2_rebuild_log_blks", NoDevices),
    // The kernel takes no memory back from this cache: the daemon looks how much is free, and shrinks it.
    ("memory_throttle_count", Never),
    ("memory_direct_count", Never),
    ("memory_indirect_count", Never),
    ("memory_all_bytes", Memory(|memory| memory.limit_bytes)),
    ("memory_free_bytes", Memory(|memory| memory.free_bytes)),
    (
        "memory_available_bytes",
        SignedMemory(|memory| memory.free_bytes.saturating_sub(memory.to_stay_free_bytes)),
    ),
    ("arc_no_grow", Whole(is_short)),
    ("arc_tempreserve", Never),
    ("arc_loaned_bytes", Never),
    ("arc_prune", Never),
    ("arc_meta_used", Sum(|p| metadata(&p.cache) + p.cache.beside_bytes + p.cache.object_bytes)),
    // Objects have no limit of their own.
    ("arc_dnode_limit", Memory(|memory| memory.limit_bytes)),
    ("async_upgrade_sync", Never),
    ("predictive_prefetch", Sum(|p| p.cache.predicted.reads)),
    ("demand_hit_predictive_prefetch", Sum(|p| p.cache.predicted.hits)),
    ("demand_iohit_predictive_prefetch", Sum(|p| p.cache.predicted.joined)),
    ("prescient_prefetch", Sum(|p| p.cache.planned.reads)),
    ("demand_hit_prescient_prefetch", Sum(|p| p.cache.planned.hits)),
    ("demand_iohit_prescient_prefetch", Sum(|p| p.cache.planned.joined)),
    ("arc_need_free", Memory(|memory| memory.to_stay_free_bytes.saturating_sub(memory.free_bytes))),
    ("arc_sys_free", Memory(|memory| memory.to_stay_free_bytes)),
    ("arc_raw_size", Never),
    ("cached_only_in_progress", Never),
    ("abd_chunk_waste_size", Sum(|p| waste(&p.cache))),
];

/// The file.
pub(crate) fn file(observed: &Observed) -> KstatFile {
    KstatFile::named(None, "arcstats", &lines(ROWS, observed))
}
