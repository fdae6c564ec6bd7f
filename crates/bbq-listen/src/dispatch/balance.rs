//! Steering by load, on the workers' side: a worker that has its hands full leaves connections to one that is free.
//!
//! While it works, its own socket is also armed in the epoll set of a worker that sleeps: that one takes what comes (`lend`). What it
//! has accepted itself and cannot begin with, it gives to a less loaded worker (`give`). Both cost a wake-up, so they are done only
//! where the work of a connection takes far longer than that: the stall monitor decides (`steering::load`).
//!
//! Invariant: nothing here waits for a lock of a socket: another thread that has it is about to move the socket anyway.

use std::os::fd::AsFd;
use std::sync::Arc;

use crate::Socket;
use crate::dispatch::Dispatch;
use crate::dispatch::armed_in::ArmedIn;
use crate::dispatch::epoll_set::{BUSY, EpollSet};
use crate::io::accepted::Accepted;

/// A worker that falls asleep looks at the sockets of so many others: with more workers, one of the others finds the rest.
const OTHERS_MAX: usize = 8;
/// How much less loaded another worker must be. Shares of time are known to about a tenth, so it is more than that.
const LESS: usize = BUSY as usize / 4;

impl Dispatch {
    /// The worker of `epoll_set` has one more connection to work on.
    pub(crate) fn add_at_hand(&self, epoll_set: &EpollSet) {
        epoll_set.add_at_hand();
        self.balance().show_at_hand(epoll_set.worker(), Some(epoll_set.at_hand()));
    }

    /// The worker of `epoll_set` begins with a connection, which may take long: workers that sleep take what comes meanwhile to its own
    /// socket, and to those that were lent to it.
    pub(crate) fn lend(&self, epoll_set: &EpollSet, own: &Socket) {
        if !self.balance().lends() {
            return;
        }
        self.move_to_idle(epoll_set, || true);
        let Ok(mut armed_in) = own.armed_in().try_lock() else { return };
        if *armed_in != ArmedIn::Exclusive {
            return;
        }
        if let Some(idle) = self.next_that(own.index(), EpollSet::is_idle) {
            self.arm_in(own, &mut armed_in, Some(&idle));
        }
    }

    /// The worker of `epoll_set` falls asleep: it waits for its own socket again, and helps workers that are busy.
    pub(crate) fn help_while_asleep(&self, epoll_set: &EpollSet, own: &Socket) {
        epoll_set.clear_at_hand();
        self.balance().show_at_hand(epoll_set.worker(), None);
        if let Ok(mut armed_in) = own.armed_in().try_lock()
            && let ArmedIn::Worker(worker) = *armed_in
        {
            if let Some(holder) = self.epoll_set(worker) {
                holder.disarm(own.as_fd());
            }
            *armed_in = ArmedIn::Exclusive;
        }
        if self.balance().lends() {
            let workers = self.workers();
            for step in 1..workers.min(OTHERS_MAX + 1) {
                self.help(epoll_set, (epoll_set.worker() + step) % workers);
            }
        }
    }

    /// Arms the socket of another worker in `epoll_set`, if nobody who sleeps waits for it.
    fn help(&self, epoll_set: &EpollSet, other: usize) {
        let (Some(socket), Some(owner)) = (self.socket(other), self.epoll_set(other)) else { return };
        if owner.is_idle() {
            return;
        }
        let Ok(mut armed_in) = socket.armed_in().try_lock() else { return };
        if let ArmedIn::Worker(worker) = *armed_in {
            let holder = self.epoll_set(worker);
            if worker == epoll_set.worker() || holder.as_ref().is_some_and(|holder| holder.is_idle()) {
                return;
            }
            holder.inspect(|holder| holder.disarm(socket.as_fd()));
        }
        self.arm_in(&socket, &mut armed_in, Some(epoll_set));
    }

