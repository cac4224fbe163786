//! Whose turn it is, among the tasks of one thread.

use std::future::poll_fn;
use std::task::Poll;

/// Ends once every task has had its turn that was ready before; at once on a thread that runs nothing else.
pub async fn let_others_first() {
    let mut has_waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
