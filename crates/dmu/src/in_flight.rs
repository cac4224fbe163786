//! How much of a group is being written at the same time.
//!
//! ```text
//!   a group's blocks ─► take bytes ─► compress, checksum, write ─► give them back
//!                          │ none left
//!                          └─► wait in line
//! ```
//! Counted in bytes, not in blocks: a few blocks of 16 MiB would take too much memory, and many of
//! 4 KiB keep no disk busy. It must last a device for longer than the system may leave the thread
//! that feeds it without a processor, some milliseconds.

use event_listener::Event;
use parking_lot::Mutex;

/// Bytes of an objset being compressed and written at the same time.
const IN_FLIGHT_BYTES: u64 = 32 << 20;
/// A block counts for so much at least, so that their number has a bound too.
const BLOCK_MIN_BYTES: u64 = 32 << 10;

/// What is left of the bytes that may be in flight.
pub(crate) struct InFlight {
    left: Mutex<u64>,
    given_back: Event,
}

impl InFlight {
    pub fn new() -> Self {
        Self { left: Mutex::new(IN_FLIGHT_BYTES), given_back: Event::new() }
    }

    /// Takes room for a block of so many bytes, as soon as there is some. One larger than all that
    /// may be in flight goes alone.
    pub async fn take(&self, bytes: u64) -> Room<'_> {
        let bytes = bytes.clamp(BLOCK_MIN_BYTES, IN_FLIGHT_BYTES);
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
        let mut left = self.left.lock();
        *left = left.checked_sub(bytes)?;
        let some_left = *left >= BLOCK_MIN_BYTES;
        drop(left);
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
        *self.of.left.lock() += self.bytes;
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
        assert_eq!(*flights.left.lock(), IN_FLIGHT_BYTES);
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
