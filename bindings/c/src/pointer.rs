//! What C passes by pointer, checked for null and for UTF-8. A failure names the argument.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::failure::Failure;

/// The failure of an argument that is null.
pub(crate) fn null(name: &str) -> impl FnOnce() -> Failure {
    move || Failure::argument(format!("{name} is a null pointer"))
}

/// # Safety
/// Null, or a string that ends with a zero byte and does not change while the result lives.
unsafe fn string<'a>(pointer: *const c_char, name: &str) -> Result<&'a CStr, Failure> {
    if pointer.is_null() {
        return Err(null(name)());
    }
    // SAFETY: the pointer is not null, and the rest is this function's contract.
    Ok(unsafe { CStr::from_ptr(pointer) })
}

/// # Safety
/// As [`string`].
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Failure> {
    // SAFETY: this function has the same contract.
    let string = unsafe { string(pointer, name) }?;
    string
        .to_str()
        .map_err(|_| Failure::argument(format!("{name} is not UTF-8: \"{}\"", string.to_string_lossy())))
}

/// # Safety
/// As [`string`].
pub(crate) unsafe fn path<'a>(pointer: *const c_char, name: &str) -> Result<&'a Path, Failure> {
    // SAFETY: this function has the same contract.
    let string = unsafe { string(pointer, name) }?;
    Ok(Path::new(OsStr::from_bytes(string.to_bytes())))
}

/// # Safety
/// `length` readable bytes that do not change while the result lives; any pointer if `length` is 0.
#[inline]
pub(crate) unsafe fn bytes<'a>(pointer: *const u8, length: usize, name: &str) -> Result<&'a [u8], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(null(name)());
    }
    if isize::try_from(length).is_err() {
        return Err(Failure::argument(format!("{length} bytes of {name} are more than there can be")));
    }
    // SAFETY: the pointer is not null, the length is at most isize::MAX, and the rest is this function's contract.
    Ok(unsafe { std::slice::from_raw_parts(pointer, length) })
}
