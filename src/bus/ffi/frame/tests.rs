use super::*;
use crate::bus::link::receive;

const SHORT: &[u8] = b"adapter/nodes/data";

impl Frame {
    fn bytes(&self) -> &[u8] {
        let message = (&raw const self.0).cast_mut();
        // SAFETY: the message is initialised; both calls only read it, in spite of their signature.
        // Its content is never written after creation and lives as long as `self`; libzmq never
        // returns a null pointer from an initialised message.
        unsafe {
            let data = zmq_sys::zmq_msg_data(message).cast::<u8>();
            std::slice::from_raw_parts(data, zmq_sys::zmq_msg_size(message))
        }
    }
}

fn long() -> Vec<u8> {
    (0..10_000u32).map(|n| n.to_le_bytes()[0]).collect()
}

#[test]
fn a_copied_frame_has_the_same_bytes_and_may_change_its_thread() {
    for bytes in [&b""[..], SHORT, &long()] {
        let frame = Box::new(Frame::copy_of(bytes).unwrap());
        assert_eq!(frame.bytes(), bytes);
        let moved = std::thread::spawn(move || *frame).join().unwrap();
        assert_eq!(moved.bytes(), bytes);
    }
}

#[test]
fn a_part_has_the_same_bytes_and_returns_its_buffer() {
    let buffer = Arc::new(long());
    let part = &buffer[1..9_000];
    let frame = Frame::part_of(&buffer, 1..9_000).unwrap();
    assert_eq!((frame.bytes().as_ptr(), frame.bytes()), (part.as_ptr(), part));
    assert_eq!(Arc::strong_count(&buffer), 2);
    std::thread::spawn(move || drop(frame)).join().unwrap();
    assert_eq!(Arc::strong_count(&buffer), 1);
}

/// Nothing is published then.
#[test]
#[should_panic(expected = "1..10001 is no part of 10000 bytes")]
fn a_part_that_the_buffer_does_not_have_ends_the_program() {
    let _ = Frame::part_of(&Arc::new(long()), 1..10_001);
}

#[test]
fn a_part_that_is_sent_is_kept_until_it_is_received() {
    let context = zmq::Context::new();
    let mut left = context.socket(zmq::PAIR).unwrap();
    let right = context.socket(zmq::PAIR).unwrap();
    left.bind("inproc://parts").unwrap();
    right.connect("inproc://parts").unwrap();
    let buffer = Arc::new(long());
    assert!(Frame::part_of(&buffer, 0..buffer.len()).unwrap().send(&mut left, false));
    let sent = Arc::downgrade(&buffer);
    drop(buffer);
    assert_eq!(&*receive(&right).unwrap()[0], long());
    assert_eq!(sent.strong_count(), 0);
}

#[test]
fn a_refused_frame_keeps_its_content() {
    let context = zmq::Context::new();
    let mut socket = context.socket(zmq::PUSH).unwrap();
    for bytes in [SHORT, &long()] {
        let mut frame = Frame::copy_of(bytes).unwrap();
        assert!(!frame.send(&mut socket, false));
        assert_eq!(frame.bytes(), bytes);
    }
}

#[test]
fn the_frames_of_a_message_arrive_together() {
    let context = zmq::Context::new();
    let mut left = context.socket(zmq::PAIR).unwrap();
    let right = context.socket(zmq::PAIR).unwrap();
    left.bind("inproc://frames").unwrap();
    right.connect("inproc://frames").unwrap();
    let mut topic = Frame::copy_of(SHORT).unwrap();
    assert!(topic.send(&mut left, true));
    assert!(Frame::copy_of(&long()).unwrap().send(&mut left, false));
    assert_eq!(topic.bytes(), b"");

    let frames = receive(&right).unwrap();
    assert_eq!(frames.iter().map(|frame| &**frame).collect::<Vec<_>>(), [SHORT, &long()]);
    assert!(receive(&right).is_none());
}
