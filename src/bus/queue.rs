//! The bounded queue from the workers to the bus thread: many producers, one consumer, no lock.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_queue::SegQueue;

use super::ffi::Frame;
use crate::proto::payload::Payload;

/// What a queued message weighs beside its content, in bytes: two 64-byte frames, its slot in the
/// queue, libzmq's header of a heap-held frame and the allocator's rounding. Without it a flood
/// of empty messages would weigh nothing.
const MESSAGE_OVERHEAD_BYTES: usize = 256;

/// Top bit of the ticket counter: set once, when nothing more may enter.
const CLOSED: u64 = 1 << 63;

/// A message ready to be sent: nothing is left to do with it but to hand it over.
pub struct Parcel {
    pub(super) topic: Frame,
    pub(super) payload: Frame,
    weight: usize,
}

/// Why the queue took nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The bound in messages or in bytes is reached, or memory is.
    Full,
    /// The queue was closed.
    Closed,
}

/// Keeps the producers' counter and the consumer's counter off each other's cache line (128: the
/// prefetcher of x86 fetches lines in pairs).
#[repr(align(128))]
struct Line<T>(T);

/// The queue. A message holds its place from before it is pushed until the consumer says that it
/// is done with it, so the message in the consumer's hand counts too.
///
/// Invariant: `released <= accepted`, and `accepted - released <= capacity`.
pub struct Queue {
    parcels: SegQueue<Parcel>,
    /// Messages ever let in, and `CLOSED`. One word, so that none gets in after the close.
    accepted: Line<AtomicU64>,
    /// Messages the consumer is done with. Written by the consumer alone.
    released: Line<AtomicU64>,
    /// Weight of what is inside.
    bytes: Line<AtomicUsize>,
    /// Deepest the queue has been, as the consumer saw it. Written by the consumer alone.
    high_water: AtomicU64,
    capacity: u64,
    max_bytes: usize,
}

impl Queue {
    /// A queue of at most `capacity` messages weighing at most `max_bytes` together; one message
    /// heavier than that may enter when it is alone. Takes no memory for what is not inside.
    pub fn new(capacity: usize, max_bytes: usize) -> Self {
        Self {
            parcels: SegQueue::new(),
            accepted: Line(AtomicU64::new(0)),
            released: Line(AtomicU64::new(0)),
            bytes: Line(AtomicUsize::new(0)),
            high_water: AtomicU64::new(0),
            capacity: capacity.max(1) as u64,
            max_bytes,
        }
    }

    /// Whether a small message would get in now.
    pub(super) fn has_room(&self) -> Result<(), Refusal> {
        self.check_ticket(self.accepted.0.load(Ordering::Relaxed))?;
        if self.bytes.0.load(Ordering::Relaxed) >= self.max_bytes {
            return Err(Refusal::Full);
        }
        Ok(())
    }

    /// Copies the message in, or keeps the buffer of its payload. The bounds are checked before anything is copied.
    ///
    /// # Errors
    /// Nothing was copied in.
    pub fn push(&self, topic: &[u8], payload: Payload<'_>) -> Result<(), Refusal> {
        let weight = topic.len() + payload.held_bytes() + MESSAGE_OVERHEAD_BYTES;
        let weight_before = self.bytes.0.fetch_add(weight, Ordering::Relaxed);
        let fits = weight_before == 0 || weight_before.saturating_add(weight) <= self.max_bytes;
        let parcel = if fits { Parcel::new(topic, payload, weight) } else { None };
        let pushed = parcel.ok_or(Refusal::Full).and_then(|parcel| {
            self.take_ticket()?;
            self.parcels.push(parcel);
            Ok(())
        });
        if pushed.is_err() {
            self.bytes.0.fetch_sub(weight, Ordering::Relaxed);
        }
        pushed
    }

    /// The oldest message; its place is held until [`Queue::release`].
    pub fn pop(&self) -> Option<Parcel> {
        self.parcels.pop()
    }

    /// The consumer is done with `messages` messages of `bytes` weight together.
    pub fn release(&self, messages: u64, bytes: usize) {
        // The depth only falls here, so its highest value is seen here.
        let deepest = self.depth().max(self.high_water.load(Ordering::Relaxed));
        self.high_water.store(deepest, Ordering::Relaxed);
        self.bytes.0.fetch_sub(bytes, Ordering::Relaxed);
        self.released.0.fetch_add(messages, Ordering::Release);
    }

