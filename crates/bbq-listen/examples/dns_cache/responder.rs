//! From a query to its response: pure, no I/O.

use crate::table::{Answer, Table};
use crate::wire::{
    CLASS_ANY, CLASS_IN, HEADER_BYTES, NAME_BYTES_MAX, after_name, code, kind, number, plain_name,
};

/// A response by UDP has at most so many bytes, whatever the client offers: it fits into every path's packets
/// (DNS Flag Day 2020).
pub(crate) const UDP_BYTES_MAX: usize = 1232;
/// Without EDNS: RFC 1035, section 4.2.1.
const UDP_BYTES_PLAIN: usize = 512;
/// Records behind the question that are looked at; nobody sends more than two.
const RECORDS_MAX: u16 = 16;
/// Types of zone transfers, RFC 1995 and RFC 5936: not for everybody, so for nobody.
const TRANSFERS: [u16; 2] = [251, 252];

/// What carries the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// What is too long is left out and said to be.
    Datagram,
    /// Everything fits.
    Stream,
}

/// The first part of a query, checked.
struct Question<'a> {
    /// Name, type and class as they came, to be sent back.
    bytes: &'a [u8],
    name: &'a [u8],
    kind: u16,
    class: u16,
}

/// RFC 6891.
struct Edns {
    udp_bytes: usize,
    version: u8,
    dnssec_ok: bool,
}

/// Appends the response to `query` to `output`. False: it is no query, and nothing is appended.
pub(crate) fn respond(table: &Table, query: &[u8], carrier: Carrier, output: &mut Vec<u8>) -> bool {
    let is_response = query.get(2).is_none_or(|flags| flags & 0x80 != 0);
    if query.len() < HEADER_BYTES || is_response {
        return false;
    }
    if query[2] & 0x78 != 0 {
        write(query, None, None, &error(code::NOT_IMPLEMENTED), usize::MAX, output);
        return true;
    }
    let Some((question, edns)) = parse(query) else {
        write(query, None, None, &error(code::FORMAT_ERROR), usize::MAX, output);
        return true;
    };
    let limit = match (carrier, &edns) {
        (Carrier::Stream, _) => usize::from(u16::MAX),
        (Carrier::Datagram, None) => UDP_BYTES_PLAIN,
        (Carrier::Datagram, Some(edns)) => edns.udp_bytes.clamp(UDP_BYTES_PLAIN, UDP_BYTES_MAX),
    };
    let foreign = question.class != CLASS_IN && question.class != CLASS_ANY;
    if edns.as_ref().is_some_and(|edns| edns.version > 0) {
        write(query, Some(question.bytes), edns, &error(code::NO_ERROR), limit, output);
    } else if foreign || TRANSFERS.contains(&question.kind) {
        write(query, Some(question.bytes), edns, &error(code::REFUSED), limit, output);
    } else {
        let mut lower = [0; NAME_BYTES_MAX];
        let lower = &mut lower[..question.name.len()];
        lower.copy_from_slice(question.name);
        lower.make_ascii_lowercase(); // lengths of labels are at most 63, which is no letter
        let answer = table.answer(lower, question.kind);
        write(query, Some(question.bytes), edns, answer, limit, output);
    }
    true
}

fn error(code: u8) -> Answer {
    Answer { code, ..Answer::default() }
}

/// `None`: it cannot be read.
fn parse(query: &[u8]) -> Option<(Question<'_>, Option<Edns>)> {
    if number(query, 4)? != 1 {
        return None;
    }
    let name = plain_name(query, HEADER_BYTES)?;
    let mut at = HEADER_BYTES + name.len();
    let question = Question {
        bytes: query.get(HEADER_BYTES..at + 4)?,
        name,
        kind: number(query, at)?,
        class: number(query, at + 2)?,
    };
    at += 4;
    let before = number(query, 6)?.checked_add(number(query, 8)?)?;
    let records = before.checked_add(number(query, 10)?)?;
    if records > RECORDS_MAX {
        return None;
    }
    let mut edns = None;
    for index in 0..records {
        let fields = after_name(query, at)?;
        let end = fields + 10 + usize::from(number(query, fields + 8)?);
        if number(query, fields)? == kind::OPT && index >= before {
            let is_first_and_at_root = edns.is_none() && fields == at + 1;
            if !is_first_and_at_root {
                return None;
            }
            edns = Some(Edns {
                udp_bytes: usize::from(number(query, fields + 2)?),
                version: query[fields + 5],
                dnssec_ok: query[fields + 6] & 0x80 != 0,
            });
        }
        query.get(..end)?;
        at = end;
    }
    Some((question, edns))
}

fn write(
    query: &[u8],
    question: Option<&[u8]>,
    edns: Option<Edns>,
    answer: &Answer,
    limit: usize,
    output: &mut Vec<u8>,
) {
    let question_bytes = question.unwrap_or_default();
    let edns_bytes = if edns.is_some() { 11 } else { 0 };
    let cut = HEADER_BYTES + question_bytes.len() + answer.bytes.len() + edns_bytes > limit;
    let is_answered = matches!(answer.code, code::NO_ERROR | code::NO_SUCH_NAME);
    output.extend_from_slice(&query[..2]);
    // QR, the opcode and RD as they came, AA, TC; then CD as it came (RFC 4035, section 3.2.2), and no RA.
    let flags = 0x80 | (query[2] & 0x79) | u8::from(is_answered) << 2 | u8::from(cut) << 1;
    output.extend_from_slice(&[flags, (query[3] & 0x10) | answer.code]);
    let (answers, authorities) = if cut { (0, 0) } else { (answer.answers, answer.authorities) };
    for count in [u16::from(question.is_some()), answers, authorities, u16::from(edns.is_some())] {
        output.extend_from_slice(&count.to_be_bytes());
    }
    output.extend_from_slice(question_bytes);
    if !cut {
        output.extend_from_slice(&answer.bytes);
    }
    if let Some(edns) = edns {
        // The root, OPT, our size, the high bits of the code (16 is BADVERS), version 0, DO as it came, no options.
        let bad_version = u8::from(edns.version > 0);
        let [size_high, size_low] = (UDP_BYTES_MAX as u16).to_be_bytes();
        let dnssec_ok = u8::from(edns.dnssec_ok) << 7;
        output.extend_from_slice(&[
            0,
            0,
            kind::OPT as u8,
            size_high,
            size_low,
            bad_version,
            0,
            dnssec_ok,
            0,
            0,
            0,
        ]);
    }
}
