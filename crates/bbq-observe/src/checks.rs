//! Periodic checks: drops, stalled workers, uneven shares, and other processes on a listener's address.

use std::sync::PoisonError;

use crate::drops::{EVICTED, LETTERS_DELETED, OVER_LIMIT, OVER_SPOOL_LIMIT, SLOWED, TRUNCATED, Tally};
use crate::findings::is_stalled;
use crate::parts::Parts;
use crate::status::Dropped;

impl Parts {
    /// Adds the drops of the kernel and of readers to the ledgers.
    pub(crate) fn note_drops_of_others(&self) {
        for (index, listener) in
            self.listeners.iter().enumerate().filter(|(_, listener)| listener.spec().is_datagram())
        {
            let drops = || listener.group.sockets().iter().filter_map(|socket| socket.drops()).sum();
            self.ledger.listener(index).note_kernel_drops(drops);
        }
        for (index, reader) in self.readers.iter().enumerate() {
            reader.note_drops(self.reader_ledger(index));
        }
    }

    /// From now on, what is dropped is reported.
    pub fn begin_drops(&self) {
        self.changes.drops.begin(self.drops());
    }

    /// Reports what was dropped since the last check.
    pub fn check_drops(&self) {
        self.note_drops_of_others();
        self.changes.drops.check(self.drops());
    }

    /// Reports what was dropped and not reported yet, as this is the last check.
    pub fn check_drops_last(&self) {
        self.note_drops_of_others();
        self.changes.drops.check_last(self.drops());
    }

    /// All drops so far, by listener, reader or sink, and by reason. Those of listeners that share a name, as two with port 0 may, are one count.
    pub(crate) fn drops(&self) -> Vec<Tally> {
        let tallies = |subject: String, dropped: Dropped| {
            dropped.into_iter().map(move |(what, count)| Tally { subject: subject.clone(), what, count })
        };
        let listeners = self.listeners.iter().enumerate().flat_map(|(index, listener)| {
            let ledger = self.ledger.listener(index);
            let mut counts = ledger.dropped();
            counts.insert(EVICTED.to_owned(), ledger.evicted());
            counts.insert(OVER_LIMIT.to_owned(), ledger.over_limit());
            counts.insert(SLOWED.to_owned(), ledger.slowed());
            tallies(format!("listener {}", listener.spec().source), counts)
        });
        let readers = self.readers.iter().enumerate().flat_map(|(index, reader)| {
            tallies(format!("reader {}", reader.spec.source), self.reader_ledger(index).dropped())
        });
        let beginnings = self.spool.beginnings();
        let sinks = self.sinks.iter().flat_map(|(spec, ledger)| {
            let mut counts = self.owed_to(&beginnings, ledger.account()).dropped;
            if let Some(over) = counts.remove(bbq_sink::OVER_LIMIT) {
                // Of a listener, it counts connections.
                counts.insert(OVER_SPOOL_LIMIT.to_owned(), over);
            }
            counts.insert(LETTERS_DELETED.to_owned(), ledger.letters_deleted());
            counts.insert(TRUNCATED.to_owned(), ledger.truncations());
            tallies(format!("sink {}", spec.name), counts)
        });
        Tally::summed(listeners.chain(readers).chain(sinks))
    }

    /// Checks whether other processes have joined a listener. Not for the control thread: see `ForeignWatch::check`.
    pub(crate) fn check_foreign_members(&self) {
        for listener in &self.listeners {
            listener.foreign.check(&listener.spec().source, &listener.group);
        }
    }

    /// Looks whether the disk has the room that the spool may take. Not for the control thread, as a disk may hang.
    pub(crate) fn check_disk_room(&self) {
        let shortage = self.spool.disk_shortage();
        *self.disk_shortage.lock().unwrap_or_else(PoisonError::into_inner) = shortage;
    }

    /// Closes the sockets that a smaller number of workers has left behind: without a stall monitor nobody else does.
    pub(crate) fn check_removed_sockets(&self) {
        for listener in &self.listeners {
            let _is_left = listener.group.close_removed();
        }
    }

    /// Checks whether there are new certificates or tokens. Not for the control thread, as it reads files.
    pub(crate) fn check_changed_files(&self) {
        for listener in &self.listeners {
            if let Some(tls) = &listener.tls {
                tls.reload_if_changed(&listener.spec().source);
            }
            if let Some(tokens) = &listener.tokens {
                tokens.reload_if_changed(&listener.spec().source);
            }
        }
    }

    /// Checks whether the workers return to their event loops.
    pub fn check_workers(&self) {
        for worker in &self.workers {
            let _compared_with_next_time = worker.heartbeat_age_ms();
        }
    }

    /// Checks how even the workers' shares are. While a worker is stalled, new connections are turned away from it.
    pub fn check_evenness(&self) {
        let is_one_stalled = self.workers.iter().any(|worker| is_stalled(worker.heartbeat_age_ms()));
        for listener in self.listeners.iter().filter(|listener| !listener.spec().is_datagram()) {
            if is_one_stalled {
                listener.evenness.begin_again(listener.shares());
            } else {
                listener.evenness.check(&listener.spec(), listener.group.distribution(), listener.shares());
            }
        }
    }
}
