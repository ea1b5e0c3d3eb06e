//! MessagePack to JSON text, for people to read. The frames come from any publisher, and may hold any bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rmp::Marker;
use rmp::decode::{
    ExtMeta, read_array_len, read_bin_len, read_bool, read_ext_meta, read_f32, read_f64, read_int, read_map_len,
    read_nil, read_str_len, read_u64,
};
use serde_json::Value;

/// Levels of maps and arrays in a frame that is shown. Python's `msgpack` writes at most 511.
const MAX_SHOWN_DEPTH: usize = 512;

/// Returns the one value of a MessagePack `frame` as JSON without white space; `None` for what is no MessagePack or
/// nests too deep. Time and memory are linear in the size of the frame, whatever lengths it states.
///
/// Values that JSON lacks are shown and not refused: NaN and the infinities as `null`, binary data as a string in
/// base64, an extension, which a timestamp is too, as `{"ext":type,"data":"base64"}`, and a key that is no string as
/// the string of its JSON. A key that is given twice is shown twice.
#[must_use]
pub fn to_json(frame: &[u8]) -> Option<String> {
    let mut decoder = Decoder { rest: frame, json: String::with_capacity(frame.len()), is_in_key: false };
    decoder.value(MAX_SHOWN_DEPTH)?;
    decoder.rest.is_empty().then_some(decoder.json)
}

struct Decoder<'f> {
    rest: &'f [u8],
    json: String,
    is_in_key: bool,
}

impl<'f> Decoder<'f> {
    /// Reads a value that may nest by at most `levels` levels.
    fn value(&mut self, levels: usize) -> Option<()> {
        match self.peek()? {
            Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => {
                let count = read_array_len(&mut self.rest).ok()?;
                self.container(levels, count, false)
            }
            Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => {
                let count = read_map_len(&mut self.rest).ok()?;
                self.container(levels, count, true)
            }
            // The extensions of any size, and those of 1, 2, 4, 8 and 16 bytes.
            marker if matches!(marker.to_u8(), 0xc7..=0xc9 | 0xd4..=0xd8) => self.extension(),
            _ => self.scalar(),
        }
    }

    fn container(&mut self, levels: usize, count: u32, is_map: bool) -> Option<()> {
        let levels = levels.checked_sub(1)?;
        self.json.push(if is_map { '{' } else { '[' });
        for index in 0..count {
            if index > 0 {
                self.json.push(',');
            }
            if is_map {
                self.key(levels)?;
                self.json.push(':');
            }
            self.value(levels)?;
        }
        self.json.push(if is_map { '}' } else { ']' });
        Some(())
    }

    /// A key within a key is a scalar, since each further level would double the escapes.
    fn key(&mut self, levels: usize) -> Option<()> {
        let start = self.json.len();
        if self.is_in_key {
            self.scalar()?;
        } else {
            self.is_in_key = true;
            self.value(levels)?;
            self.is_in_key = false;
        }
        if !self.json.get(start..)?.starts_with('"') {
            let key = Value::from(self.json.split_off(start));
            self.json.push_str(&key.to_string());
        }
        Some(())
    }

    fn extension(&mut self) -> Option<()> {
        let ExtMeta { typeid, size } = read_ext_meta(&mut self.rest).ok()?;
        let data = BASE64.encode(self.take(size)?);
        self.json.push_str(&format!(r#"{{"ext":{typeid},"data":"{data}"}}"#));
        Some(())
    }

    /// Reads a value that holds no other values, and so can be a key.
    fn scalar(&mut self) -> Option<()> {
        let scalar = match self.peek()? {
            Marker::Null => Value::from(read_nil(&mut self.rest).ok()?),
            Marker::True | Marker::False => Value::from(read_bool(&mut self.rest).ok()?),
            Marker::U64 => Value::from(read_u64(&mut self.rest).ok()?),
            Marker::F32 => Value::from(read_f32(&mut self.rest).ok()?),
            Marker::F64 => Value::from(read_f64(&mut self.rest).ok()?),
            Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => {
                let bytes = read_str_len(&mut self.rest).ok()?;
                Value::from(std::str::from_utf8(self.take(bytes)?).ok()?)
            }
            Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => {
                let bytes = read_bin_len(&mut self.rest).ok()?;
                Value::from(BASE64.encode(self.take(bytes)?))
            }
            _ => Value::from(read_int::<i64, _>(&mut self.rest).ok()?),
        };
        self.json.push_str(&scalar.to_string());
        Some(())
    }

    fn peek(&self) -> Option<Marker> {
        self.rest.first().map(|&byte| Marker::from_u8(byte))
    }

    fn take(&mut self, bytes: u32) -> Option<&'f [u8]> {
        self.rest.split_off(..usize::try_from(bytes).ok()?)
    }
}
