//! What the bus thread does for messages beside system calls: it takes them, collects batches for each subscriber, and
//! takes note of what was written.

use std::hint::black_box;
use std::time::Duration;

use adapter_gateway::zmtp::{Exchange, MAX_SUBSCRIBERS, Origin, WireMessage};
use gungraun::{library_benchmark, library_benchmark_group};

use super::inputs::BODY;

library_benchmark_group!(name = exchanges, benchmarks = [exchange]);

/// The number of messages that the bus thread takes at once.
const MESSAGES: usize = 500;

#[library_benchmark(setup = filled)]
#[bench::one_subscriber(1)]
#[bench::ten_subscribers(10)]
fn exchange((mut exchange, messages, mut buffer): (Exchange, Vec<WireMessage>, Vec<u8>)) -> (Exchange, Vec<u8>) {
    pass_on(&mut exchange, messages, &mut buffer);
    (exchange, buffer)
}

fn pass_on(exchange: &mut Exchange, messages: Vec<WireMessage>, buffer: &mut Vec<u8>) {
    for message in messages {
        exchange.take(black_box(message), Origin::Posted, Duration::ZERO);
    }
    while !exchange.waiting().is_empty() {
        for place in exchange.waiting().iter() {
            let referenced_bytes = exchange.batch(place, false, buffer).len();
            let written_bytes = black_box(&*buffer).len() + referenced_bytes;
            exchange.written(place, written_bytes, || 0);
        }
    }
    assert_eq!(exchange.take_freed().posted, MESSAGES as u64);
}

/// Returns an exchange with so many subscribers to everything, which have had as many messages before.
fn filled(subscribers: u8) -> (Exchange, Vec<WireMessage>, Vec<u8>) {
    let mut exchange = Exchange::new(MAX_SUBSCRIBERS, 0);
    for _ in 0..subscribers {
        let place = exchange.join(false).unwrap();
        assert!(exchange.subscriptions.subscribe(place, b""));
    }
    let messages =
        || (0..MESSAGES).map(|_| WireMessage::copy_of(b"adapter/nodes/data", BODY.as_bytes()).unwrap()).collect();
    let mut buffer = Vec::new();
    pass_on(&mut exchange, messages(), &mut buffer);
    (exchange, messages(), buffer)
}
