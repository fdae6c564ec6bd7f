//! Requests that come again, as their sender had no answer.
//!
//! Loki drops a line that it has with the same time and the same labels, and Elasticsearch creates one document of each
//! `_id`. So for their senders an equal request is a repeat, and is stored once: its digest is a stream, in which its messages are numbered.

use bbq_stored::stream_of_request;
use bbq_wire::StreamId;
use ring::digest::{Context, SHA256};

/// So that no other digest of the same bytes is the same.
const DOMAIN: &[u8] = b"bbq: a request that may come again";

/// The stream of a request, by its body and by what else says what its messages become and whose they are.
pub(super) fn stream(parts: &[&[u8]], body: &[u8]) -> StreamId {
    let mut digest = Context::new(&SHA256);
    for part in [DOMAIN].iter().chain(parts).chain(&[body]) {
        // With their lengths, no two lists of parts are the same bytes.
        digest.update(&(part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    stream_of_request(digest.finish().as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_part_or_body_is_another_request() {
        let all = [
            stream(&[b"loki", b"a"], b"body"),
            stream(&[b"loki", b"b"], b"body"),
            stream(&[b"loki", b"a"], b"bodz"),
            stream(&[b"lokia", b""], b"body"),
            stream(&[b"loki"], b"abody"),
        ];
        for (place, one) in all.iter().enumerate() {
            assert!(all[place + 1..].iter().all(|other| other != one));
        }
        assert_eq!(stream(&[b"loki", b"a"], b"body"), all[0]);
    }
}
