//! Any text is a file of tokens, or is none. A file admits its own tokens, and no error shows one.
#![no_main]

use bbq_intake::fuzzing::tokens;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| tokens(text));
