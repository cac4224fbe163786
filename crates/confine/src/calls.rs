//! System calls: a list of those that a pool's process makes, and `EPERM` for all others.
//!
//! ```text
//!  system call ─► "clone3"? ── yes ─► ENOSYS: glibc then uses clone, whose flags a filter can read
//!                    │ no
//!                    ▼
//!              in the list? ── no ─► EPERM
//!                    │ yes
//!                    ▼
//!              arguments as the list has them? ── no ─► EPERM
//!                    │ yes
//!                    ▼
//!                  done
//! ```
//! A filter reads numbers and no memory, so the list limits an argument only where it is a number:
//! the process that a signal is for, the kind of a socket pair, the request of an `ioctl`, the
//! protection of a page. The kernel remembers which calls the filter allows without a look at their
//! arguments, and does not run the filter for these (Linux 5.11).
//!
//! What is not in the list, and why that matters beside the other walls:
//!
//! | left out | because |
//! |---|---|
//! | `socket`, `connect`, `bind`, `listen` | the process gets its sockets from the supervisor |
//! | `execve`, `clone` without `CLONE_THREAD`, `fork` | there is one program, and it has no children |
//! | `ptrace`, `process_vm_*`, `pidfd_*`, signals to other processes | other processes are no concern of a pool |
//! | `mount` and its kind, `unshare`, `setns`, `chroot`, `set*id`, `capset` | the supervisor does that |
//! | `bpf`, `perf_event_open`, `userfaultfd`, `keyctl`, modules, `kexec` | they are where kernels had holes |
//! | `open_by_handle_at` | needs a right that no process of a pool has |
//! | executable pages (`PROT_EXEC`) | the program is loaded, and makes no code |

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use crate::ConfineError;

/// `sync_file_range` of aarch64, which the crate `libc` lacks.
#[cfg(target_arch = "aarch64")]
const SYS_SYNC_FILE_RANGE: i64 = 84;
#[cfg(not(target_arch = "aarch64"))]
const SYS_SYNC_FILE_RANGE: i64 = libc::SYS_sync_file_range;

/// Calls with any arguments.
const FREE: &[i64] = &[
    // Descriptors that are open.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_vmsplice,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_lseek,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_syncfs,
    SYS_SYNC_FILE_RANGE,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_fadvise64,
    libc::SYS_readahead,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_pipe2,
    libc::SYS_memfd_create,
    // Files by name, as far as Landlock goes.
    libc::SYS_openat,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_statx,
    libc::SYS_newfstatat,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_statfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getcwd,
    libc::SYS_umask,
    // Rings, and waiting for what is ready.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    // Sockets that are open.
    libc::SYS_accept4,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_shutdown,
    // Memory.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_munlock,
    libc::SYS_mincore,
    libc::SYS_membarrier,
    // Threads.
    libc::SYS_futex,
    libc::SYS_futex_waitv,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_gettid,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
    libc::SYS_getcpu,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Signals of its own.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    // Time, chance, and who and where it is.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_times,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getresuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_capget,
];

/// The same of x86_64 alone: older forms, which aarch64 never had.
#[cfg(target_arch = "x86_64")]
const FREE_HERE: &[i64] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_accept,
    libc::SYS_getrlimit,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const FREE_HERE: &[i64] = &[libc::SYS_accept];

/// Requests of `ioctl`: the numbers of the kernel's headers, which x86_64 and aarch64 share.
const IOCTLS: &[u64] = &[
    0x5401,      // TCGETS: is this a terminal?
    0x5413,      // TIOCGWINSZ
    0x541b,      // FIONREAD
    0x5421,      // FIONBIO
    0x5450,      // FIONCLEX
    0x5451,      // FIOCLEX
    0x125e,      // BLKROGET
    0x1260,      // BLKGETSIZE
    0x1261,      // BLKFLSBUF
    0x1268,      // BLKSSZGET
    0x1277,      // BLKDISCARD
    0x1278,      // BLKIOMIN
    0x1279,      // BLKIOOPT
    0x127a,      // BLKALIGNOFF
    0x127b,      // BLKPBSZGET
    0x127e,      // BLKROTATIONAL
    0x127f,      // BLKZEROOUT
    0x8008_1272, // BLKGETSIZE64
    0x8004_e500, // FUSE_DEV_IOC_CLONE
];

