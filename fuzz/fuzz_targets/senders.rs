//! Any bytes are a request of Loki, Elasticsearch, Splunk or Graylog, or are refused. What is taken is within the limits and can be answered.
//! The first byte chooses the protocol.
#![no_main]

use bbq_senders::elasticsearch::{BulkDefaults, bulk};
use bbq_senders::loki::{Encoding, decompressed, decompressed_bytes, push};
use bbq_senders::splunk::{Acks, Defaults};
use bbq_senders::{Limits, gelf, request, splunk};
use bbq_wire::batch::{BatchIdentity, BatchLimits, Events};
use bbq_wire::{Batch, BatchBuilder, Compression, Peer, SourceKind, StreamId};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { message_bytes_max: 256, bytes_max: 64 * 1024 };

fuzz_target!(|data: &[u8]| {
    let Some((protocol, body)) = data.split_first() else { return };
    match protocol % 8 {
        0 => taken(push(Encoding::Protobuf, body, None, LIMITS).ok().map(|push| push.events), body),
        1 => taken(push(Encoding::Json, body, Some("tenant"), LIMITS).ok().map(|push| push.events), body),
        2 => {
            if decompressed_bytes(body).is_ok_and(|bytes| bytes <= LIMITS.bytes_max) {
                let _text = decompressed(body);
            }
        }
        3 => {
            let defaults = BulkDefaults { index: Some("logs"), pipeline: None };
            let Ok(found) = bulk(body, defaults, LIMITS) else { return };
            let answer: serde_json::Value = match serde_json::from_slice(&found.taken(1).body) {
                Ok(answer) => answer,
                Err(error) => panic!("the answer is no JSON: {error}"),
            };
            let items = answer["items"].as_array().map_or(0, Vec::len);
            let (too_long, wrong) = found.refused();
            assert_eq!(items as u64, found.events.len() as u64 + too_long + wrong);
            // A document stands in the request as it is stored.
            for event in found.events.iter() {
                assert!(body.windows(event.message.len()).any(|part| part == event.message));
            }
            taken(Some(found.events), body);
        }
        4 => taken(splunk::events(body, &Defaults::default(), LIMITS).ok(), body),
        5 => taken(splunk::raw(body, &Defaults::of_query(&String::from_utf8_lossy(body)), LIMITS).ok(), body),
        6 => taken(gelf::messages(body, LIMITS).ok(), body),
        _ => {
            let _answer = Acks::new().answer(body, 1);
            let text = String::from_utf8_lossy(body);
            let _channel = splunk::channel(Some(&text), None, true);
            for method in ["GET", "POST", "DELETE"] {
                let _request = request(method, &text);
            }
        }
    }
});

/// What is taken fits into a batch, and comes out of it.
fn taken(events: Option<Events>, body: &[u8]) {
    let Some(events) = events else { return };
    assert!(events.body_bytes_max() <= LIMITS.bytes_max + 256 * 1024);
    assert!(events.iter().all(|event| event.message.len() <= LIMITS.message_bytes_max));
    assert!(events.len() <= body.len());
    let mut builder = BatchBuilder::new();
    events.iter().for_each(|event| event.push_to(&mut builder, Peer::Unnamed));
    let identity = BatchIdentity {
        stream: StreamId([1; 16]),
        first_sequence: 1,
        base_time_ns: 0,
        source: SourceKind::Http,
        compression: Compression::None,
    };
    let Some(bytes) = builder.finish(&identity).map(<[u8]>::to_vec) else { return };
    let mut scratch = Vec::new();
    let batch = match Batch::verify(&bytes, BatchLimits::FORMAT, &mut scratch) {
        Ok(batch) => batch,
        Err(error) => panic!("the batch is wrong: {error}"),
    };
    assert!(batch.records().eq(events.iter().map(|event| event.message)));
    assert!(events.body_bytes_max() + 1024 >= bytes.len());
}
