use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::settings::file::path_in;
use crate::settings::{self, Access, DisabledReason, SettingsReading, parse};
use crate::terms::token::Token;

fn read(path: &Path) -> SettingsReading {
    settings::read(path, false)
}

fn read_source(source: &[u8]) -> (PathBuf, Result<Access, String>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("user_settings.py");
    fs::write(&path, source).unwrap();
    let access = read(&path).access;
    (path, access)
}

#[test]
fn a_file_is_read() {
    let (_, access) = read_source(b"OPEN_REST_API = True\nTOKEN = 's3cret'\n");
    assert_eq!(access.unwrap(), Access::Open(Token::new("s3cret").unwrap()));
}

#[test]
fn an_absent_file_disables_the_entrance() {
    let dir = tempfile::tempdir().unwrap();
    for absent in ["user_settings.py", "no/such/directory/user_settings.py"] {
        let access = read(&dir.path().join(absent)).access.unwrap();
        assert_eq!(access, Access::Disabled(DisabledReason::SettingsAbsent));
    }
}

#[test]
fn a_dangling_link_counts_as_an_absent_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("user_settings.py");
    std::os::unix::fs::symlink(dir.path().join("gone.py"), &path).unwrap();
    assert_eq!(read(&path).access.unwrap(), Access::Disabled(DisabledReason::SettingsAbsent));
}

#[test]
fn a_directory_is_unreadable() {
    let dir = tempfile::tempdir().unwrap();
    let error = read(dir.path()).access.unwrap_err();
    assert_eq!(
        error,
        format!("{}: not a regular file; a folder is there: name a file, or move it away", dir.path().display())
    );
}

#[test]
fn a_fault_names_file_line_and_column() {
    let (path, result) = read_source(b"OPEN_REST_API = True\n\nTOKEN = secret()\n");
    let expected = format!("{}:3:9: TOKEN is not a literal; write it in quotes", path.display());
    assert_eq!(result.unwrap_err(), expected);
}

#[test]
fn a_huge_file_is_refused_and_not_read_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("user_settings.py");
    File::create(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(read(&path).access.unwrap_err().ends_with(":1:1: the file is larger than 1 MiB"));
}

#[test]
fn a_version_changes_with_the_content_the_permissions_and_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("user_settings.py");
    let version = || read(&path).version;
    let set_mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    assert_eq!(version(), None);
    fs::write(&path, "").unwrap();
    set_mode(0o600);
    let first = version().unwrap();
    assert_eq!(version(), Some(first));
    fs::write(&path, "X = 1").unwrap();
    let written = version().unwrap();
    set_mode(0o640);
    let exposed = version().unwrap();
    fs::copy(&path, dir.path().join("copy")).unwrap();
    fs::rename(dir.path().join("copy"), &path).unwrap();
    let versions = [first, written, exposed, version().unwrap()];
    for (number, version) in versions.iter().enumerate() {
        assert!(!versions[..number].contains(version), "{versions:?}");
    }
}

#[test]
fn a_disabled_entrance_names_the_file_and_what_is_missing() {
    let reasons = [
        DisabledReason::SettingsAbsent,
        DisabledReason::NotOpen { other: None, has_token: true },
        DisabledReason::TokenMissing,
    ];
    let described = reasons.map(|reason| reason.describe(Path::new("/a/user_settings.py")));
    for (text, word) in described.iter().zip(["exist", "OPEN_REST_API", "TOKEN"]) {
        assert!(text.contains("/a/user_settings.py") && text.contains(word), "{text}");
    }
}

#[test]
fn a_value_that_is_not_true_is_named_with_its_line() {
    for (value, what) in [
        ("1", "1"),
        ("0x2", "a number"),
        ("'True'", "the string \"True\""),
        ("'s3cret'", "a string"),
        ("None", "None"),
        ("[True]", "another literal"),
    ] {
        let Ok(Access::Disabled(reason)) = parse(format!("TOKEN = 't'\n\nOPEN_REST_API = {value}").as_bytes()) else {
            panic!("{value}")
        };
        let text = reason.describe(Path::new("/a"));
        let expected = format!("OPEN_REST_API is not set to True in /a: line 3 has {what}; write OPEN_REST_API = True");
        assert_eq!(text, expected);
        assert!(matches!(reason, DisabledReason::NotOpen { has_token: true, .. }));
    }
}

#[test]
fn the_default_path_follows_the_xdg_specification() {
    let path = |xdg: Option<&str>, home: Option<&str>| path_in(xdg.map(PathBuf::from), home.map(PathBuf::from));
    let at = |dir: &str| Some(PathBuf::from(dir).join("adapter/user_settings.py"));
    assert_eq!(path(Some("/xdg"), Some("/home/u")), at("/xdg"));
    assert_eq!(path(None, Some("/home/u")), at("/home/u/.config"));
    assert_eq!(path(Some("relative"), Some("/home/u")), at("/home/u/.config"));
    assert_eq!(path(Some(""), Some("/home/u")), at("/home/u/.config"));
    assert_eq!(path(None, Some("")), None);
    assert_eq!(path(None, None), None);
}
