//! The export format: all of it, in any pieces, and anything else.

use std::io::Write as _;

use proptest::prelude::*;

use super::*;

const CURSOR: &str =
    "s=eb77cfe1343043ef96f9e7fbcf091121;i=1f;b=0123456789abcdef0123456789abcdef;m=2a;t=60a24181e4001;x=1";
const MESSAGE_BYTES_MAX: usize = 20;

fn parser() -> Parser {
    Parser::new(["PRIORITY", "UNIT"].map(str::to_owned).into(), MESSAGE_BYTES_MAX)
}

/// What is read of an entry.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    message: Option<(Vec<u8>, u64)>,
    fields: Vec<(usize, Vec<u8>)>,
    machine: Vec<u8>,
}

fn read(pieces: &[&[u8]]) -> Result<Vec<Read>, ExportError> {
    let (mut parser, mut entry, mut entries) = (parser(), Entry::default(), Vec::new());
    for piece in pieces {
        let mut input = *piece;
        while parser.take(&mut input, &mut entry)? {
            assert_eq!(entry.cursor()?.seqnum, 31);
            entries.push(Read {
                message: entry.message_bytes.map(|bytes| (entry.message.clone(), bytes)),
                fields: entry.fields().map(|(field, value)| (field, value.to_vec())).collect(),
                machine: entry.machine.clone(),
            });
        }
        assert!(input.is_empty());
    }
    Ok(entries)
}

fn binary(name: &str, value: &[u8]) -> Vec<u8> {
    let mut out = format!("{name}\n").into_bytes();
    out.write_all(&(value.len() as u64).to_le_bytes()).unwrap();
    out.extend_from_slice(value);
    out.push(b'\n');
    out
}

/// Two entries with all that an entry can have, and an empty line too many.
fn sample() -> (Vec<u8>, Vec<Read>) {
    let mut bytes = format!(
        "__CURSOR={CURSOR}\n__SEQNUM=31\nPRIORITY=6\nOTHER=a=b\nMESSAGE=hi\nUNIT=\n_MACHINE_ID=0a\n\n\n"
    )
    .into_bytes();
    bytes.extend(binary("MESSAGE", b"two\nlines"));
    bytes.extend(binary("OTHER", b"\0\xff\n\n"));
    bytes.extend(format!("__CURSOR={CURSOR}\n").into_bytes());
    bytes.extend(binary("UNIT", b""));
    bytes.extend(
        format!("MESSAGE=again\nPRIORITY=1\nPRIORITY=2\n\n__CURSOR={CURSOR}\nMESSAGE={}\n\n", "x".repeat(30))
            .into_bytes(),
    );
    bytes.extend(format!("__CURSOR={CURSOR}\nA=\n\n").into_bytes());
    let fields = |fields: &[(usize, &str)]| {
        fields.iter().map(|(field, text)| (*field, text.as_bytes().to_vec())).collect()
    };
    let entries = vec![
        Read {
            message: Some((b"hi".to_vec(), 2)),
            fields: fields(&[(0, "6"), (1, "")]),
            machine: b"0a".to_vec(),
        },
        Read {
            message: Some((b"two\nlines".to_vec(), 9)),
            fields: fields(&[(1, ""), (0, "1")]),
            machine: Vec::new(),
        },
        Read { message: Some((vec![b'x'; 20], 30)), fields: Vec::new(), machine: Vec::new() },
        Read { message: None, fields: Vec::new(), machine: Vec::new() },
    ];
    (bytes, entries)
}

#[test]
fn entries_come_back_whole_and_in_pieces_of_any_size() {
    let (bytes, entries) = sample();
    assert_eq!(read(&[&bytes]).as_ref(), Ok(&entries));
    for size in 1..bytes.len() {
        assert_eq!(read(&bytes.chunks(size).collect::<Vec<_>>()).as_ref(), Ok(&entries), "{size}");
    }
}

