//! The page for CI. Its examples for pytest run in `tests/clients/adapter_client.py`, where the public client is
//! installed.

use std::process::Command;

use super::GATEWAY;
use super::document::Document;

#[test]
fn the_script_of_five_lines_asserts_a_round_trip() {
    let page = Document::read("docs/ci.md");
    let round_trip = page.block("run: round trip");
    assert_eq!(round_trip.lines().count(), 5);
    let broken = round_trip.replace("send --settings user_settings.py", "send --settings no_settings.py");
    for (script, status) in [(round_trip, 0), (&broken, 3)] {
        let directory = tempfile::tempdir().unwrap();
        let script = page.block("run: serve").to_owned() + script;
        let folder = std::path::Path::new(GATEWAY).parent().unwrap().display();
        let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        let output =
            shell.args(["-e", "-c", &script]).env("PATH", path).env("TMPDIR", directory.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert_eq!(output.stdout == b"adapter/nodes/data\t{\"node_id\": \"a\", \"content\": 1}\n", status == 0);
    }
}
