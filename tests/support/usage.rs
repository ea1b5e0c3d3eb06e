//! The descriptors, memory and processor time of a process, as the kernel counts them.

use rustix::process::{Resource, Rlimit, getrlimit, prlimit, setrlimit};

use super::*;

pub(crate) fn descriptors(process: u32) -> usize {
    entries(format!("/proc/{process}/fd")).count()
}

pub(crate) fn highest_descriptor(process: u32) -> usize {
    let number = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().parse().unwrap();
    entries(format!("/proc/{process}/fd")).map(number).max().unwrap()
}

pub(crate) fn resident_kib(process: u32) -> u64 {
    status(format!("/proc/{process}"), "VmRSS").parse().unwrap()
}

pub(crate) fn peak_resident_kib(process: u32) -> u64 {
    status(format!("/proc/{process}"), "VmHWM").parse().unwrap()
}

/// Returns a field of proc_pid_status(5) without its unit, of a process or a thread; nothing if that has ended.
pub(crate) fn status(folder: impl AsRef<Path>, field: &str) -> String {
    let status = fs::read_to_string(folder.as_ref().join("status")).unwrap_or_default();
    let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.unwrap_or_default().trim().trim_end_matches(" kB").to_owned()
}

/// Returns the user and system time in clock ticks: fields 14 and 15 of proc_pid_stat(5). Field 2 may contain spaces.
pub(crate) fn cpu_ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    [14, 15].iter().map(|field| fields[field - 3].parse::<u64>().unwrap()).sum()
}

/// Returns how much of that it uses within this time. The test says what happens meanwhile.
pub(crate) fn cpu_ticks_within(time: Duration, process: u32, meanwhile: &str) -> u64 {
    let before = cpu_ticks(process);
    thread::sleep(time);
    let ticks = cpu_ticks(process) - before;
    println!("{ticks} ticks in {time:?} {meanwhile}");
    ticks
}

/// Returns the folders of the threads of a process.
pub(crate) fn threads(process: u32) -> impl Iterator<Item = PathBuf> {
    entries(format!("/proc/{process}/task"))
}

/// Returns whether a thread waits: field 3 of proc_pid_stat(5). One that has ended does not.
pub(crate) fn sleeps(thread: &Path) -> bool {
    let stat = fs::read_to_string(thread.join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('S'))
}

/// Returns the number of voluntary context switches of a thread. Each time that it wakes up adds one.
pub(crate) fn voluntary_switches(thread: &Path) -> u64 {
    status(thread, "voluntary_ctxt_switches").parse().unwrap_or(0)
}

/// Changes the soft limit of descriptors of a running process and returns the former limit.
pub(crate) fn limit_descriptors(process: u32, limit: u64) -> u64 {
    let process = Pid::from_raw(process.try_into().unwrap());
    // The hard limit is inherited from here.
    let limits = Rlimit { current: Some(limit), maximum: getrlimit(Resource::Nofile).maximum };
    prlimit(process, Resource::Nofile, limits).unwrap().current.expect("a limit")
}

/// Raises the limit of descriptors of the tests themselves, for tests that open a thousand connections.
pub(crate) fn raise_descriptors() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}
