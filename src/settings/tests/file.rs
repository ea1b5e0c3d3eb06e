use std::fs::{self, File};
use std::path::PathBuf;

use crate::proto::token::Token;
use crate::settings::file::{SettingsError, path_in, read};
use crate::settings::{Access, DisabledReason};

fn read_source(source: &[u8]) -> (PathBuf, Result<Access, SettingsError>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("user_settings.py");
    fs::write(&path, source).unwrap();
    let result = read(&path);
    (path, result)
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
        let access = read(&dir.path().join(absent)).unwrap();
        assert_eq!(access, Access::Disabled(DisabledReason::SettingsAbsent));
    }
}

#[test]
fn a_dangling_link_counts_as_an_absent_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("user_settings.py");
    std::os::unix::fs::symlink(dir.path().join("gone.py"), &path).unwrap();
    assert_eq!(read(&path).unwrap(), Access::Disabled(DisabledReason::SettingsAbsent));
}

#[test]
fn a_directory_is_unreadable() {
    let dir = tempfile::tempdir().unwrap();
    let error = read(dir.path()).unwrap_err();
    assert_eq!(error.to_string(), format!("{}: not a regular file", dir.path().display()));
}

#[test]
fn a_fault_names_file_line_and_column() {
    let (path, result) = read_source(b"OPEN_REST_API = True\n\nTOKEN = secret()\n");
    let expected = format!("{}:3:9: TOKEN is not a literal", path.display());
    assert_eq!(result.unwrap_err().to_string(), expected);
}

#[test]
fn a_huge_file_is_refused_and_not_read_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("user_settings.py");
    File::create(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(read(&path).unwrap_err().to_string().ends_with(":1:1: the file is larger than 1 MiB"));
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
