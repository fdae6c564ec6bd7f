//! How far one outlet is: the servers that share one progress.

/// Marks in the queue, by number of a record. `acknowledged <= sent` while it is connected.
#[derive(Debug, Default)]
pub(crate) struct OutletState {
    /// Everything up to it is acknowledged.
    pub(crate) acknowledged: u64,
    /// Everything up to it was given to the present connection.
    pub(crate) sent: u64,
    /// Everything up to it was given to some connection once.
    sent_once: u64,
    /// Bytes that are sent and not acknowledged.
    in_flight: usize,
    /// The largest message that the server takes; `None` before the first welcome.
    pub(crate) message_bytes_max: Option<u32>,
    /// The present connection broke, said by its reader.
    pub(crate) broken: bool,
    /// Records that it did not have when the rest was given up.
    pub(crate) given_up: u64,
    /// Nothing is ever sent here again.
    pub(crate) ended: bool,
}

impl OutletState {
    /// Whether `bytes` more have to wait for acknowledgements. Something may always be on its way.
    pub(crate) fn is_over_window(&self, bytes: usize, window_bytes_max: usize) -> bool {
        self.in_flight > 0 && self.in_flight + bytes > window_bytes_max
    }

    /// A batch that ends with number `last` is given to the connection; answers how many records were never before.
    pub(crate) fn send(&mut self, last: u64, records: u32, bytes: usize) -> u64 {
        self.sent = last;
        self.in_flight += bytes;
        if last <= self.sent_once {
            return 0;
        }
        self.sent_once = last;
        u64::from(records)
    }

    pub(crate) fn acknowledge(&mut self, sequence: u64, bytes: usize) {
        self.acknowledged = self.acknowledged.max(sequence);
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    /// Whether something was sent that is not acknowledged.
    pub(crate) fn awaits(&self) -> bool {
        self.sent > self.acknowledged
    }

    /// Begins a connection behind what is acknowledged.
    pub(crate) fn connected(&mut self, message_bytes_max: u32) {
        self.sent = self.acknowledged;
        self.in_flight = 0;
        self.broken = false;
        self.message_bytes_max = Some(message_bytes_max);
    }
}
