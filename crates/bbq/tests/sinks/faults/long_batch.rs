//! If this fails, a batch that is longer on its way to the next server than the sink waits for an acknowledgement is sent again and again,
//! and never arrives.

use crate::forward::{central, edge_to, send};
use crate::support::free_ports;
use crate::support::random::Random;

use super::proxy::{FaultProxy, Mode};

/// A message that cannot be compressed, in one batch.
const BYTES: usize = 1_000_000;
/// So much takes ten seconds.
const BYTES_PER_SECOND: u32 = 96 * 1024;

#[test]
fn it_is_sent_once_as_long_as_it_makes_progress() {
    let last = central();
    let at_last = last.start();
    let proxy = FaultProxy::start(free_ports(1)[0], last.ports[0]);
    let first = edge_to(&format!("bbq://{}?timeout_seconds=5", proxy.address()));
    let at_first = first.start();
    proxy.set(Mode::Narrow(BYTES_PER_SECOND));
    let mut random = Random::seeded();
    let line: String = (0..BYTES).map(|_| char::from(b'0' + random.below(75) as u8)).collect();
    let mut sender = send(&first, &(line.clone() + "\n"));
    assert!(sender.wait().is_ok_and(|status| status.success()));
    at_first.wait_delivered(1);
    let status = at_last.wait_delivered(1);
    assert_eq!(status["listeners"][0]["ledger"]["duplicates"], 0, "{status:#}");
    assert!(last.written() == (line + "\n").as_bytes());
    assert!(!first.log().contains("did not acknowledge"), "{}", first.log());
}
