//! The page for CI, and the files that tell a forge what to run. The examples for pytest run in
//! `tests/clients/adapter_client.py`, where the public client is installed.

use std::process::Command;

use super::GATEWAY;
use super::document::{Document, files_at, repository};

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

#[test]
fn the_files_for_forges_call_scripts_that_exist() {
    let mut called = 0;
    for path in [files_at(&repository(".github/workflows")), vec![repository(".gitlab-ci.yml")]].concat() {
        let text = std::fs::read_to_string(path).unwrap();
        let is_script = |word: &&str| [".ci/", "packaging/build", "fuzz/run"].iter().any(|it| word.starts_with(it));
        for script in text.lines().filter(|line| !line.contains('#')).flat_map(str::split_whitespace).filter(is_script)
        {
            assert!(repository(script).is_file(), "there is no {script}");
            called += 1;
        }
    }
    assert!(called > 8, "the files call {called} scripts");
}
