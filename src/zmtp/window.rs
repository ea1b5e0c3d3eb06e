//! The bytes of one read, changed in place.

/// What happens to the next bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// So many pass.
    Pass(u64),
    /// So many are dropped.
    Drop(u64),
    /// They cannot be judged before more bytes arrive.
    Wait,
}

impl Step {
    /// Returns whether some of the bytes that it is about have not arrived yet.
    pub(super) fn is_unfinished(self) -> bool {
        matches!(self, Self::Pass(1..) | Self::Drop(1..))
    }
}

/// A buffer whose bytes are read from its beginning on, and either kept or removed.
///
/// The kept bytes move to the front, so a window from which nothing is removed copies nothing.
pub(super) struct Window<'b> {
    buffer: &'b mut [u8],
    /// Where the bytes end that have arrived. What is behind is room.
    end: usize,
    read: usize,
    kept: usize,
}

impl<'b> Window<'b> {
    /// Creates a window over the first `arrived` bytes of `buffer`, which the buffer has.
    pub(super) fn new(buffer: &'b mut [u8], arrived: usize) -> Self {
        debug_assert!(arrived <= buffer.len(), "{arrived} bytes in a buffer of {}", buffer.len());
        Self { end: arrived.min(buffer.len()), buffer, read: 0, kept: 0 }
    }

    /// Returns the bytes that were not read yet.
    pub(super) fn unread(&self) -> &[u8] {
        self.buffer.get(self.read..self.end).unwrap_or_default()
    }

    /// Returns how many bytes were kept. They are the first ones of the buffer.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// Follows `step` as far as the bytes reach. Returns what remains of it.
    pub(super) fn advance(&mut self, step: Step) -> Step {
        let available = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX).min(self.unread().len());
        match step {
            Step::Pass(bytes) => {
                let taken = available(bytes);
                self.keep(taken);
                Step::Pass(bytes - taken as u64)
            }
            Step::Drop(bytes) => {
                let taken = available(bytes);
                self.read += taken;
                Step::Drop(bytes - taken as u64)
            }
            Step::Wait => Step::Wait,
        }
    }

    /// Replaces the next unread bytes by these, and keeps them.
    pub(super) fn replace(&mut self, bytes: &[u8]) {
        let Some(place) = self.buffer.get_mut(self.read..).and_then(|unread| unread.get_mut(..bytes.len())) else {
            debug_assert!(false, "only bytes that have arrived are replaced");
            return;
        };
        place.copy_from_slice(bytes);
        self.keep(bytes.len());
    }

    /// Inserts bytes behind the first `behind` unread ones, where the buffer has room.
    pub(super) fn insert(&mut self, behind: usize, bytes: &[u8]) {
        let (at, end) = (self.read + behind, self.end + bytes.len());
        let is_within = at <= self.end && end <= self.buffer.len();
        debug_assert!(is_within, "the caller leaves room for what is inserted");
        if is_within {
            self.buffer.copy_within(at..self.end, at + bytes.len());
            self.buffer.iter_mut().skip(at).zip(bytes).for_each(|(place, byte)| *place = *byte);
            self.end = end;
        }
    }

    /// Exchanges the first `first` unread bytes and the `second` ones behind them.
    pub(super) fn exchange(&mut self, first: usize, second: usize) {
        let unread = self.buffer.get_mut(self.read..self.end).unwrap_or_default();
        match unread.get_mut(..first + second) {
            Some(both) => both.rotate_left(first),
            None => debug_assert!(false, "only bytes that have arrived are exchanged"),
        }
    }

    /// Keeps so many unread bytes, which have arrived.
    fn keep(&mut self, bytes: usize) {
        let end = self.read + bytes;
        if self.kept != self.read {
            self.buffer.copy_within(self.read..end, self.kept);
        }
        self.read = end;
        self.kept += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_removed_replaced_and_exchanged_in_place() {
        let mut buffer = *b"abcdefghij";
        let mut window = Window::new(&mut buffer, 10);
        assert_eq!(window.advance(Step::Pass(2)), Step::Pass(0));
        assert_eq!(window.advance(Step::Drop(1)), Step::Drop(0));
        window.replace(b"D");
        window.exchange(2, 3);
        assert_eq!(window.unread(), b"ghiefj");
        assert_eq!(window.advance(Step::Pass(3)), Step::Pass(0));
        assert_eq!(window.advance(Step::Drop(5)), Step::Drop(2));
        assert_eq!((window.kept(), window.unread()), (6, &b""[..]));
        assert_eq!(&buffer[..6], b"abDghi");
    }

    #[test]
    fn bytes_are_inserted_where_there_is_room() {
        let mut buffer = *b"abcdef__";
        let mut window = Window::new(&mut buffer, 6);
        assert_eq!(window.advance(Step::Drop(1)), Step::Drop(0));
        window.insert(2, b"XY");
        assert_eq!(window.unread(), b"bcXYdef");
        assert_eq!(window.advance(Step::Pass(9)), Step::Pass(2));
        assert_eq!((window.kept(), &buffer[..7]), (7, &b"bcXYdef"[..]));
    }
}
