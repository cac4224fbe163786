//! A file that a task waits for, as the loop that watches it and the task see it.

use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// Whether something has come since the task last looked, and whom to wake when it does.
pub(crate) struct WatchedFile(Mutex<News>);

struct News {
    has_come: bool,
    waker: Option<Waker>,
}

impl WatchedFile {
    /// What came before it was watched is news, too.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(News { has_come: true, waker: None }))
    }

    /// Something has come; whom to wake.
    pub(crate) fn tell(&self) -> Option<Waker> {
        let mut news = self.0.lock();
        news.has_come = true;
        news.waker.take()
    }

    /// Ready once for all that has come since it was ready last.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut news = self.0.lock();
        if std::mem::take(&mut news.has_come) {
            return Poll::Ready(());
        }
        news.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}
