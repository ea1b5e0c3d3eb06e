//! The connections of `tests/data` on real sockets. `library` replays them without sockets, at every split; the whole
//! program answers and publishes the same, by http and by https.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};

use crate::https::client::{Connector, TlsStream};
use crate::https::rig::self_signed_certificate;
use crate::support::{Answer, Client, FINE, Fixture, Gateway, side_by_side};

/// The token of the recorded requests.
const TOKEN: &str = "t0ken";

struct Recorded {
    name: String,
    bytes: Vec<u8>,
    /// The lines of the answers, and how the connection ends.
    answers: String,
    end: String,
}

/// Returns the connections, by the options of the gateway that they are meant for.
fn recorded() -> BTreeMap<Vec<String>, Vec<Recorded>> {
    let mut all = BTreeMap::<_, Vec<_>>::new();
    for folder in ["tests/data/accept", "tests/data/reject"] {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "http") {
                continue;
            }
            let expectation = fs::read_to_string(path.with_extension("expect")).unwrap();
            let Some(options) = options(&expectation) else { continue };
            let outcome = expectation.lines().filter(|line| !line.starts_with("# ") && !line.starts_with("with "));
            let mut outcome: Vec<_> = outcome.map(|line| format!("{line}\n")).collect();
            let end = outcome.pop().unwrap();
            let (name, bytes) = (path.display().to_string(), fs::read(&path).unwrap());
            all.entry(options).or_default().push(Recorded { name, bytes, answers: outcome.concat(), end });
        }
    }
    all
}

/// Returns the options for the lines that begin with `with`, and none where a state is meant that no option brings
/// about.
fn options(expectation: &str) -> Option<Vec<String>> {
    let mut options = Vec::new();
    for line in expectation.lines().filter_map(|line| line.strip_prefix("with ")) {
        let (name, value) = line.split_once(' ').unwrap_or((line, line));
        let option = match name {
            "max-head" | "max-body" => name,
            "strict" | "envelope" => "check",
            "older" | "newer" => "vocabulary",
            "origin" => "allow-origin",
            // The queue to a real bus counts as buffered too, and the subscriber of these tests reads text.
            "max-buffered" | "msgpack" | "queue" | "no-hub" | "stalled" | "stopping" | "disabled" | "unix" => {
                return None;
            }
            _ => panic!("no option for {line}"),
        };
        options.extend(value.split(' ').flat_map(|value| [format!("--{option}"), value.to_owned()]));
    }
    Some(options)
}

/// Sends the recorded bytes and compares the answers. What stands behind a request that ends its connection is not read
/// as a request, and the gateway takes it, so that the answer is not lost.
fn replay<S: Read + Write>(mut client: Client<S>, fixture: &Fixture, recorded: &Recorded) -> Vec<Answer> {
    let Recorded { name, bytes, answers: expected, end } = recorded;
    let is_over = end.starts_with("closed");
    let behind = fixture.request(FINE).bytes();
    client.send([bytes.as_slice(), if is_over { &behind } else { b"" }].concat());
    let (mut answers, mut told) = (Vec::new(), String::new());
    for line in expected.lines().filter(|line| !line.starts_with(' ')) {
        let has_content = !line.ends_with("without content");
        let take = || if has_content { client.response() } else { client.response_without_body() };
        let answer = std::iter::repeat_with(take).find(|answer| answer.status >= 200).unwrap();
        answer.check().unwrap_or_else(|fault| panic!("{name}: {fault}"));
        told += &answer.told(|| {
            let message = fixture.subscriber.next();
            format!("{} {}", message.topic, message.payload)
        });
        answers.push(answer);
    }
    assert_eq!(told, *expected, "{name}");
    if is_over {
        client.expect_half_close(&behind);
    }
    answers
}

#[test]
fn what_the_core_answers_and_publishes_the_program_does_too() {
    let all = recorded();
    side_by_side(["http", "https"], |scheme| {
        let mut unauthorized = Vec::new();
        for (options, connections) in &all {
            let builder = Gateway::serve().token(TOKEN).arguments(options.iter().map(String::as_str));
            let mut fixture = Fixture::of(if scheme == "https" { builder.https() } else { builder });
            let mut answers = Vec::new();
            for connection in connections {
                answers.extend(match scheme {
                    "https" => replay(tls_client(&fixture.gateway), &fixture, connection),
                    _ => replay(fixture.client(), &fixture, connection),
                });
            }
            // Each published message was compared, so that no other one may be counted.
            let accepted = answers.iter().filter(|answer| answer.status == 200).count();
            assert_eq!(fixture.gateway.terminate().published, accepted as u64, "{options:?}");
            // A page can read every answer, where not only some may.
            let is_readable = |answer: &Answer| answer.field("Access-Control-Allow-Origin") == Some("*");
            assert!(options.contains(&"--allow-origin".into()) || answers.iter().all(is_readable));
            unauthorized.extend(answers.into_iter().filter(|answer| answer.status == 401));
        }
        // Whatever is wrong with the token, the answer does not tell.
        unauthorized.iter_mut().for_each(|answer| answer.fields.retain(|(name, _)| name != "Date"));
        assert!(unauthorized.len() > 20 && unauthorized.iter().all(|answer| *answer == unauthorized[0]));
    });
}

fn tls_client(gateway: &Gateway) -> Client<TlsStream> {
    Connector::trusting_file(&self_signed_certificate(gateway)).client(gateway.address())
}
