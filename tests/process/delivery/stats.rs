//! Every counter is compared with a known load, in `stats` and in the last event.

use super::*;

#[test]
fn the_counters_of_answers_bytes_and_connections_match_a_known_load() {
    let start = Instant::now();
    let mut fixture = Fixture::start();
    let valid = || fixture.request(message_of(0, 0, "").body());
    let load = [
        (5, 200, valid()),
        (1, 204, valid().method("OPTIONS")),
        (4, 400, fixture.request("{")),
        (3, 401, valid().target("/api/message?token=wrong")),
        (2, 404, valid().target("/elsewhere")),
        (1, 405, valid().method("PUT")),
        (2, 415, valid().without("Content-Type")),
        (1, 417, valid().field("Expect", "the-unexpected")),
        (3, 422, fixture.request("{}")),
        (1, 505, valid().version("HTTP/2.0")),
    ];
    let (mut bytes_in, mut bytes_out, mut connections, mut answers) = (0, 0, 0, serde_json::Map::new());
    for (times, status, request) in load {
        let request = request.field("Connection", "close");
        for _ in 0..times {
            bytes_in += request.bytes().len();
            bytes_out += io::copy(&mut fixture.raw_client(&request.bytes()), &mut io::sink()).unwrap() as usize;
            connections += 1;
        }
        answers.insert(status.to_string(), times.into());
    }
    fixture.gateway.wait_count("connections", 0);

    // Ten connections stay open after one request each.
    let request = fixture.request(message_of(0, 0, "").body());
    let mut open: Vec<_> = (0..10).map(|_| fixture.raw_client(&request.bytes())).collect();
    bytes_in += 10 * request.bytes().len();
    for stream in &mut open {
        let mut answer = Vec::new();
        while !answer.ends_with(b"{\"status\":\"accepted\"}\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.extend(byte);
        }
        bytes_out += answer.len();
    }
    answers.insert("200".into(), 15.into());
    // An answer is counted after it is written, so a client may read it before it is counted.
    let stats = fixture.gateway.wait_count("bytes_out", bytes_out);
    assert_eq!(stats["connections"], 10, "{stats}");
    assert_eq!(stats["connections_accepted"], connections + 10, "{stats}");
    assert!(stats["uptime_s"].as_u64().unwrap() <= start.elapsed().as_secs(), "{stats}");
    assert_eq!(stats["answers"], Value::Object(answers));
    assert_eq!(stats["bytes_in"], bytes_in, "{stats}");
    assert_eq!((&stats["accepted"], &stats["refused"]), (&json!(15), &json!({})), "{stats}");
    drop(open);

    fixture.gateway.signal(Signal::TERM);
    let (_, last) = fixture.gateway.wait_stopped();
    for name in ["answers", "refused", "accepted", "bytes_in", "bytes_out", "connections_accepted", "endpoints"] {
        assert_eq!(last[name], stats[name], "{name}: {last}");
    }
    assert_eq!((&last["published"], &last["connections"], &last["queue_depth"]), (&json!(15), &json!(0), &json!(0)));
    assert_eq!(last.get("undelivered"), None, "{last}");
}

#[test]
fn bytes_that_a_client_takes_late_are_counted_once() {
    let mut fixture = Fixture::start();
    let mut client = Client::with_small_window(fixture.gateway.address());
    let bytes_in = client.send_until_full(&fixture.request("{").bytes().repeat(1_000));
    client.half_close();
    let bytes_out = io::copy(client.stream(), &mut io::sink()).unwrap();
    let stats = fixture.gateway.wait_count("bytes_out", bytes_out as usize);
    assert_eq!(stats["bytes_in"], bytes_in, "{stats}");
}

#[test]
fn refusals_are_counted_by_their_reason() {
    let mut gateway = Gateway::serve().connect(&dead_endpoint()).start();
    (0..3).for_each(|_| assert_eq!(gateway.post(message_of(0, 0, "").body()).status, 503));
    let stats = gateway.stats();
    let expected = (&json!({"bus-not-connected": 3}), &json!({"503": 3}));
    assert_eq!((&stats["refused"], &stats["answers"]), expected, "{stats}");
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait_stopped().1["refused"], json!({"bus-not-connected": 3}));

    // All connections together may hold ten bytes.
    let mut fixture = Fixture::with(["--max-buffered", "10"]);
    assert_eq!(fixture.post(message_of(0, 0, "").body()).status, 503);
    assert_eq!(fixture.gateway.stats()["refused"], json!({"buffers-full": 1}));
}

#[test]
fn the_counters_of_the_queue_and_of_full_pipes_match_the_answers() {
    let mut deployment = Deployment::with(["--queue", "10"]);
    for round in 1..=2 {
        let before = deployment.gateway.stats();
        deployment.hub().signal(Signal::STOP);
        let load = Load::on(&deployment.gateway, 2, 4_000);
        load.wait_for(20, "503", Instant::now(), refused_as("subscriber-stalled"));
        let answers = load.finish();
        let stats = deployment.gateway.stats();
        let since = |name: &str| stats[name].as_u64().unwrap() - before[name].as_u64().unwrap();
        let accepted = answers.iter().filter(|it| accepted(&it.outcome)).count() as u64;
        assert_eq!((since("accepted"), since("published")), (accepted, accepted - 10), "{stats}");
        assert_eq!((&stats["queue_depth"], &stats["queue_high_water"]), (&json!(10), &json!(10)), "{stats}");
        let content = stats["queue_bytes"].as_u64().unwrap();
        assert!((10 * (4_000 + 256)..10 * 4_400).contains(&content), "{stats}");
        // The buffers of the loopback interface fill in bursts, so the pipe may become full more than once.
        assert!(since("pipe_full") >= 1, "round {round}: {stats}");
        for kind in ["queue-full", "subscriber-stalled"] {
            let seen = answers.iter().filter(|it| refused_as(kind)(&it.outcome)).count() as u64;
            let count = |stats: &Value| stats["refused"][kind].as_u64().unwrap_or(0);
            assert_eq!(count(&stats) - count(&before), seen, "{kind}: {stats}");
        }
        let unavailable = answers.iter().filter(|it| matches!(it.outcome, Outcome::Refused(503, _))).count() as u64;
        let count = |stats: &Value| stats["answers"]["503"].as_u64().unwrap_or(0);
        assert_eq!(count(&stats) - count(&before), unavailable);
        deployment.hub().signal(Signal::CONT);
        deployment.gateway.wait_count("queue_depth", 0);
        DeliveryReport::of(&answers, &take_all(&deployment.gateway, &deployment.subscriber)).assert_nothing_lost();
    }
}

#[test]
fn reconnects_are_counted_for_each_endpoint() {
    let mut deployment = Deployment::with(["--bind", "ipc://*"]);
    let reconnects = |stats: &Value| -> Vec<(bool, u64)> {
        let endpoints = stats["endpoints"].as_array().unwrap();
        endpoints.iter().map(|it| (it["connected"] == true, it["reconnects"].as_u64().unwrap())).collect()
    };
    // Bound endpoints come first.
    assert_eq!(reconnects(&deployment.gateway.stats()), [(true, 0), (true, 0)]);
    for times in 1..=2 {
        deployment.lose_hub();
        assert_eq!(reconnects(&deployment.gateway.stats()), [(true, 0), (false, times - 1)]);
        deployment.restart_hub();
        deployment.gateway.wait_connected();
        assert_eq!(reconnects(&deployment.gateway.stats()), [(true, 0), (true, times)]);
    }
}
