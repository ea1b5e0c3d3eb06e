//! One named test for each way in which a watched file changes, with real files.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use adapter_gateway::sys::watch::Watch;
use tempfile::TempDir;
use tokio::time::timeout;

/// How long a test waits for a report: far longer than a report takes, also on a busy machine.
const REPORTED_WITHIN: Duration = Duration::from_secs(10);

/// How long a test waits to see that nothing is reported: longer than a report takes. On a busy machine a wrong report may
/// come later, and the test passes nevertheless.
const NOT_REPORTED_FOR: Duration = Duration::from_millis(200);

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn is_reported(watch: &mut Watch) -> bool {
    timeout(REPORTED_WITHIN, watch.changed()).await.is_ok()
}

async fn is_not_reported(watch: &mut Watch) -> bool {
    timeout(NOT_REPORTED_FOR, watch.changed()).await.is_err()
}

/// Returns how often one change is reported. More than once is correct on a machine too busy to let the burst end in time.
async fn count_reports(watch: &mut Watch) -> usize {
    let mut reports = 0;
    while timeout(if reports == 0 { REPORTED_WITHIN } else { NOT_REPORTED_FOR }, watch.changed()).await.is_ok() {
        reports += 1;
        assert!(reports < 10, "the reports do not end");
    }
    reports
}

/// A temporary directory. Its path has no symbolic links but those that a test makes.
struct Place {
    _dir: TempDir,
    root: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        Self { _dir: dir, root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn file(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "X = 0\n").unwrap();
        path
    }
}

fn replace(path: &Path) {
    let other = path.with_extension("new");
    fs::write(&other, "X = 1\n").unwrap();
    fs::rename(other, path).unwrap();
}

/// Asserts that each step is reported, and that its reports end before the next step.
fn assert_each_is_reported(path: &Path, steps: &[(&str, &dyn Fn())]) {
    block_on(async {
        let mut watch = Watch::start(path);
        assert!(is_not_reported(&mut watch).await, "a report before the first step");
        for (name, step) in steps {
            step();
            assert!(count_reports(&mut watch).await > 0, "{name}");
        }
    });
}

fn assert_not_reported(path: &Path, step: impl FnOnce()) {
    block_on(async {
        let mut watch = Watch::start(path);
        step();
        assert!(is_not_reported(&mut watch).await);
    });
}

#[test]
fn writing_is_reported() {
    let place = Place::new();
    let path = place.file("user_settings.py");
    let in_place = || {
        OpenOptions::new().write(true).open(&path).unwrap().write_all(b"X = 2\n").unwrap();
    };
    let truncating = || fs::write(&path, "X = 3\n").unwrap();
    assert_each_is_reported(&path, &[("in place", &in_place), ("truncating", &truncating), ("again", &in_place)]);
}

#[test]
fn replacing_by_a_rename_is_reported() {
    let place = Place::new();
    let path = place.file("user_settings.py");
    let renamed = || replace(&path);
    let written = || fs::write(&path, "X = 2\n").unwrap();
    // Vim writes a file this way, with a backup.
    let edited = || {
        fs::rename(&path, place.path("user_settings.py~")).unwrap();
        fs::write(&path, "X = 4\n").unwrap();
        fs::remove_file(place.path("user_settings.py~")).unwrap();
    };
    let steps: [(&str, &dyn Fn()); 4] =
        [("renamed", &renamed), ("written", &written), ("renamed again", &renamed), ("edited", &edited)];
    assert_each_is_reported(&path, &steps);
}

#[test]
fn removal_and_creation_are_reported() {
    let place = Place::new();
    let path = place.file("user_settings.py");
    let remove = || fs::remove_file(&path).unwrap();
    let create = || fs::write(&path, "X = 1\n").unwrap();
    let away = || fs::rename(&path, place.path("away.py")).unwrap();
    let steps: [(&str, &dyn Fn()); 4] =
        [("removed", &remove), ("created", &create), ("renamed away", &away), ("created again", &create)];
    assert_each_is_reported(&path, &steps);
}

