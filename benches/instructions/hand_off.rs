//! The two ends of the queue: a worker that publishes, and the bus thread that takes. Waking that thread and sending
//! are system calls and libzmq's, and are not counted.

use std::hint::black_box;

use adapter_gateway::bus::queue::{Parcel, Queue};
use adapter_gateway::bus::{Bus, BusConfig, Publisher, QUEUE_BYTES, QUEUE_MESSAGES};
use gungraun::{library_benchmark, library_benchmark_group};

use super::inputs::BODY;

library_benchmark_group!(name = hand_offs, benchmarks = [publish, take]);

const TOPIC: &str = "adapter/nodes/data";

/// So many slots are in one block of the queue, so that one block is made, and one left, wherever the count begins.
const MESSAGES: usize = 31;

#[library_benchmark(setup = running)]
#[bench::messages_31()]
fn publish((bus, publisher): (Bus, Publisher)) -> (Bus, Publisher) {
    fill(&publisher);
    (bus, publisher)
}

fn running() -> (Bus, Publisher) {
    let config = BusConfig { bind: vec!["tcp://127.0.0.1:*".parse().unwrap()], ..BusConfig::default() };
    let bus = Bus::start(config, |_| {}).unwrap();
    let publisher = bus.publisher();
    fill(&publisher);
    (bus, publisher)
}

fn fill(publisher: &Publisher) {
    for _ in 0..MESSAGES {
        publisher.publish(black_box(TOPIC), black_box(BODY)).unwrap();
    }
}

#[library_benchmark(setup = filled)]
#[bench::messages_31()]
fn take(queue: Box<Queue>) -> Box<Queue> {
    assert_eq!(drain(&queue), MESSAGES);
    queue
}

fn drain(queue: &Queue) -> usize {
    let taken = std::iter::from_fn(|| queue.pop()).map(|parcel: Parcel| black_box(&parcel).weight());
    let (messages, bytes) = taken.fold((0, 0), |(messages, bytes), weight| (messages + 1, bytes + weight));
    queue.release(messages as u64, bytes);
    messages
}

fn filled() -> Box<Queue> {
    let queue = Queue::new(QUEUE_MESSAGES, QUEUE_BYTES);
    for _ in 0..2 {
        drain(&queue);
        for _ in 0..MESSAGES {
            queue.push(TOPIC.as_bytes(), BODY.into()).unwrap();
        }
    }
    Box::new(queue)
}
