//! The bounded queue from the workers to the bus thread: many producers, one consumer, no lock.

use crate::message::publish::{Payload, Unavailable};
use crate::sync::{AtomicU64, AtomicUsize, Ordering, SegQueue};
use crate::zmtp::WireMessage;

/// What a queued message counts beside its content, in bytes: its slot in the queue, its entry in the log of the bus
/// thread, the heads of its frames, and the allocator's part.
const MESSAGE_OVERHEAD_BYTES: usize = 256;

/// The top bit of `accepted`. It is set once, when nothing more may enter.
const CLOSED: u64 = 1 << 63;

/// A message that was accepted.
pub struct QueuedMessage {
    /// What is sent.
    pub message: WireMessage,
    /// What the message counts against the queue's bound in bytes: its content and its overhead.
    pub weight_bytes: usize,
}

/// Keeps the counters of producers and consumer in different cache lines, which x86 fetches in pairs.
#[repr(align(128))]
struct CacheLine<T>(T);

/// The queue. A message keeps its place from before it is pushed until the consumer releases it, so the message that
/// the consumer is sending counts too.
///
/// Invariant: `released <= accepted`, and `accepted - released <= capacity`.
pub struct Queue {
    messages: SegQueue<QueuedMessage>,
    /// The number of messages that were ever accepted, and `CLOSED`. Both are in one word, so that no message enters
    /// after the close.
    accepted: CacheLine<AtomicU64>,
    /// The number of messages that the consumer has released. Written by the consumer alone.
    released: CacheLine<AtomicU64>,
    /// The weight of the messages in the queue. A producer adds the weight of its message before it takes a place.
    weight_bytes: CacheLine<AtomicUsize>,
    /// The greatest depth that the consumer has seen. Written by the consumer alone.
    high_water: AtomicU64,
    capacity: u64,
    max_bytes: usize,
}

impl Queue {
    /// Creates a queue of at most `capacity` messages, which weigh at most `max_bytes` together. One message that is
    /// heavier may enter when the queue is empty.
    pub fn new(capacity: usize, max_bytes: usize) -> Self {
        Self {
            messages: SegQueue::new(),
            accepted: CacheLine(AtomicU64::new(0)),
            released: CacheLine(AtomicU64::new(0)),
            weight_bytes: CacheLine(AtomicUsize::new(0)),
            high_water: AtomicU64::new(0),
            capacity: capacity.max(1) as u64,
            max_bytes,
        }
    }

    /// Checks whether a small message would be accepted now.
    pub(super) fn has_room(&self) -> Result<(), Unavailable> {
        self.check_place(self.accepted.0.load(Ordering::Relaxed))?;
        if self.weight_bytes() >= self.max_bytes {
            return Err(Unavailable::QueueFull);
        }
        Ok(())
    }

    /// Copies the message into the queue, or keeps the buffer of its payload. The bound in bytes is checked before.
    ///
    /// # Errors
    /// The queue is full or closed, or no memory is left. The queue is as it was before.
    pub fn push(&self, topic: &[u8], payload: Payload<'_>) -> Result<(), Unavailable> {
        let weight_bytes = topic.len() + payload.held_bytes() + MESSAGE_OVERHEAD_BYTES;
        let fits = |bytes: usize| {
            (bytes == 0 || bytes.saturating_add(weight_bytes) <= self.max_bytes).then(|| bytes + weight_bytes)
        };
        if self.weight_bytes.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err() {
            return Err(Unavailable::QueueFull);
        }
        let message = wire_message(topic, payload);
        let pushed = message.ok_or(Unavailable::QueueFull).and_then(|message| {
            self.take_place()?;
            self.messages.push(QueuedMessage { message, weight_bytes });
            Ok(())
        });
        if pushed.is_err() {
            let bytes_before = self.weight_bytes.0.fetch_sub(weight_bytes, Ordering::Relaxed);
            debug_assert!(bytes_before >= weight_bytes, "{bytes_before} bytes without the {weight_bytes} added above");
        }
        pushed
    }

    /// Removes the oldest message. The message keeps its place until [`Queue::release`].
    pub fn pop(&self) -> Option<QueuedMessage> {
        self.messages.pop()
    }

