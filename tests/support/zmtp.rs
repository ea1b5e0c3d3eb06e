//! The bytes of ZMTP 3 that every peer sends: frames, and the handshake.

/// Another frame of the same message follows.
pub(crate) const MORE: u8 = 1;
pub(crate) const LONG: u8 = 2;
pub(crate) const COMMAND: u8 = 4;

/// Returns a frame with these flags. The length has eight bytes if it must.
pub(crate) fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = frame_head(flags, body.len());
    bytes.extend_from_slice(body);
    bytes
}

/// Returns the head of a frame, whose body may never come.
pub(crate) fn frame_head(flags: u8, body_bytes: usize) -> Vec<u8> {
    match u8::try_from(body_bytes) {
        Ok(length) => vec![flags, length],
        Err(_) => [&[flags | LONG][..], &(body_bytes as u64).to_be_bytes()].concat(),
    }
}

/// Returns the greeting of ZMTP 3.1 and the READY of a socket of this type.
pub(crate) fn handshake(socket_type: &str) -> [Vec<u8>; 2] {
    let mut greeting = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01NULL".to_vec();
    greeting.resize(64, 0);
    let length = u8::try_from(socket_type.len()).unwrap();
    let ready = [b"\x05READY\x0bSocket-Type\0\0\0", &[length][..], socket_type.as_bytes()].concat();
    [greeting, frame(COMMAND, &ready)]
}
