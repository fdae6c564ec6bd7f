//! Any bytes of journalctl are entries or an error, the same in any pieces, and no more is kept than the limits. The first byte is the size
//! of the pieces.
#![no_main]

use bbq_read::{ExportError, JournalEntry, JournalParser};
use libfuzzer_sys::fuzz_target;

const MESSAGE_BYTES_MAX: usize = 64;

fuzz_target!(|data: &[u8]| {
    let Some((piece, input)) = data.split_first() else { return };
    let pieces = told(input, usize::from(*piece).max(1));
    assert_eq!(told(input, usize::MAX), pieces);
});

/// What is read of an entry: number, message with the length of the whole, fields.
type Told = (u64, Option<u64>, Vec<u8>, Vec<(usize, Vec<u8>)>);

fn told(input: &[u8], piece: usize) -> (Vec<Told>, Option<ExportError>) {
    let wanted = ["PRIORITY", "_PID"].map(str::to_owned).into();
    let mut parser = JournalParser::new(wanted, MESSAGE_BYTES_MAX);
    let (mut entry, mut told) = (JournalEntry::default(), Vec::new());
    for mut input in input.chunks(piece.min(input.len()).max(1)) {
        loop {
            match parser.take(&mut input, &mut entry) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return (told, Some(error)),
            }
            assert!(entry.message.len() <= MESSAGE_BYTES_MAX);
            let number = match entry.cursor() {
                Ok(cursor) => cursor.seqnum,
                Err(error) => panic!("an entry is complete without a cursor: {error}"),
            };
            let fields = entry.fields().map(|(field, value)| (field, value.to_vec())).collect();
            told.push((number, entry.message_bytes, entry.message.clone(), fields));
        }
    }
    (told, None)
}
