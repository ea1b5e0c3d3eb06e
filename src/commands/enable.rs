//! `adapter-gateway enable` and `disable`: switch the REST API on and off in the user settings.

use std::fs::{self, DirBuilder, Metadata};
use std::io::{self, ErrorKind, stdout};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::serve::settings_path;
use crate::gateway::Failure;
use crate::http::admission::token_bytes;
use crate::settings::{self, Access, EMPTY_FOR, MAX_FILE_BYTES};
use crate::sys;
use crate::sys::advice::{Refused, advice, path_option};
use crate::sys::draft::{self, PRIVATE_DIRECTORY_MODE, remove_abandoned};
use crate::sys::retry::{lock_directory, retry_until};
use crate::sys::secret_file;
use crate::sys::writer::write_all;
use crate::terms::HUB_CURE;
use crate::terms::limits::Limits;

/// How long the edit begins anew where other programs change the file at the same time, and the pause before it does.
const EDIT_TIMEOUT: Duration = Duration::from_secs(10);
const EDIT_PAUSE: Duration = Duration::from_millis(1);

/// Sets `OPEN_REST_API` in the user settings, and a random `TOKEN` where it is switched on and there is none. No other
/// byte of the file changes. A failure says what to write by hand.
pub fn run(path: Option<&PathBuf>, is_open: bool) -> Result<(), Failure> {
    // What is printed can be pasted, in another directory too.
    let given = path.map(std::path::absolute).transpose().map_err(Failure::configuration)?;
    let path = settings_path(given.as_ref())?;
    let shown = path.display();
    let has_new_token = replace(&path, is_open)?;
    let option = given.map(|given| path_option("--settings", &given)).unwrap_or_default();
    let mut text = match (is_open, has_new_token) {
        (true, None) => format!("The REST API was switched on in {shown} already. Nothing is changed.\n"),
        (false, None) => format!("The REST API was switched off in {shown} already. Nothing is changed.\n"),
        (true, Some(has_new_token)) => format!(
            "The REST API is switched on in {shown}, with {} token.\n\
             A gateway that runs with these settings listens within a second. This starts one:\n\n\
             adapter-gateway serve{option}\n\n\
             It needs a hub: {HUB_CURE}. And this posts a message:\n\n\
             adapter-gateway send{option} adapter/extensions/data '{{\"extension_id\": \"demo\", \"content\": \"hello\"}}'\n",
            if has_new_token { "a new random" } else { "the same" }
        ),
        (false, Some(_)) => format!(
            "The REST API is switched off in {shown}.\n\
             A gateway that runs with these settings closes its port within a second. This switches it on again:\n\n\
             adapter-gateway enable{option}\n"
        ),
    };
    let flaws = match settings::read(&path, false).access {
        Ok(Access::Open(token)) => token.flaws(token_bytes(Limits::DEFAULT.head_bytes)),
        _ => Vec::new(),
    };
    let warnings = flaws.into_iter().chain(advice(ErrorKind::NotFound, Refused::Path(&path)));
    text.extend(warnings.map(|warning| format!("\nWarning: {warning}.\n")));
    // The reader may have closed the pipe, and the file is as asked for.
    let _ = write_all(&stdout(), text.as_bytes());
    Ok(())
}

/// Edits the file behind the links that lead to it, unless it says so already. Returns whether it has a new token.
fn replace(path: &Path, is_open: bool) -> Result<Option<bool>, Failure> {
    let shown = path.display();
    let refused = |place: &Path, error: io::Error| {
        let cure = advice(error.kind(), Refused::Path(place)).unwrap_or_else(|| {
            let token = if is_open { ", and TOKEN = \"...\" with 16 secret characters or more" } else { "" };
            let value = if is_open { "True" } else { "False" };
            format!("by hand, write OPEN_REST_API = {value}{token} into {shown}")
        });
        Failure::configuration(format_args!("{}: {error}; nothing is changed; {cure}", place.display()))
    };
    let file = behind_links(path).map_err(|error| refused(path, error))?;
    let token = sys::random_hex().map_err(|error| refused(&file, error))?;
    // The file is replaced, so the directory decides.
    let directory = file.parent().unwrap_or(&file);
    if is_open {
        let create = DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY_MODE).create(directory);
        create.map_err(|error| refused(directory, error))?;
    }
    remove_abandoned(&file);
    // Of several commands at once, one makes the token: where nobody can have the lock, the others begin anew.
    let _locked = lock_directory(directory);
    let mut is_retry = false;
    let edit = || {
        let read = match secret_file::read(&file, MAX_FILE_BYTES) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            read => Some(read.map_err(|error| (&*file, error))?),
        };
        // Whoever has emptied it may be about to write it.
        let is_new = |it: &Metadata| it.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age < EMPTY_FOR));
        if read.as_ref().is_some_and(|(metadata, source)| source.is_empty() && is_new(metadata)) {
            return Err((&*file, draft::changed()));
        }
        // Where there is no file, an empty one is edited.
        let edited = match settings::with_access(read.as_ref().map_or(&[][..], |(_, source)| source), is_open, &token) {
            Ok(Some(edited)) => edited,
            refused_or_unchanged => return Ok(refused_or_unchanged.map(|_| None)),
        };
        let replaced = draft::replace(&file, &edited, read.as_ref(), std::mem::replace(&mut is_retry, true));
        replaced.map_err(|error| (directory, error))?;
        Ok(Ok(Some(edited.windows(token.len()).any(|bytes| bytes == token.as_bytes()))))
    };
    let is_temporary = |(_, error): &(&Path, io::Error)| error.kind() == ErrorKind::WouldBlock;
    match retry_until(EDIT_TIMEOUT, EDIT_PAUSE, edit, is_temporary) {
        Ok(edited) => edited.map_err(|fault| Failure::configuration(format!("{shown}:{fault}; nothing is changed"))),
        Err((place, error)) => Err(refused(place, error)),
    }
}

/// Returns the file that a path leads to, which need not exist.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    match (fs::canonicalize(path), fs::read_link(path)) {
        (Err(error), target) if error.kind() == ErrorKind::NotFound => match target {
            // A relative link counts from its directory, and an absolute one replaces all.
            Ok(target) => behind_links(&path.parent().unwrap_or(path).join(target)),
            Err(_) => Ok(path.to_owned()),
        },
        (file, _) => file,
    }
}
