//! Any two headers number the messages of a request, or do not; what numbers them is read again as the same. The first byte is where
//! the second one begins.
#![no_main]

use bbq_intake::fuzzing::numbered;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [at, bytes @ ..] = data else { return };
    let (stream, sequence) = bytes.split_at(usize::from(*at).min(bytes.len()));
    if let Some((stream, first)) = numbered(stream, sequence) {
        assert!(first > 0 && stream.len() == 32);
        assert_eq!(numbered(stream.as_bytes(), first.to_string().as_bytes()), Some((stream, first)));
    }
});
