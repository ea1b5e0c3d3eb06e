use std::fs;
use std::path::Path;

use super::*;
use crate::mark::must_hit;
use crate::terms::limits::Limits;

const OPEN: &str = "OPEN_REST_API = True\nTOKEN = 's3cr3t-of-16-chars'\n";

/// Returns an open settings file, and its settings.
fn opened(directory: &Path) -> (WatchedSettings, PathBuf) {
    let path = directory.join("user_settings.py");
    fs::write(&path, OPEN).unwrap();
    (started(&path), path)
}

fn started(path: &Path) -> WatchedSettings {
    let mut settings = WatchedSettings::new(TokenSource::SettingsFile(path.into()), Limits::DEFAULT.head_bytes);
    settings.read_again(true, Instant::now());
    settings
}

#[test]
fn a_file_that_is_empty_while_it_is_saved_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (mut settings, path) = opened(directory.path());
    let now = Instant::now();
    fs::write(&path, "").unwrap();
    must_hit("an editor empties a file, and then writes it", || {
        assert_eq!((settings.read_again(false, now), settings.counts_in(now)), (None, Some(EMPTY_FOR)));
    });
    fs::write(&path, OPEN).unwrap();
    assert_eq!(settings.read_again(false, now + EMPTY_FOR), Some(SettingsChange::Unchanged));
    assert!(settings.token().is_ok());
    // The time begins anew.
    fs::write(&path, "").unwrap();
    let later = now + 2 * EMPTY_FOR;
    assert_eq!((settings.read_again(false, later), settings.counts_in(later)), (None, Some(EMPTY_FOR)));
}

#[test]
fn a_file_that_stays_empty_disables_whatever_touches_it_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let (mut settings, path) = opened(directory.path());
    let mut now = Instant::now();
    let end = now + EMPTY_FOR;
    while now < end {
        // A hundredth of a second later, the kernel counts another time of change.
        std::thread::sleep(Duration::from_millis(10));
        fs::write(&path, "").unwrap();
        assert_eq!(settings.read_again(false, now), None);
        now += EMPTY_FOR / 4;
    }
    assert_eq!(settings.read_again(false, now), Some(SettingsChange::Reloaded));
    assert!(settings.token().is_err());
    assert_eq!((settings.read_again(false, now), settings.counts_in(now)), (None, None));
}

#[test]
fn a_folder_of_the_path_that_is_none_any_more_disables() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let (mut settings, _path) = opened(&folder);
    fs::rename(&folder, directory.path().join("other")).unwrap();
    fs::write(&folder, "").unwrap();
    assert_eq!(settings.read_again(false, Instant::now()), Some(SettingsChange::Reloaded));
    assert!(settings.token().is_err());
}

#[test]
fn an_empty_file_counts_at_once_at_the_start_and_when_asked() {
    let directory = tempfile::tempdir().unwrap();
    let (mut settings, path) = opened(directory.path());
    fs::write(&path, "").unwrap();
    // Whoever asks ends the wait.
    let now = Instant::now();
    assert_eq!((settings.read_again(false, now), settings.counts_in(now)), (None, Some(EMPTY_FOR)));
    assert_eq!((settings.read_again(true, now), settings.counts_in(now)), (Some(SettingsChange::Reloaded), None));
    assert!(settings.token().is_err());
    assert!(started(&path).token().is_err());
}

#[test]
fn anything_but_an_empty_file_counts_at_once() {
    let directory = tempfile::tempdir().unwrap();
    for text in ["\n", "# nothing", "OPEN_REST_API = False\n"] {
        let (mut settings, path) = opened(directory.path());
        fs::write(&path, text).unwrap();
        assert_eq!(settings.read_again(false, Instant::now()), Some(SettingsChange::Reloaded), "{text:?}");
        assert!(settings.token().is_err());
    }
    let (mut settings, path) = opened(directory.path());
    fs::remove_file(&path).unwrap();
    assert_eq!(settings.read_again(false, Instant::now()), Some(SettingsChange::Reloaded));
    assert!(settings.token().is_err());
}