#[test]
fn a_change_of_permissions_is_reported() {
    let place = Place::new();
    let path = place.file("user_settings.py");
    let chmod = || fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_each_is_reported(&path, &[("chmod", &chmod)]);
}

#[test]
fn directories_created_later_are_followed() {
    let place = Place::new();
    let path = place.path("a/b/c/user_settings.py");
    let outer = || fs::create_dir(place.path("a")).unwrap();
    let inner = || fs::create_dir_all(place.path("a/b/c")).unwrap();
    let file = || fs::write(&path, "X = 1\n").unwrap();
    let write = || fs::write(&path, "X = 2\n").unwrap();
    let steps: [(&str, &dyn Fn()); 4] = [("outer", &outer), ("inner", &inner), ("file", &file), ("write", &write)];
    assert_each_is_reported(&path, &steps);
}

#[test]
fn directories_created_together_with_the_file_are_followed() {
    let place = Place::new();
    let path = place.path("a/b/c/user_settings.py");
    let all = || drop(place.file("a/b/c/user_settings.py"));
    let write = || fs::write(&path, "X = 2\n").unwrap();
    assert_each_is_reported(&path, &[("all", &all), ("write", &write)]);
}

#[test]
fn directories_removed_and_created_again_are_followed() {
    let place = Place::new();
    let path = place.file("a/b/user_settings.py");
    let remove = || fs::remove_dir_all(place.path("a")).unwrap();
    let create = || drop(place.file("a/b/user_settings.py"));
    let write = || fs::write(&path, "X = 2\n").unwrap();
    let steps: [(&str, &dyn Fn()); 6] = [
        ("removed", &remove),
        ("created", &create),
        ("written", &write),
        ("removed again", &remove),
        ("created again", &create),
        ("written again", &write),
    ];
    assert_each_is_reported(&path, &steps);
}

#[test]
fn a_directory_removed_and_created_again_within_one_burst_is_followed() {
    let place = Place::new();
    let path = place.file("a/b/user_settings.py");
    let recreate = || {
        fs::remove_dir_all(place.path("a")).unwrap();
        place.file("a/b/user_settings.py");
    };
    let write = || fs::write(&path, "X = 2\n").unwrap();
    assert_each_is_reported(&path, &[("removed and created", &recreate), ("written", &write)]);
}

#[test]
fn a_directory_far_up_that_is_renamed_and_renamed_back_is_followed() {
    let place = Place::new();
    let path = place.file("a/b/c/user_settings.py");
    let away = || fs::rename(place.path("a"), place.path("z")).unwrap();
    let back = || fs::rename(place.path("z"), place.path("a")).unwrap();
    let write = || fs::write(&path, "X = 2\n").unwrap();
    assert_each_is_reported(&path, &[("away", &away), ("back", &back), ("written", &write)]);
}

#[test]
fn a_link_and_its_target_are_followed() {
    let place = Place::new();
    let target = place.file("dotfiles/settings.py");
    let other = place.file("elsewhere/settings.py");
    let link = place.path("user_settings.py");
    symlink("dotfiles/settings.py", &link).unwrap();
    let write = || fs::write(&target, "X = 1\n").unwrap();
    let rename_over = || replace(&target);
    let relink = || {
        symlink(&other, place.path("link.new")).unwrap();
        fs::rename(place.path("link.new"), &link).unwrap();
    };
    let write_other = || fs::write(&other, "X = 2\n").unwrap();
    let remove_other = || fs::remove_file(&other).unwrap();
    let replace_by_a_file = || replace(&link);
    let steps: [(&str, &dyn Fn()); 7] = [
        ("target written", &write),
        ("target renamed over", &rename_over),
        ("target written again", &write),
        ("link replaced", &relink),
        ("new target written", &write_other),
        ("new target removed", &remove_other),
        ("link replaced by a file", &replace_by_a_file),
    ];
    assert_each_is_reported(&link, &steps);
}

