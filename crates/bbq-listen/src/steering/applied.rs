//! The steering of a group: the configured one, and the program that is in the kernel now.

use std::fmt::Write as _;
use std::os::fd::AsFd;
use std::sync::Arc;

use crate::dispatch::epoll_set::EpollSet;
use crate::sockets::options::GroupOptions;
use crate::steering::recent_senders::RecentSenders;
use crate::steering::slots::{Slots, cpu_program};
use crate::{Address, Distribution, ListenError, Socket, Steering, sys};

#[derive(Debug)]
pub(crate) struct AppliedSteering {
    /// Whether the group has several sockets to choose from.
    chooses: bool,
    datagrams: bool,
    steering: Steering,
    workers: usize,
    slots: Slots,
    /// Workers that get nothing new now.
    absent: Vec<u16>,
    /// Whether the kernel has a program of this group.
    attached: bool,
    /// Why the program could not be attached.
    problem: Option<String>,
}

impl AppliedSteering {
    pub(crate) fn new(
        options: &GroupOptions,
        distribution: Distribution,
        sockets: &[Arc<Socket>],
    ) -> Result<Self, ListenError> {
        let (address, steering, workers) = (&options.address, &options.steering, options.workers);
        let refused = |reason: String| ListenError::UnsupportedSteering {
            address: address.clone(),
            steering: steering.clone(),
            reason,
        };
        let chooses = distribution.is_reuseport();
        if !chooses && *steering != Steering::Hash {
            return Err(refused(format!(
                "with the distribution {distribution} there is no socket per worker to choose; leave steering out, or use \
                 the distribution reuseport with 2 workers or more"
            )));
        }
        let slots = match steering {
            Steering::Weights(weights) if weights.len() != workers => {
                return Err(refused(format!(
                    "it has {} weights for {workers} workers; write one for each",
                    weights.len()
                )));
            }
            Steering::Weights(weights) => Slots::of(weights),
            Steering::Hash | Steering::Cpu => Slots::even(workers),
        };
        let datagrams = matches!(address, Address::Udp(_) | Address::UnixDatagram(_));
        let mut steered = Self {
            chooses,
            datagrams,
            steering: steering.clone(),
            workers,
            slots,
            absent: Vec::new(),
            attached: false,
            problem: None,
        };
        // A former steering, or the process that handed the sockets over, may have attached a program, so it is detached. With
        // datagrams the new program replaces it without a gap.
        if let Some(first) = sockets.first().filter(|_| chooses && !datagrams && *steering == Steering::Hash)
        {
            let _mostly_there_is_none = sys::choose_by(first.as_fd(), None);
        }
        steered.apply(sockets, &[]);
        match &steered.problem {
            Some(problem) if *steering != Steering::Hash => Err(refused(problem.clone())),
            _ => Ok(steered),
        }
    }

    /// Whether this steering is in force. It is not if a resize has changed the weights.
    pub(crate) fn is_in_force(&self, steering: &Steering) -> bool {
        let is_exact = match steering {
            Steering::Weights(weights) => weights.len() == self.workers && self.slots == Slots::of(weights),
            Steering::Hash | Steering::Cpu => true,
        };
        self.steering == *steering && is_exact && self.problem.is_none()
    }

    /// Sets the number of workers.
    pub(crate) fn resize(&mut self, workers: usize, seen: Option<&RecentSenders>) {
        if workers > self.workers {
            // A worker that was removed and is added again gets its slots back.
            let is_busy = |slot| seen.is_some_and(|seen| seen.is_busy(slot));
            self.slots = self.slots.with_more(workers as u16, is_busy);
        }
        if let Steering::Weights(weights) = &mut self.steering {
            weights.resize(workers.max(weights.len()), 1);
        }
        self.workers = workers;
    }

    /// Attaches the program for the present workers.
    pub(crate) fn apply(&mut self, sockets: &[Arc<Socket>], epoll_sets: &[Arc<EpollSet>]) {
        let Some(first) = sockets.first().filter(|_| self.chooses) else { return };
        // Senders of datagrams stay with a stalled worker: others receive from its socket.
        let is_avoided = |worker: u16| {
            !self.datagrams
                && epoll_sets.get(usize::from(worker)).is_some_and(|epoll_set| epoll_set.is_avoided())
        };
        let is_absent = |worker: u16| usize::from(worker) >= self.workers || is_avoided(worker);
        let absent: Vec<u16> = (0..sockets.len() as u16).filter(|worker| is_absent(*worker)).collect();
        let program = match self.steering {
            Steering::Hash if !self.datagrams && absent.is_empty() => None,
            Steering::Cpu => Some(cpu_program(sockets.len(), is_absent)),
            Steering::Hash | Steering::Weights(_) => Some(self.slots.without(is_absent).program()),
        };
        if program.is_none() && !self.attached {
            self.absent = absent;
            return;
        }
        match sys::choose_by(first.as_fd(), program.as_deref()) {
            Ok(()) => {
                self.attached = program.is_some();
                self.problem = None;
            }
            Err(error) => self.problem = Some(format!("the system refuses to choose by a program ({error})")),
        }
        self.absent = absent;
    }

    pub(crate) fn describe(&self) -> Option<String> {
        if !self.chooses {
            return None;
        }
        let mut text = match (&self.steering, self.attached) {
            (Steering::Hash, false) => "hash".to_owned(),
            (Steering::Hash, true) => "hash by program".to_owned(),
            (steering, _) => steering.to_string(),
        };
        // Writing to a String cannot fail.
        if !self.absent.is_empty() {
            let _infallible = write!(text, ", none to {:?}", self.absent);
        }
        if let Some(problem) = &self.problem {
            let _infallible = write!(text, "; {problem}");
        }
        Some(text)
    }
}