    /// Gives a connection that the worker of `from` has accepted to a less loaded one of two others. Returns it if there is none.
    pub(crate) fn give(&self, from: &EpollSet, mut accepted: Accepted) -> Result<(), Accepted> {
        if !self.balance().gives() {
            return Err(accepted);
        }
        let has_more = from.at_hand() > 0;
        let Some(to) = self.less_loaded(from, has_more) else { return Err(accepted) };
        let Some(inbox) = to.inbox() else { return Err(accepted) };
        accepted.open = Some(to.open_one());
        let refused = match inbox.push(accepted) {
            Err(back) => Some(back),
            // A worker that ends has emptied its inbox for the last time, so nobody may add to it any more. The lock of the inbox orders
            // the two: either that worker has found this connection, or this one sees why it must take it back.
            Ok(()) if self.is_paused() || !self.balance().gives() || !to.is_served() => inbox.pop_newest(),
            Ok(()) => return Ok(()),
        };
        match refused {
            Some(mut back) => {
                back.open = None;
                Err(back)
            }
            None => Ok(()),
        }
    }

    fn less_loaded(&self, from: &EpollSet, has_more: bool) -> Option<Arc<EpollSet>> {
        let balance = self.balance();
        let lasting = balance.lasting();
        let share = |epoll_set: &EpollSet| if lasting { epoll_set.busy() as usize } else { 0 };
        let own = share(from) + if has_more { BUSY as usize } else { 0 };
        if own < LESS {
            return None;
        }
        let load_of = |epoll_set: &EpollSet| {
            let waiting = epoll_set.inbox().map_or(0, |inbox| inbox.len());
            let now = if epoll_set.is_idle() { 0 } else { BUSY as usize };
            share(epoll_set) + now + waiting * BUSY as usize
        };
        let workers = self.workers();
        let turn = balance.next_turn();
        let other = |step: usize| {
            // Each of the others in turn; the two differ unless there is only one.
            let step = 1 + (turn + step) % workers.saturating_sub(1).max(1);
            self.epoll_set((from.worker() + step) % workers.max(1))
        };
        let others = [other(0), other(1)].into_iter().flatten();
        let able = others.filter(|epoll_set| epoll_set.worker() != from.worker() && epoll_set.is_able());
        let (load, to) =
            able.map(|epoll_set| (load_of(&epoll_set), epoll_set)).min_by_key(|(load, _)| *load)?;
        (load + LESS <= own).then_some(to)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::sync::mpsc;
    use std::thread;

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;
    use crate::dispatch::benefits::Benefits;
    use crate::{ACCEPTS_PER_BATCH_MAX, Acceptor, Group, GroupOptions, Heartbeat, Steering};

    const GIVES: Benefits = Benefits { lends: false, gives: true, lasting: false };
    const LENDS: Benefits = Benefits { lends: true, gives: false, lasting: false };

    /// A group of two workers, in which all connections come to the first.
    fn group() -> Group {
        let address = "tcp://127.0.0.1:0".parse().unwrap();
        let group = GroupOptions::new(address, 2).steering(Steering::Load).open().unwrap();
        group.inner().steer_by_load(&[1, 0]);
        group
    }

    fn connect(group: &Group) -> TcpStream {
        TcpStream::connect(group.local_address().socket_address().unwrap()).unwrap()
    }

    /// Runs `first` as the first worker, on this thread, while the second sleeps. Then the second takes what is there; returns how many
    /// connections that was, and how many of them counted as open.
    fn beside_a_sleeper(group: &Group, first: impl FnOnce(&Acceptor)) -> (usize, usize) {
        let (asleep, is_asleep) = mpsc::sync_channel(1);
        let (wake, waker) = mpsc::sync_channel::<()>(1);
        thread::scope(|threads| {
            let second = threads.spawn(move || {
                let acceptor = Acceptor::new(group.worker_listener(1).unwrap()).unwrap();
                Heartbeat::of_this_thread().sleep();
                asleep.send(()).unwrap();
                waker.recv().unwrap();
                Heartbeat::of_this_thread().wake();
                let mut counted = 0;
                let mut take = |accepted: Accepted| counted += usize::from(accepted.open.is_some());
                let taken = acceptor.accept_batch(ACCEPTS_PER_BATCH_MAX, &mut take).unwrap().accepted;
                (taken, counted)
            });
            let acceptor = Acceptor::new(group.worker_listener(0).unwrap()).unwrap();
            is_asleep.recv().unwrap();
            first(&acceptor);
            wake.send(()).unwrap();
            second.join().unwrap()
        })
    }

    fn accept(acceptor: &Acceptor) -> usize {
        acceptor.accept_batch(ACCEPTS_PER_BATCH_MAX, &mut drop).unwrap().accepted
    }

    #[test]
    fn who_has_a_connection_at_hand_gives_the_next_to_who_sleeps() {
        let group = group();
        group.inner().dispatch.balance().set_benefits(GIVES);
        let _clients = [connect(&group), connect(&group)];
        let second = beside_a_sleeper(&group, |first| {
            assert_eq!(accept(first), 1, "one stays");
            assert_eq!(group.open_connections(), [0, 1], "the other is counted where it goes");
        });
        assert_eq!((second, group.taken()), ((1, 1), vec![1, 1]));
    }

    #[test]
    fn where_it_does_not_pay_and_in_a_pause_nothing_is_given() {
        for (benefits, paused) in [(Benefits::default(), false), (GIVES, true)] {
            let group = group();
            let _clients = [connect(&group), connect(&group)];
            let second = beside_a_sleeper(&group, |first| {
                group.inner().dispatch.balance().set_benefits(benefits);
                if paused {
                    group.pause();
                }
                assert_eq!(accept(first), 2, "{benefits:?}");
            });
            assert_eq!(second, (0, 0), "{benefits:?}");
        }
    }

    #[test]
    fn what_comes_while_a_worker_is_busy_wakes_one_that_sleeps() {
        let group = group();
        group.inner().dispatch.balance().set_benefits(LENDS);
        let _client = connect(&group);
        let mut later = None;
        let second = beside_a_sleeper(&group, |first| {
            let mut work = |_accepted| {
                later = Some(connect(&group));
                let epoll_set = group.inner().dispatch.epoll_set(1).unwrap();
                // Without an end if the socket is not lent.
                poll(&mut [PollFd::new(&*epoll_set, PollFlags::IN)], None).unwrap();
            };
            assert_eq!(first.accept_batch(1, &mut work).unwrap().accepted, 1);
        });
        assert_eq!(second, (1, 0));
        assert_eq!(group.sockets()[0].counters().rescued(), 1);
    }

    #[test]
    fn who_falls_asleep_waits_for_its_own_socket_alone() {
        let group = group();
        group.inner().dispatch.balance().set_benefits(LENDS);
        let _client = connect(&group);
        beside_a_sleeper(&group, |first| {
            assert_eq!(accept(first), 1);
            let socket = &group.sockets()[0];
            assert_eq!(group.inner().dispatch.armed_in(socket), ArmedIn::Worker(1));
            first.heartbeat().sleep();
            assert_eq!(group.inner().dispatch.armed_in(socket), ArmedIn::Exclusive);
            let _another = connect(&group);
            first.heartbeat().wake();
            assert_eq!(accept(first), 1);
        });
    }

    #[test]
    fn who_falls_asleep_helps_who_is_busy() {
        let group = group();
        group.inner().dispatch.balance().set_benefits(LENDS);
        let _client = connect(&group);
        thread::scope(|threads| {
            let first = Acceptor::new(group.worker_listener(0).unwrap()).unwrap();
            assert_eq!(accept(&first), 1, "and it is busy with that");
            let helper = threads.spawn(|| {
                let second = Acceptor::new(group.worker_listener(1).unwrap()).unwrap();
                assert_eq!(accept(&second), 0);
                second.heartbeat().sleep();
                group.inner().dispatch.armed_in(&group.sockets()[0])
            });
            assert_eq!(helper.join().unwrap(), ArmedIn::Worker(1));
        });
    }
}
