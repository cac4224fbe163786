//! The filters, run over system calls as the kernel runs them: by a small machine for their
//! instructions.

use super::*;

/// Answers of a filter (linux/seccomp.h).
const ALLOWED: u32 = 0x7fff_0000;
const REFUSED: u32 = 0x0005_0000 | libc::EPERM as u32;
const NOT_THERE: u32 = 0x0005_0000 | libc::ENOSYS as u32;
const KILLED: u32 = 0x8000_0000;

/// The number of the process in these tests.
const OWN: u32 = 4711;

/// `struct seccomp_data`: number, architecture, instruction pointer, arguments; words of 32 bits.
struct Call([u32; 16]);

impl Call {
    fn new(number: i64, arguments: [u64; 6]) -> Self {
        let mut words = [0; 16];
        (words[0], words[1]) = (number as u32, architecture());
        for (index, argument) in arguments.into_iter().enumerate() {
            (words[4 + 2 * index], words[5 + 2 * index]) = (argument as u32, (argument >> 32) as u32);
        }
        Self(words)
    }

    fn of_architecture(mut self, architecture: u32) -> Self {
        self.0[1] = architecture;
        self
    }

    /// What the kernel does: of the answers of all filters, the most restrictive one.
    fn answer(&self) -> u32 {
        let programs = [no_clone3(), list(OWN)].map(|program| program.expect("a program"));
        let answers = programs.map(|program| run(&program, &self.0));
        answers.into_iter().min_by_key(|answer| *answer as i32).expect("two answers")
    }
}

/// `AUDIT_ARCH_*` of linux/audit.h.
fn architecture() -> u32 {
    let machine = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    machine | 0xc000_0000
}

/// Runs a program of classic BPF, as far as filters use it (linux/filter.h).
fn run(program: &BpfProgram, data: &[u32; 16]) -> u32 {
    let (mut at, mut held) = (0, 0);
    loop {
        let step = &program[at];
        at += 1;
        let jump = |is_so: bool| usize::from(if is_so { step.jt } else { step.jf });
        match step.code {
            0x20 => held = data[step.k as usize / 4],
            0x54 => held &= step.k,
            0x05 => at += step.k as usize,
            0x15 => at += jump(held == step.k),
            0x25 => at += jump(held > step.k),
            0x35 => at += jump(held >= step.k),
            0x06 => return step.k,
            other => panic!("an instruction that this machine does not have: {other:#x}"),
        }
    }
}

/// The answer to a call with some first arguments. The others are zero.
fn answer(number: i64, first: &[u64]) -> u32 {
    let mut arguments = [0; 6];
    arguments[..first.len()].copy_from_slice(first);
    Call::new(number, arguments).answer()
}

const fn bits(flags: libc::c_int) -> u64 {
    flags as u64
}

#[test]
fn the_list_fits_into_a_filter_and_names_each_call_once() {
    let program = list(OWN).expect("a program");
    assert!(program.len() < 4096, "{}", program.len());
    let mut calls: Vec<i64> = FREE.iter().chain(FREE_HERE).copied().collect();
    calls.extend(limited(OWN).expect("rules").keys());
    let count = calls.len();
    calls.sort_unstable();
    calls.dedup();
    assert_eq!(calls.len(), count);
    assert!(calls.iter().all(|call| (0..1024).contains(call)));
}

#[test]
fn each_call_of_the_list_is_allowed_and_numbers_between_are_refused() {
    let limited = limited(OWN).expect("rules");
    for number in 0..600 {
        let is_listed = FREE.contains(&number) || FREE_HERE.contains(&number);
        let wanted = if is_listed { ALLOWED } else { REFUSED };
        if number != libc::SYS_clone3 && !limited.contains_key(&number) {
            assert_eq!(answer(number, &[]), wanted, "{number}");
        }
    }
}

#[test]
fn calls_that_reach_beyond_the_process_are_refused() {
    let calls = [
        libc::SYS_socket,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_getfd,
        libc::SYS_pidfd_send_signal,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_tkill,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
        libc::SYS_fsopen,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_chroot,
        libc::SYS_pivot_root,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_userfaultfd,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_kexec_load,
        libc::SYS_open_by_handle_at,
        libc::SYS_setuid,
        libc::SYS_setresuid,
        libc::SYS_setresgid,
        libc::SYS_setgroups,
        libc::SYS_capset,
        libc::SYS_seccomp,
        libc::SYS_mknodat,
        libc::SYS_personality,
        libc::SYS_pkey_mprotect,
        libc::SYS_shmat,
    ];
    for call in calls {
        assert_eq!(answer(call, &[]), REFUSED, "{call}");
    }
}

