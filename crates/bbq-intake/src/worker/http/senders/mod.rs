//! Requests of other programs' senders, which have paths of their own: Loki, Elasticsearch, Splunk's HTTP event collector, Graylog,
//! systemd-journal-upload.
//!
//! bbq-senders reads the requests and makes the answers. This module decides who may send and when there is room, and stores the messages
//! (`serve`, `take`, and `upload` while they come), and says in the sender's own way why bbq refuses one (`answer`).
//!
//! Invariant: an answer that a message is stored comes behind the sync.

mod answer;
mod journal_stream;
mod serve;
mod take;
mod upload;
