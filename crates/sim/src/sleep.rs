//! Waiting for the virtual clock.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;

use crate::world::{Appointment, World};

/// Ready at a point of virtual time.
pub(crate) struct Sleep {
    world: Arc<World>,
    until: Duration,
    appointment: Option<Appointment>,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl Sleep {
    pub(crate) fn new(world: Arc<World>, span: Duration) -> Self {
        let until = world.now().saturating_add(span);
        Self { world, until, appointment: None, waker: Arc::default() }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.world.now() >= self.until {
            return Poll::Ready(());
        }
        *self.waker.lock() = Some(cx.waker().clone());
        if self.appointment.is_none() {
            let waker = Arc::clone(&self.waker);
            let wake = move || {
                let waker = waker.lock().take();
                waker.into_iter().for_each(Waker::wake);
            };
            self.appointment = Some(self.world.appoint(self.until, Box::new(wake)));
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(appointment) = &self.appointment {
            // Else the clock would go on to a time that nobody waits for.
            self.world.cancel(appointment);
        }
    }
}
