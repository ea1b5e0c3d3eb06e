//! What concerns the whole process: its memory, its threads' scheduling, its descriptors.

#![allow(unsafe_code)]

use std::ffi::c_int;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The size of freed memory that the allocator keeps for what comes next, and the size from which an allocation gets
/// pages of its own, in bytes. It holds several bodies of the default limit.
const KEPT_BYTES: c_int = 4 * 1024 * 1024;

/// Lets the allocator keep the memory that large bodies leave behind (mallopt(3)). By default it returns 128 KiB to the
/// kernel as soon as they are free, so that each large body costs pages that are mapped, zeroed and unmapped.
pub fn keep_freed_memory() {
    for parameter in [libc::M_TRIM_THRESHOLD, libc::M_MMAP_THRESHOLD] {
        // SAFETY: the arguments are integers, and the allocator takes its own lock.
        unsafe { libc::mallopt(parameter, KEPT_BYTES) };
    }
}

/// Gives the calling thread, and the threads that it starts from now on, the policy `SCHED_BATCH` (sched(7)): when such
/// a thread wakes up it interrupts no other thread, and it loses nothing of its share. If the kernel refuses, only the
/// speed changes.
///
/// Without it, and with one core for all threads, libzmq's thread interrupts the bus thread at the first message of a
/// batch, and the bus thread interrupts the worker: two changes of thread for a few messages.
pub fn schedule_as_batch() {
    // SAFETY: the structure has integer fields only, for which zero is a value.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = 0; // the only one that this policy has
    // SAFETY: 0 names the calling thread; the kernel reads the parameters during the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) };
}

/// Raises the soft limit of descriptors towards `wanted`, as far as the hard limit lets it, and never lowers it.
/// Returns the soft limit in force afterwards.
pub fn raise_descriptor_limit(wanted: u64) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = wanted.min(maximum.unwrap_or(u64::MAX)).max(current.unwrap_or(u64::MAX));
    match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }) {
        Ok(()) => raised,
        Err(_) => current.unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_inherit_the_batch_policy() {
        // The 39th value after the name, which stands in parentheses (proc_pid_stat(5)): the policy.
        let policy = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            stat.rsplit(')').next().unwrap().split_whitespace().nth(38).unwrap().to_owned()
        };
        let inherited = std::thread::spawn(move || {
            schedule_as_batch();
            std::thread::spawn(policy).join().unwrap()
        });
        assert_eq!(inherited.join().unwrap(), libc::SCHED_BATCH.to_string());
    }

    #[test]
    fn the_descriptor_limit_is_never_lowered() {
        let before = raise_descriptor_limit(0);
        assert_eq!(raise_descriptor_limit(1), before);
    }

    #[test]
    fn the_allocator_takes_both_parameters() {
        keep_freed_memory();
        assert_eq!(vec![1u8; 8 * 1024 * 1024].iter().map(|&byte| usize::from(byte)).sum::<usize>(), 8 * 1024 * 1024);
    }
}
