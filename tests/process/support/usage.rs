//! What a process holds and uses, as the kernel counts it.

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

/// Open descriptors.
pub(crate) fn descriptors(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

/// The highest number of an open descriptor.
pub(crate) fn highest_descriptor(process: u32) -> usize {
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let numbers = open.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap());
    numbers.max().unwrap()
}

/// Memory in use, in KiB.
pub(crate) fn resident_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a VmRSS line");
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// User and system time of all its threads: fields 14 and 15 of proc_pid_stat(5), of which the
/// second, in parentheses, may itself hold spaces.
pub(crate) fn cpu_ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    [14, 15].iter().map(|field| fields[field - 3].parse::<u64>().unwrap()).sum()
}

/// Changes the soft limit of descriptors of a running process, and returns the former.
pub(crate) fn limit_descriptors(process: u32, limit: u64) -> u64 {
    let process = Pid::from_raw(process.try_into().unwrap());
    // The hard limit is inherited from here.
    let limits = Rlimit { current: Some(limit), maximum: getrlimit(Resource::Nofile).maximum };
    prlimit(process, Resource::Nofile, limits).unwrap().current.expect("a limit")
}

/// Raises the tests' own limit of descriptors, for those that connect a thousand times.
pub(crate) fn raise_descriptors() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}