    /// Gives back the places of `messages` messages that weigh `weight_bytes` together. Called by the consumer alone.
    pub fn release(&self, messages: u64, weight_bytes: usize) {
        // The depth falls only here, so its greatest value is seen here.
        let depth = self.depth();
        debug_assert!(messages <= depth, "{messages} messages of {depth}");
        debug_assert!(depth <= self.capacity, "{depth} messages where {} have a place", self.capacity);
        self.high_water.store(depth.max(self.high_water.load(Ordering::Relaxed)), Ordering::Relaxed);
        let bytes_before = self.weight_bytes.0.fetch_sub(weight_bytes, Ordering::Relaxed);
        debug_assert!(bytes_before >= weight_bytes, "{weight_bytes} bytes of {bytes_before}");
        // No bytes means no messages. The opposite need not hold: a producer adds its weight before it takes a place.
        let bytes_are_left = bytes_before > weight_bytes;
        debug_assert!(bytes_are_left || depth == messages, "{} messages without a byte", depth - messages);
        self.released.0.fetch_add(messages, Ordering::Release);
    }

    /// Closes the queue: it accepts nothing more. A producer that has a place already still pushes its message.
    pub fn close(&self) {
        self.accepted.0.fetch_or(CLOSED, Ordering::AcqRel);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.accepted.0.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Returns whether there is nothing to pop. Producers may have places for messages that they push next.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns how many messages were accepted and how many of them were released since.
    pub(super) fn accepted_and_released(&self) -> (u64, u64) {
        // `released` is read first. If it were read last, it could be greater than the older `accepted`.
        let released = self.released.0.load(Ordering::Acquire);
        let accepted = self.accepted.0.load(Ordering::Acquire) & !CLOSED;
        debug_assert!(released <= accepted, "{released} messages released, {accepted} accepted");
        (accepted, released)
    }

    pub(super) fn depth(&self) -> u64 {
        let (accepted, released) = self.accepted_and_released();
        accepted - released
    }

    /// Returns the greatest depth so far.
    pub(super) fn high_water(&self) -> u64 {
        // `released` is read last. If it were read first, as by `depth`, all messages that pass between the two reads
        // would count as if they had been in the queue together.
        let accepted = self.accepted.0.load(Ordering::Acquire) & !CLOSED;
        let depth = accepted.saturating_sub(self.released.0.load(Ordering::Acquire));
        depth.max(self.high_water.load(Ordering::Relaxed))
    }

    pub(super) fn weight_bytes(&self) -> usize {
        self.weight_bytes.0.load(Ordering::Relaxed)
    }

    fn take_place(&self) -> Result<(), Unavailable> {
        let mut accepted = self.accepted.0.load(Ordering::Relaxed);
        loop {
            self.check_place(accepted)?;
            let swap =
                self.accepted.0.compare_exchange_weak(accepted, accepted + 1, Ordering::AcqRel, Ordering::Relaxed);
            match swap {
                Ok(_) => return Ok(()),
                Err(newer) => accepted = newer,
            }
        }
    }

    fn check_place(&self, accepted: u64) -> Result<(), Unavailable> {
        if accepted & CLOSED != 0 {
            return Err(Unavailable::Stopping);
        }
        // `accepted` may be older than what was released since. Then there is room, and no underflow.
        if accepted.saturating_sub(self.released.0.load(Ordering::Acquire)) >= self.capacity {
            return Err(Unavailable::QueueFull);
        }
        Ok(())
    }
}

fn wire_message(topic: &[u8], payload: Payload<'_>) -> Option<WireMessage> {
    let bytes = payload.bytes();
    match payload.into_shared() {
        None => WireMessage::copy_of(topic, bytes),
        Some((buffer, part)) => WireMessage::part_of(topic, buffer, part),
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // No producer is left, so every weight belongs to a message. A thread that panics already is not stopped again.
        debug_assert!(
            std::thread::panicking() || (self.depth() == 0) == (self.weight_bytes() == 0),
            "{} messages of {} bytes are left",
            self.depth(),
            self.weight_bytes()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    fn take(queue: &Queue) -> Option<Vec<u8>> {
        let message = queue.pop()?;
        queue.release(1, message.weight_bytes);
        Some(message.message.payload().to_vec())
    }

    #[test]
    fn messages_leave_in_the_order_in_which_they_came() {
        let queue = Queue::new(10, usize::MAX);
        queue.push(b"t", b"1".into()).unwrap();
        queue.push(b"t", b"2".into()).unwrap();
        assert_eq!(take(&queue).unwrap(), b"1");
        assert_eq!(take(&queue).unwrap(), b"2");
        assert!(take(&queue).is_none());
    }

    #[test]
    fn a_message_keeps_its_place_until_it_is_released() {
        let queue = Queue::new(1, usize::MAX);
        queue.push(b"t", b"1".into()).unwrap();
        assert_eq!((queue.depth(), queue.high_water()), (1, 1));
        let message = queue.pop().unwrap();
        assert_eq!(queue.push(b"t", b"2".into()), Err(Unavailable::QueueFull));
        assert_eq!(queue.has_room(), Err(Unavailable::QueueFull));
        queue.release(1, message.weight_bytes);
        assert_eq!(queue.has_room(), Ok(()));
        assert_eq!((queue.depth(), queue.high_water(), queue.weight_bytes()), (0, 1, 0));
    }

    #[test]
    fn the_bound_in_bytes_counts_content_and_overhead() {
        let queue = Queue::new(1_000, 4 * 1_000);
        let payload = [0; 1_000 - MESSAGE_OVERHEAD_BYTES - 1];
        for _ in 0..4 {
            queue.push(b"t", (&payload).into()).unwrap();
        }
        assert_eq!(queue.push(b"", b"".into()), Err(Unavailable::QueueFull));
        assert_eq!(queue.has_room(), Err(Unavailable::QueueFull));
        assert_eq!(queue.weight_bytes(), 4_000);
        take(&queue).unwrap();
        assert_eq!(queue.push(b"t", (&payload).into()), Ok(()));
    }

    #[test]
    fn a_message_that_is_heavier_than_the_bound_enters_an_empty_queue() {
        let queue = Queue::new(10, 100);
        queue.push(b"t", (&[0; 1_000]).into()).unwrap();
        assert_eq!(queue.push(b"t", (&[0; 1_000]).into()), Err(Unavailable::QueueFull));
        take(&queue).unwrap();
        queue.push(b"t", (&[0; 1_000]).into()).unwrap();
    }

    #[test]
    fn a_closed_queue_accepts_nothing_and_loses_nothing() {
        let queue = Queue::new(10, usize::MAX);
        queue.push(b"t", b"1".into()).unwrap();
        queue.close();
        assert_eq!(queue.push(b"t", b"2".into()), Err(Unavailable::Stopping));
        assert_eq!((queue.accepted_and_released().0, queue.depth()), (1, 1));
        assert_eq!(take(&queue).unwrap(), b"1");
        assert_eq!(queue.depth(), 0);
    }

    #[test]
    fn a_message_that_does_not_fit_keeps_no_other_out() {
        let queue = Queue::new(10, 2 * MESSAGE_OVERHEAD_BYTES + 2);
        let is_over = AtomicBool::new(false);
        queue.push(b"t", b"".into()).unwrap();
        let refused = thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(queue.push(b"t", b"x".into()), Err(Unavailable::QueueFull));
                }
            });
            let push = || queue.push(b"t", b"".into()).map(|()| drop(take(&queue)));
            let refused = (0..20_000).filter(|_| push().is_err()).count();
            is_over.store(true, Ordering::Relaxed);
            refused
        });
        assert_eq!(refused, 0);
        take(&queue).unwrap();
    }

    #[test]
    fn the_bound_holds_under_contention() {
        const CAPACITY: u64 = 64;
        const EACH: u64 = 20_000;
        let queue = Queue::new(64, usize::MAX);
        let mut taken = 0;
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        while queue.push(b"t", b"x".into()).is_err() {
                            thread::yield_now();
                        }
                    }
                });
            }
            while taken < 3 * EACH {
                match take(&queue) {
                    Some(_) => taken += 1,
                    None => thread::yield_now(),
                }
            }
        });
        assert!(queue.high_water() <= CAPACITY);
        assert_eq!((queue.accepted_and_released().0, queue.depth(), queue.weight_bytes()), (3 * EACH, 0, 0));
    }
}
