//! The two ends of the queue: a worker that publishes, and the bus thread that takes. What wakes that thread and what
//! sends are system calls and libzmq's code, and are not counted.

use std::hint::black_box;

use adapter_gateway::bus::queue::Queue;
use adapter_gateway::bus::{Bus, BusConfig, Publisher, QUEUE_BYTES, QUEUE_MESSAGES};
use adapter_gateway::message::publish::Publish;
use gungraun::{library_benchmark, library_benchmark_group};

use super::inputs::BODY;

library_benchmark_group!(name = hand_offs, benchmarks = [publish, take]);

const TOPIC: &str = "adapter/nodes/data";

/// The number of slots in one block of the queue. So one block is allocated and one is freed, wherever the count
/// begins.
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
        publisher.publish(black_box(TOPIC), black_box(BODY).into()).unwrap();
    }
}

#[library_benchmark(setup = filled)]
#[bench::messages_31()]
fn take(queue: Box<Queue>) -> Box<Queue> {
    assert_eq!(drain(&queue), MESSAGES);
    queue
}

fn drain(queue: &Queue) -> usize {
    let taken = std::iter::from_fn(|| queue.pop()).map(|message| black_box(&message).weight_bytes);
    let (messages, bytes) = taken.fold((0, 0), |(messages, bytes), weight_bytes| (messages + 1, bytes + weight_bytes));
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
