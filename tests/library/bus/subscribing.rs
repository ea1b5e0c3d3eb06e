//! Tests of the subscriber of `listen`, mostly at the embedded hub of a bus.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use adapter_gateway::bus::{LinkStatus, Received, Subscriber};

use super::rig::{hub, number_in, wait_for_subscriber};
use crate::support::{PATIENCE, bound_socket, eventually};

fn number(received: Option<Received>) -> u32 {
    match received {
        Some(Received::Message { payload, .. }) => number_in(&payload),
        other => panic!("{other:?} instead of a message"),
    }
}

#[test]
fn a_message_of_another_shape_is_reported() {
    let (socket, url) = bound_socket(zmq::PUB, "tcp://127.0.0.1:*");
    let mut subscriber = Subscriber::connect(&[url.parse().unwrap()], &[], |_, _| {}).unwrap();
    eventually("a message arrives", || {
        socket.send_multipart(["a", "b", "c"], 0).unwrap();
        let received = subscriber.recv(Some(Instant::now() + Duration::from_millis(5)));
        assert!(matches!(received, None | Some(Received::Malformed { frames: 3 })), "{received:?}");
        received
    });
}

/// The subscriber reads as slowly as a terminal.
#[test]
fn the_loss_of_a_hub_is_reported_before_its_last_message() {
    const MESSAGES: u32 = 20_000;
    let running = hub(MESSAGES as usize);
    let (sender, losses) = channel();
    let on_status = move |_: &_, status: &LinkStatus| {
        if status.is_err() {
            sender.send(()).unwrap();
        }
    };
    let mut subscriber = Subscriber::connect(&[running.subscribers_side().clone()], &[], on_status).unwrap();
    wait_for_subscriber(&running.bus);
    (0..MESSAGES).for_each(|number| running.publish(number));
    assert_eq!(number(subscriber.recv(Some(Instant::now() + PATIENCE))), 0);
    running.bus.stop(PATIENCE);
    let mut read = 1;
    while losses.try_recv().is_err() {
        assert_eq!(number(subscriber.recv(Some(Instant::now() + PATIENCE))), read);
        read += 1;
        thread::sleep(Duration::from_millis(1));
    }
    assert!(read < MESSAGES);
}
