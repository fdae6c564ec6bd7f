//! The steering of a group: the configured one, and the program that is in the kernel now.

use std::fmt::Write as _;
use std::os::fd::AsFd;
use std::sync::Arc;

use crate::dispatch::benefits::Balance;
use crate::dispatch::epoll_set::EpollSet;
use crate::sockets::options::GroupOptions;
use crate::steering::connection_id::is_possible;
use crate::steering::key::SenderHash;
use crate::steering::pinned::PinnedProgram;
use crate::steering::slots::{Slots, cpu_program, packets_program};
use crate::sys::bpf::choose_by_loaded;
use crate::{Address, Distribution, ListenError, Socket, Steering, sys};

#[derive(Debug, Clone)]
pub(crate) struct AppliedSteering {
    /// Whether the group has several sockets to choose from.
    chooses: bool,
    datagrams: bool,
    steering: Steering,
    workers: usize,
    slots: Slots,
    hash: SenderHash,
    /// Workers that get no new senders now.
    absent: Vec<u16>,
    /// Whether the kernel has a program of this group.
    attached: bool,
    /// Steering by load is by this program, whose shares are memory.
    pinned: Option<Arc<PinnedProgram>>,
    /// Why no pinned program could be had, although there are some.
    pins_problem: Option<String>,
    /// Why the program could not be attached.
    problem: Option<String>,
}

impl AppliedSteering {
    pub(crate) fn new(
        options: &GroupOptions,
        hash: SenderHash,
        distribution: Distribution,
        sockets: &[Arc<Socket>],
        balance: &Balance,
    ) -> Result<Self, ListenError> {
        let (address, steering, workers) = (&options.address, &options.steering, options.workers);
        let refused = |reason: String| ListenError::UnsupportedSteering {
            address: address.clone(),
            steering: steering.clone(),
            reason,
        };
        let chooses = distribution.is_reuseport();
        let datagrams = matches!(address, Address::Udp(_) | Address::UnixDatagram(_));
        if datagrams && *steering == Steering::Load {
            return Err(refused(
                "a sender of datagrams has to stay with its worker; use hash, cpu or weights, or listen on tcp".to_owned(),
            ));
        }
        // A configuration may be for machines of every size: one worker has no choice. Load gives way to a system without reuseport, too.
        let may_be_idle = (*steering == Steering::Load || workers == 1)
            && matches!(options.distribution, Distribution::Auto | Distribution::Reuseport);
        if !chooses && *steering != Steering::Hash && !may_be_idle {
            return Err(refused(format!(
                "with the distribution {distribution} there is no socket per worker to choose; leave steering out, or use \
                 the distribution reuseport with 2 workers or more"
            )));
        }
        if *steering == Steering::Packets && !matches!(address, Address::Udp(_)) {
            return Err(refused(
                "a connection has one worker for all of its packets; leave steering out".to_owned(),
            ));
        }
        if let Steering::ConnectionId { offset, bits } = *steering {
            check_connection_id(address, offset, bits).map_err(|reason| refused(reason.to_owned()))?;
        }
        let slots = slots_of(steering, workers).map_err(refused)?;
        let (pinned, pins_problem) = match chooses && *steering == Steering::Load {
            true => pinned_program(options, balance),
            false => (None, None),
        };
        let mut steered = Self {
            chooses,
            datagrams,
            steering: steering.clone(),
            workers,
            slots,
            hash,
            absent: Vec::new(),
            attached: false,
            pinned,
            pins_problem,
            problem: None,
        };
        // It replaces the program of a former steering, or of the process that handed the sockets over, without a gap.
        steered.apply(sockets, &[]);
        steered.keep_strangers_out(sockets);
        match &steered.problem {
            Some(problem) if !matches!(steering, Steering::Hash | Steering::Load) => {
                Err(refused(problem.clone()))
            }
            _ => Ok(steered),
        }
    }

    /// Makes the kernel choose among the sockets of a `duplicate` alone. They stay the same for as long as the group is open.
    fn keep_strangers_out(&self, sockets: &[Arc<Socket>]) {
        if let [first, _, ..] = sockets
            && !self.chooses
        {
            // Where the system refuses it, strangers take a share as before.
            let _refused =
                sys::choose_by(first.as_fd(), Some(&Slots::even(sockets.len()).program(&self.hash)));
        }
    }

    /// Whether this steering is in force. It is not if a resize has changed the weights.
    pub(crate) fn is_in_force(&self, steering: &Steering) -> bool {
        let is_exact = match steering {
            Steering::Weights(weights) => weights.len() == self.workers && self.slots == Slots::of(weights),
            _ => true,
        };
        self.steering == *steering && is_exact && self.problem.is_none()
    }