#[test]
fn a_former_target_of_a_link_is_not_reported() {
    let place = Place::new();
    let target = place.file("dotfiles/settings.py");
    let link = place.path("user_settings.py");
    symlink(&target, &link).unwrap();
    block_on(async {
        let mut watch = Watch::start(&link);
        replace(&link);
        assert!(count_reports(&mut watch).await > 0);
        fs::write(&target, "X = 1\n").unwrap();
        assert!(is_not_reported(&mut watch).await);
    });
}

#[test]
fn a_dangling_link_is_followed() {
    let place = Place::new();
    let link = place.path("user_settings.py");
    symlink("later/on/settings.py", &link).unwrap();
    let create = || drop(place.file("later/on/settings.py"));
    let remove = || fs::remove_file(place.path("later/on/settings.py")).unwrap();
    assert_each_is_reported(&link, &[("created", &create), ("removed", &remove)]);
}

#[test]
fn a_directory_that_is_a_link_is_followed() {
    let place = Place::new();
    let old = place.file("old/user_settings.py");
    let new = place.file("new/user_settings.py");
    symlink("old", place.path("adapter")).unwrap();
    let write_old = || fs::write(&old, "X = 1\n").unwrap();
    let relink = || {
        fs::remove_file(place.path("adapter")).unwrap();
        symlink("old/../new", place.path("adapter")).unwrap();
    };
    let write_new = || replace(&new);
    let steps: [(&str, &dyn Fn()); 3] = [("old written", &write_old), ("relinked", &relink), ("new", &write_new)];
    assert_each_is_reported(&place.path("adapter/user_settings.py"), &steps);
}

#[test]
fn a_loop_of_links_is_watched() {
    let place = Place::new();
    let link = place.path("user_settings.py");
    symlink("other.py", &link).unwrap();
    symlink("user_settings.py", place.path("other.py")).unwrap();
    let replaced = || replace(&link);
    assert_each_is_reported(&link, &[("replaced", &replaced)]);
}

#[test]
fn reading_is_not_reported() {
    let place = Place::new();
    let path = place.file("user_settings.py");
    assert_not_reported(&path, || {
        fs::read(&path).unwrap();
        fs::read_dir(&place.root).unwrap().for_each(drop);
    });
}

#[test]
fn other_files_are_not_reported() {
    let place = Place::new();
    let path = place.file("user_settings.py");
    assert_not_reported(&path, || {
        let other = place.file("gateway-cert.pem");
        replace(&other);
        fs::remove_file(other).unwrap();
        fs::create_dir(place.path("__pycache__")).unwrap();
        place.file("user_settings.py.swp");
    });
}

#[test]
fn a_burst_is_reported_a_few_times_at_most() {
    let place = Place::new();
    let path = place.file("user_settings.py");
    let burst = || (0..100).for_each(|_| replace(&path));
    assert_each_is_reported(&path, &[("burst", &burst)]);
}

#[test]
fn a_file_that_is_written_all_the_time_is_reported() {
    let place = Place::new();
    let path = place.file("user_settings.py");
    block_on(async {
        let mut watch = Watch::start(&path);
        let mut file = File::create(&path).unwrap();
        let mut ticks = tokio::time::interval(Duration::from_millis(1));
        let writing = async {
            loop {
                ticks.tick().await;
                file.write_all(b"#").unwrap();
            }
        };
        tokio::select! {
            reported = is_reported(&mut watch) => assert!(reported),
            () = writing => {}
        }
    });
}

#[test]
fn a_change_is_reported_also_where_the_future_is_dropped_again_and_again() {
    let place = Place::new();
    let path = place.file("user_settings.py");
    block_on(async {
        let mut watch = Watch::start(&path);
        fs::write(&path, "X = 1\n").unwrap();
        let reported = async { while timeout(Duration::from_millis(5), watch.changed()).await.is_err() {} };
        assert!(timeout(REPORTED_WITHIN, reported).await.is_ok());
    });
}

#[test]
fn a_relative_path_is_resolved_from_the_working_directory() {
    block_on(async {
        let mut watch = Watch::start(Path::new("no/such/user_settings.py"));
        assert!(is_not_reported(&mut watch).await);
    });
}
