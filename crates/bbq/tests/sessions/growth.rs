//! If this fails, some KiB a second from one address fill the disks of outputs, or a client is refused because its messages are short or
//! the same.

use crate::support::session::{Session, batch_of, stream_id};
use crate::support::{Setup, assert_balanced};
use bbq_wire::limits::BATCH_RECORDS_MAX;
use bbq_wire::{Compression, SourceKind};

const RECORDS: u64 = BATCH_RECORDS_MAX as u64;

#[test]
fn an_address_whose_batches_grow_out_of_proportion_waits() {
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]);
    setup.set_sinks(&["null:"]);
    let server = setup.start();
    let id = stream_id(1);
    let (mut session, _) = Session::open(setup.address(0), id);
    // Short ones that differ, and empty ones without compression.
    let short: Vec<String> = (0..RECORDS)
        .map(|number| format!("{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48))
        .collect();
    session.write(&batch_of(id, 1, &short, SourceKind::Bbq, Compression::Lz4));
    session.acknowledged(RECORDS);
    let empty = vec![""; RECORDS as usize];
    session.write(&batch_of(id, 1 + RECORDS, &empty, SourceKind::Bbq, Compression::None));
    session.acknowledged(2 * RECORDS);
    let slowed =
        |status: &serde_json::Value| status["listeners"][0]["ledger"]["slowed"].as_u64().expect("a count");
    assert_eq!(slowed(&server.status()), 0);
    for number in 2..4 {
        let bytes = batch_of(id, 1 + number * RECORDS, &empty, SourceKind::Bbq, Compression::Lz4);
        assert!(bytes.len() < 5000, "{} bytes", bytes.len());
        session.write(&bytes);
        session.acknowledged((number + 1) * RECORDS);
    }
    let status = server.wait_delivered(4 * RECORDS);
    assert!(slowed(&status) > 0, "the second of them has to wait for seconds: {status:#}");
    server.wait_log("messages of the address decompress to over a thousand times their size");
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}