    /// Why the kernel refused the last program, if it had taken one before. A system that takes none leaves the choice to the kernel's
    /// hash.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.problem.as_deref().filter(|_| self.attached || self.steering != Steering::Hash)
    }

    pub(crate) fn steering(&self) -> &Steering {
        &self.steering
    }

    /// Sets the number of workers.
    pub(crate) fn resize(&mut self, workers: usize) {
        match &mut self.steering {
            // A worker that was removed and is added again gets its slots back.
            Steering::Weights(weights) if workers > weights.len() => {
                weights.resize(workers, 1);
                self.slots = Slots::of(weights);
            }
            Steering::Weights(_) => {}
            _ => self.slots = Slots::even(workers),
        }
        self.workers = workers;
    }

    /// Whether connections are steered by load.
    pub(crate) fn is_by_load(&self) -> bool {
        self.chooses && self.steering == Steering::Load
    }

    /// How many of all slots each worker has.
    pub(crate) fn shares(&self) -> Vec<u16> {
        self.slots.counts(self.workers)
    }

    /// With steering by load: the proportions from the next `apply` on, one weight for each worker.
    pub(crate) fn set_weights(&mut self, weights: &[u16]) {
        if self.is_by_load() && weights.len() == self.workers {
            self.slots = Slots::of(weights);
        }
    }

    /// The worker of each slot, of a group for datagrams that chooses by slots.
    pub(crate) fn layout(&self) -> Option<Slots> {
        let is_by_slots = matches!(self.steering, Steering::Hash | Steering::Weights(_));
        let is_by_slots = is_by_slots && self.chooses && self.datagrams;
        is_by_slots.then(|| self.slots.without(|worker| usize::from(worker) >= self.workers))
    }

    /// Whether the kernel chooses by this steering's program.
    pub(crate) fn is_attached(&self) -> bool {
        self.attached && self.problem.is_none()
    }

    /// Attaches the program for the present workers.
    pub(crate) fn apply(&mut self, sockets: &[Arc<Socket>], epoll_sets: &[Arc<EpollSet>]) {
        let Some(first) = sockets.first().filter(|_| self.chooses) else { return };
        // Senders of datagrams stay with a stalled worker: others receive from its socket.
        let have_workers = self.datagrams && self.steering != Steering::Packets;
        let is_avoided = |worker: u16| {
            !have_workers
                && epoll_sets.get(usize::from(worker)).is_some_and(|epoll_set| epoll_set.is_avoided())
        };
        let is_absent = |worker: u16| usize::from(worker) >= self.workers || is_avoided(worker);
        let absent: Vec<u16> = (0..sockets.len() as u16).filter(|worker| is_absent(*worker)).collect();
        let slots = self.slots.without(is_absent);
        // With `hash` the kernel would choose without a program, but also sockets of other programs that join later: a program
        // knows only the sockets of this group.
        let program = match self.steering {
            Steering::Cpu => cpu_program(sockets.len(), is_absent),
            Steering::Packets => packets_program(sockets.len(), is_absent),
            Steering::Load => slots.program_by_chance(),
            Steering::ConnectionId { offset, bits } => {
                slots.program_by_connection_id((offset, bits), sockets.len(), &absent, &self.hash)
            }
            Steering::Hash | Steering::Weights(_) => slots.program(&self.hash),
        };
        self.absent = absent;
        if self.steering == Steering::Load && self.apply_pinned(first, sockets.len() > 1, &slots) {
            return;
        }
        // One socket has all, and the kernel takes no program for it.
        if sockets.len() <= 1 && !self.attached {
            return;
        }
        match sys::choose_by(first.as_fd(), Some(&program)) {
            Ok(()) => {
                self.attached = true;
                self.problem = None;
            }
            Err(error) => {
                self.problem = Some(format!("the system refuses to choose by a program ({error})"));
                if self.steering == Steering::Load || (self.steering == Steering::Hash && !self.datagrams) {
                    // Instead of a program that a former steering has left.
                    self.attached = sys::choose_by(first.as_fd(), None).is_err() && self.attached;
                }
            }
        }
    }

    /// Whether shares are memory, so that a change costs next to nothing.
    pub(crate) fn is_pinned(&self) -> bool {
        self.pinned.is_some()
    }

    /// Writes the shares for the pinned program, and attaches it if it is not yet. Returns whether there is one.
    fn apply_pinned(&mut self, first: &Socket, is_choice: bool, slots: &Slots) -> bool {
        let Some(pinned) = &self.pinned else { return false };
        pinned.set_shares(slots);
        if self.attached || !is_choice {
            return true;
        }
        match choose_by_loaded(first.as_fd(), pinned.program()) {
            Ok(()) => {
                self.attached = true;
                self.problem = None;
                true
            }
            Err(error) => {
                self.pins_problem = Some(format!("the system refuses the pinned program ({error})"));
                self.pinned = None;
                false
            }
        }
    }

    pub(crate) fn describe(&self) -> Option<String> {
        if !self.chooses {
            let is_idle = self.steering != Steering::Hash;
            return is_idle
                .then(|| format!("{}, without effect: there is one socket for all", self.steering));
        }
        let mut text = match (&self.steering, self.attached) {
            (Steering::Hash, true) if self.datagrams || !self.absent.is_empty() => {
                "hash by program".to_owned()
            }
            (Steering::Hash, _) => "hash".to_owned(),
            (Steering::Load, _) if self.problem.is_some() => "hash instead of load".to_owned(),
            (Steering::Load, _) if self.pinned.is_some() => "load by a pinned program".to_owned(),
            (steering, _) => steering.to_string(),
        };
        // Writing to a String cannot fail.
        if !self.absent.is_empty() {
            let _infallible = write!(text, ", none to {:?}", self.absent);
        }
        for problem in self.problem.iter().chain(&self.pins_problem) {
            let _infallible = write!(text, "; {problem}");
        }
        Some(text)
    }
}

