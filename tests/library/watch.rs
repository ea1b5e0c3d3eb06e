//! Tests of the ways in which a watched file changes, with real files.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use adapter_gateway::bus::Waker;
use adapter_gateway::sys::watch::Watch;

use crate::support::usage::voluntary_switches;
use crate::support::{Task, side_by_side};

/// How long a test waits for a report: far longer than a report takes, also on a busy machine.
const REPORTED_WITHIN: Duration = Duration::from_secs(10);

/// How long a test waits to see that nothing is reported: longer than a report takes. On a busy machine a wrong report
/// may come later, and the test passes nevertheless.
const NOT_REPORTED_FOR: Duration = Duration::from_millis(200);

/// Returns whether a change is reported within this time.
fn is_reported(watch: &mut Watch, time: Duration) -> bool {
    let (bell, since) = (Waker::new().unwrap(), Instant::now());
    watch.wait(bell.as_fd(), time);
    watch.renew(|_path| {});
    since.elapsed() < time
}

fn watch(path: &Path) -> Watch {
    let mut watch = Watch::new([path.to_owned()], Duration::MAX);
    watch.renew(|_path| {});
    watch
}

fn run(folder: &Path, commands: &str) {
    let mut shell = Command::new("sh");
    let status = shell.args(["-euc", commands]).current_dir(folder).status().unwrap();
    assert!(status.success(), "{commands}");
}

/// Runs a test of a watched file, once these commands of a shell have run in a directory of its own.
fn watching(before: &str, watched: &str, test: impl FnOnce(&Path, Watch)) {
    let dir = tempfile::tempdir().unwrap();
    // Its path has no symbolic links but those that a test makes.
    let root = dir.path().canonicalize().unwrap();
    run(&root, before);
    test(&root, watch(&root.join(watched)));
}

fn assert_reports(before: &str, watched: &str, reported: &[&str], unreported: &[&str]) {
    let row = format!("{watched} behind {before:?}");
    watching(before, watched, |root, mut watch| {
        assert!(!is_reported(&mut watch, NOT_REPORTED_FOR), "{row}: a report before the first step");
        for (number, step) in reported.iter().enumerate() {
            run(root, step);
            assert!(is_reported(&mut watch, REPORTED_WITHIN), "{row}: step {number}: {step}");
            // More than one report is correct where a busy machine splits the burst.
            let more = (0..10).take_while(|_| is_reported(&mut watch, NOT_REPORTED_FOR)).count();
            assert!(more < 10, "{row}: the reports of step {number} do not end");
        }
        for step in unreported {
            run(root, step);
            assert!(!is_reported(&mut watch, NOT_REPORTED_FOR), "{row}: {step}");
        }
    });
}

const NAME: &str = "user_settings.py";
const FILE: &str = "echo 'X = 0' > user_settings.py";
const REPLACE: &str = "echo 'X = 1' > new; mv new user_settings.py";
const DEEP: &str = "a/b/c/user_settings.py";
const DEEP_FILE: &str = "mkdir -p a/b/c; echo 'X = 0' > a/b/c/user_settings.py";
const DEEP_WRITE: &str = "echo 'X = 2' > a/b/c/user_settings.py";

