//! MessagePack to JSON text, for people to read. Any publisher may have sent the frames, and so they may hold any bytes.

#[cfg(test)]
mod tests;

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rmp::Marker;
use rmp::decode::{
    Bytes, ExtMeta, NumValueReadError, read_array_len, read_bin_len, read_ext_meta, read_f32, read_f64, read_int,
    read_map_len, read_str_len, read_u64,
};
use serde_json::Value;

/// Levels of maps and arrays in a frame that is shown. Python's `msgpack` writes at most 511.
const MAX_SHOWN_DEPTH: usize = 512;

/// Why a frame cannot be shown. Python's `msgpack.unpackb` refuses the same frames, except those that nest deeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFault {
    /// The frame ends inside a value.
    UnexpectedEnd,
    /// Something follows the value.
    ExpectedEnd,
    /// The one byte that begins no value, 0xc1.
    Reserved,
    /// A `str` that is not UTF-8.
    InvalidUtf8,
    /// A key that is an array, a map or an extension.
    KeyType,
    /// The frame has more levels than are read.
    TooDeep,
}

impl fmt::Display for FrameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnexpectedEnd => "unexpected end of the frame",
            Self::ExpectedEnd => "expected the end of the frame",
            Self::Reserved => "invalid byte 0xc1",
            Self::InvalidUtf8 => "invalid UTF-8",
            Self::KeyType => "a key is neither a string nor a number",
            Self::TooDeep => return write!(f, "nesting deeper than {MAX_SHOWN_DEPTH} levels"),
        })
    }
}

impl std::error::Error for FrameFault {}

/// Returns the one value of a MessagePack `frame` as JSON without white space.
///
/// Values that JSON lacks are shown and not refused: NaN and the infinities as `null`, binary data as a string in base64,
/// an extension, which a timestamp is too, as `{"ext":type,"data":"base64"}`, and a key that is a number, a boolean or
/// nil as the string of its JSON. A key that is given twice is shown twice.
///
/// # Errors
///
/// [`FrameFault`]. Time and memory are linear in the size of the frame, whatever lengths it states.
pub fn to_json(frame: &[u8]) -> Result<String, FrameFault> {
    let mut decoder = Decoder { rest: Bytes::new(frame), json: String::with_capacity(frame.len()) };
    decoder.value(MAX_SHOWN_DEPTH)?;
    if decoder.rest.remaining_slice().is_empty() { Ok(decoder.json) } else { Err(FrameFault::ExpectedEnd) }
}

struct Decoder<'f> {
    rest: Bytes<'f>,
    json: String,
}

impl<'f> Decoder<'f> {
    /// Reads a value that may nest by at most `levels` levels.
    fn value(&mut self, levels: usize) -> Result<(), FrameFault> {
        match self.peek()? {
            Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => self.array(levels),
            Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => self.map(levels),
            Marker::FixExt1
            | Marker::FixExt2
            | Marker::FixExt4
            | Marker::FixExt8
            | Marker::FixExt16
            | Marker::Ext8
            | Marker::Ext16
            | Marker::Ext32 => self.extension(),
            _ => {
                let scalar = self.scalar()?;
                self.write(scalar);
                Ok(())
            }
        }
    }

    fn array(&mut self, levels: usize) -> Result<(), FrameFault> {
        let levels = levels.checked_sub(1).ok_or(FrameFault::TooDeep)?;
        self.json.push('[');
        for index in 0..read_array_len(&mut self.rest).map_err(truncated)? {
            self.separate(index);
            self.value(levels)?;
        }
        self.json.push(']');
        Ok(())
    }

    fn map(&mut self, levels: usize) -> Result<(), FrameFault> {
        let levels = levels.checked_sub(1).ok_or(FrameFault::TooDeep)?;
        self.json.push('{');
        for index in 0..read_map_len(&mut self.rest).map_err(truncated)? {
            self.separate(index);
            let key = self.scalar()?;
            self.write(if key.is_string() { key } else { Value::from(key.to_string()) });
            self.json.push(':');
            self.value(levels)?;
        }
        self.json.push('}');
        Ok(())
    }

    fn extension(&mut self) -> Result<(), FrameFault> {
        let ExtMeta { typeid, size } = read_ext_meta(&mut self.rest).map_err(truncated)?;
        let data = BASE64.encode(self.take(size)?);
        self.json.push_str(&format!(r#"{{"ext":{typeid},"data":"{data}"}}"#));
        Ok(())
    }

    /// Reads a value that holds no other values, and so can be a key.
    fn scalar(&mut self) -> Result<Value, FrameFault> {
        let marker = self.peek()?;
        Ok(match marker {
            Marker::Null => self.skip(Value::Null)?,
            Marker::True => self.skip(Value::Bool(true))?,
            Marker::False => self.skip(Value::Bool(false))?,
            Marker::U64 => Value::from(read_u64(&mut self.rest).map_err(truncated)?),
            Marker::F32 => Value::from(read_f32(&mut self.rest).map_err(truncated)?),
            Marker::F64 => Value::from(read_f64(&mut self.rest).map_err(truncated)?),
            Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => self.text()?,
            Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => {
                let bytes = read_bin_len(&mut self.rest).map_err(truncated)?;
                Value::from(BASE64.encode(self.take(bytes)?))
            }
            Marker::Reserved => return Err(FrameFault::Reserved),
            _ => match read_int::<i64, _>(&mut self.rest) {
                Err(NumValueReadError::TypeMismatch(_)) => return Err(FrameFault::KeyType),
                integer => Value::from(integer.map_err(truncated)?),
            },
        })
    }

    fn text(&mut self) -> Result<Value, FrameFault> {
        let bytes = read_str_len(&mut self.rest).map_err(truncated)?;
        let text = std::str::from_utf8(self.take(bytes)?);
        text.map(Value::from).map_err(|_| FrameFault::InvalidUtf8)
    }

    fn peek(&self) -> Result<Marker, FrameFault> {
        let first = self.rest.remaining_slice().first();
        first.map(|&byte| Marker::from_u8(byte)).ok_or(FrameFault::UnexpectedEnd)
    }

    /// Passes over `value`, which is one byte.
    fn skip(&mut self, value: Value) -> Result<Value, FrameFault> {
        self.take(1).map(|_| value)
    }

    fn take(&mut self, bytes: u32) -> Result<&'f [u8], FrameFault> {
        let split = usize::try_from(bytes).ok().and_then(|bytes| self.rest.remaining_slice().split_at_checked(bytes));
        let (taken, rest) = split.ok_or(FrameFault::UnexpectedEnd)?;
        self.rest = Bytes::new(rest);
        Ok(taken)
    }

    #[expect(clippy::needless_pass_by_value, reason = "each value is made in order to be written")]
    fn write(&mut self, value: Value) {
        self.json.push_str(&value.to_string());
    }

    fn separate(&mut self, index: u32) {
        if index > 0 {
            self.json.push(',');
        }
    }
}

/// Returns the one fault that rmp can find in a value whose marker is known to fit.
fn truncated<E>(_: E) -> FrameFault {
    FrameFault::UnexpectedEnd
}