/// The owners of the slots at the start, or why there are none.
fn slots_of(steering: &Steering, workers: usize) -> Result<Slots, String> {
    match steering {
        Steering::Weights(weights) if weights.len() != workers => {
            Err(format!("it has {} weights for {workers} workers; write one for each", weights.len()))
        }
        Steering::Weights(weights) => Ok(Slots::of(weights)),
        _ => Ok(Slots::even(workers)),
    }
}

/// Why connection ids cannot have the number.
fn check_connection_id(address: &Address, offset: u8, bits: u8) -> Result<(), &'static str> {
    if !matches!(address, Address::Udp(_)) {
        return Err("only datagrams of QUIC have connection ids; leave steering out");
    }
    if !is_possible(offset, bits) {
        return Err("the number has 1 to 16 bits within the first 20 bytes of the connection id");
    }
    Ok(())
}

/// The program that the group has for itself, or why it has none although some are pinned.
fn pinned_program(options: &GroupOptions, balance: &Balance) -> (Option<Arc<PinnedProgram>>, Option<String>) {
    if let Some(pinned) = balance.pinned() {
        return (Some(Arc::clone(pinned)), None);
    }
    match PinnedProgram::take(&options.steering_pins) {
        Ok(Some(pinned)) => {
            let pinned = Arc::new(pinned);
            balance.set_pinned(Arc::clone(&pinned));
            (Some(pinned), None)
        }
        Ok(None) => (None, None),
        Err(problem) => (None, Some(problem)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use crate::{Group, GroupOptions, Steering};

    /// A configuration is for machines with one processor, too.
    #[test]
    fn one_worker_has_no_choice_and_more_have_the_steering_that_was_asked_for() {
        for (address, steering) in [
            ("tcp://127.0.0.1:0", "cpu"),
            ("udp://127.0.0.1:0", "cpu"),
            ("tcp://127.0.0.1:0", "weights:5"),
            ("tcp://127.0.0.1:0", "load"),
        ] {
            let options = GroupOptions::new(address.parse().unwrap(), 1).steering(steering.parse().unwrap());
            let alone = options.open().unwrap().steering();
            let says = format!("{}, without effect: there is one socket for all", options.steering);
            assert_eq!(alone, Some(says), "auto");
            let group = options.distribution("reuseport".parse().unwrap()).open().unwrap();
            let alone = group.steering();
            assert!(alone.as_ref().is_some_and(|alone| alone.starts_with(steering)), "{address} {alone:?}");
            group.resize(3).unwrap();
            let together = group.steering().unwrap();
            assert!(together.starts_with(steering) && !together.contains("refuses"), "{together}");
        }
    }

    /// A kernel that refuses programs must not keep a server from its start.
    #[test]
    fn where_programs_are_refused_the_hash_chooses_instead_of_load_and_that_is_seen() {
        let options = GroupOptions::new("tcp://127.0.0.1:0".parse().unwrap(), 2);
        let opened = options.open().unwrap();
        let sockets: Vec<_> =
            opened.sockets().iter().map(|socket| socket.as_fd().try_clone_to_owned().unwrap()).collect();
        crate::sys::lock_filter(sockets[0].as_fd()).unwrap();
        let group = Group::adopt(&options.clone().steering(Steering::Load), sockets).unwrap();
        let steering = group.steering().unwrap();
        assert!(steering.starts_with("hash instead of load; the system refuses"), "{steering}");
        assert!(group.set_steering(&Steering::Weights(vec![1, 2])).is_err());
    }

    /// The kernel's own hash chooses then, and a group may still grow.
    #[test]
    fn where_programs_are_refused_a_group_of_tcp_opens_and_grows_without() {
        let options = GroupOptions::new("tcp://127.0.0.1:0".parse().unwrap(), 2);
        let opened = options.open().unwrap();
        let copies =
            || opened.sockets().into_iter().map(|socket| socket.as_fd().try_clone_to_owned().unwrap());
        crate::sys::lock_filter(opened.sockets()[0].as_fd()).unwrap();
        let group = Group::adopt(&options, copies().collect()).unwrap();
        let steering = group.steering().unwrap();
        assert!(steering.starts_with("hash; the system refuses"), "{steering}");
        group.resize(3).unwrap();
        assert_eq!(group.sockets().len(), 3);
        // It has a program, which it gives up: that one would leave the new worker out.
        let group = options.open().unwrap();
        crate::sys::lock_filter(group.sockets()[0].as_fd()).unwrap();
        group.resize(3).unwrap();
        let steering = group.steering().unwrap();
        assert!(steering.starts_with("hash; the system refuses"), "{steering}");
    }
}
