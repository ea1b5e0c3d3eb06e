//! The names that resolving a path looks up, one directory after the other, through links as the kernel follows them.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Links followed in one path, as the kernel has it (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

/// One step of the resolution of a path: a name, looked up in a directory whose own path is free of links.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lookup {
    pub(super) dir: PathBuf,
    pub(super) name: OsString,
}

/// The lookups of an absolute path, from the root on, up to the first name that is missing.
pub(super) fn lookups(path: &Path) -> Vec<Lookup> {
    let mut lookups = Vec::new();
    let mut dir = PathBuf::from("/");
    let mut links = 0;
    let mut ahead: VecDeque<Step> = steps(path).collect();
    while let Some(step) = ahead.pop_front() {
        let name = match step {
            Step::Root => {
                dir = PathBuf::from("/");
                continue;
            }
            Step::Parent => {
                dir.pop();
                continue;
            }
            Step::Name(name) => name,
        };
        let found = dir.join(&name);
        lookups.push(Lookup { dir: dir.clone(), name });
        match fs::symlink_metadata(&found) {
            Ok(metadata) if metadata.is_symlink() && links < MAX_LINKS => {
                let Ok(target) = fs::read_link(&found) else {
                    break;
                };
                links += 1;
                ahead = steps(&target).chain(ahead).collect();
            }
            Ok(metadata) if metadata.is_dir() => dir = found,
            _ => break,
        }
    }
    lookups
}

/// A component of a path, owned: a link's target does not outlive its reading.
enum Step {
    Root,
    Parent,
    Name(OsString),
}

fn steps(path: &Path) -> impl Iterator<Item = Step> {
    path.components().filter_map(|component| match component {
        Component::RootDir => Some(Step::Root),
        Component::ParentDir => Some(Step::Parent),
        Component::Normal(name) => Some(Step::Name(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    })
}
