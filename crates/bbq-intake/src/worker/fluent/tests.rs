//! A worker that serves the Forward Protocol, without the server around it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bbq_listen::{Address, GroupOptions};
use bbq_spec::threads::spawn;
use bbq_spool::{DirectoryLock, DiskStorage, Source, Spool, SpoolOptions, Storage};
use bbq_stored::{Ledger, ListenerLedgerStatus};

use crate::listen::ListenSpec;
use crate::worker::Command;
use crate::worker::confirm::tests::worker;

/// `["t", 1, {"log": MESSAGE}, {"chunk": CHUNK}]`
fn message(message: &str, chunk: &str) -> Vec<u8> {
    let text = |text: &str| [&[0xa0 | text.len() as u8], text.as_bytes()].concat();
    [&b"\x94\xa1t\x01\x81\xa3log"[..], &text(message), b"\x81\xa5chunk", &text(chunk)].concat()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// What the server sends, of so many bytes.
fn read(stream: &mut TcpStream, bytes: usize) -> Vec<u8> {
    let mut read = vec![0; bytes];
    stream.read_exact(&mut read).unwrap();
    read
}

/// Serves a listener with these options while `client` runs, and returns what was counted.
fn served(options: &str, client: impl FnOnce(SocketAddr)) -> ListenerLedgerStatus {
    let directory = tempfile::tempdir().unwrap();
    let _lock = DirectoryLock::take(directory.path()).unwrap();
    let key = directory.path().join("key");
    fs::write(&key, "a key").unwrap();
    let options = options.replace("{key}", &key.display().to_string());
    let spec = Arc::new(ListenSpec::parse(&format!("fluent+tcp://127.0.0.1:0{options}")).unwrap());
    let group = GroupOptions::new(spec.address.clone(), 1).open().unwrap();
    let Address::Tcp(address) = *group.local_address() else { panic!("it is at tcp") };
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
    let source = Source { name: spec.source.clone(), drops_oldest: false };
    let options = SpoolOptions::new(directory.path().to_owned(), 1, vec![source]);
    let spool = Arc::new(Spool::open(Arc::clone(&storage), &options).unwrap());
    let sources = std::slice::from_ref(&spec.source);
    let ledger = Ledger::recover(Arc::clone(&storage), directory.path(), sources, &[], 0);
    let (worker, stop) = worker(&spool, (&spec, &group), &ledger, storage);
    let thread = spawn("worker-0".to_owned(), move || worker.run().map(|paused| paused.len())).unwrap();
    client(address);
    stop.send(Command::Stop).unwrap();
    assert_eq!(thread.join().unwrap().unwrap(), 0);
    assert!(spool.close().values().all(|unwritten| *unwritten == 0));
    ledger.listener(0).status()
}

#[test]
fn a_chunk_is_answered_when_it_is_on_disk_and_known_when_it_comes_again() {
    let status = served("", |address| {
        let mut client = connect(address);
        for chunk in ["a", "b", "a"] {
            client.write_all(&message("one", chunk)).unwrap();
            assert_eq!(read(&mut client, 7), [b"\x81\xa3ack\xa1", chunk.as_bytes()].concat());
        }
        let again = message("one", "b");
        let mut other = connect(address);
        for piece in again.chunks(3) {
            other.write_all(piece).unwrap();
        }
        assert_eq!(read(&mut other, 7), b"\x81\xa3ack\xa1b");
    });
    assert_eq!((status.received, status.duplicates, status.refused), (2, 2, 0));
}

#[test]
fn what_was_sent_before_a_stop_is_taken() {
    let status = served("", |address| {
        let mut client = connect(address);
        client.write_all(&message("one", "a")).unwrap();
        assert_eq!(read(&mut client, 7), b"\x81\xa3ack\xa1a");
        // Without a chunk: an option that is empty.
        client.write_all(b"\x94\xa1t\x01\x81\xa3log\xa3two\x80").unwrap();
    });
    assert_eq!((status.received, status.dropped.len()), (2, 0));
}

#[test]
fn a_listener_with_rules_answers_and_does_not_know_a_chunk_again() {
    let status = served("?where=fields['fluent.tag'] == 't' && message != 'two'", |address| {
        let mut client = connect(address);
        for text in ["one", "two", "one"] {
            client.write_all(&message(text, "a")).unwrap();
            assert_eq!(read(&mut client, 7), b"\x81\xa3ack\xa1a");
        }
    });
    assert_eq!((status.received, status.duplicates), (3, 0));
}

#[test]
fn a_client_without_the_key_is_greeted_and_closed() {
    let status = served("?shared_key_file={key}", |address| {
        let mut client = connect(address);
        assert!(read(&mut client, 48).starts_with(b"\x92\xa4HELO"));
        client.write_all(&message("one", "a")).unwrap();
        assert_eq!(client.read(&mut [0; 16]).unwrap(), 0);
        let mut text = connect(address);
        text.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut rest = Vec::new();
        // It may be reset, as it is not read to its end.
        let _ended = text.read_to_end(&mut rest);
        assert!(rest.starts_with(b"\x92\xa4HELO"));
    });
    assert_eq!((status.received, status.refused), (0, 2));
}
