//! Bytes from the socket that TLS has not processed.

use rustls::ClientConnection;

/// A full TLS record has 16 KiB and some bytes of overhead.
const READ_BYTES: usize = 16 * 1024;

pub(super) struct Incoming {
    bytes: Box<[u8]>,
    /// `bytes[begin..end]` are not processed. begin <= end.
    begin: usize,
    end: usize,
}

impl Incoming {
    pub(super) fn new() -> Incoming {
        Incoming { bytes: vec![0; READ_BYTES].into(), begin: 0, end: 0 }
    }

    /// The space for the next bytes. All earlier bytes must have been processed.
    pub(super) fn space(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Notes that so many bytes were put at the beginning of `space`.
    pub(super) fn filled(&mut self, bytes: usize) {
        (self.begin, self.end) = (0, bytes);
    }

    /// Processes some bytes; `false` if there are none. The connection's plaintext must have been taken before, or it may be full.
    pub(super) fn process(&mut self, connection: &mut ClientConnection) -> Result<bool, rustls::Error> {
        if self.begin == self.end {
            return Ok(false);
        }
        let mut rest = &self.bytes[self.begin..self.end];
        let taken =
            connection.read_tls(&mut rest).map_err(|error| rustls::Error::General(error.to_string()))?;
        // After the server's close_notify, rustls takes nothing: discard the rest.
        self.begin = if taken == 0 { self.end } else { self.begin + taken };
        connection.process_new_packets().map(|_| true)
    }
}
