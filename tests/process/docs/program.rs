//! What the program says of itself: its options, its statuses and its problem types.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use adapter_gateway::http::problem::Status;
use adapter_gateway::message::publish::Unavailable;
use adapter_gateway::sync::counting::Counted;

use super::GATEWAY;
use super::document::repository;

/// An option that `--help` lists.
pub(crate) struct Listed {
    pub(crate) name: String,
    /// The text in `(default: ...)`.
    pub(crate) default: Option<String>,
}

/// Returns the text that the program prints for `arguments`, with single spaces between its words.
pub(crate) fn printed(arguments: &[&str]) -> String {
    let output = Command::new(GATEWAY).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns every option that `--help` of the command lists.
pub(crate) fn options(command: &str) -> Vec<Listed> {
    let help = printed(&[command, "--help"]);
    let entries = help.split("\n  --").skip(1);
    let listed = entries.map(|entry| {
        let text = entry.split_whitespace().collect::<Vec<_>>().join(" ");
        let name = format!("--{}", text.split([' ', ',']).next().unwrap());
        let default = text.split_once("(default: ").map(|(_, rest)| rest.split_once(')').unwrap().0.to_owned());
        Listed { name, default }
    });
    listed.filter(|option| option.name != "--help").collect()
}

/// Returns every status code that the program answers with.
pub(crate) fn statuses() -> BTreeSet<u16> {
    Status::ALL.iter().map(|status| status.code()).collect()
}

/// Returns the reasons for a 503.
pub(crate) fn unavailable() -> BTreeSet<String> {
    Unavailable::ALL.iter().map(|reason| reason.kind().to_owned()).collect()
}

/// Returns the last part of every problem type. The sources of the core pair each with its status:
/// `(Status::NotFound, "not-found")`.
pub(crate) fn problem_types() -> BTreeSet<String> {
    let mut types = unavailable();
    for source in sources(&repository("src/http")) {
        for pair in source.split("(Status::").skip(1) {
            let Some((_, text)) = pair.lines().next().and_then(|line| line.split_once(", \"")) else { continue };
            types.extend(text.split_once('"').map(|(kind, _)| kind.to_owned()));
        }
    }
    assert!(types.len() > 15, "the sources pair statuses and types in another way: {types:?}");
    types
}

fn sources(folder: &Path) -> Vec<String> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = paths.map(|path| match path.is_dir() {
        true => sources(&path),
        false => vec![fs::read_to_string(path).unwrap()],
    });
    texts.collect::<Vec<_>>().concat()
}
