//! The connections of `tests/data` on real sockets. `library` replays them without sockets, at every split; the whole
//! program answers and publishes the same, by http, by https and by a Unix socket.

use super::*;
use crate::https::rig::{Connector, self_signed_certificate};

/// Returns the options for the limits, and none where a state is meant that no option brings about, or another way.
fn options(recorded: &Recorded, way: Way) -> Option<Vec<String>> {
    let is_unix = recorded.limits().any(|(name, _)| name == "unix");
    // What is wrong here is right by a Unix socket, as another file shows.
    if is_unix && way != Way::Unix || way == Way::Unix && recorded.name == "host-empty" {
        return None;
    }
    let mut options = Vec::new();
    for (name, value) in recorded.limits() {
        let option = match name {
            "max-head" | "max-body" => name,
            "strict" | "envelope" => "check",
            "older" | "newer" => "vocabulary",
            "origin" => "allow-origin",
            // The queue to a real bus counts as buffered too, and the subscriber of these tests reads text.
            "max-buffered" | "msgpack" | "queue" | "no-hub" | "stalled" | "stopping" | "disabled" => return None,
            "unix" => continue,
            _ => panic!("no option for {name}"),
        };
        let value = if value.is_empty() { name } else { value };
        options.extend(value.split(' ').flat_map(|value| [format!("--{option}"), value.to_owned()]));
    }
    Some(options)
}

/// How the recorded bytes reach the gateway.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Http,
    /// Each byte in a write of its own.
    ByteByByte,
    Https,
    Unix,
}

/// Sends the recorded bytes and compares the answers. What stands behind a request that ends its connection is not read
/// as a request, and the gateway takes it, so that the answer is not lost. A request that does not end is cut off.
fn replay<S: Read + Write>(way: Way, mut client: Client<S>, fixture: &Fixture, recorded: &Recorded) -> Vec<Answer> {
    let Recorded { name, bytes, outcome, .. } = recorded;
    let (expected, end) = outcome.trim_end().rsplit_once('\n').unwrap_or(("", outcome));
    let is_over = end.starts_with("closed");
    let behind = fixture.request(FINE).bytes();
    let sent = [bytes.as_slice(), if is_over { &behind } else { b"" }].concat();
    sent.chunks(if way == Way::ByteByByte { 1 } else { sent.len() }).for_each(|piece| client.send(piece));
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
    assert_eq!(told.trim_end(), expected, "{name}, {way:?}");
    if is_over {
        client.expect_half_close(&behind);
    }
    answers
}

#[test]
fn what_the_core_answers_and_publishes_the_program_does_too() {
    side_by_side([Way::Http, Way::ByteByByte, Way::Https, Way::Unix], |way| {
        let mut all = BTreeMap::<_, Vec<_>>::new();
        for recorded in FOLDERS.into_iter().flat_map(Recorded::all) {
            if let Some(options) = options(&recorded, way) {
                all.entry(options).or_default().push(recorded);
            }
        }
        let mut unauthorized = Vec::new();
        for (options, connections) in &all {
            let (_directory, socket) = temporary_path("socket");
            let builder = Gateway::serve().token("t0ken").arguments(options.iter().map(String::as_str));
            let mut fixture = Fixture::of(match way {
                Way::Http | Way::ByteByByte => builder,
                Way::Https => builder.https(),
                Way::Unix => builder.listen_at(&socket),
            });
            let mut answers = Vec::new();
            for connection in connections {
                answers.extend(match way {
                    Way::Https => {
                        let connector = Connector::trusting_file(&self_signed_certificate(&fixture.gateway));
                        replay(way, connector.client(fixture.gateway.address()), &fixture, connection)
                    }
                    Way::Http | Way::ByteByByte => replay(way, fixture.client(), &fixture, connection),
                    Way::Unix => replay(way, Client::connect_to(&socket), &fixture, connection),
                });
            }
            // Each published message was compared, so that no other one may be counted.
            let accepted = answers.iter().filter(|answer| answer.status == 200).count();
            assert_eq!(fixture.gateway.terminate(), accepted as u64, "{options:?}");
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
