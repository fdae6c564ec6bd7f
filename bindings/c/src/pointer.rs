//! What C passes by pointer, checked for null and for UTF-8, with the name of the argument in the failure.

use std::ffi::{CStr, c_char};

use crate::failure::Failure;

/// # Safety
/// Null, or valid for reads as long as the answer lives.
pub(crate) unsafe fn shared<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise is this function's.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// # Safety
/// Null, or valid for reads and writes by nobody else as long as the answer lives.
pub(crate) unsafe fn unique<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise is this function's.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(name))
}

/// # Safety
/// Null, or a string that ends with a zero byte and stays as it is as long as the answer lives.
pub(crate) unsafe fn string<'a>(pointer: *const c_char, name: &str) -> Result<&'a CStr, Failure> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: not null, and the rest is the caller's promise.
    Ok(unsafe { CStr::from_ptr(pointer) })
}

/// # Safety
/// As [`string`].
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Failure> {
    // SAFETY: the caller's promise is this function's.
    let string = unsafe { string(pointer, name) }?;
    string
        .to_str()
        .map_err(|_| Failure::argument(format!("{name} is not UTF-8: \"{}\"", string.to_string_lossy())))
}

/// # Safety
/// `length` readable bytes that stay as they are as long as the answer lives; with none, any pointer.
#[inline]
pub(crate) unsafe fn bytes<'a>(pointer: *const u8, length: usize, name: &str) -> Result<&'a [u8], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(null(name));
    }
    if isize::try_from(length).is_err() {
        return Err(Failure::argument(format!("{length} bytes of {name} are more than there can be")));
    }
    // SAFETY: not null, not over isize::MAX, and the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(pointer, length) })
}

fn null(name: &str) -> Failure {
    Failure::argument(format!("{name} is a null pointer"))
}
