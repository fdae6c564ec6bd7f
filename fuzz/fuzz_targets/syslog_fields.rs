//! Any bytes are a syslog message: its fields stand in it, and sinks can show them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| bbq_format::fuzzing::syslog_shown(data));
