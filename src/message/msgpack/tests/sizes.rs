//! Each class of lengths, at its smallest and at its largest length.

use super::max_frame_bytes;
use super::{SHORTEST, encode, encode_value, to_json};

/// Lengths at the ends of each class, and their headers.
const STRINGS: [(usize, &[u8]); 8] = [
    (0, &[0xa0]),
    (31, &[0xbf]),
    (32, &[0xd9, 32]),
    (255, &[0xd9, 0xff]),
    (256, &[0xda, 1, 0]),
    (65_535, &[0xda, 0xff, 0xff]),
    (65_536, &[0xdb, 0, 1, 0, 0]),
    (1_000_000, &[0xdb, 0, 0x0f, 0x42, 0x40]),
];

/// Returns numbers of members at the ends of each class, and their headers, of which the shortest begins with `short`, and
/// those of 16 and 32 bits with `long` and the byte behind it.
fn containers(short: u8, long: u8) -> [(usize, Vec<u8>); 8] {
    [0, 1, 15, 16, 255, 256, 65_535, 65_536].map(|members: usize| {
        let header = match members as u32 {
            0..=15 => vec![short | members as u8],
            16..=0xffff => [&[long][..], &(members as u16).to_be_bytes()].concat(),
            _ => [&[long + 1][..], &(members as u32).to_be_bytes()].concat(),
        };
        (members, header)
    })
}

fn list(item: &str, times: usize) -> String {
    vec![item; times].join(",")
}

#[track_caller]
fn assert_both_ways(json: &str, frame: &[u8]) {
    let encoded = encode_value(json);
    assert!(encoded == frame, "{:02x?}… instead of {:02x?}…", encoded.get(..8), frame.get(..8));
    assert!(to_json(frame).unwrap() == json);
}

#[test]
fn strings() {
    for (bytes, header) in STRINGS {
        let text = "s".repeat(bytes);
        assert_both_ways(&format!("\"{text}\""), &[header, text.as_bytes()].concat());
    }
}

#[test]
fn a_string_counts_its_bytes_once_decoded() {
    let escaped = "\\u00e9".repeat(16);
    assert_eq!(encode_value(&format!("\"{escaped}\"")), [&b"\xd9\x20"[..], "é".repeat(16).as_bytes()].concat());
}

#[test]
fn keys() {
    for (bytes, header) in STRINGS {
        let key = "k".repeat(bytes);
        assert_both_ways(&format!("{{\"{key}\":0}}"), &[&[0x81], header, key.as_bytes(), &[0]].concat());
    }
}

#[test]
fn arrays() {
    for (members, header) in containers(0x90, 0xdc) {
        assert_both_ways(&format!("[{}]", list("7", members)), &[header, vec![7; members]].concat());
    }
}

#[test]
fn maps() {
    for (members, header) in containers(0x80, 0xde) {
        let content = b"\xa1k\x07".repeat(members);
        assert_both_ways(&format!("{{{}}}", list("\"k\":7", members)), &[header, content].concat());
    }
}

/// Long containers stand within, before and behind long containers, with short ones at each place.
#[test]
fn long_headers_leave_room_for_each_other() {
    let mut json = "[]".to_owned();
    let mut frame = vec![0x90];
    for members in [16, 3, 300, 20] {
        json = format!("[{},{json},{{{}}}]", list("true", members), list("\"\":[]", 17));
        frame = [
            if members + 2 > 15 { vec![0xdc, ((members + 2) >> 8) as u8, (members + 2) as u8] } else { vec![0x95] },
            vec![0xc3; members],
            frame,
            vec![0xde, 0, 17],
            [0xa0, 0x90].repeat(17),
        ]
        .concat();
        assert_both_ways(&json, &frame);
    }
    assert_eq!(encode(&format!("{{\"a\":{json}}}")), [b"\x81\xa1a".to_vec(), frame].concat());
}

#[track_caller]
fn assert_bounded(json: &str) -> usize {
    let frame_bytes = encode(json).len();
    let most = max_frame_bytes(json.len());
    assert!(frame_bytes <= most, "{frame_bytes} bytes of {}, and {most} at most: {:?}…", json.len(), json.get(..40));
    frame_bytes
}

#[test]
fn frames_are_bounded() {
    for item in SHORTEST.into_iter().chain(["[1e0]", "{\"\":1e0}"]) {
        for members in [1, 15, 16, 65_535, 65_536] {
            let items = list(item, members);
            assert_bounded(&format!("{{\"\":[{items}]}}"));
            assert_bounded(&format!("{{{}}}", list(&format!("\"\":{item}"), members)));
        }
    }
}

/// Nine bytes for four are nearly reached. Many containers of 65,536 floats exceed them by half a byte each.
#[test]
fn no_smaller_bound_would_do() {
    let floats = list("1e0", 65_536);
    let json = format!("{{\"\":[{floats}]}}");
    assert!(assert_bounded(&json) * 4 > json.len() * 9 - 64);
    let json = format!("{{\"\":[{}]}}", list(&format!("[{floats}]"), 40));
    assert!(assert_bounded(&json) * 4 > json.len() * 9);
}

#[test]
fn the_bound_of_a_mebibyte_is_two_and_a_quarter() {
    assert_eq!(max_frame_bytes(1024 * 1024), 9 * 256 * 1024 + 2);
    assert_eq!([0, 2, 4].map(max_frame_bytes), [0, 5, 9]);
}