#[test]
fn entries_without_a_cursor_are_taken_if_they_may_have_none() {
    let mut parser = parser().without_cursors();
    let (mut entry, mut found) = (Entry::default(), Vec::new());
    let long = format!("__CURSOR={}\nMESSAGE=c\n\n", "s".repeat(CURSOR_BYTES_MAX + 1));
    let text = format!("MESSAGE=a\nUNIT=x\n\n\n__CURSOR={CURSOR}\nMESSAGE=b\n\n{long}PRIORITY=1");
    let mut input = text.as_bytes();
    while parser.take(&mut input, &mut entry).unwrap() {
        let names = ["PRIORITY", "UNIT"].map(str::to_owned);
        let named: Vec<(String, String)> =
            entry.named(&names).map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        found.push((entry.message.clone(), entry.cursor().ok().map(|cursor| cursor.seqnum), named));
    }
    let unit = vec![("UNIT".to_owned(), "x".to_owned())];
    assert_eq!(
        found,
        [(b"a".to_vec(), None, unit), (b"b".to_vec(), Some(31), vec![]), (b"c".to_vec(), None, vec![])]
    );
    assert!(parser.is_amid());
}

#[test]
fn what_is_not_the_format_is_an_error() {
    let long = "A".repeat(65);
    let mut huge = b"A\n".to_vec();
    huge.extend_from_slice(&(VALUE_BYTES_MAX + 1).to_le_bytes());
    let mut unended = binary("A", b"x");
    unended.pop();
    unended.push(b'x');
    let cursor = format!("__CURSOR={}\n", "s".repeat(CURSOR_BYTES_MAX + 1));
    for (bytes, error) in [
        (b"-- No entries --\n".as_slice(), ExportError::Name),
        (b"=x\n", ExportError::Name),
        (b"A\x01=x\n", ExportError::Name),
        (b"\xff=x\n", ExportError::Name),
        (long.as_bytes(), ExportError::Name),
        (&huge, ExportError::ValueTooLong),
        (&unended, ExportError::ValueEnd),
        (b"MESSAGE=x\n\n", ExportError::Cursor),
        (b"__CURSOR=s=1\n\n", ExportError::Cursor),
        (cursor.as_bytes(), ExportError::Cursor),
    ] {
        assert_eq!(read(&[bytes]), Err(error), "{:?}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn values_that_nobody_wants_take_no_memory_and_wanted_ones_are_cut() {
    let (mut parser, mut entry) = (parser(), Entry::default());
    let value = vec![b'x'; 1 << 20];
    let names = ["OTHER", "MESSAGE", "UNIT"];
    for mut input in
        names.iter().map(|name| binary(name, &value)).collect::<Vec<_>>().iter().map(Vec::as_slice)
    {
        assert_eq!(parser.take(&mut input, &mut entry), Ok(false));
    }
    assert_eq!((entry.message.len(), entry.message_bytes), (MESSAGE_BYTES_MAX, Some(1 << 20)));
    assert_eq!(entry.fields().map(|(_, value)| value.len()).collect::<Vec<_>>(), [FIELD_VALUE_BYTES_MAX]);
    assert!(entry.values.capacity() + entry.message.capacity() < 100_000);
}

proptest! {
    #[test]
    fn any_bytes_are_entries_or_an_error_and_pieces_make_no_difference(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        at in any::<prop::sample::Index>(),
    ) {
        let (mut bytes, _) = sample();
        for (index, byte) in damage {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        let (mut parser, mut entry, mut whole) = (parser(), Entry::default(), Vec::new());
        let mut collect = |parser: &mut Parser, mut input: &[u8], found: &mut Vec<Vec<u8>>| -> Result<(), ExportError> {
            while parser.take(&mut input, &mut entry)? {
                found.push(entry.message.clone());
            }
            Ok(())
        };
        let first = collect(&mut parser, &bytes, &mut whole);
        let (left, right) = bytes.split_at(at.index(bytes.len()));
        let (mut parser, mut parts) = (super::tests::parser(), Vec::new());
        let second = collect(&mut parser, left, &mut parts).and_then(|()| collect(&mut parser, right, &mut parts));
        prop_assert_eq!((first, whole), (second, parts));
    }
}
