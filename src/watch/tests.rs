//! One named test for each way in which a settings file changes, with real files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::timeout;

use super::{Watch, WatchError};

/// Far above what a change takes, on a busy machine too.
const SEEN_WITHIN: Duration = Duration::from_secs(10);

/// Above the time in which a change is told, unless the machine is busy: then a test passes that might fail.
const UNSEEN_FOR: Duration = Duration::from_millis(200);

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn is_seen(watch: &mut Watch) -> bool {
    timeout(SEEN_WITHIN, watch.changed()).await.is_ok()
}

async fn is_unseen(watch: &mut Watch) -> bool {
    timeout(UNSEEN_FOR, watch.changed()).await.is_err()
}

/// How often one change was told. More than once is right where the machine is too busy to let the burst end in time.
async fn times_told(watch: &mut Watch) -> usize {
    let mut times = 0;
    while timeout(if times == 0 { SEEN_WITHIN } else { UNSEEN_FOR }, watch.changed()).await.is_ok() {
        times += 1;
        assert!(times < 10, "never quiet");
    }
    times
}

/// A directory free of links, so that tests of links know of each.
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

/// Each step must be seen on its own, and be over before the next.
fn assert_each_is_seen(path: &Path, steps: &[(&str, &dyn Fn())]) {
    block_on(async {
        let mut watch = Watch::start(path).unwrap();
        assert!(is_unseen(&mut watch).await, "nothing happened");
        for (name, step) in steps {
            step();
            assert!(times_told(&mut watch).await > 0, "{name}");
        }
    });
}

fn assert_unseen(path: &Path, step: impl FnOnce()) {
    block_on(async {
        let mut watch = Watch::start(path).unwrap();
        step();
        assert!(is_unseen(&mut watch).await);
    });
}

#[test]
fn writes() {
    let place = Place::new();
    let path = place.file("user_settings.py");
    let in_place = || {
        OpenOptions::new().write(true).open(&path).unwrap().write_all(b"X = 2\n").unwrap();
    };
    let truncating = || fs::write(&path, "X = 3\n").unwrap();
    assert_each_is_seen(&path, &[("in place", &in_place), ("truncating", &truncating), ("again", &in_place)]);
}

#[test]
fn renames_over_it() {
    let place = Place::new();
    let path = place.file("user_settings.py");
    let renamed = || replace(&path);
    let written = || fs::write(&path, "X = 2\n").unwrap();
    // As vim does it, with a backup.
    let edited = || {
        fs::rename(&path, place.path("user_settings.py~")).unwrap();
        fs::write(&path, "X = 4\n").unwrap();
        fs::remove_file(place.path("user_settings.py~")).unwrap();
    };
    let steps: [(&str, &dyn Fn()); 4] =
        [("renamed", &renamed), ("written", &written), ("renamed again", &renamed), ("edited", &edited)];
    assert_each_is_seen(&path, &steps);
}

#[test]
fn removal_and_creation() {
    let place = Place::new();
    let path = place.file("user_settings.py");
    let remove = || fs::remove_file(&path).unwrap();
    let create = || fs::write(&path, "X = 1\n").unwrap();
    let away = || fs::rename(&path, place.path("away.py")).unwrap();
    let steps: [(&str, &dyn Fn()); 4] =
        [("removed", &remove), ("created", &create), ("renamed away", &away), ("created again", &create)];
    assert_each_is_seen(&path, &steps);
}

#[test]
fn permissions() {
    let place = Place::new();
    let path = place.file("user_settings.py");
    let chmod = || fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_each_is_seen(&path, &[("chmod", &chmod)]);
}

#[test]
fn directories_made_later() {
    let place = Place::new();
    let path = place.path("a/b/c/user_settings.py");
    let outer = || fs::create_dir(place.path("a")).unwrap();
    let inner = || fs::create_dir_all(place.path("a/b/c")).unwrap();
    let file = || fs::write(&path, "X = 1\n").unwrap();
    let write = || fs::write(&path, "X = 2\n").unwrap();
    let steps: [(&str, &dyn Fn()); 4] = [("outer", &outer), ("inner", &inner), ("file", &file), ("write", &write)];
    assert_each_is_seen(&path, &steps);
}

#[test]
fn directories_made_with_the_file_at_once() {
    let place = Place::new();
    let path = place.path("a/b/c/user_settings.py");
    let all = || drop(place.file("a/b/c/user_settings.py"));
    let write = || fs::write(&path, "X = 2\n").unwrap();
    assert_each_is_seen(&path, &[("all", &all), ("write", &write)]);
}

#[test]
fn directories_removed_and_made_again() {
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
    assert_each_is_seen(&path, &steps);
}

