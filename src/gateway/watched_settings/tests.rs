use std::fs;

use super::*;
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
    settings.read_again(true, at_once);
    settings
}

fn at_once(_: Duration) {
    unreachable!("the content counts at once");
}

#[test]
fn a_file_that_is_empty_while_it_is_saved_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (mut settings, path) = opened(directory.path());
    fs::write(&path, "").unwrap();
    let change = settings.read_again(false, |_| fs::write(&path, OPEN).unwrap());
    assert_eq!(change, Some(SettingsChange::Unchanged));
    assert!(settings.token().is_ok());
}

#[test]
fn a_file_that_had_content_meanwhile_has_not_stayed_empty() {
    let directory = tempfile::tempdir().unwrap();
    let (mut settings, path) = opened(directory.path());
    fs::write(&path, "").unwrap();
    let change = settings.read_again(false, |time| {
        std::thread::sleep(time);
        fs::write(&path, OPEN).unwrap();
        fs::write(&path, "").unwrap();
    });
    assert_eq!(change, None);
    assert!(settings.token().is_ok());
}

#[test]
fn a_file_that_stays_empty_disables_and_is_waited_for_once() {
    let directory = tempfile::tempdir().unwrap();
    let (mut settings, path) = opened(directory.path());
    fs::write(&path, "").unwrap();
    let mut waited = Duration::ZERO;
    assert_eq!(settings.read_again(false, |time| waited += time), Some(SettingsChange::Reloaded));
    assert_eq!(waited, EMPTY_FOR);
    assert!(settings.token().is_err());
    assert_eq!(settings.read_again(false, at_once), None);
}

#[test]
fn an_empty_file_counts_at_once_at_the_start_and_when_asked() {
    let directory = tempfile::tempdir().unwrap();
    let (mut settings, path) = opened(directory.path());
    fs::write(&path, "").unwrap();
    assert_eq!(settings.read_again(true, at_once), Some(SettingsChange::Reloaded));
    assert!(settings.token().is_err());
    assert!(started(&path).token().is_err());
}

#[test]
fn anything_but_an_empty_file_counts_at_once() {
    let directory = tempfile::tempdir().unwrap();
    for text in ["\n", "# nothing", "OPEN_REST_API = False\n"] {
        let (mut settings, path) = opened(directory.path());
        fs::write(&path, text).unwrap();
        assert_eq!(settings.read_again(false, at_once), Some(SettingsChange::Reloaded), "{text:?}");
        assert!(settings.token().is_err());
    }
    let (mut settings, path) = opened(directory.path());
    fs::remove_file(&path).unwrap();
    assert_eq!(settings.read_again(false, at_once), Some(SettingsChange::Reloaded));
    assert!(settings.token().is_err());
}
