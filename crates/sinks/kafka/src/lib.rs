//! `kafka://HOST:PORT/TOPIC` writes to a topic of Apache Kafka: each message is there exactly once for who reads with
//! `isolation.level=read_committed`, and the messages of one sender are in order, whatever is killed and for however long the
//! brokers or bbq are away.
//!
//! An idempotent producer of Kafka recognizes what it sends again only until it ends. So here a second topic knows how far bbq is:
//! each transaction has messages and a record about the *progress*, with the position of each lane, whose key is the id of the
//! sink. That topic is compacted, so the last record of a key stays.
//!
//! ```text
//! begin    TOPIC[..]: messages ..    TOPIC-bbq-progress[0]: id -> writer, positions of the lanes, refused messages    commit
//! ```
//!
//! Whenever it is in doubt what the topic has (a start, an error, a response that did not come), bbq makes a new producer. It first
//! has the coordinator end whatever an earlier producer of its `transactional.id` has begun (`init_transactions`), so that nothing
//! of it can come later; only then it reads the progress, to the end that the topic had then, and goes on behind it. A start also
//! writes progress with the name of a new writer: an older writer that still lives is fenced off, reads that name, and sees why.
//!
//! What the brokers refuse for good is taken out of its transaction, which is begun again without it. Its number is in the progress
//! until it is kept as a dead letter: bbq may be killed between the two. Then it is in the cursor, until the cursor has passed it.
//!
//! Kafka acknowledges before it syncs its disks. The cursor stays behind what the topic has (`keep`): when the brokers come back with
//! less progress than they had, bbq sends again what is behind it and still here, and logs what is not.
//!
//! librdkafka has threads of its own, and calls that wait. They are made on a thread of this sink, so that a broker that hangs holds
//! up nothing else.
//!
//! `thread` is that thread, `links` and `link` what it gets from the driver, `run` goes from one connection to the next; `connection`
//! is a producer that is ready, `transaction` writes with it, `sent` is what librdkafka was given for one, `rights` leaves out topics that
//! the user may not write to; `cluster` asks the brokers, and makes the second topic, `copies` says on how
//! many brokers the topics are, `topic` reads their names, `topics` knows which topics of a template are there,
//! `progress` reads the second, `known_end` notices that it gets shorter, `left_open` ends transactions that the brokers have left open,
//! with `places`, where messages are, and `records`, which reads them;
//! `size` says how large a transaction may be; `encoder` makes messages; `client` configures librdkafka,
//! `context` hears from it, `problem` says what its errors mean; `shared` is what outlives a connection, `settings` what the SPEC says,
//! `security` its TLS and SASL, `target` the SPEC.
//!
//! Invariant: a group is settled only when the topic has all of it, or the brokers refuse what is missing.
//! Invariant: with `exactly_once`, the progress is read after the producer has fenced off all earlier ones, and before it sends.

#![forbid(unsafe_code)]

mod client;
mod cluster;
mod connection;
mod context;
mod copies;
mod encoder;
mod known_end;
mod left_open;
mod link;
mod links;
mod places;
mod problem;
mod progress;
mod records;
mod rights;
mod run;
mod security;
mod sent;
mod settings;
mod shared;
mod size;
mod target;
mod thread;
mod topic;
mod topics;
mod transaction;

pub use target::KAFKA;