/// Requests of `prctl`: the name of a thread, and questions.
const PRCTLS: &[libc::c_int] = &[
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_GET_DUMPABLE,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_GET_SECCOMP,
    libc::PR_GET_THP_DISABLE,
    libc::PR_CAPBSET_READ,
];

/// Namespaces that a clone could make. The kernel refuses them for threads without rights, and so
/// does the list.
const NAMESPACES: libc::c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// The bits of a socket's kind that are no flags.
const SOCKET_KIND: u64 = 0xf;

/// Leaves this process the system calls of the list.
///
/// # Errors
/// When the kernel has no seccomp.
pub(crate) fn close_calls() -> Result<(), ConfineError> {
    // The list comes last: it has no call that makes a filter.
    [no_clone3(), list(std::process::id())]
        .into_iter()
        .try_for_each(|program| seccompiler::apply_filter(&program?))
        .map_err(ConfineError::Calls)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn program(rules: Rules, other: SeccompAction, listed: SeccompAction) -> Result<BpfProgram, Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(SeccompFilter::new(rules, other, listed, arch)?.try_into()?)
}

/// A call that fails in this way has glibc use `clone`.
fn no_clone3() -> Result<BpfProgram, Error> {
    let rules = Rules::from([(libc::SYS_clone3, Vec::new())]);
    program(rules, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))
}

/// The list for a process of this number.
fn list(own: u32) -> Result<BpfProgram, Error> {
    let mut rules: Rules = FREE.iter().chain(FREE_HERE).map(|call| (*call, Vec::new())).collect();
    // The filter before this one answers for the call.
    rules.insert(libc::SYS_clone3, Vec::new());
    rules.extend(limited(own)?);
    program(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)
}

/// Calls whose arguments are limited.
fn limited(own: u32) -> Result<Rules, Error> {
    let own = u64::from(own);
    let thread = (libc::CLONE_THREAD | NAMESPACES) as u64;
    let no_code = masked(2, libc::PROT_EXEC as u64, 0)?;
    let pairs = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET].map(|kind| {
        let conditions = [is(0, libc::AF_UNIX as u64), masked(1, SOCKET_KIND, kind as u64)];
        all_of(conditions)
    });
    Ok(Rules::from([
        (libc::SYS_clone, vec![all_of([masked(0, thread, libc::CLONE_THREAD as u64)])?]),
        (libc::SYS_mmap, vec![SeccompRule::new(vec![no_code.clone()])?]),
        (libc::SYS_mprotect, vec![SeccompRule::new(vec![no_code])?]),
        (libc::SYS_kill, one_of(0, [own])?),
        (libc::SYS_tgkill, one_of(0, [own])?),
        // 0 is the process itself.
        (libc::SYS_prlimit64, one_of(0, [0, own])?),
        (libc::SYS_ioctl, one_of(1, IOCTLS.iter().copied())?),
        (libc::SYS_prctl, one_of(0, PRCTLS.iter().map(|request| *request as u64))?),
        (libc::SYS_socketpair, pairs.into_iter().collect::<Result<_, _>>()?),
    ]))
}

type Condition = Result<SeccompCondition, Error>;

/// The kernel reads 32 bits of all arguments that are limited here, but for those of which only
/// bits count.
fn is(argument: u8, value: u64) -> Condition {
    Ok(SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?)
}

fn masked(argument: u8, mask: u64, value: u64) -> Condition {
    Ok(SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(mask), value)?)
}

fn all_of<const N: usize>(conditions: [Condition; N]) -> Result<SeccompRule, Error> {
    Ok(SeccompRule::new(conditions.into_iter().collect::<Result<_, _>>()?)?)
}

fn one_of(argument: u8, values: impl IntoIterator<Item = u64>) -> Result<Vec<SeccompRule>, Error> {
    values.into_iter().map(|value| all_of([is(argument, value)])).collect()
}

#[cfg(test)]
mod tests;
