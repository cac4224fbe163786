//! Timers: a queue per thread, which the thread's own wait serves.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{keeper, local};

/// Time since this process first asked.
pub(crate) fn now() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// When a timer is due, and a number that tells equals apart.
pub(crate) type Key = (Duration, u64);

#[derive(Default)]
struct Bell {
    fired: bool,
    dropped: bool,
    waker: Option<Waker>,
}

/// What a sleeper and a queue share.
#[derive(Clone, Default)]
pub(crate) struct Alarm(Arc<Mutex<Bell>>);

impl Alarm {
    fn fire(&self) -> Option<Waker> {
        let mut bell = self.0.lock();
        bell.fired = true;
        bell.waker.take()
    }

    fn is_dropped(&self) -> bool {
        self.0.lock().dropped
    }
}

/// Alarms in order of time.
#[derive(Default)]
pub(crate) struct Timers {
    queue: BTreeMap<Key, Alarm>,
}

impl Timers {
    pub(crate) fn insert(&mut self, key: Key, alarm: Alarm) {
        self.queue.insert(key, alarm);
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        self.queue.remove(key);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Time until the next alarm; `None` when there is none.
    pub(crate) fn until_next(&self) -> Option<Duration> {
        let (&(due, _), _) = self.queue.first_key_value()?;
        Some(due.saturating_sub(now()))
    }

    /// Fires what is due; whom to wake goes to `wakers`.
    pub(crate) fn fire_due(&mut self, wakers: &mut Vec<Waker>) {
        if self.queue.is_empty() {
            return;
        }
        let now = now();
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > now {
                break;
            }
            wakers.extend(entry.remove().fire());
        }
    }

    /// Moves the alarms somebody still waits for into `other`.
    pub(crate) fn move_into(&mut self, other: &mut Self) {
        let mine = std::mem::take(&mut self.queue);
        other.queue.extend(mine.into_iter().filter(|(_, alarm)| !alarm.is_dropped()));
    }
}

/// A future that is ready at a point in time.
pub(crate) struct Sleep {
    key: Key,
    alarm: Option<Alarm>,
}

/// Ready after `span`, counted from this call.
pub(crate) fn sleep(span: Duration) -> Sleep {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let due = now().saturating_add(span);
    Sleep { key: (due, SERIAL.fetch_add(1, Ordering::Relaxed)), alarm: None }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(alarm) = &self.alarm {
            let mut bell = alarm.0.lock();
            if bell.fired {
                return Poll::Ready(());
            }
            bell.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if self.key.0 <= now() {
            return Poll::Ready(());
        }
        let alarm = Alarm::default();
        alarm.0.lock().waker = Some(cx.waker().clone());
        self.alarm = Some(alarm.clone());
        if let Err(alarm) = local::add_timer(self.key, alarm) {
            keeper::add_timer(self.key, alarm);
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let Some(alarm) = &self.alarm else { return };
        let fired = {
            let mut bell = alarm.0.lock();
            bell.dropped = true;
            bell.waker = None;
            bell.fired
        };
        if !fired {
            local::remove_timer(&self.key);
        }
    }
}
