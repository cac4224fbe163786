//! Work that any waiting task may poll, and none owns: cancelling a task cancels none of it.
//! (tests of every order of the threads' steps: `crates/models`, `whoever_waits_for_shared_work_is_told` and
//! `a_waiter_that_leaves_takes_nobody_with_it`)

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use crate::BoxFuture;
use crate::sync::{AtomicBool, Mutex, Ordering};

/// A future shared by all who wait for it. Whoever polls it moves it on; who does not, is woken when it has ended.
///
/// It differs from `futures::future::Shared` in two ways. The task that ends it is not woken: that one knows. And a task
/// may be dropped after any of its polls without the others waiting for ever: the work may become ready while one task
/// polls it, and the others, called then, find that one at it and go back to sleep; so the one that polled calls them
/// again.
#[derive(Clone)]
pub struct Shared<T>(Arc<Inner<T>>);

struct Inner<T> {
    answer: OnceLock<T>,
    /// Gone once it has ended.
    work: Mutex<Option<BoxFuture<'static, T>>>,
    calls: Arc<Calls>,
}

/// Who is to be called when the work can go on.
#[derive(Default)]
struct Calls {
    /// The work has called since somebody began to poll it.
    while_polled: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl<T: Clone> Shared<T> {
    /// Shares `work`, which goes on while somebody polls.
    pub fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        let work = Mutex::new(Some(Box::pin(work) as BoxFuture<'static, T>));
        Self(Arc::new(Inner { answer: OnceLock::new(), work, calls: Arc::default() }))
    }

    /// What came of it, once it has ended.
    #[must_use]
    pub fn answer(&self) -> Option<&T> {
        self.0.answer.get()
    }

    /// Moves it on, unless another does. The caller is woken when it is worth asking again, however often it is
    /// asked.
    pub fn poll(&self, cx: &Context<'_>) -> Poll<T> {
        let Inner { answer, work, calls } = &*self.0;
        if let Some(answer) = answer.get() {
            return Poll::Ready(answer.clone());
        }
        // Before looking whether another task polls: that one calls who is registered by then.
        calls.register(cx.waker());
        // It may have ended, and called the others, before this one was registered.
        if let Some(answer) = answer.get() {
            return Poll::Ready(answer.clone());
        }
        let Some(mut work) = work.try_lock() else { return Poll::Pending };
        let Some(polled) = work.as_mut() else {
            let ended = answer.get().expect("work is taken out once it is answered");
            return Poll::Ready(ended.clone());
        };
        calls.while_polled.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(calls));
        let Poll::Ready(ended) = polled.as_mut().poll(&mut Context::from_waker(&waker)) else {
            drop(work);
            // Who was called meanwhile found the lock taken, and this task may never come back.
            if calls.while_polled.load(Ordering::SeqCst) {
                calls.wake_all_but(None);
            }
            return Poll::Pending;
        };
        _ = answer.set(ended.clone());
        *work = None;
        drop(work);
        calls.wake_all_but(Some(cx.waker()));
        Poll::Ready(ended)
    }
}

impl Calls {
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

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.while_polled.store(true, Ordering::SeqCst);
        self.wake_all_but(None);
    }
}

impl<T: Clone> Future for Shared<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        Self::poll(&self, cx)
    }
}
