//! One listener at one worker: what its connections and datagrams share there.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use bbq_spec::RateLimitedLog;
use bbq_stored::ListenerLedger;
use bbq_tls::ServedTls;
use bbq_wire::Peer;
use bbq_wire::batch::BatchLimits;
use bbq_wire::limits::BATCH_BODY_BYTES_MAX;
use bbq_wire::session::Refusal;

use super::gelf::GelfChunks;
use super::setup::ListenerSetup;
use super::undurable::Undurable;
use crate::access::{
    AddressFull, AddressLimit, AddressRate, AddressShare, Floods, Growth, NewConnection, PeerLog,
    SenderLimit, ServedTokens,
};
use crate::listen::ListenSpec;
use crate::worker::stream::{Stream, TlsFailure};
use crate::worker::text::batcher::Batcher;

pub(crate) struct LocalListener {
    pub(crate) spec: Arc<ListenSpec>,
    pub(crate) ledger: Arc<ListenerLedger>,
    pub(crate) source: u16,
    pub(crate) tls: Option<Arc<ServedTls>>,
    pub(crate) tokens: Option<Arc<ServedTokens>>,
    /// Reports who was refused; shared by all workers.
    refusals: Arc<PeerLog>,
    address_limit: Option<Arc<AddressLimit>>,
    address_rate: Option<Arc<AddressRate>>,
    floods: Arc<Floods>,
    growth: Arc<Growth>,
    /// `None` if the listener has no messages in chunks.
    pub(crate) gelf_chunks: Option<Arc<GelfChunks>>,
    pub(crate) batcher: RefCell<Batcher>,
    /// Reports what single peers do wrong.
    pub(crate) peer_problems: RateLimitedLog,
    /// Reports why the listener cannot accept. Separate from `peer_problems`, so that peers cannot suppress these lines.
    pub(crate) accept_problems: RateLimitedLog,
}

impl LocalListener {
    /// `source` is the index of the listener in the configuration.
    pub(crate) fn new(source: u16, listener: &ListenerSetup, undurable: &Arc<Undurable>) -> LocalListener {
        let ListenerSetup {
            spec,
            ledger,
            tls,
            tokens,
            refusals,
            address_limit,
            address_rate,
            floods,
            growth,
            gelf_chunks,
            ..
        } = listener;
        let batcher = Batcher::new(source, spec, Arc::clone(ledger), Arc::clone(undurable));
        LocalListener {
            spec: Arc::clone(spec),
            ledger: Arc::clone(ledger),
            source,
            tls: tls.clone(),
            tokens: tokens.clone(),
            refusals: Arc::clone(refusals),
            address_limit: address_limit.clone(),
            address_rate: address_rate.clone(),
            floods: Arc::clone(floods),
            growth: Arc::clone(growth),
            gelf_chunks: gelf_chunks.clone(),
            batcher: RefCell::new(batcher),
            peer_problems: RateLimitedLog::default(),
            accept_problems: RateLimitedLog::default(),
        }
    }

    /// What the listener allows in a batch.
    pub(crate) fn batch_limits(&self) -> BatchLimits {
        let message_bytes_max = self.spec.rules.message_bytes_max;
        BatchLimits { body_bytes_max: BATCH_BODY_BYTES_MAX, message_bytes_max }
    }

    /// Reports that a connection is closed because it could not be set up, or the event loop cannot watch it.
    pub(crate) fn report_closed(&self, error: &io::Error) {
        if let Some(repeats) = self.peer_problems.report() {
            tracing::warn!(listener = self.spec.source, %error, repeats, "connection closed");
        }
    }

    /// Makes a stream from a connection that was just accepted; `None` when TLS cannot begin.
    pub(crate) fn stream(&self, socket: OwnedFd) -> Option<Stream> {
        let stream = Stream::accepted(socket, self.tls.as_deref());
        stream.inspect_err(|error| self.report_closed(&io::Error::other(error.clone()))).ok()
    }

    /// Reports why a TLS connection failed, if it did.
    pub(crate) fn report_tls(&self, peer: Peer, failure: Option<TlsFailure>) {
        let Some(TlsFailure { is_handshake, reason }) = failure else { return };
        let Some(repeats) = self.refusals.report(peer) else { return };
        let listener = &self.spec.source;
        if is_handshake {
            tracing::warn!(listener, ?peer, reason, repeats, "TLS handshake failed");
        } else {
            tracing::warn!(listener, ?peer, reason, repeats, "TLS connection broken");
        }
    }

    /// Counts a new connection of its address. One that the address may not have is counted and reported; it is to be closed.
    pub(crate) fn claim_address(&self, peer: Peer) -> Result<Option<Box<AddressShare>>, AddressFull> {
        let Some(limit) = &self.address_limit else { return Ok(None) };
        limit.claim(peer).inspect_err(|_full| {
            self.ledger.add_over_limit(1);
            if let Some(repeats) = limit.log().report(peer) {
                let (listener, connections_per_address_max) = (&self.spec.source, limit.max());
                tracing::warn!(
                    listener,
                    ?peer,
                    connections_per_address_max,
                    repeats,
                    "connection closed: its address has reached its limit of connections"
                );
            }
        })
    }

