//! The threads of a load: started together, added up at the end.

use std::time::{Duration, Instant};

use super::Load;
use crate::cpu;
use crate::latency::Latency;

/// What one thread did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    pub(crate) latency: Latency,
}

impl Done {
    pub(crate) fn nothing() -> anyhow::Result<Done> {
        Ok(Done { operations: 0, bytes: 0, latency: Latency::new()? })
    }

    /// One more, that took so long.
    #[inline]
    pub(crate) fn count(&mut self, took: Duration) {
        self.operations += 1;
        self.latency.record(took);
    }
}

/// Runs each body in a thread of its own.
pub(crate) fn run<Body>(bodies: impl IntoIterator<Item = Body>) -> anyhow::Result<Load>
where
    Body: FnOnce() -> anyhow::Result<Done> + Send,
{
    let began = Instant::now();
    let ended: Vec<anyhow::Result<(Done, Duration)>> = std::thread::scope(|scope| {
        let started: Vec<_> = bodies
            .into_iter()
            .map(|body| scope.spawn(|| body().map(|done| (done, cpu::of_this_thread()))))
            .collect();
        let joined = started.into_iter().map(|thread| thread.join());
        joined
            .map(|ended| ended.unwrap_or_else(|_| Err(anyhow::anyhow!("a thread of the load panicked"))))
            .collect()
    });
    let took = began.elapsed();
    let mut latency = Latency::new()?;
    let mut load =
        Load { operations: 0, bytes: 0, took, cpu: Duration::ZERO, threads: ended.len(), latency: None };
    for ended in ended {
        let (done, cpu) = ended?;
        load.operations += done.operations;
        load.bytes += done.bytes;
        load.cpu += cpu;
        latency.add(&done.latency);
    }
    load.latency = (latency.count() > 0).then_some(latency);
    Ok(load)
}
