//! The tables of `docs/reference.md`, and the lists of `docs/openapi.yaml`, name what the program has.

use std::collections::BTreeSet;
use std::fs;
use std::process;

use adapter_gateway::cli::SERVE_GROUPS;
use adapter_gateway::http::problem::Status;
use adapter_gateway::message::publish::Unavailable;
use adapter_gateway::sync::counting::Counted;
use adapter_gateway::tls::session::HandshakeFailure;

use super::GATEWAY;
use super::document::{Document, files_at, quoted, repository};
use super::interface::Command;
use crate::support::assert_same_set;
use crate::support::ladder::LADDER;
use crate::support::topics::TOPICS;

/// Returns the text that the program prints for these words.
fn printed(arguments: &[&str]) -> String {
    let output = process::Command::new(GATEWAY).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns every status code that the program answers with.
fn statuses() -> BTreeSet<u16> {
    Status::ALL.iter().map(|status| status.code()).collect()
}

/// Returns the reasons for a 503.
fn unavailable() -> BTreeSet<String> {
    Unavailable::ALL.iter().map(|reason| reason.kind().to_owned()).collect()
}

/// Returns the last part of every problem type. The sources of the core pair each with its status:
/// `(Status::NotFound, "not-found")`.
fn problem_types() -> BTreeSet<String> {
    let mut types = unavailable();
    for path in files_at(&repository("src/http")) {
        for pair in fs::read_to_string(path).unwrap().split("(Status::").skip(1) {
            let Some((_, text)) = pair.lines().next().and_then(|line| line.split_once(", \"")) else { continue };
            types.extend(text.split_once('"').map(|(kind, _)| kind.to_owned()));
        }
    }
    assert!(types.len() > 15, "the sources pair statuses and types in another way: {types:?}");
    types
}

#[test]
fn options_are_those_of_the_help_with_the_same_defaults() {
    let reference = Document::read("docs/reference.md");
    for Command { name: command, options, .. } in Command::program().commands() {
        // `disable` has the same option.
        let table = if command == "disable" { "enable" } else { command };
        let rows = reference.table(&format!("options: {table}"));
        let names = |cell: &str| -> Vec<String> {
            quoted(cell).filter_map(|text| text.split(' ').next()).map(str::to_owned).collect()
        };
        let mut described: Vec<String> = rows.iter().flat_map(|row| names(row[0])).collect();
        described.dedup();
        let expected: Vec<&str> = options.iter().map(|option| option.name).collect();
        assert_eq!(described, expected, "{command}: the options and their order");
        let help = printed(&[command, "--help"]);
        for option in &options {
            assert!(help.contains(&format!("\n  {} ", option.name)), "{help}");
            let row = rows.iter().find(|row| names(row[0]).contains(&option.name.to_owned())).unwrap();
            let default = option.default();
            // A default that is a value, and not a sentence, stands in the table as it is.
            let value = default.split(',').next().unwrap_or_default();
            if !value.is_empty() && !value.contains([' ', ';']) {
                let has_value = row[1].split(['`', ' ', ',']).any(|word| word == value);
                assert!(has_value, "{command} {}: {value} is not in {:?}", option.name, row[1]);
            }
        }
    }
}

#[test]
fn the_python_package_knows_every_option_of_serve() {
    let package = Document::read("python/adapter_gateway/command.py").text;
    let (_, class) = package.split_once("class GatewayOptions(TypedDict, total=False):").unwrap();
    let class = class.split("\n\n\n").next().unwrap().rsplit("\"\"\"").next().unwrap();
    let known = class.lines().filter_map(|line| line.trim().split_once(": ")).map(|(name, _)| name.replace('_', "-"));
    let serve = Command::program().commands().find(|command| command.name == "serve").unwrap();
    let options = serve.options.iter().map(|option| option.name.trim_start_matches('-').to_owned());
    // The launcher sets these itself.
    let expected = options.filter(|name| !["watch-stdin", "watch-parent"].contains(&name.as_str()));
    assert_same_set("options of the Python package", known, expected);
}

#[test]
fn groups_of_options_begin_where_those_of_the_help_do() {
    let help = printed(&["serve", "--help"]);
    let reference = Document::read("docs/reference.md");
    let rows = reference.table("options: serve");
    for (heading, first) in SERVE_GROUPS {
        assert!(help.contains(&format!("\n\n{heading}:\n  {first} ")), "{help}");
        let at = rows.iter().position(|row| row[0] == format!("**{heading}**")).expect(heading);
        assert_eq!(quoted(rows[at + 1][0]).next().and_then(|option| option.split(' ').next()), Some(first));
    }
}

#[test]
fn answers_are_every_status_and_every_problem_type() {
    let reference = Document::read("docs/reference.md");
    let rows = reference.table("statuses");
    assert_same_set("statuses", rows.iter().map(|row| row[0][..3].parse().unwrap()), statuses());
    assert_same_set(
        "types of problems",
        rows.iter().flat_map(|row| quoted(row[1])).map(str::to_owned),
        problem_types(),
    );
}

/// A state of the gateway and a deadline are no faults of a request. One state has a rank for all of them.
#[test]
fn the_faults_of_a_request_have_their_ranks_in_the_order_of_the_table() {
    let states = unavailable();
    let has_rank = |kind: &&str| *kind == "bus-not-connected" || *kind != "timeout" && !states.contains(*kind);
    let reference = Document::read("docs/reference.md");
    let told: Vec<_> = reference.table("statuses").iter().flat_map(|row| quoted(row[1])).filter(has_rank).collect();
    let ranked: Vec<_> = LADDER.iter().filter_map(|(_, _, kind)| *kind).collect();
    assert_eq!(told, ranked);
}

#[test]
fn exit_statuses_reasons_of_a_503_and_of_failed_handshakes_are_those_of_the_program() {
    let reference = Document::read("docs/reference.md");
    let listed = Command::program().info.error_codes.iter().map(|error| error.code);
    let described = reference.table("exit statuses").into_iter().map(|row| row[0].parse().unwrap());
    assert_same_set("exit statuses", described, listed.chain([0]));

    let counters = reference.table("counters");
    let refused = counters.iter().find(|row| row[0] == "`refused`").unwrap();
    assert_same_set("reasons of a 503", quoted(refused[1]).map(str::to_owned), unavailable());

    let rows = reference.table("failed handshakes");
    let described = rows.iter().map(|row| row[0].trim_matches('`'));
    assert_same_set("failed handshakes", described, HandshakeFailure::ALL.iter().map(|reason| reason.key()));
}

#[test]
fn openapi_has_every_status_and_every_problem_type() {
    let openapi = Document::read("docs/openapi.yaml").text;
    let codes = openapi.lines().filter_map(|line| line.trim().strip_prefix('\'')?.strip_suffix("':")?.parse().ok());
    assert_same_set("statuses", codes, statuses());
    let is_letter = |c: char| c.is_ascii_lowercase() || c == '-';
    let types = openapi.split("urn:adapter-gateway:problem:").skip(1);
    let types = types.filter_map(|rest| rest.split(|c| !is_letter(c)).next()).filter(|kind| !kind.is_empty());
    assert_same_set("types of problems", types.map(str::to_owned), problem_types());
}

/// Returns all request files together, or all of their outcomes.
fn request_files(extension: &str) -> String {
    let files = files_at(&repository("tests/data")).into_iter();
    let files = files.filter(|path| path.extension().is_some_and(|found| found == extension));
    files.map(|path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()).collect()
}

/// A deadline needs time, which a request file has not.
#[test]
fn every_problem_type_is_the_outcome_of_a_request_file_or_has_a_rank() {
    let outcomes = request_files("expect");
    let words: BTreeSet<&str> = outcomes.split(|c: char| !c.is_ascii_lowercase() && c != '-').collect();
    let has_rank = |kind: &str| LADDER.iter().any(|(_, _, ranked)| *ranked == Some(kind));
    let mut untested = problem_types();
    untested.retain(|kind| !words.contains(kind.as_str()) && !has_rank(kind));
    assert_same_set("types of problems without a request file", untested, ["timeout".to_owned()]);
}

#[test]
fn every_topic_is_in_a_request_file() {
    let requests = request_files("http");
    for row in &TOPICS {
        assert!(requests.contains(&format!("\"{}\"", row.topic)), "no request file has {}", row.topic);
    }
}

#[test]
fn openapi_has_the_order_of_the_checks() {
    let openapi = Document::read("docs/openapi.yaml").text;
    let (_, sentence) = openapi.split_once("in this\n        order: ").unwrap();
    let numbers = sentence.split_once("\n      requestBody").unwrap().0.split([' ', ',', '.', '\n']);
    let told: Vec<u16> = numbers.filter_map(|word| word.parse().ok()).collect();
    let reference = Document::read("docs/reference.md");
    let mut expected: Vec<u16> = reference.table("statuses").iter().map(|row| row[0][..3].parse().unwrap()).collect();
    // These are no checks: they accept, or they end a wait.
    expected.retain(|status| ![200, 204, 408].contains(status));
    expected.dedup();
    assert_eq!(told, expected);
}
