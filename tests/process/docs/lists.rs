//! Every list of the documents names what there is, and nothing else.

use adapter_gateway::bus::MAX_PUBLISHERS;
use adapter_gateway::cli::SERVE_GROUPS;
use adapter_gateway::http::connection::DISCARD_BYTES;
use adapter_gateway::http::h1::{body, head};
use adapter_gateway::http::problem::{ServiceUnavailable, Status};
use adapter_gateway::sync::counting::Counted;
use adapter_gateway::{message, server, terms, tls, zmtp};

use super::interface::Command;
use super::messages;
use super::*;
use crate::support::topics::TOPICS;

fn printed(program: &str, arguments: &str) -> String {
    Process::spawn(command(&[program]).args(arguments.split(' ')).current_dir(repository(""))).finish(0).stdout
}

fn strings<T: ToString>(items: impl IntoIterator<Item = T>) -> BTreeSet<String> {
    items.into_iter().map(|item| item.to_string()).collect()
}

fn unavailable() -> BTreeSet<String> {
    strings(ServiceUnavailable::ALL.iter().map(|reason| reason.kind()))
}

/// Returns the last part of every problem type. The core pairs each with its status: `(Status::NotFound, "not-found")`.
fn problem_types() -> BTreeSet<String> {
    let mut types = unavailable();
    for path in files_at(&repository("src/http")) {
        for pair in fs::read_to_string(path).unwrap().split("(Status::").skip(1) {
            let second = pair.split(", ").nth(1).unwrap_or_default();
            types.extend(second.strip_prefix('"').and_then(|kind| kind.strip_suffix('"')).map(str::to_owned));
        }
    }
    assert!(types.len() > 15, "the sources pair statuses and types in another way: {types:?}");
    types
}

/// Returns the fields of the options of the Python package, as options of the command line.
fn options_of_the_python_package() -> BTreeSet<String> {
    let package = Document::read("python/adapter_gateway/command.py").text;
    let (_, class) = package.split_once("class GatewayOptions(TypedDict, total=False):").unwrap();
    let class = class.split("\n\n\n").next().unwrap().rsplit("\"\"\"").next().unwrap();
    let fields = class.lines().filter_map(|line| line.trim().split_once(": "));
    strings(fields.map(|(name, _)| format!("--{}", name.replace('_', "-"))))
}

