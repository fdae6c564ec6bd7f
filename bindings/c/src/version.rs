//! The version of the library.

use std::ffi::c_char;

/// Version of the library, such as "0.1.0". It may be newer than the header.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
