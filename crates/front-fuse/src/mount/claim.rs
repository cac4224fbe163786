//! Whether a user may have a file system mounted at a place, by the decision of the kernel.
//!
//! ```text
//!  the daemon's walk ─► the directories of the way, and the names that are missing
//!        │                     │ to a thread with the rights of the user
//!        │                     ▼
//!        │               may the user search each of them, and write to the last one?
//!        ▼                     │
//!  missing or empty?           └─ yes, and the last one is the user's, or the place is missing: the user's own
//! ```
//! The walk is that of a mount, so that both heed the same links. The thread gets descriptors, so that both
//! see the same directories, and modes, ACLs and read-only file systems count as they do for the user.
//!
//! The thread takes the effective ids of the user and keeps the real and saved ids of the daemon. With the real
//! id of the user, the user could send a signal to the thread, and a signal that ends one thread ends the
//! daemon. The thread gives up all capabilities, answers one question, and ends. When a thread has changed its
//! ids, the kernel lets only root trace the process (PR_GET_DUMPABLE in prctl(2)).
//!
//! A user may choose a place whose file system does not answer. The request then ends after some seconds. Its
//! thread keeps waiting, and the number of such threads is limited for each user and for all users.
//! (test: `a_place_that_does_not_answer_is_given_up`)
//!
//! Invariants
//! - A user owns no place that the user could not have made with mkdir(1).
//!   (tests: `a_user_claims_what_the_user_owns_or_can_make`, `groups_and_acls_count_for_a_claim`)
//! - No user can send the daemon a signal. (test: `a_thread_with_rights_of_a_user_gets_no_signal`)

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use engine::{PlaceChoice, UserIds};
use parking_lot::Mutex;
use rustix::fs::{Access, AtFlags, accessat, fstat};
use rustix::process::geteuid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, Gid, Uid, set_capabilities, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

use super::walk::{PathEnd, PathWalk};
use crate::headroom;

/// How long a question may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Questions at the same time, with those that were given up and still wait.
const QUESTIONS_MAX: usize = 64;
/// The questions of one user among them.
const QUESTIONS_OF_USER_MAX: usize = 8;

/// The users of the questions that have no answer yet.
static QUESTIONS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// A question of a user, until it has its answer.
struct Question {
    uid: u32,
}

impl Question {
    fn begin(uid: u32) -> io::Result<Self> {
        let mut users = QUESTIONS.lock();
        let own = users.iter().filter(|user| **user == uid).count();
        if own >= QUESTIONS_OF_USER_MAX || users.len() >= QUESTIONS_MAX {
            return Err(io::Error::other("too many requests wait for file systems that do not answer"));
        }
        users.push(uid);
        Ok(Self { uid })
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let mut users = QUESTIONS.lock();
        if let Some(index) = users.iter().position(|user| *user == self.uid) {
            users.swap_remove(index);
        }
    }
}

/// See [`engine::Front::may_claim`].
///
/// # Errors
/// The system's; in words, why a mount at the place would be refused.
pub(super) fn may_claim(
    user: &UserIds,
    place: &Path,
    altroot: Option<&Path>,
    how: PlaceChoice,
) -> io::Result<bool> {
    headroom::check().map_err(io::Error::other)?;
    let question = Question::begin(user.uid)?;
    let (user, place, altroot) = (user.clone(), place.to_owned(), altroot.map(Path::to_owned));
    let answer = on_a_thread(move || {
        let _question = question;
        let end = PathWalk::end_of(&place, altroot.as_deref())?;
        match how == PlaceChoice::Inherited && end.is_vacant()? {
            true => Ok(true),
            false => is_own(user, end),
        }
    })?;
    let in_time = answer.recv_timeout(PATIENCE);
    in_time.unwrap_or_else(|_| Err(io::Error::other("its file system does not answer")))
}

/// Runs work on a thread of its own. Returns the place where the answer arrives.
pub(super) fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<mpsc::Receiver<T>> {
    let (tell, told) = mpsc::channel();
    // Whoever asked may have given up.
    thread::Builder::new().name("claim".to_owned()).spawn(move || _ = tell.send(work()))?;
    Ok(told)
}

/// True if the user owns the directory and may change it, or may make the directory that is missing.
fn is_own(user: UserIds, end: PathEnd) -> io::Result<bool> {
    // The user id 0 has the directories of root, also in a container. Root has another socket.
    if user.uid == 0 || !end.is_missing() && fstat(&end.directory)?.st_uid != user.uid {
        return Ok(false);
    }
    with_rights_of(user, move || {
        end.trail.iter().all(|directory| may(directory, Access::EXEC_OK))
            && may(&end.directory, Access::EXEC_OK | Access::WRITE_OK)
    })
}

/// True if the effective ids and capabilities of this thread allow the access to a directory.
fn may(directory: &OwnedFd, access: Access) -> bool {
    accessat(directory, ".", access, AtFlags::EACCESS).is_ok()
}

/// Runs work on a thread that has the rights of a user and no others.
///
/// # Errors
/// When the daemon is not root's, or the system refuses.
fn with_rights_of<T: Send + 'static>(
    user: UserIds,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let uid = user.uid;
    let refused = move |error: io::Error| {
        let words = format!("the daemon cannot take the rights of uid {uid}: {error}");
        io::Error::new(error.kind(), words)
    };
    if !geteuid().is_root() {
        return Err(refused(io::ErrorKind::PermissionDenied.into()));
    }
    let answer = on_a_thread(move || take_rights(&user).map(|()| work()))?;
    answer.recv().map_err(io::Error::other)?.map_err(refused)
}

/// Gives this thread the rights of a user, for the rest of its life.
fn take_rights(user: &UserIds) -> io::Result<()> {
    let gids: Vec<Gid> = user.gids.iter().copied().map(Gid::from_raw).collect();
    let first = *gids.first().ok_or_else(|| io::Error::other("the groups are not known"))?;
    set_thread_groups(&gids)?;
    set_thread_res_gid(None, first, None)?;
    set_thread_res_uid(None, Uid::from_raw(user.uid), None)?;
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}

#[cfg(test)]
mod tests;