fn test_programs() -> BTreeSet<String> {
    let programs = entries(repository("tests"))
        .filter(|path| path.extension().is_some_and(|it| it == "rs") || path.join("main.rs").is_file());
    programs.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn each_list_names_what_there_is() {
    let [reference, openapi, tests] = ["docs/reference.md", "docs/openapi.yaml", "tests/README.md"].map(Document::read);
    let codes = openapi.text.lines().filter_map(|line| line.trim().strip_prefix('\'')?.strip_suffix("':"));
    let kinds = openapi.text.split("urn:adapter-gateway:problem:").skip(1);
    let kinds = kinds.filter_map(|rest| rest.split(|c: char| !c.is_ascii_lowercase() && c != '-').next());
    let rows = reference.table("statuses");
    let codes_told = rows.iter().map(|row| &row[0][..3]);
    let statuses = || strings(Status::ALL.iter().map(|status| status.code()));
    let counter = |name| reference.table("counters").into_iter().find(|row| row[0] == name).unwrap()[1];
    let (refused, closed) = (counter("`refused`"), counter("`closed`"));
    let closed = quoted(closed).filter(|word| !word.starts_with("--"));
    let reasons = server::counters::Closed::ALL.iter().map(|it| it.key());
    let exits = Command::program().info.error_codes.iter().map(|error| error.code).chain([0]);
    let told_exits = reference.table("exit statuses").into_iter().map(|row| row[0]);
    let failures = tls::session::HandshakeFailure::ALL.iter().map(|reason| reason.key());
    let serve = Command::program().commands().find(|command| command.name == "serve").unwrap();
    // The launcher sets these itself.
    let options = serve.options.iter().map(|option| option.name);
    let options = options.filter(|name| !["--watch-stdin", "--watch-parent"].contains(name));
    let lists = [
        ("docs/reference.md, statuses", strings(codes_told), statuses()),
        ("docs/openapi.yaml, statuses", strings(codes), statuses()),
        ("docs/reference.md, types of problems", strings(reference.words("statuses", 1)), problem_types()),
        ("docs/openapi.yaml, types of problems", strings(kinds.filter(|kind| !kind.is_empty())), problem_types()),
        ("docs/reference.md, exit statuses", strings(told_exits), strings(exits)),
        ("docs/reference.md, reasons of the counter `refused`", strings(quoted(refused)), unavailable()),
        ("docs/reference.md, reasons of the counter `closed`", strings(closed), strings(reasons)),
        ("docs/reference.md, failed handshakes", strings(reference.words("failed handshakes", 0)), strings(failures)),
        ("python/adapter_gateway/command.py, GatewayOptions", options_of_the_python_package(), strings(options)),
        ("tests/README.md, programs", strings(tests.words("programs", 0)), test_programs()),
    ];
    let differences: Vec<_> = lists.into_iter().filter_map(|(what, told, it)| difference(what, told, it)).collect();
    let cure =
        "add to each list what is missing there, remove what is too much, and run `cargo test --test process docs::`";
    assert!(differences.is_empty(), "{}\n{cure}", differences.join("\n"));
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
        let expected = options.iter().map(|option| option.name.to_owned());
        assert_same_order(format_args!("docs/reference.md, options of {table}"), described, expected);
        let help = printed(GATEWAY, &format!("{command} --help"));
        for option in &options {
            assert!(help.contains(&format!("\n  {} ", option.name)), "{command} --help has no {}: {help}", option.name);
            let row = rows.iter().find(|row| names(row[0]).contains(&option.name.to_owned())).unwrap();
            // A default that is a value, and not a sentence, stands in the table as it is.
            let value = option.default().split(',').next().unwrap_or_default();
            let is_told = row[1].split(['`', ' ', ',']).any(|word| word == value);
            let is_fine = is_told || value.contains([' ', ';']) || value.is_empty();
            assert!(is_fine, "docs/reference.md, options of {table}: {} has not the default {value}", option.name);
        }
        for (heading, first) in SERVE_GROUPS.iter().filter(|_| command == "serve") {
            assert!(help.contains(&format!("\n\n{heading}:\n  {first} ")), "{help}");
            let at = rows.iter().position(|row| row[0] == format!("**{heading}**")).expect(heading);
            assert_eq!(names(rows[at + 1][0])[0], *first);
        }
    }
}

/// A state of the gateway is no fault of a request, and one has a rank for all. A recorded connection has no deadline.
#[test]
fn the_faults_of_a_request_have_their_ranks_in_the_order_of_the_table_and_others_and_topics_a_connection() {
    let (reference, states) = (Document::read("docs/reference.md"), unavailable());
    let mut told = reference.words("statuses", 1);
    told.retain(|kind| *kind == "bus-not-connected" || *kind != "timeout" && !states.contains(*kind));
    let ranked: Vec<_> = LADDER.iter().filter_map(|(_, _, kind)| *kind).collect();
    assert_same_order("LADDER of tests/support/ladder.rs, beside docs/reference.md", ranked.iter().copied(), told);

    let outcomes: String = FOLDERS.into_iter().flat_map(Recorded::all).map(|recorded| recorded.outcome).collect();
    let words: BTreeSet<&str> = outcomes.split(|c: char| !c.is_ascii_lowercase() && c != '-').collect();
    let is_untested = |kind: &String| !words.contains(kind.as_str()) && !ranked.contains(&kind.as_str());
    let what = "types of problems in no connection of tests/data, and in no rank of tests/support/ladder.rs";
    assert_same_set(what, problem_types().into_iter().filter(is_untested), ["timeout".into()]);

    let requests = FOLDERS.into_iter().flat_map(Recorded::all).map(|recorded| recorded.bytes);
    let requests = String::from_utf8_lossy(&requests.collect::<Vec<_>>().concat()).into_owned();
    let known = messages::topics().into_iter().map(|topic| topic.name);
    assert_same_order("tests/data/topics.txt, beside src/message/topics.rs", TOPICS.iter().map(|row| row.topic), known);
    let untested = TOPICS.iter().map(|row| row.topic).filter(|topic| !requests.contains(&format!("\"{topic}\"")));
    assert_same_set("topics in no connection of tests/data/accept.expect and reject.expect", untested, []);

    // The OpenAPI document has the order of the checks.
    let openapi = Document::read("docs/openapi.yaml").text;
    let (_, sentence) = openapi.split_once("in this\n        order: ").unwrap();
    let numbers = sentence.split_once("\n      requestBody").unwrap().0.split([' ', ',', '.', '\n']);
    let told: Vec<u16> = numbers.filter_map(|word| word.parse().ok()).collect();
    let mut expected: Vec<u16> = reference.table("statuses").iter().map(|row| row[0][..3].parse().unwrap()).collect();
    // These are no checks: they accept, or they end a wait.
    expected.retain(|status| ![200, 204, 408].contains(status));
    expected.dedup();
    assert_same_order("docs/openapi.yaml, the order of the checks", told, expected);
}

