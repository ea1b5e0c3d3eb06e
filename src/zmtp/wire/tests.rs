use super::*;

fn head(is_command: bool, has_more: bool, body_bytes: u64) -> FrameHead {
    FrameHead { is_command, has_more, body_bytes }
}

#[test]
fn short_and_long_heads_are_read() {
    for (bytes, expected) in [
        (&[0, 5][..], head(false, false, 5)),
        (&[1, 255], head(false, true, 255)),
        (&[4, 0], head(true, false, 0)),
        (&[2, 0, 0, 0, 0, 0, 0, 1, 0], head(false, false, 256)),
        (&[6, 0, 0, 0, 0, 0, 0, 0, 1], head(true, false, 1)),
        (&[3, 0x7f, 255, 255, 255, 255, 255, 255, 255], head(false, true, i64::MAX as u64)),
    ] {
        let sent = [bytes, b"rest"].concat();
        let mut rest = &sent[..];
        assert_eq!((FrameHead::take(&mut rest), rest), (Ok(Some(expected)), &b"rest"[..]));
        for end in 0..bytes.len() {
            let mut rest = &bytes[..end];
            assert_eq!((FrameHead::take(&mut rest), rest), (Ok(None), &bytes[..end]));
        }
    }
}

/// Returns how many bytes of a greeting show a fault, and the fault, which what follows does not change.
fn first_fault(greeting: &[u8]) -> Option<(usize, PeerFault)> {
    let faults = (0..=greeting.len()).map(|end| check_greeting(&greeting[..end]).err());
    let mut faults = faults.enumerate().filter_map(|(end, fault)| Some((end, fault?)));
    let first = faults.next();
    assert!(faults.all(|(_, fault)| first.as_ref().is_some_and(|(_, first)| *first == fault)), "{first:?}");
    first
}

#[test]
fn greetings_of_zmtp_3_and_later_are_accepted() {
    for (major, minor) in [(3, 0), (3, 1), (3, 255), (4, 0)] {
        let mut greeting = [0; GREETING_BYTES];
        greeting[..12].copy_from_slice(&[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, major, minor]);
        greeting[12..32].copy_from_slice(MECHANISM);
        greeting[32] = 1;
        assert_eq!(first_fault(&greeting), None);
    }
    assert_eq!((first_fault(&GREETING), GREETING[VERSION_AT..].first_chunk()), (None, Some(b"\x03\x01")));
}

#[test]
fn others_are_refused_at_the_first_byte_that_shows_what_they_are() {
    let signed = |rest: &[u8]| [b"\xff\0\0\0\0\0\0\0\x01\x7f", rest].concat();
    let mechanism = |name: &str| PeerFault::Mechanism(name.into());
    for (bytes, fault_at, fault) in [
        (b"POST / HTTP/1.1\r\n".to_vec(), 0, PeerFault::Greeting),
        (b"\x01\x00".to_vec(), 0, PeerFault::Zmtp1),
        (b"\xff\0\0\0\0\0\0\0\x01\x00".to_vec(), 9, PeerFault::Greeting),
        (signed(b"\x00"), 10, PeerFault::Zmtp1),
        (signed(b"\x01\x02\0\0"), 10, PeerFault::Zmtp2),
        (signed(b"\x02"), 10, PeerFault::Zmtp2),
        (signed(b"\x03\0CURVE\0\0"), 17, mechanism("CURVE")),
        (signed(b"\x03\0PLAIN\0\0"), 17, mechanism("PLAIN")),
        (signed(b"\x03\0NULLS\0\0"), 17, mechanism("NULLS")),
        (signed(b"\x03\0N-0_1.2+3456789ABCDEF\xff"), 31, mechanism("N-0_1.2+3456789ABCDE")),
        (signed(b"\x03\0\0\0"), 12, PeerFault::Greeting),
        (signed(b"\x03\0curve\0"), 12, PeerFault::Greeting),
        (signed(b"\x03\0CUR\x1b[2J\0"), 15, PeerFault::Greeting),
        (signed(b"\x03\0NULL\0\0S"), 18, PeerFault::Greeting),
    ] {
        assert_eq!(first_fault(&bytes), Some((fault_at + 1, fault)), "{}", bytes.escape_ascii());
    }
    assert_eq!(first_fault(&signed(b"\x03\0CURVE")), None, "a longer name may follow");
}

#[test]
fn a_pong_repeats_the_context() {
    for (context, expected) in
        [(&b""[..], &b"\x04\x05\x04PONG"[..]), (b"0123456789abcdef", b"\x04\x15\x04PONG0123456789abcdef")]
    {
        let mut out = Vec::new();
        put_pong(&mut out, context);
        assert_eq!(out, expected);
    }
}
