//! What the gateway tells of its subscribers: their number, the messages that nobody had subscribed to, and the log.

use crate::support::*;

fn post(gateway: &Gateway, topic: &str) {
    gateway.post(Message::new(topic, "{}").body()).assert_accepted();
}

fn gateway_with(option: &str) -> (Gateway, String, TempDir) {
    let (directory, [publishers, subscribers]) = hub_endpoints();
    let builder = Gateway::serve();
    let builder =
        if option == "--bind" { builder.bind(&subscribers) } else { builder.only_hub(&publishers, &subscribers) };
    let gateway = builder.start_ready();
    (gateway, subscribers, directory)
}

#[test]
fn messages_that_nobody_has_subscribed_to_are_counted() {
    for option in ["--bind", "--hub"] {
        let (mut gateway, endpoint, _directory) = gateway_with(option);
        assert_eq!(gateway.stats()["subscriptions"], 0, "{option}");
        post(&gateway, "core/x");
        gateway.wait_count("unsubscribed", 1);

        let subscribers = ["core/", "a", "core/"].map(|prefix| Subscriber::connected(&endpoint, prefix));
        // The two that subscribe to the same prefix count as one subscription, so the last one may still be connecting.
        gateway.wait_count("subscriptions", 2);
        for topic in ["core/x", "a", "ab", "core"] {
            post(&gateway, topic);
        }
        gateway.wait_count("unsubscribed", 2);
        for (subscriber, topic) in subscribers.iter().skip(1).zip(["a"]) {
            assert_eq!(subscriber.next().topic, topic);
        }
        drop(subscribers);
        gateway.wait_count("subscriptions", 0);
        post(&gateway, "a");
        gateway.wait_count("unsubscribed", 3);
        // A subscription to everything matches every message.
        let _subscribers = ["", "x"].map(|prefix| Subscriber::connected(&endpoint, prefix));
        gateway.wait_count("subscriptions", 2);
        post(&gateway, "anything");
        let stats = gateway.wait_count("published", 7);
        assert_eq!((&stats["subscriptions"], &stats["unsubscribed"]), (&json!(2), &json!(3)), "{stats}");
    }
}

fn nobody_subscribes(topic: &str, place: &str) -> String {
    format!("nobody subscribes to the topic \"{topic}\" at {place} so far\n")
}

#[test]
fn a_topic_that_nobody_has_subscribed_to_is_logged_once_and_who_subscribes_to_everything_asks_for_no_topic() {
    for option in ["--bind", "--hub"] {
        let (mut gateway, endpoint, _directory) = gateway_with(option);
        let _subscriber = Subscriber::connected(&endpoint, "core/");
        gateway.wait_count("subscriptions", 1);
        for topic in ["core/x", "core", "core/x", "core", "cor\u{202e}e"] {
            post(&gateway, topic);
        }
        gateway.wait_log(&nobody_subscribes("cor\\u{202e}e", "the bound endpoints"));
        // A person who looks with `listen` takes everything, and hides no extension that is not there.
        gateway.wait_count("unsubscribed", 3);
        let _everything = Subscriber::connected(&endpoint, "");
        gateway.wait_count("subscriptions", 2);
        ["core/x", "other", "other"].iter().for_each(|topic| post(&gateway, topic));
        gateway
            .wait_log("nobody subscribes to the topic \"other\" at the bound endpoints so far, except to everything\n");
        assert_eq!(gateway.stats()["unsubscribed"], 3, "they get it");
        let log = gateway.stop().stderr;
        log.has_times(3, "nobody subscribes").has_times(1, nobody_subscribes("core", "the bound endpoints"));
    }
}

/// The hub subscribes for its subscribers, so the gateway cannot count them.
#[test]
fn a_topic_that_a_hub_has_no_subscription_for_is_logged_once() {
    let (_directory, endpoint) = temporary_endpoint();
    let (hub, _) = bound_socket(zmq::XSUB, &endpoint);
    let subscribe = |prefix: &str| hub.send([b"\x01", prefix.as_bytes()].concat(), 0).unwrap();
    let next = || String::from_utf8(hub.recv_multipart(0).unwrap().swap_remove(0)).unwrap();
    subscribe("core/");
    let mut gateway = Gateway::serve().connect(&endpoint).start_ready();
    let is_known = |gateway: &mut Gateway, subscriptions: &str| {
        let line = format!("subscriptions at {endpoint}: {subscriptions}");
        wait_until(&line, || {
            // A socket does its work only while its owner calls it.
            hub.get_events().unwrap();
            gateway.stats();
            gateway.log().contains(&line)
        });
    };
    is_known(&mut gateway, "1: \"core/\"");
    // The hub gets them all: what it has subscribed to decides nothing.
    for topic in ["late/x", "core/x", "late/x", "core/x"] {
        post(&gateway, topic);
        assert_eq!(next(), topic);
    }
    gateway.wait_log(&nobody_subscribes("late/x", &endpoint));

    subscribe("late/");
    is_known(&mut gateway, "2: \"core/\", \"late/\"");
    post(&gateway, "late/y");
    assert_eq!(next(), "late/y");
    let stats = gateway.stats();
    assert_eq!((&stats["subscriptions"], &stats["unsubscribed"]), (&Value::Null, &Value::Null), "{stats}");

    subscribe("");
    is_known(&mut gateway, "3: \"\", \"core/\", \"late/\"");
    post(&gateway, "other");
    gateway.wait_log(&format!("the topic \"other\" at {endpoint} so far, except to everything\n"));
    gateway.stop().stderr.has_times(2, "nobody subscribes");
}

/// SIGUSR1 is for a person who reads the log, and SIGUSR2 for a program that asks often.
#[test]
fn sigusr1_alone_logs_the_subscriptions_escaped_and_bounded() {
    for option in ["--bind", "--hub"] {
        let (mut gateway, endpoint, _directory) = gateway_with(option);
        gateway.signal(Signal::USR2);
        gateway.wait_event("stats");
        gateway.stats();
        gateway.wait_log("subscriptions at the bound endpoints: 0\n");
        (0..3).for_each(|_| post(&gateway, "core/x"));
        assert_eq!(gateway.log().matches("subscriptions at").count(), 1, "no message logs them");
        let _subscriber = Subscriber::connected(&endpoint, "core/\n\x1b[2J");
        gateway.wait_count("subscriptions", 1);
        gateway.wait_log(r#"subscriptions at the bound endpoints: 1: "core/\n\u{1b}[2J""#);
        let _more: Vec<_> = (0..30).map(|number| Subscriber::connected(&endpoint, &format!("z{number}"))).collect();
        gateway.wait_count("subscriptions", 31);
        gateway.wait_log(", and 11 more\n");
    }
}