    /// Whether an address may send only so many messages a second.
    pub(crate) fn has_rate(&self) -> bool {
        self.address_rate.is_some()
    }

    /// Returns for how long the peer has to wait before more is taken from it, and over which limit it is, and counts and reports
    /// that; `None` if more may be taken now. Of sources that take compressed messages.
    ///
    /// Over both limits, the one with the longer wait.
    pub(crate) fn slowed(&self, peer: Peer) -> Option<(Duration, SenderLimit)> {
        let rate = self.over_rate(peer).map(|wait| (wait, SenderLimit::Rate));
        let growth = self.over_growth(peer).map(|wait| (wait, SenderLimit::Growth));
        let slowed = rate.max(growth)?;
        self.ledger.add_slowed(1);
        Some(slowed)
    }

    /// As [`LocalListener::slowed`], without counting it.
    pub(crate) fn over_rate(&self, peer: Peer) -> Option<Duration> {
        let rate = self.address_rate.as_ref()?;
        let wait = rate.wait(peer)?;
        if let Some(repeats) = rate.log().report(peer) {
            let (listener, messages_per_second_per_address_max) = (&self.spec.source, rate.per_second_max());
            tracing::warn!(
                listener,
                ?peer,
                messages_per_second_per_address_max,
                repeats,
                "the address sends more messages than it may: it must wait, or its datagrams are dropped"
            );
        }
        Some(wait)
    }

    /// Returns for how long the peer has to wait, as what it sent grows out of proportion; reports that, and does not count it.
    pub(crate) fn over_growth(&self, peer: Peer) -> Option<Duration> {
        let wait = self.growth.wait(peer)?;
        if let Some(repeats) = self.growth.log().report(peer) {
            let listener = &self.spec.source;
            tracing::warn!(
                listener,
                ?peer,
                repeats,
                "messages of the address decompress to over a thousand times their size: it must wait, or its datagrams are dropped"
            );
        }
        Some(wait)
    }

    /// Counts messages that were taken and may have been compressed: how many, their bytes, and in how many bytes they came.
    pub(crate) fn add_taken(&self, peer: Peer, messages: u64, bytes: u64, received: u64) {
        self.growth.add(peer, messages, bytes, received);
        self.add_to_rate(peer, messages);
    }

    /// Counts messages that were taken towards the rate of their address.
    pub(crate) fn add_to_rate(&self, peer: Peer, messages: u64) {
        if let Some(rate) = &self.address_rate {
            rate.add(peer, messages);
        }
    }

    /// Counts a connection of HTTP/2 that sent much beside its messages, or ended with an error and without an answered request.
    pub(crate) fn add_flood(&self, peer: Peer) {
        self.floods.add(peer);
    }

    /// What becomes of a new connection, as others of its address may be floods. Counts and reports one that is turned away.
    pub(crate) fn admit(&self, peer: Peer) -> NewConnection {
        let outcome = self.floods.admit(peer);
        if outcome == NewConnection::TurnedAway {
            self.report_flood(peer, "most of its new connections are closed for a while");
        }
        outcome
    }

    /// Counts what a connection of HTTP/2 sent beside its messages and more than it may, in bytes. Returns how long its address has to
    /// wait.
    pub(crate) fn add_excess(&self, peer: Peer, bytes: u64) -> Duration {
        self.floods.add_excess(peer, bytes)
    }

    /// Counts and reports that a client has to wait because it sends too much beside its messages.
    pub(crate) fn report_flood(&self, peer: Peer, outcome: &str) {
        self.ledger.add_slowed(1);
        if let Some(repeats) = self.floods.log().report(peer) {
            let listener = &self.spec.source;
            tracing::warn!(
                listener,
                ?peer,
                repeats,
                "HTTP/2 connections of the address send much besides messages, or end with errors: {outcome}"
            );
        }
    }

    /// Counts and reports a refused session.
    pub(crate) fn report_refused(&self, peer: Peer, refusal: &Refusal) {
        self.ledger.add_refused(1);
        if let Some(repeats) = self.refusals.report(peer) {
            tracing::warn!(listener = self.spec.source, ?peer, reason = %refusal, repeats, "session refused");
        }
    }

    /// Counts and reports a refused request.
    pub(crate) fn report_request(&self, peer: Peer, reason: impl std::fmt::Display) {
        self.ledger.add_refused(1);
        if let Some(repeats) = self.refusals.report(peer) {
            tracing::warn!(listener = self.spec.source, ?peer, %reason, repeats, "request refused");
        }
    }

    /// Counts and reports a connection that is closed because of what its client sent, or did not send.
    pub(crate) fn report_connection(&self, peer: Peer, reason: impl std::fmt::Display) {
        self.ledger.add_refused(1);
        if let Some(repeats) = self.refusals.report(peer) {
            tracing::warn!(listener = self.spec.source, ?peer, %reason, repeats, "connection closed");
        }
    }

    /// Reports that this worker takes nothing from the listener any more.
    pub(crate) fn fail(&self, worker: usize, error: &io::Error) {
        tracing::error!(listener = self.spec.source, worker, %error, "listener failed");
        self.ledger.set_failure(format!("worker {worker}: {error}"));
    }
}
