//! What a person can do about an error of the system.

use std::env::{home_dir, var_os};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf, absolute};
use std::time::SystemTime;

use rustix::fs::{Access, access};
use rustix::process::geteuid;

use super::log::date_time;

/// What the system has refused.
pub(crate) enum Refused<'p> {
    Path(&'p Path),
    Port(u16),
}

/// Returns the error with what to do about it, where that is known.
pub(crate) fn advised(error: io::Error, refused: Refused<'_>) -> io::Error {
    let with = |advice| io::Error::new(error.kind(), format!("{error}; {advice}"));
    advice(error.kind(), refused).map(with).unwrap_or(error)
}

pub(crate) fn advice(kind: ErrorKind, refused: Refused<'_>) -> Option<String> {
    Some(match (kind, refused) {
        (ErrorKind::PermissionDenied, Refused::Path(path)) => return of_owner(path),
        (ErrorKind::PermissionDenied, Refused::Port(port @ ..1024)) => format!(
            "use a port from 1024 on, or permit this one: `sudo sysctl net.ipv4.ip_unprivileged_port_start={port}`"
        ),
        (ErrorKind::InvalidInput, Refused::Path(path)) if path.is_dir() => {
            "a folder is there: name a file, or move it away".into()
        }
        (ErrorKind::StorageFull | ErrorKind::QuotaExceeded, _) => "make room on that disk".into(),
        (ErrorKind::ReadOnlyFilesystem, _) => "that disk cannot be written: name another place".into(),
        (ErrorKind::NotFound, Refused::Path(path))
            if var_os("SUDO_UID").is_some()
                && var_os("HOME").is_some_and(|home| !home.is_empty() && path.starts_with(home)) =>
        {
            "sudo may have this program use another home than yours: run it without sudo, or use --settings".into()
        }
        _ => return None,
    })
}

/// Returns what to do where a certificate is not valid at this time.
pub(crate) fn of_clock(now: SystemTime) -> String {
    format!("the clock of this computer says {:.10}: set it if that is wrong", date_time(now))
}

/// Looks for what is closed: the path, or the folder above it. Of what is in a closed folder, the system tells nothing.
fn of_owner(path: &Path) -> Option<String> {
    let path = path.canonicalize().or_else(|_| absolute(path)).ok()?;
    let mut found = path.ancestors().filter_map(|path| Some((path, path.metadata().ok()?))).take(2);
    let (path, found) = found.find(|(path, _)| access(*path, Access::READ_OK | Access::WRITE_OK).is_err())?;
    let user = geteuid().as_raw();
    // What belongs to the system stays whose it is: a key, for example, that a service reads.
    let is_own = |home: PathBuf| path.starts_with(&home) && home.metadata().is_ok_and(|it| it.uid() == user);
    Some(match found.uid() {
        owner if owner == user => format!("`chmod{}` opens it", path_option("u+rwX", path)),
        0 if home_dir().is_some_and(is_own) => {
            format!("it belongs to root: `sudo chown -R{}` gives it to you", path_option(&user.to_string(), path))
        }
        owner => format!("{} belongs to user number {owner}, who may permit it; or name another place", path.display()),
    })
}

/// Returns an option with its path, as a shell reads them in any directory; bash, zsh and ksh where it is not UTF-8.
pub(crate) fn path_option(name: &str, path: &Path) -> String {
    let path = absolute(path).unwrap_or_else(|_| path.into());
    match path.to_str() {
        Some(path) => format!(" {name} '{}'", path.replace('\'', r"'\''")),
        None => format!(" {name} $'{}'", path.as_os_str().as_bytes().escape_ascii()),
    }
}