#[test]
fn a_clone_is_a_thread_in_the_same_namespaces_and_clone3_is_not_there() {
    let thread = bits(libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD | libc::CLONE_SETTLS);
    assert_eq!(answer(libc::SYS_clone, &[thread]), ALLOWED);
    assert_eq!(answer(libc::SYS_clone, &[bits(libc::SIGCHLD)]), REFUSED);
    assert_eq!(answer(libc::SYS_clone, &[bits(libc::CLONE_VM | libc::CLONE_VFORK)]), REFUSED);
    let namespaces = [libc::CLONE_NEWNS, libc::CLONE_NEWUSER, libc::CLONE_NEWNET, libc::CLONE_NEWPID];
    for namespace in namespaces {
        assert_eq!(answer(libc::SYS_clone, &[thread | bits(namespace)]), REFUSED, "{namespace:#x}");
    }
    assert_eq!(answer(libc::SYS_clone3, &[1, 2]), NOT_THERE);
}

#[test]
fn no_page_becomes_code() {
    let data = bits(libc::PROT_READ | libc::PROT_WRITE);
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        assert_eq!(answer(call, &[0, 4096, data]), ALLOWED);
        assert_eq!(answer(call, &[0, 4096, data | bits(libc::PROT_EXEC)]), REFUSED);
        assert_eq!(answer(call, &[0, 4096, bits(libc::PROT_EXEC)]), REFUSED);
    }
}

#[test]
fn signals_and_limits_are_for_the_process_itself() {
    for call in [libc::SYS_kill, libc::SYS_tgkill] {
        assert_eq!(answer(call, &[u64::from(OWN)]), ALLOWED);
        // A process, its group, all processes, a group.
        for other in [1, 0, u64::MAX, (-i64::from(OWN)) as u64] {
            assert_eq!(answer(call, &[other]), REFUSED, "{other:#x}");
        }
    }
    assert_eq!(answer(libc::SYS_prlimit64, &[0]), ALLOWED);
    assert_eq!(answer(libc::SYS_prlimit64, &[1]), REFUSED);
}

#[test]
fn sockets_come_in_pairs_that_cannot_send_elsewhere() {
    let pair = |family, kind| answer(libc::SYS_socketpair, &[bits(family), bits(kind)]);
    assert_eq!(pair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK), ALLOWED);
    assert_eq!(pair(libc::AF_UNIX, libc::SOCK_SEQPACKET), ALLOWED);
    // A datagram may have an address of its own, of any socket with a path.
    assert_eq!(pair(libc::AF_UNIX, libc::SOCK_DGRAM), REFUSED);
    assert_eq!(pair(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK), REFUSED);
    assert_eq!(pair(libc::AF_TIPC, libc::SOCK_STREAM), REFUSED);
}

#[test]
fn requests_of_ioctl_and_prctl_are_those_of_the_list() {
    let ioctl = |request| answer(libc::SYS_ioctl, &[7, request]);
    assert_eq!(ioctl(0x1277), ALLOWED);
    // The kernel does not look at the upper half.
    assert_eq!(ioctl(0x1277 | 1 << 40), ALLOWED);
    // TIOCSTI types into a terminal; FUSE_DEV_IOC_BACKING_OPEN, BLKTRACESETUP, SG_IO.
    for request in [0x5412, 0x4010_e501, 0xc048_1273, 0x2285] {
        assert_eq!(ioctl(request), REFUSED, "{request:#x}");
    }
    let prctl = |request| answer(libc::SYS_prctl, &[bits(request)]);
    assert_eq!(prctl(libc::PR_SET_NAME), ALLOWED);
    for request in [libc::PR_SET_DUMPABLE, libc::PR_SET_MM, libc::PR_CAP_AMBIENT, libc::PR_SET_PTRACER] {
        assert_eq!(prctl(request), REFUSED, "{request}");
    }
}

#[test]
fn calls_of_another_architecture_end_the_process() {
    let other = Call::new(libc::SYS_read, [0; 6]).of_architecture(0x4000_0003);
    assert_eq!(other.answer(), KILLED);
    // x32 shares the architecture, and has a bit in its numbers.
    assert_eq!(answer(libc::SYS_read | 0x4000_0000, &[]), REFUSED);
}
