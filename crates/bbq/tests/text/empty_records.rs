//! If this fails, a batch of a few kilobytes with a million messages uses much memory of a sink for ever.

use crate::support;
use crate::support::session::{Session, batch_of, stream_id};
use crate::support::{Setup, process};
use bbq_wire::session::RefusalCode;
use bbq_wire::{Compression, SourceKind};

/// The maximum number of records in a batch, and the memory that they may use: the buffers of intake and sink, and some to spare.
const RECORDS: u64 = 1 << 20;
const KIB_MAX: u64 = 48 * 1024;

#[test]
fn a_million_empty_messages_take_no_more_memory_than_others() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]).sink_query("?format=json");
    let server = setup.start();
    let (mut session, _) = Session::open(setup.address(0), stream_id(1));
    session.write(&batch_of(stream_id(1), 1, &["first"], SourceKind::Bbq, Compression::None));
    server.wait_delivered(1);
    let before = process::resident_kib(server.pid());
    let messages = vec![""; RECORDS as usize];
    let batch = batch_of(stream_id(1), 2, &messages, SourceKind::Bbq, Compression::Lz4);
    assert!(batch.len() < 8192, "{}", batch.len());
    session.write(&batch);
    session.acknowledged(RECORDS + 1);
    server.wait_delivered(RECORDS + 1);
    let peak = process::peak_kib(server.pid()) - before;
    let after = process::resident_kib(server.pid()).saturating_sub(before);
    println!(
        "{} bytes became {} MiB: {peak} KiB at most, {after} KiB now",
        batch.len(),
        setup.written().len() >> 20
    );
    assert!(peak < KIB_MAX, "{peak} KiB");
    let text = setup.written();
    assert_eq!(text.split(|byte| *byte == b'\n').count() as u64, RECORDS + 2);
    let last = text.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let last: serde_json::Value = serde_json::from_slice(last).unwrap();
    assert_eq!((last["sequence"].as_u64(), last["message"].as_str()), (Some(RECORDS + 1), Some("")));
}

#[test]
fn a_message_more_is_refused() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let _server = setup.start();
    let (mut session, _) = Session::open(setup.address(0), stream_id(1));
    let messages = vec![""; RECORDS as usize];
    let mut batch = batch_of(stream_id(1), 1, &messages, SourceKind::Bbq, Compression::None);
    batch[48..52].copy_from_slice(&(RECORDS as u32 + 1).to_le_bytes());
    session.write(&support::session::sealed(batch));
    assert_eq!(session.refused("too many").code, RefusalCode::Malformed);
}
