//! The boundary between C and Rust: every call from C goes through here, and no panic crosses it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::failure::{Failure, Status, remember};

/// Runs a call that returns a status. After a panic only atomics are shared, and locks that bbq-client takes even if they are poisoned.
#[inline]
pub(crate) fn status(call: impl FnOnce() -> Result<(), Failure>) -> Status {
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => return Status::Ok,
        Ok(Err(failure)) => failure,
        Err(payload) => panicked(&*payload),
    };
    let status = failure.status();
    remember(failure);
    status
}

/// Runs a call that cannot fail; returns `otherwise` if it panics.
pub(crate) fn value<T>(otherwise: T, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| {
        remember(panicked(&*payload));
        otherwise
    })
}

fn panicked(payload: &(dyn Any + Send)) -> Failure {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic");
    Failure::Other(Status::Internal, format!("a bug in libbbq: {text}"))
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;
    use crate::failure::bbq_last_error;

    #[test]
    fn a_panic_becomes_a_status_and_a_text() {
        assert_eq!(status(|| panic!("so many {}", 7)), Status::Internal);
        // SAFETY: the text of this thread is valid until its next call.
        let text = unsafe { CStr::from_ptr(bbq_last_error()) };
        assert_eq!(text.to_str(), Ok("a bug in libbbq: so many 7"));
        assert_eq!(value(3, || panic!("again")), 3);
    }
}
