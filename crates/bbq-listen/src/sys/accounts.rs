//! The numbers of users and groups by their names: getpwnam_r(3) and getgrnam_r(3), so that every source of names is asked that
//! nsswitch.conf(5) lists, not only /etc/passwd and /etc/group.

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// The first size of the buffer for an entry. It is enough for all but groups with many members.
const ENTRY_BYTES: usize = 1024;
/// The largest buffer: a group with tens of thousands of members.
const ENTRY_BYTES_MAX: usize = 1024 * 1024;

/// The number of a user; `None` if no user has this name.
pub(crate) fn user_number(name: &str) -> io::Result<Option<u32>> {
    lookup(name, |name, buffer| {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found = ptr::null_mut();
        // SAFETY: `name` ends with a zero byte; `entry`, `buffer` and `found` are writable for their whole sizes and outlive the
        // call.
        let code = unsafe {
            libc::getpwnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr(),
                buffer.len(),
                &raw mut found,
            )
        };
        // SAFETY: a pointer that is not null is that of `entry`, which the call has filled.
        let number = (!found.is_null()).then(|| unsafe { (*found).pw_uid });
        (code, number)
    })
}

/// The number of a group; `None` if no group has this name.
pub(crate) fn group_number(name: &str) -> io::Result<Option<u32>> {
    lookup(name, |name, buffer| {
        let mut entry = MaybeUninit::<libc::group>::uninit();
        let mut found = ptr::null_mut();
        // SAFETY: as in `user_number`.
        let code = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr(),
                buffer.len(),
                &raw mut found,
            )
        };
        // SAFETY: as in `user_number`.
        let number = (!found.is_null()).then(|| unsafe { (*found).gr_gid });
        (code, number)
    })
}

/// Calls `ask` with a larger buffer for as long as it says that the buffer is too small.
fn lookup(
    name: &str,
    mut ask: impl FnMut(&CStr, &mut [c_char]) -> (libc::c_int, Option<u32>),
) -> io::Result<Option<u32>> {
    let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut bytes = ENTRY_BYTES;
    loop {
        match ask(&name, &mut vec![0; bytes]) {
            (0, number) => return Ok(number),
            (libc::EINTR, _) => {}
            (libc::ERANGE, _) if bytes < ENTRY_BYTES_MAX => bytes *= 2,
            // What "not found" is on some systems: getpwnam_r(3), "RETURN VALUE".
            (libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM, _) => return Ok(None),
            (code, _) => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_numbers_and_unknown_names_have_none() {
        assert_eq!((user_number("root").unwrap(), group_number("root").unwrap()), (Some(0), Some(0)));
        assert_eq!(
            (user_number("no-such-user").unwrap(), group_number("no-such-group").unwrap()),
            (None, None)
        );
        assert_eq!(user_number("ro\0ot").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
