//! Letting the other tasks of a thread go first.

use std::future::poll_fn;
use std::task::Poll;

/// Pending once, and woken at once: the tasks that are ready by now are polled before this one goes on.
pub async fn let_others_first() {
    let mut was_polled = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut was_polled, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
