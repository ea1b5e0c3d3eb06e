//! Where the records of the peer end (RFC 8446 §5.1, RFC 5246 §6.2.1): rustls keeps an unfinished one to itself, and it
//! may hold the beginning of a request.

/// ```text
/// struct { ContentType type; ProtocolVersion legacy_record_version; uint16 length; opaque fragment[length]; }
/// ```
const HEADER_BYTES: usize = 5;

/// `ContentType` of what the peer has to say, and, once TLS 1.3 encrypts, of anything (RFC 8446 §5.2).
const APPLICATION_DATA: u8 = 23;

/// Follows the records of one side.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// Of the record that is coming, as far as it has come.
    header: [u8; HEADER_BYTES],
    /// How many bytes of that record have come; 0 between two.
    come: usize,
}

impl Records {
    /// Takes in what has come, all of it.
    pub(super) fn follow(&mut self, mut bytes: &[u8]) {
        while let Some((first, behind_it)) = bytes.split_first() {
            bytes = match self.header.get_mut(self.come) {
                Some(next) => {
                    *next = *first;
                    self.come += 1;
                    behind_it
                }
                None => {
                    let here = bytes.len().min(self.whole() - self.come);
                    self.come += here;
                    bytes.get(here..).unwrap_or_default()
                }
            };
            if self.come >= HEADER_BYTES && self.come == self.whole() {
                self.come = 0;
            }
        }
    }

    /// Whether application data, or what looks the same, has begun to come and is not all there.
    pub(super) fn in_application_data(&self) -> bool {
        let [content_type, ..] = self.header;
        self.come > 0 && content_type == APPLICATION_DATA
    }

    /// The length of the record, once its header is there.
    fn whole(&self) -> usize {
        let [.., high, low] = self.header;
        HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(content_type: u8, fragment: &[u8]) -> Vec<u8> {
        let [high, low] = u16::try_from(fragment.len()).unwrap().to_be_bytes();
        [&[content_type, 3, 3, high, low], fragment].concat()
    }

    #[test]
    fn a_record_is_unfinished_from_its_first_byte_to_its_last() {
        let bytes = [record(23, b"abc"), record(23, b""), record(23, &[0; 300])].concat();
        let ends = [0, 8, 13, bytes.len()];
        for middle in 0..=bytes.len() {
            for end in middle..=bytes.len() {
                let mut records = Records::default();
                records.follow(&bytes[..middle]);
                assert_eq!(records.in_application_data(), !ends.contains(&middle), "{middle}");
                records.follow(&bytes[middle..end]);
                assert_eq!(records.in_application_data(), !ends.contains(&end), "{middle} {end}");
            }
        }
    }

    #[test]
    fn other_records_are_no_data() {
        let mut records = Records::default();
        records.follow(&record(22, b"hello")[..9]);
        assert!(!records.in_application_data());
        records.follow(b"o\x17");
        assert!(records.in_application_data());
    }
}
