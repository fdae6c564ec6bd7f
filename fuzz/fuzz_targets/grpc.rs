//! Any body of a gRPC request has one message, or is refused.
#![no_main]

use bbq_intake::fuzzing::grpc_prefix;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    grpc_prefix(data);
});
