//! How much of a txg is being written at the same time.
//!
//! ```text
//!   a txg's blocks ─► take bytes ─► compress, checksum, write ─► give them back
//!                          │ none left
//!                          └─► wait in line
//! ```
//! Counted in bytes, not in blocks: a few blocks of 16 MiB would take too much memory, and many of
//! 4 KiB keep no disk busy. It must last a device for longer than the system may leave the thread
//! that feeds it without a processor, some milliseconds. All objsets of a pool share it.

use event_listener::Event;
use parking_lot::Mutex;

/// Bytes of a pool being compressed and written at the same time, unless there is little memory.
pub const IN_FLIGHT_BYTES: u64 = 32 << 20;
/// A block counts for so much at least, so that their number has a bound too.
const BLOCK_MIN_BYTES: u64 = 32 << 10;

/// The bytes that may be in flight.
pub(crate) struct InFlight {
    state: Mutex<State>,
    given_back: Event,
}

struct State {
    limit: u64,
    taken: u64,
}

impl InFlight {
    pub fn new() -> Self {
        let state = State { limit: IN_FLIGHT_BYTES, taken: 0 };
        Self { state: Mutex::new(state), given_back: Event::new() }
    }

    /// Sets how much may be in flight from now on.
    pub fn set_limit(&self, bytes: u64) {
        self.state.lock().limit = bytes;
        self.given_back.notify(1);
    }

    /// Takes room for a block of so many bytes, as soon as there is some. One larger than all that
    /// may be in flight goes alone.
    pub async fn take(&self, bytes: u64) -> Room<'_> {
        let bytes = bytes.max(BLOCK_MIN_BYTES);
        loop {
            if let Some(room) = self.try_take(bytes) {
                return room;
            }
            let listener = self.given_back.listen();
            if let Some(room) = self.try_take(bytes) {
                return room;
            }
            listener.await;
        }
    }

    fn try_take(&self, bytes: u64) -> Option<Room<'_>> {
        let mut state = self.state.lock();
        if state.taken > 0 && state.taken.saturating_add(bytes) > state.limit {
            return None;
        }
        state.taken = state.taken.saturating_add(bytes);
        let some_left = state.taken.saturating_add(BLOCK_MIN_BYTES) <= state.limit;
        drop(state);
        if some_left {
            // What was given back by a large block does for several small ones.
            self.given_back.notify(1);
        }
        Some(Room { of: self, bytes })
    }
}

/// Bytes taken, until dropped.
pub(crate) struct Room<'a> {
    of: &'a InFlight,
    bytes: u64,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.of.state.lock().taken -= self.bytes;
        self.of.given_back.notify_additional(1);
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use futures::future::join_all;
    use parking_lot::Mutex;

    use super::*;

    /// Lets the others go first.
    async fn yield_once() {
        let mut polled = false;
        std::future::poll_fn(|cx| {
            if std::mem::replace(&mut polled, true) {
                return std::task::Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            std::task::Poll::Pending
        })
        .await;
    }

    #[test]
    fn no_more_is_in_flight_than_may_be_and_everybody_gets_there() {
        let flights = InFlight::new();
        let (now, most) = (Mutex::new(0), Mutex::new(0));
        let fly = |bytes: u64| {
            let (flights, now, most) = (&flights, &now, &most);
            async move {
                let _room = flights.take(bytes).await;
                *now.lock() += bytes;
                let peak = (*now.lock()).max(*most.lock());
                *most.lock() = peak;
                for _ in 0..3 {
                    yield_once().await;
                }
                *now.lock() -= bytes;
            }
        };
        block_on(join_all((0..2000_u64).map(|n| fly((32 << 10) << (n * 7 % 10)))));
        assert_eq!(*now.lock(), 0);
        assert!((IN_FLIGHT_BYTES / 2..=IN_FLIGHT_BYTES).contains(&*most.lock()), "{}", most.lock());
        block_on(flights.take(u64::MAX));
        assert_eq!(flights.state.lock().taken, 0);
    }

    #[test]
    fn who_gives_up_waiting_passes_his_turn_on() {
        let flights = InFlight::new();
        block_on(async {
            let all = flights.take(u64::MAX).await;
            let mut first = Box::pin(flights.take(1));
            let mut second = Box::pin(flights.take(1));
            for waiting in [&mut first, &mut second] {
                assert!(futures::poll!(waiting).is_pending());
            }
            drop(all);
            // Told, and gone without having looked.
            drop(first);
            second.await;
        });
    }
}
