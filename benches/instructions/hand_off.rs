//! The two ends of the inbox: a worker that publishes, and the bus thread that takes. What wakes that
//! thread and what sends are system calls and libzmq's code, and are not counted.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;

use adapter_gateway::bus::Waker;
use adapter_gateway::bus::inbox::Inbox;
use adapter_gateway::bus::{Bus, BusConfig, Publisher};
use adapter_gateway::message::publish::Publish;
use adapter_gateway::terms::limits::Limits;
use adapter_gateway::zmtp::WireMessage;
use gungraun::{library_benchmark, library_benchmark_group};

use super::inputs::BODY;

library_benchmark_group!(name = hand_offs, benchmarks = [publish, take]);

const TOPIC: &str = "adapter/nodes/data";
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

type Filled = Box<(Inbox, VecDeque<WireMessage>)>;

#[library_benchmark(setup = filled)]
#[bench::messages_31()]
fn take(mut filled: Filled) -> Filled {
    assert_eq!(drain(&mut filled), MESSAGES);
    filled
}

fn drain((inbox, batch): &mut (Inbox, VecDeque<WireMessage>)) -> usize {
    inbox.take(batch, false);
    // In the program, the exchange weighs each message, which its bench counts. All of these weigh the same.
    let weight_bytes = batch.front().map_or(0, WireMessage::weight_bytes);
    let messages = batch.drain(..).map(|message| drop(black_box(message))).count();
    inbox.give_back(messages as u64, messages * weight_bytes, false);
    messages
}

fn filled() -> Filled {
    let (endpoint, waker) = ("tcp://127.0.0.1:1".parse().unwrap(), Arc::new(Waker::new().unwrap()));
    let inbox = Inbox::new(&Limits::DEFAULT, waker, vec![endpoint], Vec::new());
    let mut filled = Box::new((inbox, VecDeque::new()));
    // Both buffers have room then.
    for _ in 0..3 {
        drain(&mut filled);
        for _ in 0..MESSAGES {
            filled.0.publish(TOPIC, BODY.into()).unwrap();
        }
    }
    filled
}
