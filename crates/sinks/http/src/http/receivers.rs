//! The receivers of a sink, of which one is used at a time.
//!
//! After an error the next one gets the messages at once, in the order of the SPEC and round again. A receiver that wants to be left alone
//! for some time is passed over until then. The sink stays with a receiver that works; a start begins with the first.
//!
//! Each has a client of its own, so a name that takes long to resolve holds up no other receiver.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bbq_sink::{OpenError, Proxy};
use bbq_tls::ClientTls;
use hyper::Uri;

use super::client::{HttpClient, Version};
use super::retry_after::RetryAfter;
use super::timing::Timing;

/// A server, and what is known of it.
pub(crate) struct Receiver {
    pub uri: Uri,
    pub client: HttpClient,
    pub retry_after: RetryAfter,
    /// Whether it took a request without a message while it worked, if it was asked.
    pub(super) takes_empty: OnceLock<bool>,
}

/// See the module.
pub(crate) struct Receivers {
    each: Vec<Receiver>,
    /// The number of the receiver in use.
    current: AtomicUsize,
    takes_within: Duration,
}

impl Receivers {
    /// How long one that works takes at most until it has taken a request, over all of them.
    pub(crate) fn takes_within(&self) -> Duration {
        self.takes_within
    }

    /// `tls` is `None` for URLs without TLS. There is at least one URL.
    ///
    /// # Errors
    /// Those of [`HttpClient::open`].
    pub(crate) fn open(
        uris: &[Uri],
        tls: Option<&ClientTls>,
        version: Version,
        timing: Timing,
        proxy: &Proxy,
    ) -> Result<Receivers, OpenError> {
        let receiver = |uri: &Uri| {
            let client = HttpClient::open(tls, version, timing, proxy)?;
            Ok(Receiver {
                uri: uri.clone(),
                client,
                retry_after: RetryAfter::default(),
                takes_empty: OnceLock::new(),
            })
        };
        let each = uris.iter().map(receiver).collect::<Result<_, OpenError>>()?;
        let servers = u32::try_from(uris.len()).unwrap_or(u32::MAX);
        let takes_within = timing.takes_within().saturating_mul(servers);
        Ok(Receivers { each, current: AtomicUsize::new(0), takes_within })
    }

    pub(super) fn has_several(&self) -> bool {
        self.each.len() > 1
    }

    /// Waits until one of them does not want to be left alone.
    pub(super) async fn wait(&self) {
        // No time is less than any time.
        let earliest = || self.each.iter().map(|receiver| receiver.retry_after.until()).min().flatten();
        while let Some(until) = earliest() {
            tokio::time::sleep_until(until).await;
        }
    }

    /// The numbers of all receivers, from the one in use on.
    pub(super) fn round(&self) -> impl Iterator<Item = usize> + use<> {
        let (first, count) = (self.current.load(Ordering::Relaxed), self.each.len());
        (first..first + count).map(move |number| number % count)
    }

    /// Returns a receiver unless it wants to be left alone.
    pub(super) fn free(&self, number: usize) -> Option<&Receiver> {
        Some(&self.each[number]).filter(|receiver| receiver.retry_after.until().is_none())
    }

    /// Uses this receiver.
    pub(super) fn choose(&self, number: usize) -> &Receiver {
        self.current.store(number, Ordering::Relaxed);
        &self.each[number]
    }

    /// Uses the next receiver instead of this one, unless another group has left this one already.
    pub(super) fn leave(&self, number: usize) {
        let next = (number + 1) % self.each.len();
        let _other = self.current.compare_exchange(number, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receivers(count: usize) -> Receivers {
        let uris: Vec<Uri> =
            (0..count).map(|number| format!("http://host{number}/").parse().unwrap()).collect();
        let timing = Timing { timeout: Duration::from_secs(1), connection: Duration::from_secs(1) };
        Receivers::open(&uris, None, Version::One, timing, &Proxy::Off).map_err(|_| "no thread").unwrap()
    }

    #[test]
    fn a_round_begins_with_the_one_in_use() {
        let receivers = receivers(3);
        let round = || receivers.round().collect::<Vec<_>>();
        assert_eq!(round(), [0, 1, 2]);
        receivers.leave(0);
        // Another group has left it already.
        receivers.leave(0);
        assert_eq!(round(), [1, 2, 0]);
        assert_eq!(receivers.choose(2).uri, "http://host2/");
        receivers.leave(2);
        assert_eq!(round(), [0, 1, 2]);
    }

    #[test]
    fn nothing_waits_while_one_of_them_may_be_asked() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let receivers = receivers(2);
            let waits = async || {
                tokio::select! {
                    biased;
                    () = receivers.wait() => false,
                    () = std::future::ready(()) => true,
                }
            };
            let minute = Duration::from_secs(60);
            assert!(!waits().await);
            receivers.each[0].retry_after.remember(minute);
            assert!(!waits().await && receivers.free(0).is_none() && receivers.free(1).is_some());
            receivers.each[1].retry_after.remember(minute);
            assert!(waits().await);
            receivers.each[1].retry_after.remember(Duration::ZERO);
            assert!(!waits().await && receivers.free(1).is_some());
        });
    }
}
