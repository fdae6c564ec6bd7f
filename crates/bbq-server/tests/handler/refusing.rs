//! Messages that a handler refuses for good.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;

use bbq_server::{HandlerError, Messages, Server};

use crate::support::{ENOUGH, PATIENCE, builder, delivered, send, wait_until};

const MESSAGES: u64 = 3000;

/// Every seventh message is refused; the others arrive once, in order, and a letter is kept of each refused one.
#[test]
fn what_is_refused_becomes_a_dead_letter_and_the_rest_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let (tell, told) = sync_channel(ENOUGH);
    let (data, mut refused) = (directory.path().to_owned(), 0);
    let too_early = Arc::new(AtomicU64::new(0));
    let early = Arc::clone(&too_early);
    let handler = move |messages: Messages<'_>| -> Result<(), HandlerError> {
        // If the process were killed behind the commit of a call, no message before it would come again.
        early.fetch_add(u64::from(refused_in_cursor(&data) != refused), Ordering::Relaxed);
        for message in messages {
            let number: u64 = std::str::from_utf8(message.bytes)?.parse()?;
            if number.is_multiple_of(7) {
                refused += 1;
                return Err(HandlerError::refuse(&message, "a multiple of seven"));
            }
            tell.send(number)?;
        }
        Ok(())
    };
    let server = builder(directory.path()).handler("all", handler).start().unwrap();
    send(&server, (1..=MESSAGES).map(|number| number.to_string()));
    let refused = MESSAGES / 7;
    for expected in (1..=MESSAGES).filter(|number| number % 7 != 0) {
        assert_eq!(told.recv_timeout(PATIENCE), Ok(expected));
    }
    wait_until("all of it is settled", || {
        let dropped = server.status().unwrap().sinks[0].dropped.get("refused").copied();
        delivered(&server) == MESSAGES - refused && dropped == Some(refused)
    });
    assert!(server.stop());
    assert!(told.try_recv().is_err(), "nothing comes twice");
    assert_eq!(too_early.load(Ordering::Relaxed), 0, "calls before the last refusal was on disk");
    assert_eq!(
        letters(directory.path()),
        (1..=refused).map(|number| (number * 7).to_string()).collect::<Vec<_>>()
    );
}

/// How many refused messages the cursor of the only sink covers.
fn refused_in_cursor(data: &Path) -> u64 {
    let cursors = std::fs::read_dir(data.join("cursors")).unwrap().map(|entry| entry.unwrap().path());
    let cursor = cursors
        .filter(|path| path.extension().is_some_and(|end| end == "cursor"))
        .map(std::fs::read_to_string);
    let text = cursor.last().unwrap().unwrap();
    let whole = text.lines().find_map(|line| line.strip_prefix("dropped ")?.strip_suffix(" refused"));
    let begun = text.split_once("refused=").map(|(_, rest)| rest.split(';').next().unwrap());
    [whole, begun].into_iter().flatten().map(|number| number.parse::<u64>().unwrap()).sum()
}

/// The dead letters of the only sink, as a server whose spool they are delivers them.
fn letters(data: &Path) -> Vec<String> {
    let kept = std::fs::read_dir(data.join("dead-letters")).unwrap().next().unwrap().unwrap().path();
    let (tell, told) = sync_channel(ENOUGH);
    let handler = move |messages: Messages<'_>| -> Result<(), HandlerError> {
        Ok(messages
            .into_iter()
            .try_for_each(|message| tell.send(String::from_utf8_lossy(message.bytes).into_owned()))?)
    };
    let server = Server::builder()
        .data(kept)
        .workers(1)
        .listen("lines+tcp://127.0.0.1:0")
        .handler("letters", handler)
        .start()
        .unwrap();
    assert!(server.stop());
    told.iter().collect()
}
