//! How far the dialled endpoints are with the posted messages.

#[derive(Clone, Copy, Debug, Default)]
struct DialledReader {
    /// The number of the message that it is handed next, or less.
    next: u64,
    is_connected: bool,
}

#[derive(Debug, Default)]
pub(super) struct DialledReaders {
    readers: Vec<DialledReader>,
    /// Whether messages wait while none of them is connected.
    is_needed: bool,
    /// Posted messages below this number were handed to each endpoint that is to have them, as
    /// [`DialledReaders::find_handed`] has found it.
    pub(super) handed: u64,
}

impl DialledReaders {
    /// Returns so many endpoints, none of which is connected.
    pub(super) fn new(endpoints: usize, is_bound: bool) -> Self {
        let mut readers = Self {
            readers: vec![DialledReader::default(); endpoints],
            is_needed: !is_bound && endpoints > 0,
            handed: 0,
        };
        readers.find_handed();
        readers
    }

    /// Says whether an endpoint is connected. `next_number` is the number of the next message.
    pub(super) fn set_connected(&mut self, endpoint: usize, is_connected: bool, next_number: u64) {
        if let Some(reader) = self.readers.get_mut(endpoint) {
            reader.is_connected = is_connected;
            // What the endpoints that were connected have all been handed is of the past.
            reader.next = reader.next.max(self.handed.min(next_number));
        }
    }

    /// Returns the number of the message that an endpoint is handed next, or less, if it is connected.
    pub(super) fn next_mut(&mut self, endpoint: usize) -> Option<&mut u64> {
        let reader = self.readers.get_mut(endpoint).filter(|reader| reader.is_connected)?;
        Some(&mut reader.next)
    }

    /// Finds out which messages were handed over, after an endpoint was handed some, or its connection has changed.
    pub(super) fn find_handed(&mut self) {
        let connected = self.readers.iter().filter(|reader| reader.is_connected).map(|reader| reader.next);
        self.handed = match connected.min() {
            Some(slowest) => slowest,
            None if self.is_needed => self.readers.iter().map(|reader| reader.next).max().unwrap_or_default(),
            None => u64::MAX,
        };
    }
}
