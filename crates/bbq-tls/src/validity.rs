//! When the validity of a certificate ends. rustls does not tell this about a server's own certificate.
//!
//! ```text
//! Certificate ::= SEQUENCE { tbsCertificate SEQUENCE { [0] version OPTIONAL, serialNumber INTEGER, signature SEQUENCE,
//!                            issuer SEQUENCE, validity SEQUENCE { notBefore Time, notAfter Time }, ...        (RFC 5280, 4.1)
//! ```

use chrono::NaiveDate;

const SEQUENCE: u8 = 0x30;
const EXPLICIT_VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Returns the last second of a certificate's validity, in Unix time; `None` if it cannot be read.
pub(crate) fn not_after(certificate: &[u8]) -> Option<i64> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (mut rest, _) = element(certificate, SEQUENCE)?;
    if rest.first() == Some(&EXPLICIT_VERSION) {
        rest = any_element(rest)?.2;
    }
    // Serial number, signature algorithm and issuer.
    for _ in 0..3 {
        rest = any_element(rest)?.2;
    }
    let (validity, _) = element(rest, SEQUENCE)?;
    let (_, _, validity) = any_element(validity)?;
    let (tag, time, _) = any_element(validity)?;
    unix_seconds(tag, std::str::from_utf8(time).ok()?)
}

fn unix_seconds(tag: u8, text: &str) -> Option<i64> {
    let year_digits = match tag {
        UTC_TIME => 2,
        GENERALIZED_TIME => 4,
        _ => return None,
    };
    let (year, rest) = text.strip_suffix('Z')?.split_at_checked(year_digits)?;
    let year: i32 = year.parse().ok()?;
    let year = match year_digits {
        4 => year,
        _ if year >= 50 => 1900 + year,
        _ => 2000 + year,
    };
    let part = |place: usize| rest.get(2 * place..2 * place + 2)?.parse::<u32>().ok();
    let day = NaiveDate::from_ymd_opt(year, part(0)?, part(1)?)?;
    Some(day.and_hms_opt(part(2)?, part(3)?, part(4)?)?.and_utc().timestamp())
}

/// The content of an element with this tag, and what follows the element.
fn element(bytes: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = any_element(bytes)?;
    (tag == wanted).then_some((content, rest))
}

/// Tag, content, and what follows the element.
fn any_element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        // No certificate needs a length of more than four bytes.
        if length.len() > 4 {
            return None;
        }
        (length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_read_in_both_forms() {
        for (year, month, seconds) in [(2031, 5, 1_935_360_000), (2055, 12, 2_711_232_000)] {
            let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            parameters.not_after = rcgen::date_time_ymd(year, month, 1);
            let key = rcgen::KeyPair::generate().unwrap();
            let certificate = parameters.self_signed(&key).unwrap();
            assert_eq!(not_after(certificate.der()), Some(seconds), "{year}");
            for cut in 0..certificate.der().len() {
                let _no_panic = not_after(&certificate.der()[..cut]);
            }
        }
    }
}