    /// Lets nothing more in. What has a place will still be pushed by whoever holds it.
    pub(super) fn close(&self) {
        self.accepted.0.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Whether [`Queue::close`] was called.
    pub(super) fn is_closed(&self) -> bool {
        self.accepted.0.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Whether there is nothing to pop. Places may be held already for messages on their way.
    pub(super) fn is_empty(&self) -> bool {
        self.parcels.is_empty()
    }

    /// Messages ever let in.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted.0.load(Ordering::Acquire) & !CLOSED
    }

    /// Messages the consumer is done with.
    pub(super) fn released(&self) -> u64 {
        self.released.0.load(Ordering::Acquire)
    }

    /// Messages inside, with those in the consumer's hand.
    pub(super) fn depth(&self) -> u64 {
        // Released first: read the other way round it could be the larger one.
        let released = self.released();
        self.accepted() - released
    }

    /// The most messages that were ever inside.
    pub(super) fn high_water(&self) -> u64 {
        self.depth().max(self.high_water.load(Ordering::Relaxed))
    }

    /// Weight of what is inside: content and 256 bytes a message.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.0.load(Ordering::Relaxed)
    }

    fn take_ticket(&self) -> Result<(), Refusal> {
        let mut seen = self.accepted.0.load(Ordering::Relaxed);
        loop {
            self.check_ticket(seen)?;
            let swap = self.accepted.0.compare_exchange_weak(seen, seen + 1, Ordering::AcqRel, Ordering::Relaxed);
            match swap {
                Ok(_) => return Ok(()),
                Err(newer) => seen = newer,
            }
        }
    }

    fn check_ticket(&self, accepted: u64) -> Result<(), Refusal> {
        if accepted & CLOSED != 0 {
            return Err(Refusal::Closed);
        }
        // `accepted` may be older than what was released since: that is room, not an underflow.
        if accepted.saturating_sub(self.released.0.load(Ordering::Acquire)) >= self.capacity {
            return Err(Refusal::Full);
        }
        Ok(())
    }
}

impl Parcel {
    fn new(topic: &[u8], payload: Payload<'_>, weight: usize) -> Option<Self> {
        let payload = match (payload.bytes(), payload.into_kept()) {
            (bytes, None) => Frame::copy_of(bytes),
            (_, Some((buffer, part))) => Frame::part_of(buffer, part),
        };
        Some(Self { topic: Frame::copy_of(topic)?, payload: payload?, weight })
    }

    /// Weight against the queue's bound, in bytes.
    pub fn weight(&self) -> usize {
        self.weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn take(queue: &Queue) -> Option<Vec<u8>> {
        let parcel = queue.pop()?;
        queue.release(1, parcel.weight());
        Some(parcel.payload.bytes().to_vec())
    }

    #[test]
    fn messages_leave_in_the_order_they_came() {
        let queue = Queue::new(10, usize::MAX);
        queue.push(b"t", b"1".into()).unwrap();
        queue.push(b"t", b"2".into()).unwrap();
        assert_eq!(take(&queue).unwrap(), b"1");
        assert_eq!(take(&queue).unwrap(), b"2");
        assert!(take(&queue).is_none());
    }

    #[test]
    fn a_place_is_held_until_released() {
        let queue = Queue::new(1, usize::MAX);
        queue.push(b"t", b"1".into()).unwrap();
        let parcel = queue.pop().unwrap();
        assert_eq!(queue.push(b"t", b"2".into()), Err(Refusal::Full));
        assert_eq!(queue.has_room(), Err(Refusal::Full));
        queue.release(1, parcel.weight());
        assert_eq!(queue.has_room(), Ok(()));
        assert_eq!((queue.depth(), queue.high_water(), queue.bytes()), (0, 1, 0));
    }

    #[test]
    fn the_bound_in_bytes_counts_content_and_overhead() {
        let queue = Queue::new(1_000, 4 * 1_000);
        let payload = [0; 1_000 - MESSAGE_OVERHEAD_BYTES - 1];
        for _ in 0..4 {
            queue.push(b"t", (&payload).into()).unwrap();
        }
        assert_eq!(queue.push(b"", b"".into()), Err(Refusal::Full));
        assert_eq!(queue.has_room(), Err(Refusal::Full));
        assert_eq!(queue.bytes(), 4_000);
        take(&queue).unwrap();
        assert_eq!(queue.push(b"t", (&payload).into()), Ok(()));
    }

    #[test]
    fn one_message_heavier_than_the_bound_may_enter_alone() {
        let queue = Queue::new(10, 100);
        queue.push(b"t", (&[0; 1_000]).into()).unwrap();
        assert_eq!(queue.push(b"t", (&[0; 1_000]).into()), Err(Refusal::Full));
        take(&queue).unwrap();
        queue.push(b"t", (&[0; 1_000]).into()).unwrap();
    }

    #[test]
    fn nothing_enters_after_the_close_and_nothing_inside_is_lost() {
        let queue = Queue::new(10, usize::MAX);
        queue.push(b"t", b"1".into()).unwrap();
        queue.close();
        assert_eq!(queue.push(b"t", b"2".into()), Err(Refusal::Closed));
        assert_eq!((queue.accepted(), queue.depth()), (1, 1));
        assert_eq!(take(&queue).unwrap(), b"1");
        assert_eq!(queue.depth(), 0);
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
        assert_eq!((queue.accepted(), queue.depth(), queue.bytes()), (3 * EACH, 0, 0));
    }
}
