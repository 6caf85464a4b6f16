//! Confines this process permanently, before it reads a byte written by an author.
//!
//! Each limit is independent: the kernel enforces again what QuickJS should prevent, in case of a vulnerability in
//! QuickJS. The process can only compute, allocate bounded memory, read the clock and random bytes, and use descriptors 0
//! and 1.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The stack of the process: the engine's own, and the host's functions on top of it.
const STACK: u64 = 8 * 1024 * 1024;
/// Processor time of the process, in seconds. Deadlines end runs long before; this limit ends an orphaned worker.
const CPU_SECONDS: u64 = 900;

/// Confines this process, and describes the confinement in a few words. `memory` is the address space in bytes beside the one
/// that the program occupies at its start.
///
/// # Errors
/// The kernel rejects a limit that is mandatory.
pub(super) fn confine(memory: u64) -> io::Result<String> {
    #[cfg(target_os = "linux")]
    linux::die_with_the_pool()?;
    #[cfg(target_os = "linux")]
    linux::close_descriptors();
    limit_resources(memory)?;
    #[cfg(target_os = "linux")]
    return linux::take_rights();
    #[cfg(not(target_os = "linux"))]
    Ok("resource limits (system calls are confined on Linux only)".to_owned())
}

fn limit_resources(memory: u64) -> io::Result<()> {
    let stack = getrlimit(Resource::Stack);
    if stack.current.is_some_and(|current| current < STACK) {
        let most = stack.maximum.map_or(STACK, |maximum| maximum.min(STACK));
        setrlimit(Resource::Stack, Rlimit { current: Some(most), maximum: stack.maximum })?;
    }
    let address_space = occupied().saturating_add(memory);
    let limits = [
        // The engine counts its own heap; this bounds other memory, such as that of the parser and of host functions.
        (Resource::As, address_space),
        (Resource::Cpu, CPU_SECONDS),
        // Nothing can be opened, not even by the C library.
        (Resource::Nofile, 0),
        // The inputs of code must not be swapped to a disk.
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Nproc, 0),
    ];
    for (resource, most) in limits {
        let most = getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// The address space of the program at its start: an allocator may reserve a lot.
fn occupied() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').next()?.parse::<u64>().ok()).unwrap_or_default();
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    pages.saturating_mul(page)
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::fmt::Display;
    use std::io;

    use landlock::{
        ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus, Scope,
    };
    use rustix::process::{DumpableBehavior, Signal, set_dumpable_behavior, set_parent_process_death_signal};
    use rustix::thread::{
        CapabilitySet, CapabilitySets, capability_is_in_bounding_set, clear_ambient_capability_set,
        remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
    };
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule, TargetArch, apply_filter_all_threads,
    };

    /// Ends the process with its pool, since an orphaned worker would run on. If the pool has died already, the first
    /// read reports it.
    pub(super) fn die_with_the_pool() -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // Nor may other processes of the same user inspect it while it holds data of executions.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        // Touched memory is counted in pages, which should have one size. An old kernel has no huge pages.
        let _ = nix::sys::prctl::set_thp_disable(true);
        Ok(())
    }

    /// Closes all inherited descriptors except 0 and 1: our own files are closed on exec, but descriptors that the daemon
    /// inherited may not be.
    pub(super) fn close_descriptors() {
        let Ok(folder) = std::fs::read_dir("/proc/self/fd") else { return };
        let names = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
        let open: Vec<i32> = names.filter(|descriptor| *descriptor > 1).collect();
        for descriptor in open {
            // The descriptor of the directory itself is closed already.
            let _ = nix::unistd::close(descriptor);
        }
    }

    /// Denies new privileges, files, network, and all but a few system calls.
    pub(super) fn take_rights() -> io::Result<String> {
        // Set-user-id programs gain nothing; the kernel also requires this for a filter.
        set_no_new_privs(true)?;
        drop_capabilities()?;
        let landlock = no_files();
        // Landlock first: the filter would reject its system calls.
        filter(
            &record_refused_memory()?,
            SeccompAction::Allow,
            SeccompAction::Errno(nix::errno::Errno::EACCES as u32),
        )?;
        filter(&allowed()?, SeccompAction::KillProcess, SeccompAction::Allow)?;
        Ok(format!("resource limits, no new privileges, no capabilities, seccomp, {landlock}"))
    }

    /// Drops every capability, and the right to regain one. A worker whose daemon runs as root has all of
    /// them. They belong to the thread, and this process has only one.
    fn drop_capabilities() -> io::Result<()> {
        for capability in CapabilitySet::all().iter() {
            // An old kernel does not know the newest ones. Lowering the bounding set needs the capability to set capabilities;
            // without it the set is empty.
            if capability_is_in_bounding_set(capability).unwrap_or(false) {
                match remove_capability_from_bounding_set(capability) {
                    Ok(()) | Err(rustix::io::Errno::PERM) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        // Kernels before 4.3 have no ambient set.
        let _ = clear_ambient_capability_set();
        let none = CapabilitySet::empty();
        Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
    }

    /// Landlock without any right, as far as the kernel supports it: no path opens, nothing connects, no signal is
    /// sent. The filter denies the same at the system call; this denies it at path resolution.
    fn no_files() -> &'static str {
        let abi = ABI::V6;
        let restricted = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(abi))
            .and_then(|rules| rules.handle_access(AccessNet::from_all(abi)))
            .and_then(|rules| rules.scope(Scope::from_all(abi)))
            .and_then(Ruleset::create)
            .and_then(landlock::RulesetCreated::restrict_self);
        match restricted.map(|status| status.ruleset) {
            Ok(RulesetStatus::FullyEnforced) => "landlock",
            Ok(RulesetStatus::PartiallyEnforced) => "landlock in part",
            Ok(RulesetStatus::NotEnforced) | Err(_) => "no landlock: the kernel has none",
        }
    }

    type Rules = BTreeMap<i64, Vec<SeccompRule>>;

    /// System calls that the C library tries but can do without fail with an error. Time zones, for example, are read
    /// from files; without them it uses UTC.
    fn record_refused_memory() -> io::Result<Rules> {
        let calls = [libc::SYS_openat, libc::SYS_newfstatat, libc::SYS_readlinkat, libc::SYS_prlimit64];
        let mut rules: Rules = calls.into_iter().map(|call| (call, Vec::new())).collect();
        // An allocator names its memory when it grows. The second filter needs the remaining part of `prctl` to be
        // installed.
        let to_filter = u64::from(libc::PR_SET_NO_NEW_PRIVS.unsigned_abs());
        let other = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, to_filter);
        let other = SeccompRule::new(vec![other.map_err(say)?]).map_err(say)?;
        rules.insert(libc::SYS_prctl, vec![other]);
        Ok(rules)
    }

    /// The allowed system calls. Any other ends the process immediately.
    fn allowed() -> io::Result<Rules> {
        let calls = [
            // The socket and the pipe to the pool.
            libc::SYS_read,
            libc::SYS_write,
            // Memory; see below for the restriction on executable pages.
            libc::SYS_munmap,
            libc::SYS_mremap,
            libc::SYS_madvise,
            libc::SYS_brk,
            // Locks of the allocator, the clock, random bytes.
            libc::SYS_futex,
            libc::SYS_clock_gettime,
            libc::SYS_gettimeofday,
            libc::SYS_getrandom,
            // The amount of touched memory.
            libc::SYS_getrusage,
            // The exit, voluntary or by a signal.
            libc::SYS_exit,
            libc::SYS_exit_group,
            libc::SYS_rt_sigreturn,
            libc::SYS_sigaltstack,
            libc::SYS_restart_syscall,
        ];
        let mut rules = record_refused_memory()?;
        rules.extend(calls.map(|call| (call, Vec::new())));
        rules.insert(libc::SYS_prctl, Vec::new());
        // Memory may be writable or executable; ours is writable.
        let not_executable = SeccompCondition::new(
            2,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::MaskedEq(u64::from(libc::PROT_EXEC.unsigned_abs())),
            0,
        );
        let not_executable = SeccompRule::new(vec![not_executable.map_err(say)?]).map_err(say)?;
        rules.insert(libc::SYS_mmap, vec![not_executable.clone()]);
        rules.insert(libc::SYS_mprotect, vec![not_executable]);
        rules.extend(abort()?);
        Ok(rules)
    }

    /// The system calls by which a process aborts that gets no memory, so that the daemon sees its signal. It can send that signal to
    /// no other process.
    fn abort() -> io::Result<Rules> {
        let equal = |argument: u8, value: u32| {
            SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, u64::from(value))
                .map_err(say)
        };
        let (own, signal) = (std::process::id(), libc::SIGABRT.unsigned_abs());
        let rule = |conditions| SeccompRule::new(conditions).map_err(say);
        Ok(Rules::from([
            (libc::SYS_tgkill, vec![rule(vec![equal(0, own)?, equal(2, signal)?])?]),
            // The process has one thread, whose number is its own.
            (libc::SYS_tkill, vec![rule(vec![equal(0, own)?, equal(1, signal)?])?]),
            (libc::SYS_rt_sigprocmask, Vec::new()),
            (libc::SYS_rt_sigaction, Vec::new()),
            (libc::SYS_gettid, Vec::new()),
            (libc::SYS_getpid, Vec::new()),
        ]))
    }

    fn filter(rules: &Rules, otherwise: SeccompAction, then: SeccompAction) -> io::Result<()> {
        let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(say)?;
        let filter = SeccompFilter::new(rules.clone(), otherwise, then, architecture).map_err(say)?;
        let program: BpfProgram = filter.try_into().map_err(say)?;
        apply_filter_all_threads(&program).map_err(say)
    }

    fn say(error: impl Display) -> io::Error {
        io::Error::other(error.to_string())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Landlock binds the calling thread and its children, so this runs on a separate thread.
        #[test]
        fn landlock_denies_opening_files_and_connecting() {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            let address = listener.local_addr().expect("an address");
            let outside = std::fs::File::open("/proc/self/status");
            outside.expect("it opens before");
            let confined = std::thread::spawn(move || {
                set_no_new_privs(true).expect("the kernel has this since 3.5");
                let said = no_files();
                let opened = std::fs::File::open("/proc/self/status").map(drop).map_err(|error| error.kind());
                let connected = std::net::TcpStream::connect(address).map(drop).map_err(|error| error.kind());
                (said, opened, connected)
            });
            let (said, opened, connected) = confined.join().expect("it ends");
            let record_refused_memory = Err(io::ErrorKind::PermissionDenied);
            match said {
                "landlock" => assert_eq!((opened, connected), (record_refused_memory, record_refused_memory)),
                // Before Linux 6.7 it covers files only.
                "landlock in part" => assert_eq!(opened, record_refused_memory),
                none => assert_eq!((none, opened), ("no landlock: the kernel has none", Ok(()))),
            }
        }
    }
}
