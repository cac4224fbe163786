//! Tables of names: how the figure of each is had of the pools.

use crate::format::Data;
use crate::{MemorySeen, Observed, PoolSeen};
use control::{CacheDevicesCounted, PoolCounted};

/// How a figure is had.
pub(crate) enum Figure {
    /// The sum of what each pool has counted.
    Sum(fn(&PoolCounted) -> u64),
    /// The event never happens here, or the thing does not exist here.
    Never,
    /// The sum of what the cache devices of each pool did; 0 where there is none.
    Devices(fn(&CacheDevicesCounted) -> u64),
    /// Nothing counts it of cache devices: 0 where there is none, and else not known.
    NoDevices,
    /// Of the daemon's memory, where that is known.
    Memory(fn(&MemorySeen) -> u64),
    /// The same, which OpenZFS has as a signed number.
    SignedMemory(fn(&MemorySeen) -> u64),
    /// Of all pools at once.
    Whole(fn(&[PoolSeen]) -> u64),
}

/// A name, and how its figure is had.
pub(crate) type KstatRow = (&'static str, Figure);

/// A name, and the figure of one pool or of one log.
pub(crate) type RowOf<T> = (&'static str, fn(&T) -> u64);

/// The lines of a table. What is not known has none.
pub(crate) fn lines(rows: &[KstatRow], observed: &Observed) -> Vec<(&'static str, Data)> {
    let line = |(name, figure): &KstatRow| Some((*name, figure.of(observed)?));
    rows.iter().filter_map(line).collect()
}

/// The same of a table that is about pools only.
pub(crate) fn lines_of(rows: &'static [RowOf<PoolCounted>], pools: &[PoolSeen]) -> Vec<(&'static str, Data)> {
    rows.iter().map(|(name, figure)| (*name, Data::Number(sum(pools, *figure)))).collect()
}

/// The sum of a figure of each pool.
pub(crate) fn sum(pools: &[PoolSeen], figure: impl Fn(&PoolCounted) -> u64) -> u64 {
    pools.iter().map(|pool| figure(&pool.counted)).sum()
}

impl Figure {
    fn of(&self, observed: &Observed) -> Option<Data> {
        let pools = &observed.pools;
        let mut devices = pools.iter().filter_map(|pool| pool.counted.cache_devices.as_ref());
        Some(match self {
            Self::Sum(figure) => Data::Number(sum(pools, figure)),
            Self::Never => Data::Number(0),
            Self::Devices(figure) => Data::Number(devices.map(figure).sum()),
            Self::NoDevices => devices.next().is_none().then_some(Data::Number(0))?,
            Self::Memory(figure) => Data::Number(figure(observed.memory.as_ref()?)),
            Self::SignedMemory(figure) => {
                Data::Signed(i64::try_from(figure(observed.memory.as_ref()?)).unwrap_or(i64::MAX))
            }
            Self::Whole(figure) => Data::Number(figure(pools)),
        })
    }
}
