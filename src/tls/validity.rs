//! From when to when a certificate is valid (RFC 5280 §4.1.2.5).

use std::ops::RangeInclusive;
use std::time::SystemTime;

use yasna::tags::{TAG_GENERALIZEDTIME, TAG_UTCTIME};
use yasna::{ASN1Error, ASN1ErrorKind, ASN1Result, BERReader, BERReaderSeq, Tag};

/// The first and the last second at which a certificate is valid. `None` where `der` is no certificate.
pub(super) fn validity(der: &[u8]) -> Option<RangeInclusive<SystemTime>> {
    yasna::parse_der(der, |certificate| certificate.read_sequence(|parts| first_then_skip(parts, to_be_signed))).ok()
}

/// ```text
/// TBSCertificate ::= SEQUENCE {
///     version [0] EXPLICIT INTEGER DEFAULT v1, serialNumber INTEGER, signature SEQUENCE, issuer SEQUENCE,
///     validity SEQUENCE { notBefore Time, notAfter Time }, ... }
/// ```
fn to_be_signed(reader: BERReader<'_, '_>) -> ASN1Result<RangeInclusive<SystemTime>> {
    reader.read_sequence(|fields| {
        fields.read_optional(|version| version.read_tagged(Tag::context(0), |number| number.read_i64()))?;
        for _serial_signature_issuer in 0..3 {
            fields.next().read_der()?;
        }
        first_then_skip(fields, |validity| validity.read_sequence(|ends| Ok(time(ends.next())?..=time(ends.next())?)))
    })
}

/// The next element as `read` has it; yasna insists that those after it are read too.
fn first_then_skip<T>(
    elements: &mut BERReaderSeq<'_, '_>,
    read: impl FnOnce(BERReader<'_, '_>) -> ASN1Result<T>,
) -> ASN1Result<T> {
    let first = read(elements.next())?;
    while elements.read_optional(|element| element.read_der())?.is_some() {}
    Ok(first)
}

/// `Time ::= CHOICE { UTCTime, GeneralizedTime }`.
fn time(reader: BERReader<'_, '_>) -> ASN1Result<SystemTime> {
    match reader.lookahead_tag()? {
        TAG_UTCTIME => reader.read_utctime().map(|time| (*time.datetime()).into()),
        TAG_GENERALIZEDTIME => reader.read_generalized_time().map(|time| (*time.datetime()).into()),
        _ => Err(ASN1Error::new(ASN1ErrorKind::Invalid)),
    }
}
