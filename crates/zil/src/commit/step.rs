//! Work that any waiting task may poll, and none owns: cancelling a task cancels none of it.
//! (tests of every order of the threads' steps: `crates/models`, `whoever_waits_for_a_step_is_told`)

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use env::BoxFuture;

use crate::sync::{AtomicBool, Mutex, Ordering};

/// A future shared by all who wait for it. Whoever polls it moves it on; who does not, is woken
/// when it has ended. Who has polled it and leaves has to rouse another, as [`super::seats::Seats`] does: the work
/// may have become ready while that one polled, when nobody else could. Unlike other shared futures it does not wake the task that ends it: that
/// one knows.
#[derive(Clone)]
pub struct Step(Arc<Shared>);

struct Shared {
    is_done: AtomicBool,
    /// Gone once it has ended.
    work: Mutex<Option<BoxFuture<'static, ()>>>,
    wakers: Mutex<Vec<Waker>>,
}

impl Step {
    pub fn new(work: impl Future<Output = ()> + Send + 'static) -> Self {
        let work = Mutex::new(Some(Box::pin(work) as BoxFuture<'static, ()>));
        Self(Arc::new(Shared { is_done: AtomicBool::new(false), work, wakers: Mutex::default() }))
    }

    pub fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let shared = &self.0;
        if shared.is_done.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        // Before looking whether another task polls: that one answers who is registered by then.
        shared.register(cx.waker());
        let Some(mut work) = shared.work.try_lock() else { return Poll::Pending };
        let waker = Waker::from(Arc::clone(shared));
        let poll = work.as_mut().map(|work| work.as_mut().poll(&mut Context::from_waker(&waker)));
        if poll == Some(Poll::Pending) {
            return Poll::Pending;
        }
        *work = None;
        shared.is_done.store(true, Ordering::Release);
        drop(work);
        shared.wake_all_but(Some(cx.waker()));
        Poll::Ready(())
    }
}

impl Shared {
    fn register(&self, waker: &Waker) {
        let mut wakers = self.wakers.lock();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    fn wake_all_but(&self, own: Option<&Waker>) {
        let wakers = std::mem::take(&mut *self.wakers.lock());
        let others = wakers.into_iter().filter(|waker| own.is_none_or(|own| !own.will_wake(waker)));
        others.for_each(Waker::wake);
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_all_but(None);
    }
}

impl Future for Step {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Step::poll(&self, cx)
    }
}
