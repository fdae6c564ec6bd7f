//! Requests that come again, as their sender had no answer.
//!
//! Loki drops a line that it has with the same time and the same labels, Elasticsearch creates one document of each `_id`, and clients of
//! Fluentd's protocol name a chunk. So for these senders an equal request is a repeat, and is stored once: its digest is a stream, in which
//! its messages are numbered.

use bbq_rules::Rules;
use bbq_stored::stream_of_request;
use bbq_wire::StreamId;
use bbq_wire::framing::OnOversize;
use ring::digest::{Context, Digest, SHA256};

use crate::listen::ListenSpec;

/// So that no other digest of the same bytes is the same.
const DOMAIN: &[u8] = b"bbq: a request that may come again";

/// The stream of a request, by whose it is and what says which messages it becomes. `None` if the rules of the listener leave messages out or
/// change them, as then they have no numbers of their sender.
///
/// At another listener an equal request is another one. So it is under another limit: which messages are too long decides which ones are
/// numbered.
pub(crate) fn stream(listener: &ListenSpec, whose: &str, request: &[&[u8]]) -> Option<StreamId> {
    if listener.filter.as_ref().is_some_and(Rules::acts) {
        return None;
    }
    let cuts = listener.rules.on_oversize == OnOversize::Cut;
    let bytes_max = listener.rules.message_bytes_max.to_le_bytes();
    let here: [&[u8]; 4] = [listener.source.as_bytes(), whose.as_bytes(), &bytes_max, &[u8::from(cuts)]];
    Some(stream_of_request(digest(here.iter().chain(request)).as_ref()))
}

fn digest<'a>(parts: impl Iterator<Item = &'a &'a [u8]>) -> Digest {
    let mut digest = Context::new(&SHA256);
    for part in [DOMAIN].iter().chain(parts) {
        // With their lengths, no two lists of parts are the same bytes.
        digest.update(&(part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(listener: &str, whose: &str, request: &[&[u8]]) -> StreamId {
        stream(&ListenSpec::parse(listener).unwrap(), whose, request).unwrap()
    }

    #[test]
    fn another_sender_listener_limit_or_part_is_another_request() {
        const LISTENER: &str = "fluent+tcp://127.0.0.1:1";
        let all = [
            at(LISTENER, "a", &[b"loki", b"body"]),
            at(LISTENER, "b", &[b"loki", b"body"]),
            at(LISTENER, "a", &[b"loki", b"bodz"]),
            at(LISTENER, "a", &[b"lokib", b"ody"]),
            at(LISTENER, "a", &[b"lokibody"]),
            at("fluent+tcp://127.0.0.1:2", "a", &[b"loki", b"body"]),
            at("fluent+tcp://127.0.0.1:1?message_bytes_max=100", "a", &[b"loki", b"body"]),
            at("fluent+tcp://127.0.0.1:1?on_oversize=cut", "a", &[b"loki", b"body"]),
        ];
        for (place, one) in all.iter().enumerate() {
            assert!(all[place + 1..].iter().all(|other| other != one), "{place}");
        }
        // What a server has stored, its successor knows.
        assert_eq!(all[0].0[4..8], [0x3b, 0x22, 0xe0, 0xb6]);
    }

    #[test]
    fn rules_that_leave_messages_out_give_no_numbers() {
        let listener = ListenSpec::parse("fluent+tcp://127.0.0.1:1?sample=0.5").unwrap();
        assert_eq!(stream(&listener, "a", &[b"body"]), None);
    }
}