#[test]
fn a_directory_removed_and_made_again_within_one_burst() {
    let place = Place::new();
    let path = place.file("a/b/user_settings.py");
    let anew = || {
        fs::remove_dir_all(place.path("a")).unwrap();
        place.file("a/b/user_settings.py");
    };
    let write = || fs::write(&path, "X = 2\n").unwrap();
    assert_each_is_seen(&path, &[("made anew", &anew), ("written", &write)]);
}

#[test]
fn a_directory_far_up_renamed_and_back() {
    let place = Place::new();
    let path = place.file("a/b/c/user_settings.py");
    let away = || fs::rename(place.path("a"), place.path("z")).unwrap();
    let back = || fs::rename(place.path("z"), place.path("a")).unwrap();
    let write = || fs::write(&path, "X = 2\n").unwrap();
    assert_each_is_seen(&path, &[("away", &away), ("back", &back), ("written", &write)]);
}

#[test]
fn a_link_and_its_target() {
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
    assert_each_is_seen(&link, &steps);
}

#[test]
fn a_target_that_no_longer_counts() {
    let place = Place::new();
    let target = place.file("dotfiles/settings.py");
    let link = place.path("user_settings.py");
    symlink(&target, &link).unwrap();
    block_on(async {
        let mut watch = Watch::start(&link).unwrap();
        replace(&link);
        assert!(times_told(&mut watch).await > 0);
        fs::write(&target, "X = 1\n").unwrap();
        assert!(is_unseen(&mut watch).await);
    });
}

#[test]
fn a_dangling_link() {
    let place = Place::new();
    let link = place.path("user_settings.py");
    symlink("later/on/settings.py", &link).unwrap();
    let create = || drop(place.file("later/on/settings.py"));
    let remove = || fs::remove_file(place.path("later/on/settings.py")).unwrap();
    assert_each_is_seen(&link, &[("created", &create), ("removed", &remove)]);
}

#[test]
fn a_directory_that_is_a_link() {
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
    assert_each_is_seen(&place.path("adapter/user_settings.py"), &steps);
}

#[test]
fn a_loop_of_links() {
    let place = Place::new();
    let link = place.path("user_settings.py");
    symlink("other.py", &link).unwrap();
    symlink("user_settings.py", place.path("other.py")).unwrap();
    let replaced = || replace(&link);
    assert_each_is_seen(&link, &[("replaced", &replaced)]);
}

#[test]
fn reading_is_no_change() {
    let place = Place::new();
    let path = place.file("user_settings.py");
    assert_unseen(&path, || {
        fs::read(&path).unwrap();
        fs::read_dir(&place.root).unwrap().for_each(drop);
    });
}

#[test]
fn other_files_do_not_count() {
    let place = Place::new();
    let path = place.file("user_settings.py");
    assert_unseen(&path, || {
        let other = place.file("gateway-cert.pem");
        replace(&other);
        fs::remove_file(other).unwrap();
        fs::create_dir(place.path("__pycache__")).unwrap();
        place.file("user_settings.py.swp");
    });
}

#[test]
fn a_burst_is_told_a_few_times_at_most() {
    let place = Place::new();
    let path = place.file("user_settings.py");
    let burst = || (0..100).for_each(|_| replace(&path));
    assert_each_is_seen(&path, &[("burst", &burst)]);
}

#[test]
fn a_file_that_never_rests_is_told() {
    let place = Place::new();
    let path = place.file("user_settings.py");
    block_on(async {
        let mut watch = Watch::start(&path).unwrap();
        let mut file = File::create(&path).unwrap();
        let mut ticks = tokio::time::interval(Duration::from_millis(1));
        let writing = async {
            loop {
                ticks.tick().await;
                file.write_all(b"#").unwrap();
            }
        };
        tokio::select! {
            seen = is_seen(&mut watch) => assert!(seen),
            () = writing => {}
        }
    });
}

#[test]
fn a_change_is_told_also_where_the_future_is_dropped_again_and_again() {
    let place = Place::new();
    let path = place.file("user_settings.py");
    block_on(async {
        let mut watch = Watch::start(&path).unwrap();
        fs::write(&path, "X = 1\n").unwrap();
        let told = async { while timeout(Duration::from_millis(5), watch.changed()).await.is_err() {} };
        assert!(timeout(SEEN_WITHIN, told).await.is_ok());
    });
}

#[test]
fn a_relative_path_is_of_the_working_directory() {
    block_on(async {
        let mut watch = Watch::start(Path::new("no/such/user_settings.py")).unwrap();
        assert!(is_unseen(&mut watch).await);
    });
}

#[test]
fn an_error_names_the_directory() {
    let error = WatchError::Directory { path: "/closed".into(), error: io::Error::other("no") };
    assert_eq!(error.to_string(), "cannot watch /closed: no");
}
