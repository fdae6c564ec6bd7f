//! The master of a pool on a tokio runtime, beside whatever else it waits for, such as signals.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bbq_listen::for_prefork::register_readable;
use tokio::io::unix::AsyncFd;

use crate::event::PoolEvent;
use crate::pool::PreforkPool;

/// A [`PreforkPool`] whose master runs in a `current_thread` runtime: with threads no child can be started.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_prefork::{AsyncPreforkPool, Outcome, PreforkPool};
///
/// let group = bbq_listen::Group::at("127.0.0.1:8080")?.workers(4).open()?;
/// let pool = PreforkPool::start(&group, |child| child.serve(|_connection| Outcome::Close))?;
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// runtime.block_on(async {
///     let mut pool = AsyncPreforkPool::new(pool)?;
///     while !pool.has_ended() {
///         pool.handle_events(|event| eprintln!("{event:?}")).await?;
///     }
///     std::io::Result::Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncPreforkPool<'a> {
    // Dropped first: it registers the pool's descriptor.
    registration: AsyncFd<Arc<OwnedFd>>,
    pool: PreforkPool<'a>,
    /// The last call had events, so other tasks run before the next one.
    yields: bool,
}

impl<'a> AsyncPreforkPool<'a> {
    /// Registers the master with the current runtime.
    pub fn new(pool: PreforkPool<'a>) -> io::Result<Self> {
        Ok(Self { registration: register_readable(pool.descriptor())?, pool, yields: false })
    }

    /// Waits for events, handles a bounded number of them, and calls `f` for each change of a worker. Call it in a loop until the
    /// pool has ended. The future can be dropped at any time.
    ///
    /// # Errors
    /// As of [`PreforkPool::handle_events`].
    pub async fn handle_events(&mut self, f: impl FnMut(PoolEvent)) -> io::Result<()> {
        if self.yields {
            tokio::task::yield_now().await;
            self.yields = false;
        }
        let mut ready = self.registration.readable().await?;
        if self.pool.handle_events(f)? {
            self.yields = true;
        } else {
            ready.clear_ready();
        }
        Ok(())
    }
}

impl<'a> Deref for AsyncPreforkPool<'a> {
    type Target = PreforkPool<'a>;

    fn deref(&self) -> &PreforkPool<'a> {
        &self.pool
    }
}

impl DerefMut for AsyncPreforkPool<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.pool
    }
}
