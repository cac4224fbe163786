//! How large a log has to be.
//!
//! A block of the log is in use from the txg in which it was written until that has synced, and then rests while
//! older uberblocks may need it: `live_txgs` txgs have some at a time. A log that holds just those is full
//! now and then, and the engine has txgs synced early before that: as soon as the open one has taken
//! `share_percent` of what is free when it begins, while the one before it may still hold as much. So none is cut
//! short when
//!
//! ```text
//!   peak txg <= share * (room - peak txg)      room >= peak txg * (100 / share + 1)
//! ```
//! which is six txgs' worth, of which four are in use. A device has labels, too, and whole metaslabs.

use crate::Measured;
use control::{LogPeakInfo, VdevClass};
use serde::Serialize;
use vdev::{DEVICE_MIN_BYTES, leaf_asize, leaf_psize, metaslab_shift};

/// Sizes are told in whole ones of these.
const STEP_BYTES: u64 = 1 << 20;

/// The most there was, and what follows, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Peak {
    /// Of one txg.
    pub txg_bytes: u64,
    /// At once, by adding up the txgs that have log blocks at a time.
    pub live_bytes: u64,
    /// At once, as the log vdevs' allocator has it; zero without log vdevs.
    pub held_bytes: u64,
    /// The smallest device that would have sufficed: no txg cut short.
    pub enough_bytes: u64,
}

impl Peak {
    fn of(peak: &LogPeakInfo, share_percent: u64) -> Self {
        let LogPeakInfo { txg_bytes, live_bytes, held_bytes } = *peak;
        let enough_bytes = device_for(room_for(txg_bytes, share_percent).max(live_bytes).max(held_bytes));
        Self { txg_bytes, live_bytes, held_bytes, enough_bytes }
    }
}

/// How large a log has to be, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Size {
    /// There are log vdevs.
    pub has_logs: bool,
    /// Room of the log vdevs.
    pub room_bytes: u64,
    /// Of a txg, on the mean of the last ones that wrote to the log.
    pub mean_txg_bytes: u64,
    /// Txgs that have log blocks at a time.
    pub live_txgs: u64,
    /// A txg is synced early once it has taken so much of the free room, in percent.
    pub share_percent: u64,
    /// The most in the time that was measured.
    pub peak: Peak,
    /// The most in the last hour; none when only a shorter time was watched.
    pub hour: Option<Peak>,
    /// Txgs that were synced early because the log was too small for them.
    pub cut_txgs: u64,
    /// With such txgs: what the largest of the last ones would have been, had it lasted as long as others.
    pub uncut_txg_bytes: Option<u64>,
    /// Log blocks that went to data vdevs because no log vdev could take them.
    pub blocks_past_logs: u64,
    /// The smallest device that would have sufficed for all of that: the advice.
    pub enough_bytes: u64,
    /// The smallest that the format takes.
    pub min_bytes: u64,
}

impl Size {
    pub(crate) fn of(measured: &Measured) -> Self {
        let facts = &measured.facts;
        let logs = || facts.vdevs.iter().filter(|vdev| vdev.class == VdevClass::Log);
        let peak = Peak::of(&facts.peak, facts.share_percent);
        let uncut_txg_bytes = (facts.hurried_txgs > 0).then(|| uncut(measured));
        let uncut_enough = uncut_txg_bytes.map(|bytes| device_for(room_for(bytes, facts.share_percent)));
        let writing = || facts.txgs.iter().map(|txg| txg.bytes).filter(|bytes| *bytes > 0);
        Self {
            has_logs: logs().next().is_some(),
            room_bytes: logs().map(|vdev| vdev.space_bytes).sum(),
            mean_txg_bytes: writing().sum::<u64>() / (writing().count() as u64).max(1),
            live_txgs: facts.live_txgs,
            share_percent: facts.share_percent,
            peak,
            hour: measured.is_since_import.then(|| Peak::of(&facts.hour, facts.share_percent)),
            cut_txgs: facts.hurried_txgs,
            uncut_txg_bytes,
            blocks_past_logs: facts.blocks_past_logs,
            enough_bytes: peak.enough_bytes.max(uncut_enough.unwrap_or(0)),
            min_bytes: DEVICE_MIN_BYTES,
        }
    }
}

/// The most that one of the last txgs would have had at the rate it wrote, had it lasted until its time was up.
fn uncut(measured: &Measured) -> u64 {
    let timeout = measured.facts.txg_timeout_nanos;
    let grown = measured.facts.txgs.windows(2).map(|pair| {
        let lasted = pair[1].at_nanos.saturating_sub(pair[0].at_nanos).max(1);
        match lasted < timeout {
            true => u64::try_from(u128::from(pair[1].bytes) * u128::from(timeout) / u128::from(lasted))
                .unwrap_or(u64::MAX),
            false => pair[1].bytes,
        }
    });
    grown.max().unwrap_or(0).max(measured.facts.peak.txg_bytes)
}

/// Room in which no txg of that size is cut short.
fn room_for(txg_bytes: u64, share_percent: u64) -> u64 {
    let shares = u128::from(txg_bytes) * 100 / u128::from(share_percent.clamp(1, 100));
    u64::try_from(shares).unwrap_or(u64::MAX).saturating_add(txg_bytes)
}

/// What of a device of that size can be allocated.
fn room_of(device_bytes: u64) -> u64 {
    let asize = leaf_asize(leaf_psize(device_bytes));
    let shift = metaslab_shift(asize);
    asize >> shift << shift
}

/// The smallest device, in steps, with that much room.
fn device_for(room_bytes: u64) -> u64 {
    let from = room_bytes.clamp(DEVICE_MIN_BYTES, u64::MAX / 2).div_ceil(STEP_BYTES);
    let mut sizes = (from..).map(|steps| steps * STEP_BYTES);
    sizes.find(|size| room_of(*size) >= room_bytes.min(u64::MAX / 2)).unwrap_or(u64::MAX)
}
