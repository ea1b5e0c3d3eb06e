//! There is one order for all subscribers, whoever publishes.

use super::*;

const MESSAGES: u32 = 500;
const TOPIC: &str = "order/";

#[test]
fn all_subscribers_receive_posts_and_messages_of_publishers_in_one_order_and_one_that_comes_alone_at_once() {
    let mut rig = Rig::heard_by_all(Side::Hub, Transport::Tcp);
    let other = Subscriber::connected(&rig.subscribers, "");
    other.wait_until_subscribed(&rig.gateway);
    let posting = [0, 1].map(|sender| {
        let mut poster = Poster::to(&rig.gateway, &format!("{TOPIC}{sender}"), 100);
        Task::start(move |_over| (0..MESSAGES).for_each(|number| assert!(poster.post(), "{number} is refused")))
    });
    let publishing = [2, 3].map(|sender| {
        let mut peer = rig.publisher();
        let topic = format!("{TOPIC}{sender}");
        Task::start(move |_over| {
            for number in 0..MESSAGES {
                peer.send_all(&message(&[topic.as_bytes(), payload(number, "").as_bytes()]));
                // The answer comes when the hub has read the message, so that the senders take turns.
                peer.round_trip();
            }
        })
    });
    posting.into_iter().chain(publishing).for_each(Task::join);
    let receive_all = |subscriber: &Subscriber| -> Vec<Message> {
        let all = std::iter::repeat_with(|| subscriber.next()).filter(|message| message.topic.starts_with(TOPIC));
        all.take(4 * MESSAGES as usize).collect()
    };
    let received = receive_all(&rig.subscriber);
    let mut next = BTreeMap::new();
    for message in &received {
        let expected = next.entry(&message.topic).or_insert(0);
        assert_eq!(number(message.payload.as_bytes()), *expected, "{} in another order", message.topic);
        *expected += 1;
    }
    let turns = received.windows(2).filter(|two| two[0].topic != two[1].topic).count();
    println!("{turns} times, a message follows that of another sender");
    assert!(received == receive_all(&other), "another subscriber receives another order");
    // What was posted is counted as published, and only there.
    rig.wait_forwarded(2 * MESSAGES);

    // A message that comes alone is not written with the next one, or after a pause. The fastest of several counts,
    // since the machine may be busy.
    let mut publisher = rig.publisher();
    let times = (0..10).map(|number| {
        let sent = Instant::now();
        publisher.send_all(&message(&[b"alone", payload(number, "").as_bytes()]));
        assert_received(&rig, &[number]);
        sent.elapsed()
    });
    let fastest = times.min();
    assert!(fastest < Some(Duration::from_millis(50)), "{fastest:?}");
    rig.assert_unharmed("many senders");
}
