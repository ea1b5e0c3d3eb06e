//! What the events tell of the ports of the bus, and that no message is counted twice or not at all.

use super::*;

#[test]
fn how_late_the_latest_is_told_each_accepted_message_is_counted_at_any_time_and_the_stop_keeps_its_deadline() {
    side_by_side(SIDES, |side| {
        let mut rig = Rig::with_short_queue(side, Duration::ZERO);
        // The bus thread answers a peer before it tells how many there are.
        rig.gateway.wait_count("subscribers", 1);
        let staller = rig.subscribed(OWN_TOPIC);
        rig.gateway.wait_count("subscribers", 2);
        let mut poster = Poster::to(&rig.gateway, OWN_TOPIC, 20_000);
        wait_until("the queue is full", || !poster.post_together(8));
        let late = |rig: &mut Rig| {
            let stats = rig.gateway.stats();
            (stats["late_messages"].as_u64().unwrap_or(0), stats["late_s"].as_f64().unwrap_or(0.0))
        };
        let (messages, seconds) =
            eventually("it is late", || Some(late(&mut rig)).filter(|(_, seconds)| *seconds >= 1.0));
        println!("{messages} messages wait for the latest, the oldest for {seconds} s");
        assert!((100..=200).contains(&messages), "{messages} messages wait");
        rig.gateway.wait_log(&format!("messages wait for the subscriber {}", staller.name()));
        eventually("it is later", || Some(late(&mut rig)).filter(|(_, later)| *later >= seconds + 1.0));
        drop(staller);
        eventually("nobody is late", || Some(late(&mut rig)).filter(|late| *late == (0, 0.0)));
        rig.gateway.wait_count("subscribers", 1);

        let (staller, earlier) = (rig.subscribed(OWN_TOPIC), poster.accepted.len());
        let poster = Poster::to(&rig.gateway, OWN_TOPIC, 20_000);
        let posting = Task::start(|over| poster.post_until(over));
        for _ in 0..100 {
            let stats = rig.gateway.stats();
            let counted = count(&stats, "published") + count(&stats, "queue_depth");
            assert_eq!(count(&stats, "accepted"), counted, "{stats}");
        }
        rig.gateway.wait_count("queue_depth", 200);
        let poster = posting.finish();
        let (_, _, last) = stop_within(&mut rig.gateway, Duration::from_secs(5));
        assert_eq!(count(&last, "accepted"), count(&last, "published") + count(&last, "undelivered"), "{last}");
        assert!(count(&last, "accepted") >= (earlier + poster.accepted.len()) as u64, "{last}");
        drop(staller);
    });
}

#[test]
fn each_endpoint_that_is_bound_is_told_with_its_address() {
    let any_port = "tcp://127.0.0.1:0";
    let hub = ["--hub", "--hub-publishers", "tcp://127.0.0.2:0", "--hub-subscribers", "tcp://127.0.0.3:*"];
    let abstract_name = format!("ipc://@adapter-gateway-test-endpoints-{}", std::process::id());
    let builder = Gateway::serve().bind(any_port).bind("ipc://*").bind(&abstract_name).bind("tcp://localhost:*");
    let mut gateway = builder.arguments(hub).start();
    let beginnings = ["tcp://127.0.0.1:", "ipc://", "tcp://127.0.0.1:", "tcp://127.0.0.2:", "tcp://127.0.0.3:"];
    let [bound_tcp, bound_ipc, bound_by_name, publishers, hub_subscribers] = beginnings.map(|beginning| {
        let endpoint = |event: &Value| event["endpoint"].as_str().unwrap_or_default().to_owned();
        let is_bound =
            |it: &Value| is_event(it, "bus") && it["state"] == "bound" && endpoint(it).starts_with(beginning);
        let event = gateway.wait_for("bound", is_bound);
        assert_eq!(event.get("reason"), None, "{event}");
        endpoint(&event)
    });
    for endpoint in [&bound_tcp, &bound_by_name, &publishers, &hub_subscribers] {
        assert!(!endpoint.ends_with(":0") && !endpoint.ends_with('*'), "{endpoint}");
    }
    assert_ne!(bound_ipc, "ipc://*");
    drop(RawPeer::speaking(&publishers, "PUB"));
    for endpoint in [&bound_tcp, &bound_ipc, &abstract_name, &bound_by_name, &hub_subscribers] {
        Subscriber::connected(endpoint, "").wait_until_subscribed(&gateway);
    }
    assert!(Gateway::serve().bind(&abstract_name).fail(3).contains(&abstract_name));
    let stats = gateway.stats();
    for (at, endpoint) in [bound_tcp, bound_ipc.clone()].into_iter().enumerate() {
        assert_eq!(stats["endpoints"][at]["endpoint"], endpoint, "{stats}");
    }
    gateway.terminate();
    assert!(!Path::new(bound_ipc.strip_prefix("ipc://").unwrap()).exists(), "{bound_ipc} is left behind");
}
