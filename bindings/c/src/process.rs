//! Values of which each process has its own. A fork copies memory but no threads, and locks in whatever state they are.
//!
//! ```text
//! parent, generation 1      value ---> made 1
//!   fork
//! child, generation 2       value ---> made 1    at its next use:  value ---> made 2
//! ```
//!
//! A value of another process is leaked: it may be locked for ever, and its threads never end.
//!
//! Invariant: reading a value that exists costs three loads, and no writer shares their cache lines.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::thread;

use crate::failure::{Failure, Status};

/// How many forks lie between the first process and this one, plus 1.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// Runs in the child after a fork, and so may do only what is safe in a signal handler.
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Counts forks from now on. Must be called before the first [`PerProcess`] is made.
///
/// A second caller does not wait for the first: in a child that is forked meanwhile it would wait for ever.
pub(crate) fn count_forks() -> Result<(), Failure> {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if REGISTERED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    // SAFETY: the handler only adds to an atomic, and is never unloaded (build.rs).
    match unsafe { libc::pthread_atfork(None, None, Some(in_child)) } {
        0 => Ok(()),
        error => {
            REGISTERED.store(false, Ordering::Relaxed);
            Err(Failure::Other(Status::System, format!("pthread_atfork failed with error {error}")))
        }
    }
}

fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// A value that each process makes when it first needs it.
pub(crate) struct PerProcess<T> {
    /// Null, or from `Box::into_raw`. Freed on drop, by the process that made it.
    made: AtomicPtr<Made<T>>,
    /// The generation that makes the value or has made it: a lock that does not hold in a child.
    making: AtomicU64,
}

struct Made<T> {
    generation: u64,
    value: T,
}

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> PerProcess<T> {
        PerProcess { made: AtomicPtr::new(std::ptr::null_mut()), making: AtomicU64::new(0) }
    }

    #[inline]
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        let generation = generation();
        match self.present(generation) {
            Some(value) => value,
            None => self.make(generation, make),
        }
    }

    /// This process's value, if there is one.
    pub(crate) fn get(&self) -> Option<&T> {
        self.present(generation())
    }

    #[inline]
    fn present(&self, generation: u64) -> Option<&T> {
        // SAFETY: null, or a box that lives as long as `self`, as a box that is replaced is leaked.
        let made = unsafe { self.made.load(Ordering::Acquire).as_ref() }?;
        (made.generation == generation).then_some(&made.value)
    }

    #[cold]
    fn make(&self, generation: u64, make: impl FnOnce() -> T) -> &T {
        loop {
            let making = self.making.load(Ordering::Acquire);
            if let Some(value) = self.present(generation) {
                return value;
            }
            if making == generation {
                // Another thread of this process is making the value, and does not wait for this one.
                thread::yield_now();
            } else if self
                .making
                .compare_exchange(making, generation, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                break;
            }
        }
        let unlock = Unlock(&self.making);
        let made = Box::into_raw(Box::new(Made { generation, value: make() }));
        self.made.store(made, Ordering::Release);
        std::mem::forget(unlock);
        // SAFETY: the box was just made, and lives as long as `self`.
        unsafe { &(*made).value }
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        if self.get().is_some() {
            // SAFETY: from `Box::into_raw` in this process, and `&mut self` is the only reference.
            drop(unsafe { Box::from_raw(*self.made.get_mut()) });
        }
    }
}

/// Lets another thread make the value if `make` panics.
struct Unlock<'a>(&'a AtomicU64);

impl Drop for Unlock<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// One test, as the generation belongs to the whole process.
    #[test]
    fn each_process_makes_its_own_once_and_drops_no_other() {
        let value: PerProcess<Arc<()>> = PerProcess::new();
        let (parents, childs) = (Arc::new(()), Arc::new(()));
        catch_unwind(AssertUnwindSafe(|| value.get_or_make(|| panic!("no luck")))).unwrap_err();
        assert!(Arc::ptr_eq(value.get_or_make(|| Arc::clone(&parents)), &parents));
        assert!(Arc::ptr_eq(value.get_or_make(|| Arc::clone(&childs)), &parents), "made twice");
        in_child();
        assert!(value.get().is_none());
        let made = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let own = value.get_or_make(|| {
                        made.fetch_add(1, Ordering::Relaxed);
                        Arc::clone(&childs)
                    });
                    assert!(Arc::ptr_eq(own, &childs));
                });
            }
        });
        assert_eq!(made.load(Ordering::Relaxed), 1);
        in_child();
        drop(value);
        assert_eq!((Arc::strong_count(&parents), Arc::strong_count(&childs)), (2, 2), "dropped in a child");
    }
}
