//! The events of a gateway that goes through all its states are those of `docs/reference.md`, with the same fields.

use super::*;
use crate::lifecycle::running::events_until;

type Fields = BTreeMap<String, BTreeSet<String>>;

/// The event of a subscriber that does not read. `tests/process/guard` sees to it.
const SUBSCRIBER: [&str; 5] = ["state", "endpoint", "peer", "reason", "lost"];

#[test]
fn events_and_their_fields_are_those_of_the_table() {
    let directory = tempfile::tempdir().unwrap();
    let (hub_socket, endpoint) = bound_socket(zmq::SUB, &ipc_endpoint(&directory));
    let builder = Gateway::serve().connect(&endpoint).listen(ANY_PORT).listen_at(&directory.path().join("socket"));
    let mut gateway = builder.spawn();
    let mut seen = Vec::new();
    let mut wait_for = |gateway: &mut Gateway, name: &str, state| seen.extend(events_until(gateway, name, state));

    let enabled = enabled(&token("of-the-test"));
    wait_for(&mut gateway, "ready", None);
    drop(hub_socket);
    wait_for(&mut gateway, "not-ready", None);
    gateway.signal(Signal::USR1);
    wait_for(&mut gateway, "stats", None);
    for (text, state) in [(enabled.as_str(), "unchanged"), ("TOKEN = (\n", "rejected"), ("", "reloaded")] {
        gateway.settings.write(text);
        wait_for(&mut gateway, "settings", Some(state));
    }
    gateway.settings.write(&enabled);
    wait_for(&mut gateway, "listening", None);
    gateway.signal(Signal::TERM);
    wait_for(&mut gateway, "stopped", None);
    seen.push(Gateway::serve().connect("no endpoint").spawn().wait_event("failed"));

    let mut gateway = Gateway::serve().https().spawn();
    seen.push(gateway.wait_event("certificate"));
    let certificate = gateway.settings.path().with_file_name("gateway-cert.pem");
    fs::remove_file(&certificate).unwrap();
    fs::create_dir(&certificate).unwrap();
    seen.push(gateway.wait_state("certificate", "rejected"));

    let mut fields = Fields::new();
    for event in &seen {
        let names = keys(event).into_iter().filter(|&name| name != "event").map(str::to_owned);
        fields.entry(event["event"].as_str().unwrap().to_owned()).or_default().extend(names);
    }
    // It is there only if the drain ended too early. `tests/process/delivery` sees to it.
    fields.get_mut("stopped").unwrap().insert("undelivered".into());
    fields.insert("subscriber".into(), SUBSCRIBER.map(Into::into).into());
    let described = described();
    assert_same_set("docs/reference.md, events", described.keys(), fields.keys());
    for (event, fields) in &fields {
        assert_same_set(format_args!("docs/reference.md, fields of the event {event}"), &described[event], fields);
    }
    let reference = Document::read("docs/reference.md");
    let table = reference.table("events");
    for event in &seen {
        let row = table.iter().find(|row| row[0].trim_matches('`') == event["event"]).unwrap();
        for value in ["state", "io"].iter().filter_map(|field| event[field].as_str()) {
            assert!(quoted(row[1]).any(|word| word == value), "docs/reference.md, events: no {value} of {event}");
        }
    }
}

#[test]
fn counters_are_those_of_the_table_and_of_its_example() {
    let reference = Document::read("docs/reference.md");
    let (_directory, [publishers, subscribers]) = hub_endpoints();
    let mut gateway = Gateway::serve().only_hub(&publishers, &subscribers).start_ready();
    let stats = gateway.stats();

    let rows = reference.table("counters");
    for row in &rows {
        let counter = &stats[row[0].trim_matches('`')];
        // What stands in an object or in each of an array is described in the same row, before the meaning of each.
        let nested: Option<BTreeSet<&str>> = match counter {
            Value::Array(elements) => Some(elements[0].as_object().unwrap().keys().map(String::as_str).collect()),
            Value::Object(_) if row[0] == "`hub`" => Some(keys(counter)),
            _ => None,
        };
        if let Some(nested) = nested {
            let described: BTreeSet<&str> = quoted(row[1]).filter(|word| !word.starts_with("--")).collect();
            assert_same_set(format_args!("docs/reference.md, counters in {}", row[0]), described, nested);
        }
    }
    let described: BTreeSet<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
    let mut counted = keys(&stats);
    counted.remove("event");
    assert_same_set("docs/reference.md, counters", described, counted.iter().copied());

    let example: Value = serde_json::from_str(reference.block("example: stats")).unwrap();
    counted.remove("hub"); // the example has no embedded hub
    counted.insert("event");
    assert_same_set("docs/reference.md, counters of the example", keys(&example), counted);
}

fn described() -> Fields {
    let reference = Document::read("docs/reference.md");
    let counters: Vec<String> =
        reference.table("counters").iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
    let rows = reference.table("events");
    let fields = rows.iter().map(|row| {
        // In parentheses stand the values of a field, and links.
        let parts = row[1].split('(').enumerate();
        let names: String =
            parts.map(|(n, part)| if n == 0 { part } else { part.split_once(')').unwrap().1 }).collect();
        let mut fields: BTreeSet<String> = quoted(&names).map(str::to_owned).collect();
        if row[1].contains("counters") {
            // This gateway has no embedded hub.
            fields.extend(counters.iter().filter(|&counter| counter != "hub").cloned());
        }
        (row[0].trim_matches('`').to_owned(), fields)
    });
    fields.collect()
}

fn keys(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}