/// Returns a number with its unit as the documents write it.
fn bytes(bytes: impl TryInto<usize>) -> String {
    match bytes.try_into().ok().unwrap() {
        bytes if bytes > 2048 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes > 2048 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => format!("{} bytes", number(bytes)),
    }
}

fn number(number: usize) -> String {
    if number < 1_000 { number.to_string() } else { format!("{},{:03}", number / 1_000, number % 1_000) }
}

#[test]
fn the_numbers_of_the_documents_are_those_of_the_program() {
    let built = "tree --locked --offline --edges normal,no-proc-macro --prefix none --target x86_64-unknown-linux-gnu";
    let tree = printed(env!("CARGO"), built);
    let package = |line: &str| line.split(' ').take(2).map(str::to_owned).collect::<Vec<_>>();
    let crates: BTreeSet<_> = tree.lines().map(package).filter(|package| package[0] != "adapter-gateway").collect();
    let sentence = format!("is built of {} crates beside its own", crates.len());
    assert!(Document::read("docs/design.md").text.contains(&sentence), "docs/design.md does not say: {sentence}");

    let reference = Document::read("docs/reference.md");
    let [line, extensions, trailers] = [body::CHUNK_LINE_BYTES, body::EXTENSION_BYTES, body::TRAILER_BYTES].map(bytes);
    let [ready, command] = [zmtp::READY_BYTES, zmtp::COMMAND_BYTES].map(bytes);
    let (subscribers, depth, lines) = (zmtp::MAX_SUBSCRIBERS, message::MAX_DEPTH, head::FIELD_LINES);
    let chunks = "a chunk-size line; all chunk extensions together; all trailers together";
    for row in [
        format!("| `topic` | 1 to {}, ", bytes(terms::limits::MAX_TOPIC_BYTES)),
        format!("| nesting | {depth} levels |"),
        format!("| request target | {} |", bytes(head::TARGET_BYTES)),
        format!("| header fields | {lines} |"),
        format!("| {chunks} | {line}; {extensions}; {trailers} |"),
        format!("| a refused body that the gateway reads to keep the connection open | {} |", bytes(DISCARD_BYTES)),
        format!("| `READY`; any other command except a subscription | {ready}; {command} |"),
        format!("| the subscriptions of one peer | {}.", number(zmtp::CONNECTION_PREFIXES)),
        format!("| the subscriptions of all peers together | {}.", number(zmtp::SHARED_PREFIXES)),
        format!("| peers; time for the handshake | [{subscribers} subscribers, {MAX_PUBLISHERS} publishers and "),
    ] {
        assert!(reference.text.contains(&row), "docs/reference.md does not say: {row}");
    }
}
