//! The command `send`: what it posts, what it says, and its exit statuses.

mod in_flight;
mod lines;
mod refusals;

use crate::support::*;

fn send_to(gateway: &Gateway, scheme: &str) -> Command {
    let mut command = send_with(&gateway.settings);
    command.args(["--url", &format!("{scheme}://localhost:{}", gateway.address().port())]);
    command
}

fn send_with(settings: &SettingsFile) -> Command {
    let mut command = binary();
    command.args(["send", "--settings"]).arg(settings.path());
    command
}

fn file(text: &str) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    io::Seek::rewind(&mut file).unwrap();
    file
}

/// Runs the command, which must end with this status, and returns what it says on stderr.
fn run(command: &mut Command, status: i32) -> String {
    let Transcript { stdout, stderr } = Process::spawn(command).finish(status);
    assert_eq!(stdout, "");
    assert!(!stderr.contains(TOKEN_MARK), "a token is in the output:\n{stderr}");
    stderr
}

fn lines(count: usize) -> String {
    (1..=count).map(|number| format!("t/{number}\t{{\"n\":{number}}}\n")).collect()
}

fn numbered(number: usize) -> Message {
    Message::new(&format!("t/{number}"), &format!("{{\"n\":{number}}}"))
}

fn fixture_by<'a>(scheme: &str, options: impl IntoIterator<Item = &'a str>) -> Fixture {
    let builder = Gateway::serve().arguments(options);
    Fixture::of(if scheme == "https" { builder.https() } else { builder })
}
