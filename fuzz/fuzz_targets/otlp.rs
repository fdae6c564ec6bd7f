//! Any bytes are a request of OTLP logs, or are none. Its records are requests of one log record each, which stay the same when they are
//! joined or cut again, and sinks can show them. A request in JSON becomes one in Protocol Buffers. The first byte is the limit of a record.
#![no_main]

use bbq_format::fuzzing::otlp_shown;
use bbq_format::otlp::from_json;
use bbq_wire::otlp::{SplitError, SplitLimits, body, is_record, join, records, split};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((limit, request)) = data.split_first() else { return };
    let limits = SplitLimits { record_bytes_max: usize::from(*limit) * 16, bytes_max: 1 << 20 };
    check(request, limits);
    // What is no record is shown, too: a sender of batches may call anything one.
    otlp_shown(request);
    if let Ok(converted) = from_json(request) {
        let request = converted.request;
        let malformed = matches!(split(&request, limits, &mut Vec::new()), Err(SplitError::Malformed(_)));
        assert!(!malformed, "{request:?}");
        check(&request, limits);
    }
});

fn check(request: &[u8], limits: SplitLimits) {
    let mut out = Vec::new();
    let Ok(found) = split(request, limits, &mut out) else { return };
    assert_eq!(records(&out).count(), found.records as usize);
    assert_eq!(records(&out).map(<[u8]>::len).sum::<usize>(), out.len());
    let mut joined = Vec::new();
    assert_eq!(split(&join(&out), limits, &mut joined).map(|split| split.records), Ok(found.records));
    assert_eq!(joined, out);
    for record in records(&out) {
        assert!(record.len() <= limits.record_bytes_max);
        let mut again = Vec::new();
        assert_eq!(split(record, limits, &mut again).map(|split| split.records), Ok(1));
        assert_eq!(again, record);
        assert!(is_record(record) && body(record).is_ok(), "{record:?}");
        assert!(otlp_shown(record), "what is checked can be decoded: {record:?}");
    }
}
