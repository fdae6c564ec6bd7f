//! The master of a family on a tokio runtime, beside whatever else it waits for, such as signals.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bbq_listen::for_prefork::register_readable;
use tokio::io::unix::AsyncFd;

use crate::family::{Family, FamilyEvent};

/// A [`Family`] whose master runs in a `current_thread` runtime: any other has threads, and then no child can be started.
#[derive(Debug)]
pub struct AsyncFamily<'a> {
    // Dropped first: it waits for the family's descriptor.
    registration: AsyncFd<Arc<OwnedFd>>,
    family: Family<'a>,
    /// The last turn had something to do: others run before the next one.
    yields: bool,
}

impl<'a> AsyncFamily<'a> {
    /// Registers the master with the current runtime.
    pub fn new(family: Family<'a>) -> io::Result<Self> {
        Ok(Self { registration: register_readable(family.descriptor())?, family, yields: false })
    }

    /// Waits until there is something to do, does a bounded part of it, and says what happened. Call it in a loop until the
    /// family has ended. Dropping the future before it is ready loses nothing.
    ///
    /// # Errors
    /// As of [`Family::turn`].
    pub async fn turn(&mut self, f: impl FnMut(FamilyEvent)) -> io::Result<()> {
        if self.yields {
            tokio::task::yield_now().await;
            self.yields = false;
        }
        let mut ready = self.registration.readable().await?;
        if self.family.turn(f)? {
            self.yields = true;
        } else {
            ready.clear_ready();
        }
        Ok(())
    }
}

impl<'a> Deref for AsyncFamily<'a> {
    type Target = Family<'a>;

    fn deref(&self) -> &Family<'a> {
        &self.family
    }
}

impl DerefMut for AsyncFamily<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.family
    }
}