/// Each row has what is done before, the file that is watched, and steps, which are commands of a shell: those that are
/// reported, of which each has its own reports, and then those that are not.
#[test]
fn each_change_is_reported_and_nothing_else() {
    let in_place = "printf 'X = 2\\n' 1<> user_settings.py";
    let written = "echo 'X = 3' > user_settings.py";
    // Vim writes a file this way, with a backup.
    let edited = "mv user_settings.py backup~; echo 'X = 4' > user_settings.py; rm backup~";
    let [removed, moved_away] = ["rm user_settings.py", "mv user_settings.py away.py"];
    let burst = format!("for _ in $(seq 100); do {REPLACE}; done");
    let reading = "cat user_settings.py > /dev/null; ls > /dev/null";
    let others = "echo > gateway-cert.pem; echo > new; mv new gateway-cert.pem; rm gateway-cert.pem
        mkdir __pycache__; echo > user_settings.py.swp";
    let in_one_burst = format!("rm -r a; {DEEP_FILE}");
    let link = "mkdir dotfiles elsewhere; echo > dotfiles/settings.py; echo > elsewhere/settings.py
        ln -s dotfiles/settings.py user_settings.py";
    let write_target = "echo 'X = 1' > dotfiles/settings.py";
    let rename_over = "echo 'X = 1' > dotfiles/new; mv dotfiles/new dotfiles/settings.py";
    let relink = "ln -s \"$PWD/elsewhere/settings.py\" new; mv new user_settings.py";
    let [write_other, remove_other] = ["echo 'X = 2' > elsewhere/settings.py", "rm elsewhere/settings.py"];
    let create_target = "mkdir -p later/on; echo 'X = 0' > later/on/settings.py";
    let folders = "mkdir old new; echo > old/user_settings.py; echo > new/user_settings.py; ln -s old adapter";
    let write_old = "echo 'X = 1' > old/user_settings.py";
    let relink_folder = "rm adapter; ln -s old/../new adapter";
    let write_new = "echo 'X = 1' > new/other; mv new/other new/user_settings.py";
    let in_a_loop = "ln -s other.py user_settings.py; ln -s user_settings.py other.py";
    // In another folder, only what the file is tells of the write, and not its name.
    let linked = format!("mkdir other; {FILE}; ln user_settings.py other/name");
    let by_other_name = ["echo 'X = 1' > other/name", "printf 'X' 1<> other/name", REPLACE];
    let to_target = [write_target, rename_over, write_target, relink, write_other, remove_other, REPLACE];
    let rows: [(_, _, &[&str], &[&str]); 16] = [
        (FILE, NAME, &[in_place, written, in_place], &[]),
        (FILE, NAME, &[REPLACE, written, REPLACE, edited], &[]),
        (FILE, NAME, &[removed, FILE, moved_away, FILE], &[]),
        (FILE, NAME, &["chmod 600 user_settings.py"], &[]),
        (FILE, NAME, &[&burst], &[]),
        (FILE, NAME, &[], &[reading, others]),
        ("", DEEP, &["mkdir a", "mkdir -p a/b/c", "echo 'X = 1' > a/b/c/user_settings.py", DEEP_WRITE], &[]),
        ("", DEEP, &[DEEP_FILE, DEEP_WRITE], &[]),
        (DEEP_FILE, DEEP, &["rm -r a", DEEP_FILE, DEEP_WRITE, "rm -r a", DEEP_FILE, DEEP_WRITE], &[]),
        (DEEP_FILE, DEEP, &[&in_one_burst, DEEP_WRITE], &[]),
        (DEEP_FILE, DEEP, &["mv a z", "mv z a", DEEP_WRITE], &[]),
        (link, NAME, &to_target, &[write_target, write_other]),
        ("ln -s later/on/settings.py user_settings.py", NAME, &[create_target, "rm later/on/settings.py"], &[]),
        (folders, "adapter/user_settings.py", &[write_old, relink_folder, write_new], &[]),
        (in_a_loop, NAME, &[REPLACE], &[]),
        (&linked, NAME, &by_other_name, &["echo 'X = 2' > other/name"]),
    ];
    side_by_side(rows, |(before, watched, reported, unreported)| assert_reports(before, watched, reported, unreported));
}

#[test]
fn a_file_that_is_written_all_the_time_is_reported() {
    watching(FILE, NAME, |root, mut watch| {
        let mut file = File::create(root.join(NAME)).unwrap();
        let _writing = Task::repeat(move || {
            file.write_all(b"#").unwrap();
            std::thread::sleep(Duration::from_millis(1));
        });
        assert!(is_reported(&mut watch, REPORTED_WITHIN));
    });
}

/// Whoever writes into a folder that is open to all must not keep the process awake.
#[test]
fn files_of_others_in_the_same_folder_wake_nobody() {
    watching(FILE, NAME, |root, mut watch| {
        let other = root.join("other");
        let _writing = Task::repeat(move || fs::write(&other, "").and_then(|()| fs::remove_file(&other)).unwrap());
        let waits = || voluntary_switches(Path::new("/proc/thread-self"));
        let before = waits();
        assert!(!is_reported(&mut watch, Duration::from_secs(1)));
        assert!(waits() - before <= 2, "{} waits", waits() - before);
        fs::write(root.join(NAME), "X = 1").unwrap();
        assert!(is_reported(&mut watch, REPORTED_WITHIN));
    });
}

#[test]
fn a_bell_ends_the_wait() {
    watching(FILE, NAME, |_, mut watch| {
        let bell = Waker::new().unwrap();
        bell.wake();
        let since = Instant::now();
        watch.wait(bell.as_fd(), REPORTED_WITHIN);
        assert!(since.elapsed() < REPORTED_WITHIN);
    });
}

#[test]
fn a_relative_path_is_resolved_from_the_working_directory() {
    let mut watch = watch(Path::new("no/such/user_settings.py"));
    assert!(!is_reported(&mut watch, NOT_REPORTED_FOR));
}
