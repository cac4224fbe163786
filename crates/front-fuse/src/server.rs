//! What stands behind a session.

use std::future::Future;

use env::BoxFuture;
use rustix::io::Errno;

use crate::attr::Inodes;
use crate::reply::Reply;
use crate::request::Request;

/// Whether the kernel waits for an answer.
pub(crate) enum Answer {
    /// What stands in the [`Reply`].
    Due,
    /// As [`Self::Due`], after this work is done. The work may cause other requests of the kernel
    /// and wait for their answers, so the session first gives up its permit for a large request.
    DueAfter(BoxFuture<'static, ()>),
    /// The kernel only tells something.
    None,
}

/// Does what requests ask for: [`crate::tree::Tree`], and [`crate::floor::Floor`], beside which it is measured.
pub(crate) trait Server: Send + Sync + 'static {
    /// Which object the kernel calls by which number.
    fn inodes(&self) -> Inodes;

    /// The permit that a request holds from its admission to its answer.
    type Permit<'a>: Send
    where
        Self: 'a;

    /// Admits a request.
    fn admit<'a>(&'a self, request: &Request<'_>) -> impl Future<Output = Self::Permit<'a>> + Send;

    /// Does what a request asks for.
    ///
    /// # Errors
    /// What the program is to see; `ENOSYS` for what is not served at all, which the kernel then asks for
    /// no more.
    fn serve(
        &self,
        request: &mut Request<'_>,
        reply: &mut Reply,
    ) -> impl Future<Output = Result<Answer, Errno>> + Send;

    /// After the last request: makes all that was written stable.
    fn finish(&self) -> impl Future<Output = ()> + Send;
}
