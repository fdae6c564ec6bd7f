//! Somebody with a token of its own, who sends under the names of others, by requests, sessions and links, or under many names; and
//! another server, whose link brings once more what clients have sent.

use bbq_wire::batch::{BatchIdentity, Origin};
use bbq_wire::session::{AckLevel, Hello};
use bbq_wire::{Batch, BatchBuilder, Compression, Peer, SourceKind, StreamId, Token};

use super::around::{Around, new_stream};
use crate::note;
use crate::random::Random;
use crate::record::Record;
use crate::tokens::{RELAY, STRANGER, token};

/// Connections of strangers at a time.
const CONNECTIONS_MAX: usize = 3;

pub(super) struct Stranger {
    /// Its number among all who make records.
    number: usize,
    made: u64,
    /// It sends under the names of others, and under many.
    pub(super) comes_to_others: bool,
    /// It has many names, and sends under none of others: for a planted bug.
    has_manners: bool,
    connections: Vec<u64>,
    link: Option<StreamId>,
}

/// A request: the stream and the number of its only record.
pub(super) type Request = ((StreamId, u64), Record);

impl Stranger {
    pub(super) fn new(number: usize, comes_to_others: bool, has_manners: bool) -> Stranger {
        Stranger { number, made: 0, comes_to_others, has_manners, connections: Vec::new(), link: None }
    }

    fn record(&mut self, random: &mut Random) -> Record {
        self.made += 1;
        Record { client: self.number, number: self.made, bytes: random.between(20, 100) as u32 }
    }

    /// Makes a connection, or a request, which is returned.
    pub(super) fn act(
        &mut self,
        epoch: u64,
        around: &mut Around<'_>,
        random: &mut Random,
    ) -> Option<Request> {
        while self.connections.len() > random.index(CONNECTIONS_MAX) {
            around.network.leave(self.connections.remove(0));
        }
        if !self.comes_to_others || random.one_in(3) {
            self.pass_on(epoch, around, random);
            return None;
        }
        let (stream, highest) = match around.history.any_owned(random) {
            Some(found) if !self.has_manners && random.one_in(2) => found,
            _ => (new_stream(random), 0),
        };
        // Below and above what its owner has sent.
        let first = if highest == 0 { 1 } else { random.between(1, highest + 1) };
        let record = self.record(random);
        if highest > 0 && random.one_in(2) {
            self.connect(epoch, (stream, first), record, around, random);
            return None;
        }
        Some(((stream, first), record))
    }

    /// A session, or a link, that brings a record under the name of another.
    fn connect(
        &mut self,
        epoch: u64,
        (stream, first): (StreamId, u64),
        record: Record,
        around: &mut Around<'_>,
        random: &mut Random,
    ) {
        let relays = random.one_in(2);
        let named = if relays { new_stream(random) } else { stream };
        let mut bytes = hello(named, epoch, relays, STRANGER);
        let mut builder = BatchBuilder::new();
        builder.push(record.text().as_bytes());
        let (first_sequence, base_time_ns) = (first, 1);
        let (source, compression) = (SourceKind::Bbq, Compression::None);
        let identity = BatchIdentity { stream, first_sequence, base_time_ns, source, compression };
        bytes.extend_from_slice(&builder.into_batch(&identity).unwrap_or_default().0);
        note!(around.trace, "the stranger brings {first} of {stream} by a session, as a link: {relays}");
        self.write(&bytes, around);
    }

    /// The link of another server brings once more what clients have sent.
    fn pass_on(&mut self, epoch: u64, around: &mut Around<'_>, random: &mut Random) {
        let batches = around.history.some_batches(random);
        if batches.is_empty() {
            return;
        }
        let link = *self.link.get_or_insert_with(|| new_stream(random));
        let mut bytes = hello(link, epoch, true, RELAY);
        // As a server passes them on: with an origin, so that the next one does not take them for those of the client itself.
        let origin = Origin { received_ns: 1, listener: "bbq" };
        let (mut bodies, mut scratch) = (Vec::new(), Vec::new());
        for batch in &batches {
            if let Ok(batch) = Batch::verified_before(batch, &mut bodies) {
                batch.append_relayed(&origin, Peer::Unnamed, &mut scratch, &mut bytes);
            }
        }
        note!(around.trace, "a link brings {} batches once more", batches.len());
        self.write(&bytes, around);
    }

    fn write(&mut self, bytes: &[u8], around: &mut Around<'_>) {
        let number = around.network.connect(0);
        if let Some(connection) = around.network.get(number) {
            connection.up.write(bytes);
        }
        self.connections.push(number);
    }
}

fn hello(stream: StreamId, epoch: u64, relays: bool, name: &str) -> Vec<u8> {
    let (ack, client, token) = (AckLevel::Durable, name.to_owned(), Token::new(&token(name)));
    let mut bytes = Vec::new();
    Hello { stream, ack, client, epoch, relays, token, progress: None }.encode(&mut bytes);
    bytes
}
