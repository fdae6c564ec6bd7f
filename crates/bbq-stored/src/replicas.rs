//! Up to where the next servers have each lane: for senders that ask for the level `replicated`.
//!
//! A next server has what its sink (`bbq:`) has settled: that is on its disk, or among the dead letters here, because it was refused
//! for good.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bbq_spool::LanePlace;

/// Of each next server, the position before which it has everything of a lane, by the lane's number.
type Positions = Vec<BTreeMap<u32, u64>>;
type Waker = Box<dyn Fn() + Send>;

type Ends = Box<dyn Fn() -> Vec<LanePlace> + Send + Sync>;

/// See the module.
pub struct Replicas {
    servers: usize,
    /// Returns where each lane of the spool ends.
    ends: Ends,
    positions: Mutex<Positions>,
    /// One for each worker.
    wakers: Mutex<Vec<Waker>>,
    /// A sender has asked for the level. Before that nobody is woken.
    is_wanted: AtomicBool,
}

/// One of the next servers, for the sink that passes on to it.
pub struct Replica {
    replicas: Arc<Replicas>,
    server: usize,
}

impl Replicas {
    /// For so many sinks that pass on to another server. `ends` returns where each lane of the spool ends, also those without a
    /// worker.
    pub fn of(servers: usize, ends: impl Fn() -> Vec<LanePlace> + Send + Sync + 'static) -> Arc<Replicas> {
        Arc::new(Replicas {
            servers,
            ends: Box::new(ends),
            positions: Mutex::new(vec![BTreeMap::new(); servers]),
            wakers: Mutex::default(),
            is_wanted: AtomicBool::new(false),
        })
    }

    /// Everything that is durable here now.
    pub fn ends(&self) -> Vec<LanePlace> {
        (self.ends)()
    }

    /// Whether every next server has everything before these places.
    pub fn have(&self, places: &[LanePlace]) -> bool {
        places.iter().all(|place| self.position(place.lane) >= place.position)
    }

    /// Each of the next servers.
    pub fn each(self: &Arc<Replicas>) -> impl Iterator<Item = Replica> + use<> {
        let replicas = Arc::clone(self);
        (0..self.servers).map(move |server| Replica { replicas: Arc::clone(&replicas), server })
    }

    /// Whether there is no next server.
    pub fn is_empty(&self) -> bool {
        self.servers == 0
    }

    /// Calls `wake` whenever a next server has more, once somebody wants to know.
    pub fn on_advance(&self, wake: impl Fn() + Send + 'static) {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(wake));
    }

    /// From now on the workers are woken.
    pub fn want(&self) {
        self.is_wanted.store(true, Ordering::SeqCst);
    }

    /// The position before which every next server has everything of the lane.
    pub fn position(&self, lane: u32) -> u64 {
        let positions = self.positions();
        positions.iter().map(|server| server.get(&lane).copied().unwrap_or(0)).min().unwrap_or(0)
    }

    fn positions(&self) -> MutexGuard<'_, Positions> {
        self.positions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Replica {
    /// Notes that the server has everything before these places. What it had once it still has when the sink rolls back.
    pub fn advance(&self, places: &[LanePlace]) {
        {
            let mut positions = self.replicas.positions();
            for place in places {
                let position = positions[self.server].entry(place.lane).or_default();
                *position = place.position.max(*position);
            }
        }
        if self.replicas.is_wanted.load(Ordering::SeqCst) {
            let wakers = self.replicas.wakers.lock().unwrap_or_else(PoisonError::into_inner);
            wakers.iter().for_each(|wake| wake());
        }
    }
}

impl fmt::Debug for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicas").field("positions", &self.positions).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_as_far_as_the_slowest_server() {
        let replicas = Replicas::of(2, Vec::new);
        let servers: Vec<Replica> = replicas.each().collect();
        let place = |lane, position| LanePlace { lane, position, record: 0 };
        servers[0].advance(&[place(0, 9), place(1, 5)]);
        assert_eq!(replicas.position(0), 0, "the other server has nothing");
        servers[1].advance(&[place(0, 7)]);
        servers[0].advance(&[place(0, 8)]);
        assert_eq!([0, 1, 2].map(|lane| replicas.position(lane)), [7, 0, 0]);
        assert!(replicas.have(&[place(0, 7), place(1, 0)]) && !replicas.have(&[place(0, 7), place(1, 1)]));
        assert!(Replicas::of(0, Vec::new).is_empty() && !replicas.is_empty());
    }

    #[test]
    fn nobody_is_woken_before_somebody_wants_to_know() {
        let replicas = Replicas::of(1, Vec::new);
        let woken = Arc::new(AtomicBool::new(false));
        let of_waker = Arc::clone(&woken);
        replicas.on_advance(move || of_waker.store(true, Ordering::SeqCst));
        let server = replicas.each().next().unwrap();
        server.advance(&[]);
        assert!(!woken.load(Ordering::SeqCst));
        replicas.want();
        server.advance(&[]);
        assert!(woken.load(Ordering::SeqCst));
    }
}
