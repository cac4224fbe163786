//! What makes bytes stable is really asked of the kernel: where the kernel refuses just that, nobody says that it was done.
//!
//! A filter of system calls does not see what goes through a ring: what the kernel passes on of both is in [`super::told`].

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::files::file_on_disk;
use super::{at, env, filled, holds, plain_env};
use env::{DeviceError, Durability, Env, OpenMode};

#[cfg(target_arch = "x86_64")]
const FDATASYNC: i64 = 75;
#[cfg(target_arch = "x86_64")]
const PWRITEV2: i64 = 328;
#[cfg(not(target_arch = "x86_64"))]
const FDATASYNC: i64 = 83;
#[cfg(not(target_arch = "x86_64"))]
const PWRITEV2: i64 = 287;

/// Which argument of pwritev2 has its flags, and the flag that asks for stable bytes.
const FLAGS: u8 = 5;
const RWF_DSYNC: u64 = 2;
const EIO: u32 = 5;

const AGAIN: u32 = 11;
const NOMEM: u32 = 12;

/// Runs `work` in a thread to which the kernel refuses one call.
fn where_refused(call: i64, rules: Vec<SeccompRule>, work: impl FnOnce() + Send + 'static) {
    where_answered(call, rules, EIO, work);
}

/// Runs `work` in a thread in which the kernel answers one system call with an error number.
fn where_answered(call: i64, rules: Vec<SeccompRule>, errno: u32, work: impl FnOnce() + Send + 'static) {
    let arch = std::env::consts::ARCH.try_into().expect("an architecture that seccomp knows");
    let rules = [(call, rules)].into_iter().collect();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno), arch);
    let filter: BpfProgram = filter.and_then(TryInto::try_into).expect("a filter");
    let thread = std::thread::spawn(move || {
        seccompiler::apply_filter(&filter).expect("installed");
        work();
    });
    thread.join().expect("all of that");
}

#[test]
fn a_flush_that_the_kernel_refuses_has_not_been_done() {
    where_refused(FDATASYNC, Vec::new(), || {
        for env in [env(), plain_env()] {
            let file = file_on_disk(1 << 20);
            env.block_on(async {
                let device = env.open(file.path(), OpenMode::ReadWrite).await.expect("opened");
                device.write(at(0), filled(3, 8192), Durability::Cached).await.expect("that is allowed");
                device.flush().await.expect_err("nothing was made stable");
                assert!(holds(&*device, 0, 8192, 3).await);
            });
        }
    });
}

#[test]
fn a_stable_write_that_the_kernel_refuses_has_not_been_done() {
    let asks =
        SeccompCondition::new(FLAGS, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(RWF_DSYNC), RWF_DSYNC);
    let rule = SeccompRule::new(vec![asks.expect("a condition")]).expect("a rule");
    where_refused(PWRITEV2, vec![rule], || {
        for env in [env(), plain_env()] {
            let file = file_on_disk(1 << 20);
            env.block_on(async {
                let device = env.open(file.path(), OpenMode::ReadWrite).await.expect("opened");
                device.write(at(0), filled(3, 8192), Durability::Cached).await.expect("that is allowed");
                let stable = device.write(at(8192), filled(4, 8192), Durability::Stable).await;
                stable.expect_err("nothing was made stable");
                assert!(holds(&*device, 0, 8192, 3).await);
            });
        }
    });
}

/// While the kernel lacks memory, a system call is repeated a few times, but not forever.
#[test]
fn what_the_kernel_has_no_memory_for_is_answered_in_the_end() {
    for errno in [AGAIN, NOMEM] {
        where_answered(PWRITEV2, Vec::new(), errno, move || {
            for env in [env(), plain_env()] {
                let file = file_on_disk(1 << 20);
                env.block_on(async {
                    let device = env.open(file.path(), OpenMode::ReadWrite).await.expect("opened");
                    for durability in [Durability::Cached, Durability::Stable] {
                        let written = device.write(at(0), filled(3, 8192), durability).await;
                        let is_told =
                            matches!(written, Err(DeviceError::Io { errno: told, .. }) if told == errno as i32);
                        assert!(is_told, "{durability:?}: {written:?}");
                    }
                    assert!(holds(&*device, 0, 8192, 0).await);
                });
            }
        });
    }
}
